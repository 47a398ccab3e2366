"""Where the tensors of an input file lie: what each file kind's parser tells the compressor."""

import math
from dataclasses import dataclass

import torch

from wirezip.errors import FileError

# What torch holds; it also keeps the product of hostile sizes small enough to print.
MAX_DIMS = 64


@dataclass(frozen=True)
class Span:
    """One tensor's bytes in the input file.

    Attributes:
        name: The tensor's name; empty in files that hold one tensor without a name.
        dtype_label: Dtype as the file names it.
        carrier: Dtype the codec sees: uint8 where the file's dtype has no torch equivalent.
        shape: Shape as the file gives it.
        num_bytes: Bytes of the tensor.
    """

    name: str
    dtype_label: str
    carrier: torch.dtype
    shape: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True)
class Layout:
    """An input file, cut into a header, tensors that follow one another, and a trailer.

    Attributes:
        kind: Kind of the file: `safetensors`, `npy` or `raw`.
        header_bytes: Bytes before the first tensor, kept as they are.
        spans: The tensors, in the order of their bytes, without gaps.
        trailer_bytes: Bytes after the last tensor, kept as they are.
    """

    kind: str
    header_bytes: int
    spans: tuple[Span, ...]
    trailer_bytes: int


def span_bytes(shape: tuple[int, ...], item_bits: int, where: str) -> int:
    """Return the bytes of a tensor.

    Args:
        shape: Its shape.
        item_bits: Bits of one element, which may be less than eight.
        where: File and tensor, for the message.

    Raises:
        FileError: There are too many dimensions, or the elements do not fill whole bytes.
    """
    if len(shape) > MAX_DIMS:
        raise FileError(f"{where}: at most {MAX_DIMS} dimensions are supported, got {len(shape)}")
    bits = math.prod(shape) * item_bits
    if bits % 8:
        raise FileError(f"{where}: shape {list(shape)} at {item_bits} bits an element fills no whole number of bytes")
    return bits // 8
