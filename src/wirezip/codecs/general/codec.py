"""General-purpose codecs through numcodecs, as yardsticks for the ones made for floats.

They see bytes (pcodec: numbers) and know nothing of exponents. They run on CPU tensors.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numcodecs
import numcodecs.zstd
import numpy as np
import torch
from numcodecs.abc import Codec as Numcodec

from wirezip.codecs.base import Codec
from wirezip.errors import CorruptFrameError, InputError
from wirezip.floats import FLOAT_FORMATS, WIRE_IDS

# What the libraries may add to incompressible input, generously: headers plus one part in 128.
_EXPANSION_BYTES = 4096
# A zstd block holds at most 128 KiB of original and takes at least 4 bytes.
_HIGHEST_REDUCTION = 1 << 16


class General(Codec):
    """A codec of numcodecs; subclasses say which."""

    def numcodec(self) -> Numcodec:
        """Return the numcodecs object that does the work."""
        raise NotImplementedError

    def as_array(self, values: torch.Tensor) -> np.ndarray:
        """Return `values` as the array the library is given, without a copy."""
        return values.view(torch.uint8).numpy()

    def check_body(self, octets: np.ndarray) -> None:
        """Raise CorruptFrameError where the library would trust a body that it should not."""

    def supports(self, dtype: torch.dtype) -> bool:
        """Return whether a frame can carry `dtype`."""
        return dtype in WIRE_IDS

    def max_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return a bound that holds for all libraries used here."""
        original = numel * dtype.itemsize
        return original + original // 128 + _EXPANSION_BYTES

    def min_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return a floor from the highest ratio any of the libraries reaches."""
        return numel * dtype.itemsize // _HIGHEST_REDUCTION

    def encode(self, values: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Compress with the library; see `Codec.encode`."""
        if values.device.type != "cpu":
            raise InputError(f"codec {self.name} runs on CPU tensors, got one on {values.device}")
        buffer = self.output_for(values, out)
        encoded = np.frombuffer(self.numcodec().encode(self.as_array(values)), np.uint8)
        if len(encoded) > buffer.numel():
            raise InputError(f"codec {self.name} made {len(encoded)} bytes, more than its bound")
        buffer.numpy()[: len(encoded)] = encoded
        return buffer[: len(encoded)]

    def decode(self, body: torch.Tensor, out: torch.Tensor) -> None:
        """Decompress with the library; see `Codec.decode`."""
        target = self.as_array(out)
        self.check_body(body.numpy())
        # The libraries report damage through exceptions of many types.
        try:
            decoded: Any = self.numcodec().decode(body.numpy(), out=target)
        except Exception as reason:
            raise CorruptFrameError(f"codec {self.name} cannot decode the body: {reason}") from reason
        if decoded is not None and np.asarray(decoded).nbytes != target.nbytes:
            raise CorruptFrameError(f"codec {self.name} decoded to {np.asarray(decoded).nbytes} bytes")


@dataclass(frozen=True)
class Zstd(General):
    """Zstandard."""

    name: ClassVar[str] = "zstd"
    level: int = 1

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        return numcodecs.zstd.Zstd(level=self.level)


@dataclass(frozen=True)
class Lz4(General):
    """LZ4."""

    name: ClassVar[str] = "lz4"

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        return numcodecs.LZ4()


@dataclass(frozen=True)
class Blosc(General):
    """Blosc: byte shuffle by element size, then a fast compressor."""

    name: ClassVar[str] = "blosc"
    compressor: str = "zstd"
    level: int = 1

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        return numcodecs.Blosc(cname=self.compressor, clevel=self.level, shuffle=numcodecs.Blosc.SHUFFLE)

    def check_body(self, octets: np.ndarray) -> None:
        """Check the size in the header, up to which numcodecs reads whatever the buffer's length."""
        declared = int(octets[12:16].view("<u4")[0]) if len(octets) >= 16 else None
        if declared != len(octets):
            raise CorruptFrameError(f"codec blosc: the body declares {declared} bytes and has {len(octets)}")

    def as_array(self, values: torch.Tensor) -> np.ndarray:
        """Return `values` as words of its element size, which is the shuffle's step."""
        # NumPy lacks some dtypes of torch, and has those of 16 bytes that torch has no word for.
        word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(values.itemsize)
        return values.numpy() if word is None else values.view(word).numpy()


@dataclass(frozen=True)
class Pcodec(General):
    """Pcodec, over the bit patterns as unsigned integers so that every pattern survives."""

    name: ClassVar[str] = "pcodec"
    level: int = 8

    def supports(self, dtype: torch.dtype) -> bool:
        """Return whether `dtype` is a float of 16 bits or more."""
        return dtype in FLOAT_FORMATS and dtype.itemsize > 1

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        from numcodecs.pcodec import PCodec

        return PCodec(level=self.level)

    def as_array(self, values: torch.Tensor) -> np.ndarray:
        """Return `values` as unsigned words."""
        words = values.view(FLOAT_FORMATS[values.dtype].word_dtype).numpy()
        return words.view(f"u{words.itemsize}")
