"""What `bench codec` compares: wirezip's codecs, the libraries behind the general ones, and peers.

wirezip's codecs write into buffers made beforehand, as they do in communication. Libraries are timed
by what their Python call does, which includes the buffer they return, where that is how they are
used; `Contender.timed_call` says which.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch

from wirezip import codecs
from wirezip.codecs.base import Codec
from wirezip.errors import CodecUnavailableError, UnknownCodecError

PEERS = ("zipnn",)


@runtime_checkable
class LibraryBacked(Protocol):
    """A wirezip codec over a numcodecs one; stated by its methods, because its module needs numcodecs."""

    name: ClassVar[str]

    def numcodec(self) -> Any:
        """Return the library's codec."""

    def as_array(self, values: torch.Tensor) -> Any:
        """Return `values` as the array the library is given."""


class Contender(ABC):
    """One codec on one tensor, with the buffers it needs."""

    name: str
    timed_call: ClassVar[str]

    @abstractmethod
    def prepare_encode(self) -> None:
        """Get ready for an encode; not timed."""

    @abstractmethod
    def encode(self) -> None:
        """Encode the tensor."""

    @abstractmethod
    def prepare_decode(self) -> None:
        """Get ready for a decode of what the last encode made; not timed."""

    @abstractmethod
    def decode(self) -> None:
        """Decode what the last encode made."""

    @abstractmethod
    def encoded_bytes(self) -> int:
        """Return the bytes the last encode made, metadata included."""

    @abstractmethod
    def decoded(self) -> torch.Tensor:
        """Return what the last decode made, as a 1-D tensor of the original dtype."""

    @property
    def lossless(self) -> bool:
        """Whether the original comes back bit for bit."""
        return True


class OwnCodec(Contender):
    """A wirezip codec with buffers made beforehand."""

    timed_call = "Codec.encode and decode into buffers made beforehand"

    def __init__(self, codec: Codec, values: torch.Tensor) -> None:
        self.name, self._codec, self._values = codec.name, codec, values
        self._buffer = torch.empty(codec.max_encoded_bytes(values.numel(), values.dtype), dtype=torch.uint8)
        # Written once, so that no timed call pays for fresh pages.
        self._buffer.zero_()
        self._body = self._buffer[:0]
        self._out = torch.zeros_like(values)

    def prepare_encode(self) -> None:
        """Nothing to do."""

    def encode(self) -> None:
        """Encode into the buffer."""
        self._body = self._codec.encode(self._values, self._buffer)

    def prepare_decode(self) -> None:
        """Poison the output."""
        self._out.view(torch.uint8).fill_(0xA5)

    def decode(self) -> None:
        """Decode into the output."""
        self._codec.decode(self._body, self._out)

    def encoded_bytes(self) -> int:
        """Return the bytes of the body."""
        return self._body.numel()

    def decoded(self) -> torch.Tensor:
        """Return the output."""
        return self._out

    @property
    def lossless(self) -> bool:
        """Whether the codec promises exact results."""
        return self._codec.lossless


class LibraryCodec(Contender):
    """A numcodecs codec by its own Python call: encode returns bytes, decode fills a buffer."""

    timed_call = "numcodecs encode (returns bytes) and decode (into a buffer)"

    def __init__(self, codec: LibraryBacked, values: torch.Tensor) -> None:
        self.name, self._library = codec.name, codec.numcodec()
        self._array = codec.as_array(values)
        self._body: Any = b""
        self._out = torch.zeros_like(values)
        self._target = codec.as_array(self._out)

    def prepare_encode(self) -> None:
        """Let go of the last result."""
        self._body = b""

    def encode(self) -> None:
        """Call the library."""
        self._body = self._library.encode(self._array)

    def prepare_decode(self) -> None:
        """Poison the output."""
        self._out.view(torch.uint8).fill_(0xA5)

    def decode(self) -> None:
        """Call the library."""
        self._library.decode(self._body, out=self._target)

    def encoded_bytes(self) -> int:
        """Return the bytes the library returned."""
        return len(np.frombuffer(self._body, np.uint8))

    def decoded(self) -> torch.Tensor:
        """Return the output."""
        return self._out


class ZipNN(Contender):
    """The zipnn library, one thread. It overwrites the buffer it compresses, so each call gets a copy."""

    name = "zipnn"
    timed_call = "zipnn compress and decompress of a bytearray (both return new buffers)"

    _DTYPES: ClassVar[dict[torch.dtype, str]] = {
        torch.bfloat16: "bfloat16",
        torch.float16: "float16",
        torch.float32: "float32",
    }

    def __init__(self, values: torch.Tensor) -> None:
        if values.dtype not in self._DTYPES:
            raise CodecUnavailableError(f"zipnn does not take {values.dtype}")
        try:
            import zipnn
        except ImportError as missing:
            raise CodecUnavailableError(f"zipnn is not available here: {missing}") from missing
        self._library = zipnn.ZipNN(input_format="byte", bytearray_dtype=self._DTYPES[values.dtype], threads=1)
        self._dtype = values.dtype
        self._original = values.view(torch.uint8).numpy().tobytes()
        self._input = bytearray()
        self._body: Any = b""
        self._decoded: Any = b""

    def prepare_encode(self) -> None:
        """Make a fresh copy of the input."""
        self._body = b""
        self._input = bytearray(self._original)

    def encode(self) -> None:
        """Call the library."""
        self._body = self._library.compress(self._input)

    def prepare_decode(self) -> None:
        """Let go of the last result."""
        self._decoded = b""

    def decode(self) -> None:
        """Call the library."""
        self._decoded = self._library.decompress(self._body)

    def encoded_bytes(self) -> int:
        """Return the bytes the library returned."""
        return len(self._body)

    def decoded(self) -> torch.Tensor:
        """Return what the library returned."""
        return torch.frombuffer(bytearray(self._decoded), dtype=torch.uint8).view(self._dtype)


@dataclass(frozen=True)
class Skip:
    """A codec that was asked for and cannot run.

    Attributes:
        name: Its name.
        reason: Why not.
    """

    name: str
    reason: str


def contender(name: str, values: torch.Tensor) -> Contender | Skip:
    """Return a codec ready to run on `values`, or why it cannot.

    Args:
        name: Name of a codec or peer.
        values: Contiguous 1-D tensor.

    Raises:
        UnknownCodecError: Neither a codec nor a peer has that name.
    """
    try:
        if name in PEERS:
            return ZipNN(values)
        codec = codecs.get(name)
    except CodecUnavailableError as reason:
        return Skip(name, str(reason))
    except UnknownCodecError:
        known = ", ".join([*codecs.names(), *PEERS])
        raise UnknownCodecError(f"unknown codec {name!r}; known: {known}") from None
    if not codec.supports(values.dtype):
        return Skip(name, f"codec {name} does not take {values.dtype}")
    return LibraryCodec(codec, values) if isinstance(codec, LibraryBacked) else OwnCodec(codec, values)
