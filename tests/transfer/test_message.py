"""The message header: round trips and damage."""

import random
import zlib
from dataclasses import replace

import pytest
import torch

from wirezip.errors import CorruptFrameError, InputError, UnsupportedDtypeError
from wirezip.floats import WIRE_IDS
from wirezip.transfer.message import HEADER_BYTES, Call, MessageHeader, unpack

CALL = Call("all_reduce.product", "two_shot", "rans", torch.bfloat16, 2**40 + 1)
HEADER = MessageHeader(CALL, 3, 70_000, 2**30, 1, 2**33, 2**39, "raw", 2**40, 2**64 - 1)


@pytest.mark.parametrize(
    "header",
    [HEADER, replace(HEADER, checksum=None), replace(HEADER, checksum=0), replace(HEADER, is_abort=True)],
)
def test_headers_round_trip(header):
    assert len(header.pack()) == HEADER_BYTES
    assert unpack(header.pack()) == header


@pytest.mark.parametrize("dtype", WIRE_IDS)
def test_every_dtype_has_a_header(dtype):
    header = replace(HEADER, call=replace(CALL, dtype=dtype))
    assert unpack(header.pack()).call.dtype == dtype


def test_fields_are_where_the_documentation_says():
    packed = HEADER.pack()
    names = {32: (32, b"all_reduce.product"), 64: (16, b"two_shot"), 80: (16, b"rans"), 96: (16, b"raw")}
    integers = {
        **{4: (2, 1), 6: (2, 1), 8: (4, 3), 12: (4, 70_000), 16: (4, 2**30), 20: (4, 1), 24: (8, 2**33)},
        **{112: (4, 1), 116: (4, 0), 120: (8, 2**40 + 1), 128: (8, 2**39), 136: (8, 2**40), 144: (8, 2**64 - 1)},
        **{152: (36, 0), 188: (4, zlib.crc32(packed[:188]))},
    }
    assert packed[:4] == b"WZMS"
    assert all(packed[offset : offset + size] == name.ljust(size, b"\0") for offset, (size, name) in names.items())
    assert all(
        int.from_bytes(packed[offset : offset + size], "little") == value for offset, (size, value) in integers.items()
    )


def test_every_flipped_bit_is_found():
    packed = HEADER.pack()
    for bit in range(8 * HEADER_BYTES):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFrameError):
            unpack(bytes(damaged))


@pytest.mark.parametrize(
    ("offset", "value", "text"),
    [(4, 2, "version 2"), (6, 4, "flags 0x4"), (7, 128, "flags 0x80"), (116, 1, "reserved 1"), (112, 99, "dtype 99")],
)
def test_what_is_not_known_is_refused(offset, value, text):
    packed = bytearray(replace(HEADER, checksum=None).pack())
    packed[offset] = value
    packed[-4:] = zlib.crc32(packed[:-4]).to_bytes(4, "little")
    with pytest.raises(CorruptFrameError, match=text):
        unpack(bytes(packed))


def test_random_bytes_are_refused():
    source = random.Random(1)
    for _ in range(200):
        with pytest.raises(CorruptFrameError):
            unpack(b"WZMS" + source.randbytes(HEADER_BYTES - 4))


def test_names_that_do_not_fit_are_refused():
    for name in ("", "a" * 17, "é"):
        with pytest.raises(InputError, match="1 to 16 ASCII"):
            replace(HEADER, call=replace(CALL, codec=name)).pack()


def test_dtype_without_a_number_is_refused():
    with pytest.raises(UnsupportedDtypeError):
        replace(HEADER, call=replace(CALL, dtype=torch.qint8)).pack()


def test_differences_name_the_attributes():
    assert CALL.differences(CALL) == []
    assert CALL.differences(replace(CALL, dtype=torch.int8, numel=1)) == ["dtype", "numel"]
