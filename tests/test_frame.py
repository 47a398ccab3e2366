"""The frame: what its header holds, and what it refuses."""

import struct
import zlib

import pytest
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
from wirezip.frame import MAX_HEADER_BYTES, FrameHeader, header_bytes, split, unpack_header

SHAPES = [(), (0,), (1,), (7,), (3, 4), (2, 0, 5), (1,) * 64, (2**40,), (2**31 + 1, 2)]


@pytest.mark.parametrize("dtype", WIRE_IDS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("checksum", [None, 0, 2**64 - 1])
def test_header_round_trips(dtype, shape, checksum):
    header = FrameHeader("sixteen-letters_", dtype, shape, 12345, checksum)
    packed = header.pack()
    assert len(packed) == header.header_bytes == header_bytes(len(shape))
    assert len(packed) % 16 == 0
    assert unpack_header(packed) == header
    assert unpack_header(packed + b"a body") == header


def test_header_by_hand():
    packed = FrameHeader("zstd", torch.int64, (3, 5), 99, checksum=0x0123456789ABCDEF).pack()
    fields = struct.unpack("<4sHBB16sQQHHI2Q", packed)
    check = zlib.crc32(packed[:44] + bytes(4) + packed[48:])
    assert fields == (b"WZIP", 1, 23, 2, b"zstd".ljust(16, b"\0"), 99, 0x0123456789ABCDEF, 1, 0, check, 3, 5)


def test_sizes():
    header = FrameHeader("raw", torch.float64, (3, 5), 120)
    assert (header.numel, header.original_bytes, header.header_bytes, header.frame_bytes) == (15, 120, 64, 184)
    assert [header_bytes(ndim) for ndim in (0, 1, 2, 3, 64)] == [48, 64, 64, 80, 560]
    assert MAX_HEADER_BYTES == 560


def test_every_dtype_has_one_number():
    assert len(DTYPES) == len(WIRE_IDS)
    assert all(0 < number < 256 for number in DTYPES)


@pytest.mark.parametrize(
    ("header", "error", "text"),
    [
        (FrameHeader("raw", torch.quint8, (1,), 1), UnsupportedDtypeError, r"a frame cannot carry torch.quint8"),
        (FrameHeader("raw", torch.uint8, (1,) * 65, 1), InputError, "at most 64 dimensions, got 65"),
        (FrameHeader("", torch.uint8, (1,), 1), InputError, "1 to 16 ASCII characters, got ''"),
        (FrameHeader("x" * 17, torch.uint8, (1,), 1), InputError, "1 to 16 ASCII characters, got 'xxx"),
        (FrameHeader("späne", torch.uint8, (1,), 1), InputError, "1 to 16 ASCII characters, got 'späne'"),
    ],
)
def test_pack_refuses(header, error, text):
    with pytest.raises(error, match=text):
        header.pack()


def packed_with(at: int, octets: bytes, fits: bool = True) -> bytes:
    """Return the header of a frame of three int16 with some bytes replaced and, if it `fits`, a new check."""
    packed = bytearray(FrameHeader("raw", torch.int16, (3,), 6, checksum=77).pack())
    packed[at : at + len(octets)] = octets
    if fits:
        packed[44:48] = bytes(4)
        packed[44:48] = struct.pack("<I", zlib.crc32(packed))
    return bytes(packed)


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (b"", NotAFrameError, r"expected a frame starting with b'WZIP', got b''"),
        (b"WZI", NotAFrameError, r"got b'WZI'"),
        (b"PK\x03\x04" + bytes(60), NotAFrameError, r"got b'PK\\x03\\x04'"),
        (packed_with(0, b"wzip"), NotAFrameError, r"got b'wzip'"),
        (packed_with(0, b"")[:47], TruncatedFrameError, "at least 48 bytes, got 47"),
        (packed_with(0, b"")[:63], TruncatedFrameError, "has 64 bytes, got 63"),
        (packed_with(4, b"\x02\x00"), UnsupportedVersionError, "version 2; this release reads version 1"),
        (packed_with(4, b"\x00\x01"), UnsupportedVersionError, "version 256"),
        (packed_with(7, b"\x41"), CorruptFrameError, "claims 65 dimensions; at most 64"),
        (packed_with(7, b"\x40"), TruncatedFrameError, "has 560 bytes, got 64"),
        (packed_with(48, b"\x04", fits=False), CorruptFrameError, "does not match its check"),
        (packed_with(60, b"\x01", fits=False), CorruptFrameError, "does not match its check"),
        (packed_with(44, b"\x01", fits=False), CorruptFrameError, "does not match its check"),
        (packed_with(6, b"\x00"), CorruptFrameError, "dtype 0, flags 0x1: not known"),
        (packed_with(6, b"\xff"), CorruptFrameError, "dtype 255, flags 0x1: not known"),
        (packed_with(40, b"\x02\x00"), CorruptFrameError, "flags 0x2: not known"),
        (packed_with(40, b"\x01\x80"), CorruptFrameError, "flags 0x8001: not known"),
        (packed_with(42, b"\x01"), CorruptFrameError, "not known"),
        (packed_with(48, struct.pack("<Q", 2**62)), CorruptFrameError, r"more than 2\*\*63 bytes"),
        (packed_with(48, struct.pack("<Q", 2**64 - 1)), CorruptFrameError, r"more than 2\*\*63 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unpack_refuses(data, error, text):
    with pytest.raises(error, match=text) as caught:
        unpack_header(data)
    assert type(caught.value) is error


def test_largest_size_is_accepted():
    header = FrameHeader("raw", torch.uint8, (2**63 - 1,), 2**63 - 1)
    assert unpack_header(header.pack()) == header


def test_split_refuses_what_is_no_byte_string():
    frame = torch.frombuffer(bytearray(packed_with(0, b"") + bytes(6)), dtype=torch.uint8)
    header, body = split(frame)
    assert (header.shape, body.tolist()) == ((3,), [0] * 6)
    assert body.data_ptr() == frame.data_ptr() + 64
    for wrong in (frame.view(torch.int8), frame.view(1, -1), frame.repeat_interleave(2)[::2], frame.view(torch.int16)):
        with pytest.raises(InputError, match=r"a frame is a contiguous 1-D uint8 tensor, got torch\."):
            split(wrong)


def test_split_refuses_other_sizes():
    frame = torch.frombuffer(bytearray(packed_with(0, b"") + bytes(6)), dtype=torch.uint8)
    with pytest.raises(TruncatedFrameError, match="declares 70 bytes, got 69"):
        split(frame[:-1])
    with pytest.raises(CorruptFrameError, match="declares 70 bytes, got 71"):
        split(torch.cat([frame, frame[:1]]))
