"""The container: a compressed file's own header, its tensors as frames, and an index.

Layout: preamble, original header, frames, trailer, index (JSON), footer. Nothing lies between the
parts, so that the sizes in the index and the footer add up to the size of the file. Normative text:
docs/container.md.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from wirezip.errors import CorruptFrameError, NotAFrameError, TruncatedFrameError, UnsupportedVersionError
from wirezip.files.source import Source
from wirezip.frame import MAGIC as FRAME_MAGIC

# Line ends of both kinds show a transfer that took the file for text.
MAGIC = b"WZFILE\r\n"
END_MAGIC = b"WZFE"
VERSION = 1
# Most original bytes that a reader accepts in one frame, which bounds its memory.
MAX_SEGMENT_BYTES = 64 << 20
# Original bytes that the writer puts in one frame. Codecs need up to four times this; smaller
# segments gain nothing more in ratio or speed.
SEGMENT_BYTES = 8 << 20
KINDS = ("safetensors", "npy", "raw")

# magic, version, six reserved bytes
_PREAMBLE = struct.Struct("<8sH6x")
# index_bytes, crc32 of the index, end magic
_FOOTER = struct.Struct("<QI4s")
PREAMBLE_BYTES = _PREAMBLE.size


@dataclass(frozen=True)
class Piece:
    """A part of the original file that is kept as it is.

    Attributes:
        num_bytes: Its bytes.
        crc32: Its CRC-32.
    """

    num_bytes: int
    crc32: int


@dataclass(frozen=True)
class Stored:
    """One tensor of the container.

    Attributes:
        name: The tensor's name; empty in files that hold one tensor without a name.
        dtype_label: Dtype as the original file names it.
        shape: Shape as the original file gives it.
        original_bytes: Bytes of the tensor in the original file.
        frame_sizes: Bytes of each of its frames, in order.
    """

    name: str
    dtype_label: str
    shape: tuple[int, ...]
    original_bytes: int
    frame_sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor {self.name!r}" if self.name else "the array"


@dataclass(frozen=True)
class Index:
    """What a container says of itself.

    Attributes:
        kind: Kind of the original file.
        header: The original file's header, the first part after the preamble.
        tensors: The tensors, in the order of their frames.
        trailer: What followed the tensors in the original file.
    """

    kind: str
    header: Piece
    tensors: tuple[Stored, ...]
    trailer: Piece

    @property
    def frames_offset(self) -> int:
        """Position of the first frame in the container."""
        return PREAMBLE_BYTES + self.header.num_bytes

    @property
    def trailer_offset(self) -> int:
        """Position of the trailer in the container."""
        return self.frames_offset + sum(sum(tensor.frame_sizes) for tensor in self.tensors)

    @property
    def original_bytes(self) -> int:
        """Bytes of the original file."""
        tensors_bytes = sum(tensor.original_bytes for tensor in self.tensors)
        return self.header.num_bytes + tensors_bytes + self.trailer.num_bytes

    def pack(self) -> bytes:
        """Return the index and the footer as bytes."""
        tensors = [
            {
                "name": tensor.name,
                "dtype": tensor.dtype_label,
                "shape": tensor.shape,
                "bytes": tensor.original_bytes,
                "frames": tensor.frame_sizes,
            }
            for tensor in self.tensors
        ]
        fields = {
            "kind": self.kind,
            "header": {"bytes": self.header.num_bytes, "crc32": self.header.crc32},
            "tensors": tensors,
            "trailer": {"bytes": self.trailer.num_bytes, "crc32": self.trailer.crc32},
        }
        # ASCII only: a name may hold lone surrogates, which UTF-8 cannot carry.
        text = json.dumps(fields, separators=(",", ":")).encode("ascii")
        return text + _FOOTER.pack(len(text), zlib.crc32(text), END_MAGIC)


def preamble() -> bytes:
    """Return the bytes that every container starts with."""
    return _PREAMBLE.pack(MAGIC, VERSION)


def is_container(source: Source) -> bool:
    """Return whether a file starts with the container's magic."""
    return source.read(0, min(len(MAGIC), source.num_bytes)) == MAGIC


def is_frame(source: Source) -> bool:
    """Return whether a file starts with the magic of a single frame."""
    return source.read(0, min(len(FRAME_MAGIC), source.num_bytes)) == FRAME_MAGIC


def read_index(source: Source) -> Index:
    """Read and check the index of a container.

    Args:
        source: The open container.

    Raises:
        NotAFrameError: The file is no container.
        UnsupportedVersionError: Another version of the format wrote it.
        TruncatedFrameError: The file ends before its footer.
        CorruptFrameError: The index contradicts itself, its check or the size of the file.
    """
    where = str(source.path)
    if is_frame(source):
        raise NotAFrameError(f"{where}: a single frame, not a container: wirezip.decompress restores its tensor")
    if not is_container(source):
        found = source.read(0, min(len(MAGIC), source.num_bytes))
        raise NotAFrameError(f"{where}: not a wirezip container: it begins with {found!r}, expected {MAGIC!r}")
    if source.num_bytes < _PREAMBLE.size + _FOOTER.size:
        raise TruncatedFrameError(f"{where}: the container is cut short: it has {source.num_bytes} bytes")
    head = source.read(0, _PREAMBLE.size)
    _, version = _PREAMBLE.unpack(head)
    if version != VERSION:
        raise UnsupportedVersionError(f"{where}: container version {version}; this release reads version {VERSION}")
    if head != preamble():
        raise CorruptFrameError(f"{where}: the container's reserved bytes are not zero")
    index_bytes, check, end = _FOOTER.unpack(source.read(source.num_bytes - _FOOTER.size, _FOOTER.size))
    if end != END_MAGIC:
        raise TruncatedFrameError(f"{where}: the container is cut short: it does not end in {END_MAGIC!r}")
    start = source.num_bytes - _FOOTER.size - index_bytes
    if start < _PREAMBLE.size:
        raise CorruptFrameError(f"{where}: the container claims an index of {index_bytes} bytes")
    text = source.read(start, index_bytes)
    if zlib.crc32(text) != check:
        raise CorruptFrameError(f"{where}: the container's index does not match its check")
    index = _parse(text, where)
    if index.trailer_offset + index.trailer.num_bytes != start:
        raise CorruptFrameError(
            f"{where}: the container's parts add up to {index.trailer_offset + index.trailer.num_bytes} bytes, "
            f"its index begins at {start}"
        )
    return index


def _parse(text: bytes, where: str) -> Index:
    try:
        fields = json.loads(text)
        kind = _string(fields["kind"])
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r}; known: {', '.join(KINDS)}")
        tensors = tuple(_stored(entry) for entry in _list(fields["tensors"]))
        return Index(kind, _piece(fields["header"]), tensors, _piece(fields["trailer"]))
    except (KeyError, TypeError, ValueError, RecursionError) as reason:
        raise CorruptFrameError(f"{where}: the container's index cannot be read: {reason}") from reason


def _piece(entry: Any) -> Piece:
    return Piece(_size(entry["bytes"]), _size(entry["crc32"]))


def _stored(entry: Any) -> Stored:
    return Stored(
        name=_string(entry["name"]),
        dtype_label=_string(entry["dtype"]),
        shape=tuple(_size(dim) for dim in _list(entry["shape"])),
        original_bytes=_size(entry["bytes"]),
        frame_sizes=tuple(_size(size) for size in _list(entry["frames"])),
    )


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r}")
    return value


def _size(value: Any) -> int:
    # bool is an int to isinstance, but true is no size.
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"expected an integer from 0 to 2**63 - 1, got {value!r}")
    return value
