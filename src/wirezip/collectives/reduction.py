"""How ranks' elements are combined: the operations, the dtype they are carried out in, and the order.

Floats are reduced in float32 (float64 in float64) in rank order and rounded to their dtype once, at
the end; an average divides the sum before that. `min` and `max` return NaN if any rank has one and
keep the earlier rank's element on a tie, so that -0.0 and 0.0 are treated alike everywhere. complex32
is reduced in complex64 and rounded once; the other complex dtypes are reduced in their own, and like
floats are not exact. Integers are: they wrap around. A sum of booleans is their OR.
"""

import torch

from wirezip.errors import InputError, UnsupportedDtypeError
from wirezip.floats import FLOAT_FORMATS, dtype_name

OPS = ("sum", "avg", "min", "max", "product")

# torch lacks arithmetic for these; two's complement gives the same bits for sums and products.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def check_op(op: str, dtype: torch.dtype, what: str) -> None:
    """Refuse an operation that is not known or means nothing for a dtype.

    Args:
        op: Name of the operation.
        dtype: Dtype of the tensors.
        what: Rank and collective, for the text of the error.

    Raises:
        InputError: The operation is not known, or not defined for the dtype.
        UnsupportedDtypeError: Tensors of this dtype cannot be reduced.
    """
    if op not in OPS:
        raise InputError(f"{what}: unknown operation {op!r}; known: {', '.join(OPS)}")
    if dtype == torch.float8_e8m0fnu:
        raise UnsupportedDtypeError(f"{what}: {dtype_name(dtype)} holds scales, which cannot be reduced")
    if op == "avg" and dtype not in FLOAT_FORMATS and not dtype.is_complex:
        raise InputError(f"{what}: an average needs a float dtype, got {dtype_name(dtype)}")
    if op in ("min", "max") and dtype.is_complex:
        raise InputError(f"{what}: {op} is not defined for {dtype_name(dtype)}")


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which elements of `dtype` are reduced."""
    if dtype == torch.complex32:
        return torch.complex64
    return torch.float32 if dtype in FLOAT_FORMATS and dtype != torch.float64 else dtype


def start(values: torch.Tensor) -> torch.Tensor:
    """Return the first rank's elements as an accumulator, a tensor of its own."""
    return values.to(work_dtype(values.dtype), copy=True)


def combine(op: str, total: torch.Tensor, values: torch.Tensor) -> None:
    """Combine the next rank's elements into the accumulator.

    Args:
        op: Name of the operation.
        total: The accumulator; changed.
        values: The elements, in their own dtype.
    """
    if total.dtype in _SIGNED:
        signed = _SIGNED[total.dtype]
        _combine_unsigned(op, total.view(signed), values.view(signed))
    elif op in ("min", "max"):
        _keep(op, total, values.to(total.dtype))
    elif total.dtype == torch.bool:
        (total.logical_and_ if op == "product" else total.logical_or_)(values)
    elif op == "product":
        total *= values.to(total.dtype)
    else:
        total += values.to(total.dtype)


def finish(op: str, total: torch.Tensor, dtype: torch.dtype, num_ranks: int) -> torch.Tensor:
    """Return the result in the dtype of the tensors, rounded once.

    Args:
        op: Name of the operation.
        total: The accumulator; may be changed.
        dtype: Dtype of the tensors.
        num_ranks: Ranks combined.
    """
    return (total.div_(num_ranks) if op == "avg" else total).to(dtype)


def _keep(op: str, total: torch.Tensor, values: torch.Tensor) -> None:
    replaces = values > total if op == "max" else values < total
    torch.where(replaces | values.isnan(), values, total, out=total)


def _combine_unsigned(op: str, total: torch.Tensor, values: torch.Tensor) -> None:
    if op == "sum":
        total += values
    elif op == "product":
        total *= values
    else:
        # With its top bit inverted an unsigned integer compares as a signed one.
        top = torch.iinfo(total.dtype).min
        total ^= top
        _keep(op, total, values ^ top)
        total ^= top
