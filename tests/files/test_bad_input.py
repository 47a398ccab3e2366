"""Damaged, truncated and impossible files: an error that names the file, and nothing left behind."""

import json
import os
import random
import struct
import zlib

import numpy as np
import pytest
import torch

from wirezip import files
from wirezip.errors import FileError, FrameError, InputError, NotAFrameError, UnknownCodecError
from wirezip.files import container
from wirezip.files.source import open_source


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def damage(data, rng):
    kind = rng.randrange(5)
    at = rng.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(min(8, len(data) - at)) + data[at + 8 :]
    if kind == 3:
        return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
    return data[:at] + data[at + rng.randrange(1, 40) :]


def test_damaged_containers(tmp_path, original, packed):
    rng = random.Random(3)
    good, expected = packed.read_bytes(), original.read_bytes()
    out = tmp_path / "out"
    refusals = []
    for _ in range(600):
        packed.write_bytes(damage(good, rng))
        try:
            files.decompress_file(packed, out, force=True)
        except (FrameError, FileError) as refusal:
            refusals.append(str(refusal))
            assert not out.exists()
        else:
            assert out.read_bytes() == expected
            out.unlink()
    assert len(refusals) > 550
    assert all(str(packed) in refusal for refusal in refusals)
    assert names(tmp_path) == ["m.safetensors", "m.wz"]


def resealed(data, change):
    """Return a container whose index is changed and whose check is right again."""
    index_bytes = struct.unpack("<Q", data[-16:-8])[0]
    start = len(data) - 16 - index_bytes
    fields = json.loads(data[start:-16])
    change(fields)
    text = json.dumps(fields).encode()
    return data[:start] + text + struct.pack("<QI4s", len(text), zlib.crc32(text), b"WZFE")


HOSTILE = {
    "kind": lambda fields: fields.update(kind="zip"),
    "no header": lambda fields: fields.pop("header"),
    "header is a list": lambda fields: fields.update(header=[]),
    "tensors is null": lambda fields: fields.update(tensors=None),
    "tensor is a number": lambda fields: fields.update(tensors=[3]),
    "negative size": lambda fields: fields["trailer"].update(bytes=-1),
    "huge header": lambda fields: fields["header"].update(bytes=2**62),
    "huge frame": lambda fields: fields["tensors"][0].update(frames=[2**62]),
    "size is true": lambda fields: fields["trailer"].update(bytes=False),
    "size is a float": lambda fields: fields["tensors"][0].update(bytes=1e300),
    "other length": lambda fields: fields["tensors"][0].update(bytes=12),
    "frames swapped": lambda fields: fields["tensors"].reverse(),
    "no frames": lambda fields: fields["tensors"][1].update(frames=[]),
    "empty frame": lambda fields: fields["tensors"][1]["frames"].insert(0, 0),
    "name is null": lambda fields: fields["tensors"][1].update(name=None),
    "header check": lambda fields: fields["header"].update(crc32=1),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_index_that_lies(tmp_path, packed, change):
    packed.write_bytes(resealed(packed.read_bytes(), change))
    with pytest.raises(FrameError, match=r"m\.wz"):
        files.decompress_file(packed, tmp_path / "out")
    assert names(tmp_path) == ["m.safetensors", "m.wz"]


def test_deeply_nested_index(packed):
    text = b"[" * 100_000
    packed.write_bytes(container.preamble() + text + struct.pack("<QI4s", len(text), zlib.crc32(text), b"WZFE"))
    with pytest.raises(FrameError):
        files.inspect_file(packed)


def test_frame_larger_than_a_segment_is_refused(tmp_path, original, packed, monkeypatch):
    monkeypatch.setattr("wirezip.files.inspect.MAX_SEGMENT_BYTES", 1000)
    with pytest.raises(FrameError, match="at most 1000"):
        files.decompress_file(packed, tmp_path / "out")


def test_not_a_container(tmp_path, original):
    with pytest.raises(NotAFrameError):
        files.decompress_file(original, tmp_path / "out")
    frame = tmp_path / "one.frame"
    frame.write_bytes(b"WZIP" + bytes(60))
    with pytest.raises(NotAFrameError, match="single frame"):
        files.decompress_file(frame, tmp_path / "out")
    for size in (0, 1, 20):
        frame.write_bytes(container.preamble().ljust(size, b"\0")[:size])
        with pytest.raises(FrameError):
            files.decompress_file(frame, tmp_path / "out")


def test_truncated_safetensors(tmp_path, original):
    data = original.read_bytes()
    for size in [0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1]:
        original.write_bytes(data[:size])
        with pytest.raises(FileError, match=r"m\.safetensors"):
            files.compress_file(original, tmp_path / "out", codec="raw")
    original.write_bytes(data + b"x")
    with pytest.raises(FileError, match="describes"):
        files.compress_file(original, tmp_path / "out", codec="raw")
    assert names(tmp_path) == ["m.safetensors"]


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BAD_HEADERS = {
    "not json": b"{]",
    "not utf-8": b'{"\xff": 1}',
    "list": b"[]",
    "nested": b"[" * 100_000,
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 8]}},
    "entry is a number": {"a": 5},
    "dtype is a number": {"a": ENTRY | {"dtype": 5}},
    "three offsets": {"a": ENTRY | {"data_offsets": [0, 4, 8]}},
    "negative": {"a": ENTRY | {"data_offsets": [-8, 0]}},
    "float": {"a": ENTRY | {"shape": [2.0]}},
    "shape does not fit": {"a": ENTRY | {"shape": [3]}},
    "overflowing shape": {"a": ENTRY | {"shape": [2**62, 2**62]}},
    "too many dimensions": {"a": ENTRY | {"shape": [1] * 5000}},
    "hole": {"a": ENTRY | {"data_offsets": [4, 12]}},
    "overlap": {"a": ENTRY, "b": ENTRY},
    "reversed": {"a": ENTRY | {"dtype": "NEW", "data_offsets": [8, 0]}},
    "half a byte": {"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}},
}


@pytest.mark.parametrize("header", BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
def test_bad_safetensors_header(tmp_path, header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "bad.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(FileError, match=r"bad\.safetensors"):
        files.compress_file(path, tmp_path / "out", codec="raw")
    assert names(tmp_path) == ["bad.safetensors"]


BAD_NPY = {
    "magic": b"NUMPY\0" + bytes(100),
    "version": b"\x93NUMPY\x09\x00\x10\x00" + bytes(100),
    "no literal": b"__import__('os').getcwd()",
    "nested": b"(" * 5000,
    "minus signs": b"-" * 30_000 + b"1",
    "a number": b"7",
    "keys": b"{'descr': '<f4'}",
    "list": b"['descr', 'fortran_order', 'shape']",
    "descr": b"{'descr': 'zz9', 'fortran_order': False, 'shape': (2,)}",
    "descr is a number": b"{'descr': 4, 'fortran_order': False, 'shape': (2,)}",
    "shape": b"{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
    "negative shape": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
    "true shape": b"{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}",
    "too large": b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**50,)}",
    "longer than the file": b"{'descr': '<f4', 'fortran_order': False, 'shape': (200,)}",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    "objects inside": b"{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}",
}


@pytest.mark.parametrize("header", BAD_NPY.values(), ids=BAD_NPY.keys())
def test_bad_npy(tmp_path, header):
    path = tmp_path / "bad.npy"
    whole = b"NUMPY" in header[:8]
    path.write_bytes(header if whole else b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))
    with pytest.raises(FileError, match=r"bad\.npy"):
        files.compress_file(path, tmp_path / "out", codec="raw")


def test_object_array_is_named_as_such(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="Python objects"):
        files.compress_file(tmp_path / "o.npy", tmp_path / "out", codec="raw")


def test_missing_and_special_inputs(tmp_path, original):
    with pytest.raises(FileError, match="No such file"):
        files.compress_file(tmp_path / "none.bin", tmp_path / "out", codec="raw")
    os.mkfifo(tmp_path / "fifo.npy")
    for special in (tmp_path, tmp_path / "fifo.npy", "bad\0name"):
        with pytest.raises(FileError, match="cannot read"):
            files.compress_file(special, tmp_path / "out", codec="raw")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_input(tmp_path, original):
    original.chmod(0)
    with pytest.raises(FileError, match="Permission denied"):
        files.compress_file(original, tmp_path / "out", codec="raw")


def test_dtype_belongs_to_raw_files(tmp_path, original):
    with pytest.raises(InputError, match="declares its own"):
        files.compress_file(original, tmp_path / "out", codec="raw", dtype=torch.float32)
    original.rename(tmp_path / "m.bin")
    with pytest.raises(InputError, match="--dtype"):
        files.compress_file(tmp_path / "m.bin", tmp_path / "out", codec="raw")
    with pytest.raises(UnknownCodecError, match="zstd"):
        files.compress_file(tmp_path / "m.bin", tmp_path / "out", codec="nope", dtype=torch.uint8)


def test_file_that_shrinks_while_it_is_read(original):
    with open_source(original) as source:
        os.truncate(original, 100)
        with pytest.raises(FileError, match="ended at byte 100"):
            source.read(50, 200)


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_damaged_inputs_are_refused_or_kept(tmp_path, original, kind):
    """What the parser lets through must come back as it was, damage included."""
    rng = random.Random(4)
    path = tmp_path / f"m.{kind}"
    if kind == "npy":
        np.save(path, np.arange(40, dtype=np.float32).reshape(5, 8))
    good = path.read_bytes()
    for _ in range(300):
        # Mostly the header, where damage matters.
        cut = rng.choice([20, 128, len(good)])
        path.write_bytes(damage(good[:cut], rng) + good[cut:])
        try:
            files.compress_file(path, tmp_path / "out", codec="zstd", force=True)
        except FileError:
            continue
        files.decompress_file(tmp_path / "out", tmp_path / "back", force=True)
        assert (tmp_path / "back").read_bytes() == path.read_bytes()
