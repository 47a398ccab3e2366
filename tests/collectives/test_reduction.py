"""The arithmetic of reductions against NumPy and against the reference."""

import numpy as np
import pytest
import torch

from wirezip.collectives import reduction
from wirezip.collectives.reference import all_reduce_reference
from wirezip.errors import InputError, UnsupportedDtypeError
from wirezip.floats import FLOAT_FORMATS

INTEGERS = [
    torch.uint8,
    torch.int8,
    torch.uint16,
    torch.int16,
    torch.uint32,
    torch.int32,
    torch.uint64,
    torch.int64,
]


def random_bits(numel, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (numel * dtype.itemsize,), dtype=torch.uint8, generator=generator).view(dtype)


def reduced(inputs, op):
    total = reduction.start(inputs[0])
    for values in inputs[1:]:
        reduction.combine(op, total, values)
    return reduction.finish(op, total, inputs[0].dtype, len(inputs))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("op", "ufunc"), [("sum", np.add), ("product", np.multiply), ("min", np.minimum), ("max", np.maximum)]
)
def test_integers_follow_numpy(dtype, op, ufunc):
    inputs = [random_bits(257, dtype, seed) for seed in range(3)]
    expected = ufunc(ufunc(inputs[0].numpy(), inputs[1].numpy()), inputs[2].numpy())
    for result in (reduced(inputs, op), all_reduce_reference(inputs, op)):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize(("op", "expected"), [("sum", 0b0111), ("max", 0b0111), ("product", 0b0001), ("min", 0b0001)])
def test_booleans(op, expected):
    one, other = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    table = torch.tensor([bool(expected >> (3 - index) & 1) for index in range(4)])
    assert torch.equal(reduced([one, other], op), table)
    assert torch.equal(all_reduce_reference([one, other], op), table)


@pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=str)
@pytest.mark.parametrize("op", reduction.OPS)
def test_floats_equal_the_reference_on_any_bits(dtype, op):
    inputs = [random_bits(4099, dtype, seed) for seed in range(3)]
    result, expected = reduced(inputs, op), all_reduce_reference(inputs, op)
    wide, wide_expected = result.to(torch.float64), expected.to(torch.float64)
    assert result.dtype == dtype
    assert torch.equal(wide.isnan(), wide_expected.isnan())
    same = result.view(torch.uint8).view(-1, dtype.itemsize) == expected.view(torch.uint8).view(-1, dtype.itemsize)
    assert bool((same.all(1) | wide.isnan()).all())


def test_sums_round_once():
    # In bfloat16 256 + 1 is 256 at each step; in float32 the ones add up first.
    inputs = [torch.tensor([value], dtype=torch.bfloat16) for value in (256.0, 1.0, 1.0)]
    assert reduced(inputs, "sum").item() == 258.0


def test_averages_do_not_overflow_the_dtype():
    inputs = [torch.full((3,), 30000.0, dtype=torch.float16)] * 4
    assert reduced(inputs, "avg").tolist() == [30000.0] * 3


def test_extremes_propagate_nan_and_keep_the_first_on_a_tie():
    nan = float("nan")
    one, other = torch.tensor([nan, 1.0, 0.0, -0.0]), torch.tensor([1.0, nan, -0.0, 0.0])
    for op in ("min", "max"):
        result = reduced([one, other], op)
        assert result.isnan().tolist() == [True, True, False, False]
        assert result.signbit().tolist()[2:] == [False, True]


def test_accumulator_is_not_the_input():
    values = torch.ones(3)
    total = reduction.start(values)
    reduction.combine("sum", total, values)
    assert values.tolist() == [1.0] * 3


def test_what_means_nothing_is_refused():
    for op, dtype in (("xor", torch.float32), ("avg", torch.int32), ("avg", torch.bool), ("max", torch.complex64)):
        with pytest.raises(InputError, match="here"):
            reduction.check_op(op, dtype, "here")
    with pytest.raises(UnsupportedDtypeError, match="scales"):
        reduction.check_op("sum", torch.float8_e8m0fnu, "here")
