"""Error metrics against their formulas, exactness against bit patterns."""

import math

import pytest
import torch

from wirezip.bench import metrics
from wirezip.errors import CodecError


def test_metrics_of_a_known_deviation():
    truth = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    value = torch.tensor([0.0, 1.5, 2.0, 2.0], dtype=torch.float32)
    error = metrics.measure_error(value, truth.float(), truth, lossless=False)
    assert not error.exact
    assert error.max_abs == 1.0
    assert error.mae == pytest.approx(1.5 / 4)
    assert error.mse == pytest.approx(1.25 / 4)
    assert error.psnr_db == pytest.approx(10 * math.log10(9 / (1.25 / 4)))
    assert error.rel_l2 == pytest.approx(math.sqrt(1.25 / 14))
    assert error.cosine == pytest.approx((1.5 + 4 + 6) / math.sqrt((2.25 + 4 + 4) * 14))
    assert error.bound_ok is None


def test_lossless_bound_is_exactness():
    same = torch.arange(4.0)
    assert metrics.measure_error(same, same, same.double(), lossless=True).bound_ok
    assert metrics.measure_error(same + 1, same, same.double(), lossless=True).bound_ok is False


def test_exact_result_has_no_error_and_no_psnr():
    same = torch.randn(100, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(1))
    error = metrics.measure_error(same, same.clone(), same.double(), lossless=True)
    assert (error.exact, error.max_abs, error.mse, error.rel_l2, error.psnr_db) == (True, 0.0, 0.0, 0.0, None)
    assert error.cosine == pytest.approx(1.0)
    assert error.cosine <= 1.0


def test_nan_equals_itself_and_zeros_differ_by_sign():
    nan = torch.tensor([float("nan"), 1.0])
    assert metrics.bits_equal(nan, nan.clone())
    assert not metrics.bits_equal(torch.tensor([0.0]), torch.tensor([-0.0]))
    other_payload = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert not metrics.bits_equal(torch.tensor([float("nan")]), other_payload)


def test_metrics_leave_out_what_is_not_finite():
    value = torch.tensor([float("nan"), float("inf"), 2.0])
    error = metrics.measure_error(value, value, torch.tensor([0.0, 1.0, 1.0]).double(), lossless=True)
    assert (error.max_abs, error.mae) == (1.0, 1.0)
    nothing = metrics.measure_error(value[:1], value[:1], value[:1].double(), lossless=True)
    assert (nothing.exact, nothing.max_abs) == (True, None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.int32])
def test_mismatch_names_the_element_and_both_patterns(dtype):
    expected = torch.zeros(5, dtype=torch.uint8).repeat_interleave(dtype.itemsize).view(dtype)
    value = expected.clone()
    value.view(torch.uint8)[3 * dtype.itemsize + dtype.itemsize - 1] = 0x41
    pattern = "41" + "00" * (dtype.itemsize - 1)
    with pytest.raises(
        CodecError, match=rf"codec x: 1 of 5 .* element 3: .* \(0x{'00' * dtype.itemsize}\).*0x{pattern}"
    ):
        metrics.require_exact(value, expected, "codec x")


def test_mismatch_of_shape_or_dtype():
    with pytest.raises(CodecError, match=r"expected torch\.float32"):
        metrics.require_exact(torch.zeros(3), torch.zeros(4), "codec x")
    with pytest.raises(CodecError, match=r"got torch\.int32"):
        metrics.require_exact(torch.zeros(3, dtype=torch.int32), torch.zeros(3), "codec x")


def test_entropy_bound_of_known_distributions():
    one_exponent = torch.full((1000,), 1.5, dtype=torch.bfloat16)
    assert metrics.entropy_bound(one_exponent) == pytest.approx(8 / 16)
    two_exponents = torch.tensor([1.0, 2.0, -1.5, 3.0] * 100)
    assert metrics.entropy_bound(two_exponents) == pytest.approx((24 + 1) / 32)
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    assert metrics.entropy_bound(bits) == pytest.approx(1.0)
    octets = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn)
    assert metrics.entropy_bound(octets) == pytest.approx(1.0)
    assert metrics.entropy_bound(torch.arange(10)) is None
