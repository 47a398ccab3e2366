"""Whole frames are as small as promised, on real tensors and on data that are easy or hopeless."""

import pytest
import torch

import wirezip
from wirezip import codecs
from wirezip.bench import datasets
from wirezip.codecs import conformance
from wirezip.floats import FLOAT_FORMATS, dtype_name

MIB = 1 << 20
RANS_ABOVE_BOUND = 0.008
WINDOW_ABOVE_BOUND = {2: 0.045, 4: 0.022}
MOST_OF_RANDOM = 1.002
MOST_OF_CONSTANT = 0.01

every_dtype = pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=dtype_name)
every_tiled_codec = pytest.mark.parametrize("name", ["window", "rans"])


def bound(values: torch.Tensor) -> float:
    """Return (raw bits + order-0 entropy of the exponents) / bits of a float tensor."""
    form = FLOAT_FORMATS[values.dtype]
    words = values.view(form.word_dtype).to(torch.int64)
    exponents = words >> form.mantissa_bits & (1 << form.exponent_bits) - 1
    shares = torch.bincount(exponents).double() / exponents.numel()
    entropy = -(shares * shares.clamp_min(1e-300).log2()).sum().item()
    return (form.word_bits - form.exponent_bits + entropy) / form.word_bits


def ratio(name: str, values: torch.Tensor) -> float:
    return wirezip.inspect(wirezip.compress(values, name)).ratio


def test_bound_of_known_distributions():
    assert bound(torch.ones(1000)) == pytest.approx(24 / 32)
    assert bound(torch.tensor([1.0, 2.0, 4.0, 8.0] * 100, dtype=torch.bfloat16)) == pytest.approx(10 / 16)
    assert bound(torch.tensor([1.0, 1.5, 1.0, 0.25] * 100, dtype=torch.float16)) == pytest.approx((11 + 0.811278) / 16)
    assert bound(conformance.every_pattern(torch.float8_e5m2)) == pytest.approx(1.0)


def rans_data() -> list[str]:
    return [name for name in datasets.REAL if datasets.natural_bytes(name) >= MIB]


def test_some_data_are_large_enough():
    kinds = {datasets.REAL[name].dtype for name in rans_data()}
    assert {torch.bfloat16, torch.float32} <= kinds


@pytest.mark.parametrize("data", rans_data())
def test_rans_on_real_tensors(data):
    values = datasets.load(data).values
    assert ratio("rans", values) <= bound(values) + RANS_ABOVE_BOUND


@pytest.mark.parametrize("data", datasets.REAL)
def test_window_on_real_tensors(data):
    values = datasets.load(data).values
    assert ratio("window", values) <= bound(values) + WINDOW_ABOVE_BOUND[values.itemsize]


@every_dtype
@pytest.mark.parametrize("name", codecs.names())
def test_random_bits(name, dtype):
    if codecs.unavailable_reason(name) or not codecs.get(name).supports(dtype):
        pytest.skip(codecs.unavailable_reason(name) or f"{name} does not take {dtype}")
    values = conformance.random_bits(MIB // dtype.itemsize, dtype, torch.Generator().manual_seed(1))
    assert ratio(name, values) <= MOST_OF_RANDOM


@every_dtype
@every_tiled_codec
@pytest.mark.parametrize("constant", [0.0, -0.0, 1.0, -1.625, float("nan")])
def test_constants(name, dtype, constant):
    values = torch.full((MIB // dtype.itemsize,), constant).to(dtype)
    assert ratio(name, values) <= MOST_OF_CONSTANT


@every_tiled_codec
def test_float32_that_was_bfloat16(name):
    # The two low mantissa bytes are constant and cost nothing.
    narrow = datasets.load("weights-bf16").values
    assert ratio(name, narrow.float()) <= ratio(name, narrow) / 2 + 0.01


@every_dtype
@every_tiled_codec
def test_a_frame_is_never_larger_than_header_and_original(name, dtype):
    for numel in (1, 2, 63, 1023, 5000):
        for what, values in conformance.distributions(numel, dtype):
            assert wirezip.compress(values, name).numel() <= 64 + values.nbytes, what
