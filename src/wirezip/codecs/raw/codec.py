"""The identity codec: the control in every comparison, and what data that do not shrink fall back to."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from wirezip.codecs.base import Codec
from wirezip.errors import CorruptFrameError
from wirezip.floats import WIRE_IDS


@dataclass(frozen=True)
class Raw(Codec):
    """Bytes as they are."""

    name: ClassVar[str] = "raw"

    def supports(self, dtype: torch.dtype) -> bool:
        """Return whether a frame can carry `dtype`."""
        return dtype in WIRE_IDS

    def max_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return the bytes of the original."""
        return numel * dtype.itemsize

    def min_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return the bytes of the original."""
        return numel * dtype.itemsize

    def encode(self, values: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Copy the bytes of `values`; see `Codec.encode`."""
        buffer = self.output_for(values, out)
        octets = values.view(torch.uint8)
        return buffer[: octets.numel()].copy_(octets)

    def decode(self, body: torch.Tensor, out: torch.Tensor) -> None:
        """Copy the body into `out`; see `Codec.decode`."""
        octets = out.view(torch.uint8)
        if body.numel() != octets.numel():
            raise CorruptFrameError(f"a raw body of {octets.numel()} bytes was expected, got {body.numel()}")
        octets.copy_(body)
