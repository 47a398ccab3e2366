"""The contract every codec keeps.

A codec turns the elements of one tensor into a body of bytes and back. It knows nothing of ranks,
shapes or files. The contract, which the conformance suite checks:

- `encode` reads a contiguous 1-D tensor and never changes it.
- `decode(encode(x))` equals `x` bit for bit when `lossless`, and stays within the declared bound
  otherwise.
- The body of a given input is always the same bytes, whichever implementation made it.
- The body never exceeds `max_encoded_bytes`.
- Whatever bytes `decode` is given, it touches no memory outside its buffers, ends in bounded time,
  and either fills `out` or raises a `FrameError`.
- A codec object is immutable and may be used from several threads at once.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch

from wirezip.errors import InputError, UnsupportedDtypeError


class Codec(ABC):
    """One codec with its options; subclasses are frozen dataclasses whose fields are the options."""

    name: ClassVar[str]
    lossless: ClassVar[bool] = True

    @abstractmethod
    def supports(self, dtype: torch.dtype) -> bool:
        """Return whether the codec takes tensors of `dtype`."""

    @abstractmethod
    def max_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return the most bytes `encode` can produce for `numel` elements of `dtype`."""

    @abstractmethod
    def min_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return a number of bytes that no body of `numel` elements of `dtype` is shorter than."""

    @abstractmethod
    def encode(self, values: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Encode a tensor.

        Args:
            values: Contiguous 1-D tensor of a supported dtype, with at least one element.
            out: Contiguous 1-D uint8 tensor on the same device, of at least `max_encoded_bytes`
                bytes; allocated when None.

        Returns:
            The body: a uint8 view of the used part of `out`.

        Raises:
            UnsupportedDtypeError: The codec does not take this dtype.
            InputError: `values` or `out` has the wrong layout, device or size.
        """

    @abstractmethod
    def decode(self, body: torch.Tensor, out: torch.Tensor) -> None:
        """Decode a body.

        Args:
            body: Contiguous 1-D uint8 tensor that `encode` made.
            out: Contiguous 1-D tensor of the original dtype and element count; overwritten.

        Raises:
            FrameError: The body is not one that `encode` makes for this dtype and count.
        """

    def output_for(self, values: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """Check the arguments of `encode` and return the buffer to write to."""
        if not self.supports(values.dtype):
            raise UnsupportedDtypeError(f"codec {self.name} does not take {values.dtype}")
        if values.dim() != 1 or not values.is_contiguous() or values.numel() == 0:
            raise InputError(
                f"codec {self.name} encodes a contiguous 1-D tensor of at least one element, "
                f"got shape {tuple(values.shape)} with strides {values.stride()}"
            )
        capacity = self.max_encoded_bytes(values.numel(), values.dtype)
        if out is None:
            return torch.empty(capacity, dtype=torch.uint8, device=values.device)
        if out.dtype != torch.uint8 or out.dim() != 1 or not out.is_contiguous() or out.device != values.device:
            raise InputError(
                f"codec {self.name}: expected out as a contiguous 1-D uint8 tensor on {values.device}, "
                f"got {out.dtype} {tuple(out.shape)} on {out.device}"
            )
        if out.numel() < capacity:
            raise InputError(f"codec {self.name}: out holds {out.numel()} bytes, {capacity} may be needed")
        return out
