"""General-purpose codecs through numcodecs, as yardsticks for the ones made for floats.

They see bytes (pcodec: numbers) and know nothing of exponents. They run on CPU tensors.
"""

from dataclasses import dataclass
from typing import ClassVar

import numcodecs
import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import torch
from numcodecs.abc import Codec as Numcodec

from wirezip.codecs.base import Codec
from wirezip.errors import CodecError, CorruptFrameError, InputError, SettingsError
from wirezip.floats import WIRE_IDS

# Blosc's own threads place blocks in the order they finish: two bodies of one input could differ.
numcodecs.blosc.use_threads = False

# What the libraries may add to incompressible input, generously: headers plus one part in 128.
_EXPANSION_BYTES = 4096
# A zstd block holds at most 128 KiB of original and takes at least 4 bytes.
_HIGHEST_REDUCTION = 1 << 16
_ZSTD_MAGIC = 0xFD2FB528


def check_range(codec: str, option: str, value: int, least: int, most: int) -> None:
    """Raise SettingsError unless an option is an integer in its range."""
    if not isinstance(value, int) or not least <= value <= most:
        raise SettingsError(f"{codec}: {option}={value!r}: expected an integer from {least} to {most}")


class General(Codec):
    """A codec of numcodecs; subclasses say which."""

    def numcodec(self) -> Numcodec:
        """Return the numcodecs object that does the work."""
        raise NotImplementedError

    def as_array(self, values: torch.Tensor) -> np.ndarray:
        """Return `values` as the array the library is given, without a copy."""
        return values.view(torch.uint8).numpy()

    def declared_bytes(self, octets: np.ndarray) -> int | None:
        """Return how many bytes a body says it decodes to, or None if it does not say."""
        raise NotImplementedError

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
        # The libraries refuse what they cannot take, such as 2 GiB at once, by exceptions of many types.
        try:
            encoded = np.frombuffer(self.numcodec().encode(self.as_array(values)), np.uint8)
        except Exception as reason:
            raise CodecError(f"codec {self.name} cannot encode {values.nbytes} bytes: {reason}") from reason
        if len(encoded) > buffer.numel():
            raise CodecError(f"codec {self.name} made {len(encoded)} bytes, more than its bound")
        buffer.numpy()[: len(encoded)] = encoded
        return buffer[: len(encoded)]

    def decode(self, body: torch.Tensor, out: torch.Tensor) -> None:
        """Decompress with the library; see `Codec.decode`."""
        target, octets = self.as_array(out), body.numpy()
        # The libraries write as much as a body says and leave the rest of the output as it was.
        declared = self.declared_bytes(octets)
        if declared != target.nbytes:
            raise CorruptFrameError(f"codec {self.name}: a body of {declared} bytes where {target.nbytes} are expected")
        try:
            self.numcodec().decode(octets, out=target)
        except Exception as reason:
            raise CorruptFrameError(f"codec {self.name} cannot decode the body: {reason}") from reason


def _integer(octets: np.ndarray, start: int, num_bytes: int) -> int | None:
    """Return a little-endian integer of a body, or None if the body is too short."""
    taken = octets[start : start + num_bytes].tobytes()
    return int.from_bytes(taken, "little") if len(taken) == num_bytes else None


@dataclass(frozen=True)
class Zstd(General):
    """Zstandard."""

    name: ClassVar[str] = "zstd"
    level: int = 1

    def __post_init__(self) -> None:
        check_range("zstd", "level", self.level, -7, 22)

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        return numcodecs.zstd.Zstd(level=self.level)

    def declared_bytes(self, octets: np.ndarray) -> int | None:
        """Return the content size of the frame header (RFC 8878, section 3.1.1.1)."""
        if _integer(octets, 0, 4) != _ZSTD_MAGIC or len(octets) < 5:
            return None
        descriptor = int(octets[4])
        single_segment = descriptor >> 5 & 1
        start = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
        num_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        size = _integer(octets, start, num_bytes) if num_bytes else None
        return size + 256 if num_bytes == 2 and size is not None else size


@dataclass(frozen=True)
class Lz4(General):
    """LZ4."""

    name: ClassVar[str] = "lz4"

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        return numcodecs.LZ4()

    def declared_bytes(self, octets: np.ndarray) -> int | None:
        """Return the size that numcodecs puts before the block."""
        return _integer(octets, 0, 4)


@dataclass(frozen=True)
class Blosc(General):
    """Blosc: byte shuffle by element size, then a fast compressor."""

    name: ClassVar[str] = "blosc"
    compressor: str = "zstd"
    level: int = 1

    def __post_init__(self) -> None:
        check_range("blosc", "level", self.level, 0, 9)
        known = numcodecs.blosc.list_compressors()
        if self.compressor not in known:
            raise SettingsError(f"blosc: compressor={self.compressor!r}: expected one of {', '.join(known)}")

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        return numcodecs.Blosc(cname=self.compressor, clevel=self.level, shuffle=numcodecs.Blosc.SHUFFLE)

    def declared_bytes(self, octets: np.ndarray) -> int | None:
        """Return the size in the header, if the body has the length that stands there too.

        numcodecs reads up to that length, whatever the buffer's.
        """
        return _integer(octets, 4, 4) if _integer(octets, 12, 4) == len(octets) else None

    def as_array(self, values: torch.Tensor) -> np.ndarray:
        """Return `values` as words of its element size, which is the shuffle's step."""
        # NumPy lacks some dtypes of torch, and has those of 16 bytes that torch has no word for.
        word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(values.itemsize)
        return values.numpy() if word is None else values.view(word).numpy()
