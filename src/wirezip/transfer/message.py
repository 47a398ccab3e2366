"""The header that travels before every message, and what the receiver checks in it.

The layout is in docs/messages.md.
"""

import dataclasses
import struct
import zlib
from dataclasses import dataclass

import torch

from wirezip.errors import CorruptFrameError, InputError, UnsupportedDtypeError
from wirezip.floats import DTYPES, WIRE_IDS, dtype_name

MAGIC = b"WZMS"
VERSION = 1
HEADER_BYTES = 192

# magic, version, flags, source, destination, tag, step, sequence, operation, method, codec, served,
# dtype, reserved, call_numel, numel, body_bytes, checksum
_FIELDS = struct.Struct("<4sHHIIIIQ32s16s16s16sIIQQQQ")
_CHECK = struct.Struct("<I")
_HAS_CHECKSUM, _IS_ABORT = 1, 2


@dataclass(frozen=True)
class Call:
    """What all ranks that take part in an operation must have asked for.

    Attributes:
        operation: The operation with its options, such as `send` or `all_reduce.sum`.
        method: Strategy or algorithm.
        codec: Codec asked for, `auto` resolved.
        dtype: Dtype of the tensor.
        numel: Elements of the whole tensor, of which a message may hold a part.
    """

    operation: str
    method: str
    codec: str
    dtype: torch.dtype
    numel: int

    def __str__(self) -> str:
        return (
            f"{self.operation} of {self.numel} elements of {dtype_name(self.dtype)}, "
            f"codec {self.codec}, by {self.method}"
        )

    def differences(self, other: "Call") -> list[str]:
        """Return the names of the attributes in which two calls differ."""
        names = [field.name for field in dataclasses.fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


@dataclass(frozen=True)
class MessageHeader:
    """What a message says of itself.

    Attributes:
        call: What the sender was asked for.
        source: Rank that sent it.
        destination: Rank it is meant for.
        tag: Tag it was sent with.
        step: Step of the algorithm it belongs to.
        sequence: Number of messages sent before it from source to destination with this tag.
        numel: Elements it holds.
        served: Codec that made the body.
        body_bytes: Bytes of the body.
        checksum: Checksum of the original bytes, or None.
        is_abort: Whether the sender gave up and this takes the place of the message expected.
    """

    call: Call
    source: int
    destination: int
    tag: int
    step: int
    sequence: int
    numel: int
    served: str
    body_bytes: int
    checksum: int | None = None
    is_abort: bool = False

    @property
    def original_bytes(self) -> int:
        """Bytes of the elements before encoding."""
        return self.numel * self.call.dtype.itemsize

    def pack(self) -> bytes:
        """Return the header as `HEADER_BYTES` bytes.

        Raises:
            InputError: A name does not fit.
            UnsupportedDtypeError: The dtype has no number on the wire.
        """
        call = self.call
        if call.dtype not in WIRE_IDS:
            raise UnsupportedDtypeError(f"a message cannot carry {call.dtype}")
        flags = (self.checksum is not None) * _HAS_CHECKSUM | self.is_abort * _IS_ABORT
        packed = _FIELDS.pack(
            MAGIC,
            VERSION,
            flags,
            self.source,
            self.destination,
            self.tag,
            self.step,
            self.sequence,
            _name(call.operation, 32),
            _name(call.method, 16),
            _name(call.codec, 16),
            _name(self.served, 16),
            WIRE_IDS[call.dtype],
            0,
            call.numel,
            self.numel,
            self.body_bytes,
            self.checksum or 0,
        ).ljust(HEADER_BYTES - _CHECK.size, b"\0")
        return packed + _CHECK.pack(zlib.crc32(packed))


def _name(text: str, room: int) -> bytes:
    encoded = text.encode("utf-8")
    if not text.isascii() or not 0 < len(encoded) <= room:
        raise InputError(f"a message header holds names of 1 to {room} ASCII characters, got {text!r}")
    return encoded


def unpack(packed: bytes) -> MessageHeader:
    """Read a header.

    Args:
        packed: `HEADER_BYTES` bytes.

    Raises:
        CorruptFrameError: The bytes are not a header this release reads.
    """
    if packed[: len(MAGIC)] != MAGIC:
        raise CorruptFrameError(f"expected a message header starting with {MAGIC!r}, got {bytes(packed[:4])!r}")
    (check,) = _CHECK.unpack(packed[-_CHECK.size :])
    if zlib.crc32(packed[: -_CHECK.size]) != check:
        raise CorruptFrameError("the message header does not match its check")
    fields = _FIELDS.unpack_from(packed)
    _, version, flags, source, destination, tag, step, sequence, operation, method, codec, served = fields[:12]
    dtype_id, reserved, call_numel, numel, body_bytes, checksum = fields[12:]
    if version != VERSION:
        raise CorruptFrameError(f"message version {version}; this release speaks version {VERSION}")
    if flags & ~(_HAS_CHECKSUM | _IS_ABORT) or reserved:
        raise CorruptFrameError(f"the message header holds flags {flags:#x} and reserved {reserved}: not known")
    if dtype_id not in DTYPES:
        raise CorruptFrameError(f"the message header holds dtype {dtype_id}: not known")
    call = Call(_text(operation), _text(method), _text(codec), DTYPES[dtype_id], call_numel)
    return MessageHeader(
        call,
        source,
        destination,
        tag,
        step,
        sequence,
        numel,
        _text(served),
        body_bytes,
        checksum if flags & _HAS_CHECKSUM else None,
        bool(flags & _IS_ABORT),
    )


def _text(name: bytes) -> str:
    return name.rstrip(b"\0").decode("ascii", "replace")
