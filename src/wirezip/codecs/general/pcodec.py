"""Pcodec through numcodecs and its own package."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pcodec.standalone
import torch
from numcodecs.abc import Codec as Numcodec
from numcodecs.pcodec import PCodec

from wirezip.codecs.general.codec import General, check_range
from wirezip.errors import CorruptFrameError
from wirezip.floats import FLOAT_FORMATS

# A chunk of a constant takes 11 to 17 bytes, by the width of its numbers.
_CHUNK_ELEMS, _LEAST_CHUNK_BYTES = 1 << 18, 8


@dataclass(frozen=True)
class Pcodec(General):
    """Pcodec, over the bit patterns as unsigned integers so that every pattern survives."""

    name: ClassVar[str] = "pcodec"
    level: int = 8

    def __post_init__(self) -> None:
        check_range("pcodec", "level", self.level, 0, 12)

    def supports(self, dtype: torch.dtype) -> bool:
        """Return whether `dtype` is a float of 16 bits or more."""
        return dtype in FLOAT_FORMATS and dtype.itemsize > 1

    def min_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return a floor from the least that a chunk of numbers takes."""
        return numel // _CHUNK_ELEMS * _LEAST_CHUNK_BYTES

    def numcodec(self) -> Numcodec:
        """Return the library's object."""
        return PCodec(level=self.level)

    def as_array(self, values: torch.Tensor) -> np.ndarray:
        """Return `values` as unsigned words."""
        words = values.view(FLOAT_FORMATS[values.dtype].word_dtype).numpy()
        return words.view(f"u{words.itemsize}")

    def decode(self, body: torch.Tensor, out: torch.Tensor) -> None:
        """Decompress with the library, which tells how much it decoded; see `Codec.decode`."""
        target = self.as_array(out)
        try:
            progress = pcodec.standalone.simple_decompress_into(body.numpy().tobytes(), target)
        except Exception as reason:
            raise CorruptFrameError(f"codec pcodec cannot decode the body: {reason}") from reason
        if progress.n_processed != len(target) or not progress.finished:
            raise CorruptFrameError(f"codec pcodec: a body that does not hold {len(target)} numbers")
