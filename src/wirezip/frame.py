"""The self-describing frame: a checked header that says what the body is, then the body.

The frame knows dtype, shape and the codec's name; what the body holds is the codec's business. All
integers are little-endian. Normative text: docs/format.md.
"""

import math
import struct
import zlib
from dataclasses import dataclass, replace

import torch

from wirezip.errors import (
    CorruptFrameError,
    InputError,
    NotAFrameError,
    TruncatedFrameError,
    UnsupportedDtypeError,
    UnsupportedVersionError,
)
from wirezip.floats import DTYPES, WIRE_IDS

MAGIC = b"WZIP"
VERSION = 1
ALIGNMENT = 16
MAX_DIMS = 64
MAX_BYTES = 2**63 - 1

# magic, version, dtype, ndim, codec, body_bytes, checksum, flags, reserved, header_check
_FIXED = struct.Struct("<4sHBB16sQQHHI")
_HAS_CHECKSUM = 1


@dataclass(frozen=True)
class FrameHeader:
    """What a frame says of itself.

    Attributes:
        codec: Name of the codec that made the body.
        dtype: Dtype of the original tensor.
        shape: Shape of the original tensor.
        body_bytes: Bytes of the body.
        checksum: Checksum of the original bytes, or None when the frame carries none.
        version: Format version.
    """

    codec: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    body_bytes: int
    checksum: int | None = None
    version: int = VERSION

    @property
    def numel(self) -> int:
        """Elements of the original tensor."""
        return math.prod(self.shape)

    @property
    def original_bytes(self) -> int:
        """Bytes of the original tensor."""
        return self.numel * self.dtype.itemsize

    @property
    def header_bytes(self) -> int:
        """Bytes before the body, padding included."""
        return header_bytes(len(self.shape))

    @property
    def frame_bytes(self) -> int:
        """Bytes of the whole frame."""
        return self.header_bytes + self.body_bytes

    def pack(self) -> bytes:
        """Return the header as bytes, padded to the frame alignment.

        Raises:
            InputError: The shape or codec name does not fit a frame.
            UnsupportedDtypeError: The dtype has no number on the wire.
        """
        if self.dtype not in WIRE_IDS:
            raise UnsupportedDtypeError(f"a frame cannot carry {self.dtype}")
        if len(self.shape) > MAX_DIMS:
            raise InputError(f"a frame holds at most {MAX_DIMS} dimensions, got {len(self.shape)}")
        if not self.codec.isascii() or not 0 < len(self.codec) <= 16:
            raise InputError(f"a codec name has 1 to 16 ASCII characters, got {self.codec!r}")
        head = _FIXED.pack(
            MAGIC,
            self.version,
            WIRE_IDS[self.dtype],
            len(self.shape),
            self.codec.encode("ascii"),
            self.body_bytes,
            self.checksum or 0,
            0 if self.checksum is None else _HAS_CHECKSUM,
            0,
            0,
        )
        dims = struct.pack(f"<{len(self.shape)}Q", *self.shape)
        packed = (head + dims).ljust(self.header_bytes, b"\0")
        check = struct.pack("<I", zlib.crc32(packed))
        return packed[: _FIXED.size - 4] + check + packed[_FIXED.size :]


def header_bytes(ndim: int) -> int:
    """Return the bytes of a header with `ndim` dimensions, padding included."""
    return -(-(_FIXED.size + 8 * ndim) // ALIGNMENT) * ALIGNMENT


MAX_HEADER_BYTES = header_bytes(MAX_DIMS)


def unpack_header(prefix: bytes) -> FrameHeader:
    """Read the header at the start of `prefix`, which may hold the body too.

    Args:
        prefix: At least the header; `MAX_HEADER_BYTES` bytes hold any header.

    Raises:
        NotAFrameError: The magic is missing.
        UnsupportedVersionError: Another format version wrote the frame.
        TruncatedFrameError: `prefix` ends inside the header.
        CorruptFrameError: The header contradicts itself or its check.
    """
    if prefix[: len(MAGIC)] != MAGIC:
        raise NotAFrameError(f"expected a frame starting with {MAGIC!r}, got {bytes(prefix[:4])!r}")
    if len(prefix) < _FIXED.size:
        raise TruncatedFrameError(f"a frame header has at least {_FIXED.size} bytes, got {len(prefix)}")
    fields = _FIXED.unpack_from(prefix)
    _, version, dtype_id, ndim, name, body_bytes, checksum, flags, reserved, check = fields
    if version != VERSION:
        raise UnsupportedVersionError(f"frame version {version}; this release reads version {VERSION}")
    if ndim > MAX_DIMS:
        raise CorruptFrameError(f"frame header claims {ndim} dimensions; at most {MAX_DIMS} are legal")
    size = header_bytes(ndim)
    if len(prefix) < size:
        raise TruncatedFrameError(f"the frame header has {size} bytes, got {len(prefix)}")
    blanked = prefix[: _FIXED.size - 4] + b"\0\0\0\0" + prefix[_FIXED.size : size]
    if zlib.crc32(blanked) != check:
        raise CorruptFrameError("the frame header does not match its check")
    if dtype_id not in DTYPES or flags & ~_HAS_CHECKSUM or reserved:
        raise CorruptFrameError(f"frame header holds dtype {dtype_id}, flags {flags:#x}: not known")
    codec = name.rstrip(b"\0").decode("ascii", "replace")
    shape = struct.unpack_from(f"<{ndim}Q", prefix, _FIXED.size)
    header = FrameHeader(codec, DTYPES[dtype_id], shape, body_bytes, checksum, version)
    # Zero dimensions are left out, so that they do not hide the size of the others.
    if math.prod(dim for dim in shape if dim) * header.dtype.itemsize > MAX_BYTES:
        raise CorruptFrameError(f"frame claims shape {shape} of {header.dtype}: more than 2**63 bytes")
    return header if flags & _HAS_CHECKSUM else replace(header, checksum=None)


def split(frame: torch.Tensor) -> tuple[FrameHeader, torch.Tensor]:
    """Return the header and the body of a frame, checking that the frame is whole.

    Args:
        frame: 1-D uint8 tensor; the body returned is a view of it.

    Raises:
        InputError: `frame` is not a 1-D contiguous uint8 tensor.
        FrameError: One of its subclasses, as in `unpack_header`.
    """
    if not isinstance(frame, torch.Tensor):
        raise InputError(f"a frame is a uint8 tensor, got {type(frame).__name__}")
    if frame.dtype != torch.uint8 or frame.dim() != 1 or not frame.is_contiguous():
        raise InputError(f"a frame is a contiguous 1-D uint8 tensor, got {frame.dtype} {tuple(frame.shape)}")
    header = unpack_header(frame[:MAX_HEADER_BYTES].cpu().numpy().tobytes())
    if frame.numel() < header.frame_bytes:
        raise TruncatedFrameError(f"the frame declares {header.frame_bytes} bytes, got {frame.numel()}")
    if frame.numel() > header.frame_bytes:
        raise CorruptFrameError(f"the frame declares {header.frame_bytes} bytes, got {frame.numel()}")
    return header, frame[header.header_bytes :]
