"""Error metrics and the entropy bound, with their formulas.

With v the result, r the fp64 reference and d = v - r, over the elements where both are finite:
max_abs = max |d|; mae = mean |d|; mse = mean d^2; psnr_db = 10 log10((max r - min r)^2 / mse);
cosine = sum v r / (|v| |r|); rel_l2 = |d| / |r|. `exact` compares bit patterns, so a NaN equals
itself and -0.0 differs from 0.0.
"""

import math

import torch

from wirezip.bench.rows import ErrorSummary
from wirezip.errors import CodecError
from wirezip.floats import FLOAT_FORMATS


def bits_equal(value: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether two contiguous tensors have the same dtype, shape and bit patterns."""
    if value.dtype != expected.dtype or value.shape != expected.shape:
        return False
    return torch.equal(value.reshape(-1).view(torch.uint8), expected.reshape(-1).view(torch.uint8))


def require_exact(value: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Raise unless two contiguous tensors are equal bit for bit.

    Args:
        value: Tensor that was produced.
        expected: Tensor that should have been.
        what: Operation, codec and rank, for the message.

    Raises:
        CodecError: They differ; the message names the first element that does.
    """
    if bits_equal(value, expected):
        return
    if value.dtype != expected.dtype or value.shape != expected.shape:
        raise CodecError(
            f"{what}: expected {expected.dtype} {tuple(expected.shape)}, got {value.dtype} {tuple(value.shape)}"
        )
    size = value.itemsize
    octets = value.reshape(-1).view(torch.uint8).view(-1, size)
    wanted = expected.reshape(-1).view(torch.uint8).view(-1, size)
    wrong = (octets != wanted).any(dim=1)
    first = int(wrong.to(torch.uint8).argmax())
    # The highest byte first, as the number is written.
    got, want = (bytes(side[first].tolist())[::-1].hex() for side in (octets, wanted))
    raise CodecError(
        f"{what}: {int(wrong.sum())} of {len(wrong)} elements are wrong; the first is element {first}: expected "
        f"{_shown(expected, first)} (0x{want}), got {_shown(value, first)} (0x{got})"
    )


def _shown(tensor: torch.Tensor, index: int) -> object:
    return tensor.reshape(-1)[index : index + 1].double().item() if tensor.is_floating_point() else "bits"


def measure_error(value: torch.Tensor, expected: torch.Tensor, truth: torch.Tensor, *, lossless: bool) -> ErrorSummary:
    """Compare a result with what it should be.

    Args:
        value: The result.
        expected: What the stated algorithm gives, for `exact`.
        truth: The fp64 reference, for all other metrics.
        lossless: Whether the codec promises exact results.
    """
    exact = bits_equal(value, expected)
    v, r = value.reshape(-1).double(), truth.reshape(-1).double()
    both = torch.isfinite(v) & torch.isfinite(r)
    if not bool(both.all()):
        v, r = v[both], r[both]
    if v.numel() == 0:
        return ErrorSummary(exact, None, None, None, None, None, None, exact if lossless else None)
    d = v - r
    mse = float(d.square().mean())
    value_range = float(r.max() - r.min())
    norms = float(v.norm()) * float(r.norm())
    return ErrorSummary(
        exact=exact,
        max_abs=float(d.abs().max()),
        mae=float(d.abs().mean()),
        mse=mse,
        psnr_db=20 * math.log10(value_range) - 10 * math.log10(mse) if mse > 0 and value_range > 0 else None,
        # Rounding may carry the quotient past 1.
        cosine=max(-1.0, min(1.0, float(v @ r) / norms)) if norms > 0 else None,
        rel_l2=float(d.norm()) / float(r.norm()) if float(r.norm()) > 0 else None,
        bound_ok=exact if lossless else None,
    )


def entropy_bound(tensor: torch.Tensor) -> float | None:
    """Return the least ratio of any codec that codes exponents one by one and leaves the rest as it is.

    bound = (bits outside the exponent + order-0 entropy of the exponent field) / bits of an element.

    Args:
        tensor: Tensor of any shape, with at least one element.

    Returns:
        The bound, or None for a dtype that is not a float.
    """
    layout = FLOAT_FORMATS.get(tensor.dtype)
    if layout is None or tensor.numel() == 0:
        return None
    words = tensor.reshape(-1).view(layout.word_dtype)
    mantissa_bits = layout.word_bits - layout.exponent_bits - 1
    exponents = (words >> mantissa_bits).to(torch.int32) & ((1 << layout.exponent_bits) - 1)
    share = torch.bincount(exponents, minlength=1).double() / exponents.numel()
    share = share[share > 0]
    entropy_bits = float(-(share * share.log2()).sum())
    return (layout.word_bits - layout.exponent_bits + entropy_bits) / layout.word_bits
