"""Datasets: what is in the package, what is derived, and that ranks differ."""

import importlib.resources

import pytest
import torch

from wirezip.bench import datasets, metrics
from wirezip.errors import InputError

REAL = list(datasets.REAL)


def test_package_data_stay_below_six_megabytes():
    folder = importlib.resources.files("wirezip.bench") / "data"
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 6_000_000


def test_provenance_names_every_tensor_and_every_dataset_uses_one():
    text = (importlib.resources.files("wirezip.bench") / "data" / "PROVENANCE.md").read_text(encoding="utf-8")
    keys = {key for kind in datasets.REAL.values() for key in kind.keys}
    assert keys == set(datasets._stored())
    assert [key for key in keys if f"`{key}`" not in text] == []
    assert text.count("Apache-2.0") >= 5


@pytest.mark.parametrize("name", REAL)
def test_natural_size_is_all_real(name):
    sample = datasets.load(name)
    assert sample.values.dtype == datasets.REAL[name].dtype
    assert sample.values.dim() == 1
    assert sample.values.is_contiguous()
    assert sample.num_real == sample.values.numel()
    assert datasets.describe([sample]) == ""
    assert sample.values.nbytes == datasets.natural_bytes(name)
    # Real tensors leave something to gain, and are not constants.
    assert 0.5 < metrics.entropy_bound(sample.values) < 0.9


@pytest.mark.parametrize("name", REAL)
def test_larger_sizes_begin_with_the_real_data_and_never_repeat_them(name):
    real = datasets.load(name).values
    sample = datasets.load(name, num_bytes=3 * real.nbytes)
    numel = real.numel()
    assert metrics.bits_equal(sample.values[:numel], real)
    assert sample.num_real == numel
    assert f"{numel} of {3 * numel}" in datasets.describe([sample])
    parts = sample.values.view(3, numel)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        # Two copies share no more positions than chance gives (zeros and few mantissas included).
        assert (parts[first] == parts[second]).double().mean() < 0.1
        assert parts[first].double().sort().values.ne(parts[second].double().sort().values).double().mean() > 0.5
    assert metrics.entropy_bound(parts[2].contiguous()) == pytest.approx(metrics.entropy_bound(real), abs=0.02)


@pytest.mark.parametrize("name", [*REAL, "normal", "uniform", "random-bits"])
def test_ranks_get_different_data(name):
    parts = [datasets.load(name, num_bytes=65536, rank=rank, num_parts=4) for rank in range(4)]
    for first in range(4):
        for second in range(first):
            assert not torch.equal(parts[first].values, parts[second].values)


def test_ranks_beyond_the_captured_gradients_get_derived_ones():
    assert [datasets.load("grad-bf16", num_bytes=4096, rank=rank).num_real for rank in range(4)] == [2048, 2048, 0, 0]


def test_parts_share_out_the_real_weights():
    parts = [datasets.load("weights-bf16", rank=rank, num_parts=2) for rank in range(2)]
    assert datasets.describe(parts) == ""
    assert metrics.bits_equal(torch.cat([part.values for part in parts]), datasets.load("weights-bf16").values)


@pytest.mark.parametrize("name", datasets.names())
def test_loading_repeats(name):
    first, second = (datasets.load(name, num_bytes=2_000_000, rank=1, seed=5) for _ in range(2))
    assert metrics.bits_equal(first.values, second.values)


def test_seed_changes_generated_and_derived_data():
    for name in ("normal", "weights-fp16"):
        first, second = (datasets.load(name, num_bytes=2_000_000, seed=seed).values for seed in (0, 1))
        assert not metrics.bits_equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.float8_e5m2])
def test_generated_data_take_the_dtype_asked_for(dtype):
    for name in ("normal", "uniform", "random-bits", "zeros"):
        sample = datasets.load(name, num_bytes=1001, dtype=dtype)
        assert sample.values.dtype == dtype
        assert sample.values.numel() == 1001 // dtype.itemsize
        assert datasets.describe([sample]) == "generated"


def test_what_cannot_be_loaded_is_refused():
    with pytest.raises(InputError, match="known: weights-bf16"):
        datasets.load("nothing")
    with pytest.raises(InputError, match="not cast to float32"):
        datasets.load("weights-bf16", dtype=torch.float32)
    with pytest.raises(InputError, match="float dtype"):
        datasets.load("normal", dtype=torch.int8)
    with pytest.raises(InputError, match="no element"):
        datasets.load("weights-fp32", num_bytes=3)
