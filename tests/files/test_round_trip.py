"""Every file comes back bit for bit, whatever its kind, dtypes, shapes and odd bytes."""

import json
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from wirezip import codecs, files
from wirezip.errors import InputError
from wirezip.files import compress, container


def round_trip(path, **options):
    packed, restored = path.with_suffix(".wz"), path.with_name("restored" + path.suffix)
    info = files.compress_file(path, packed, **options)
    assert files.decompress_file(packed, restored) == info == files.inspect_file(packed)
    assert restored.read_bytes() == path.read_bytes()
    assert info.original_bytes == path.stat().st_size
    assert info.encoded_bytes == packed.stat().st_size
    return info


def save_mixed(path):
    generator = torch.Generator().manual_seed(7)
    normal = torch.randn(3, 41, 17, generator=generator)
    tensors = {
        "bf16": normal.bfloat16(),
        "fp16": normal.half(),
        "fp32": normal,
        "fp64": normal.double(),
        "e4m3": normal.to(torch.float8_e4m3fn),
        "e5m2": normal.to(torch.float8_e5m2),
        "int64": torch.arange(100),
        "bool": torch.arange(9) % 2 == 0,
        "complex": torch.complex(normal, -normal),
        "empty": torch.empty(0, 5),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
        "päth/\n": torch.ones(3, dtype=torch.int8),
    }
    save_file(tensors, path, metadata={"format": "pt", "note": "kept"})
    return tensors


@pytest.mark.parametrize("codec", ["raw", "zstd", "pcodec", "window", "rans", "auto"])
def test_safetensors(tmp_path, codec):
    needed = "rans" if codec == "auto" else codec
    if reason := codecs.unavailable_reason(needed):
        pytest.skip(reason)
    tensors = save_mixed(tmp_path / "m.safetensors")
    info = round_trip(tmp_path / "m.safetensors", codec=codec)
    assert info.kind == "safetensors"
    assert {tensor.name: tensor.shape for tensor in info.tensors} == {k: tuple(v.shape) for k, v in tensors.items()}
    by_name = {tensor.name: tensor for tensor in info.tensors}
    assert by_name["empty"].codecs == ()
    assert by_name["bf16"].codecs == (needed,)
    assert by_name["int64"].codecs == ("zstd" if codec == "zstd" else "raw",)
    assert all(tensor.checksum for tensor in info.tensors)


def test_order_of_bytes_not_of_names(tmp_path):
    """The header may list tensors in any order, with any padding; it is kept verbatim."""
    entries = {
        "b": {"dtype": "U8", "shape": [2], "data_offsets": [3, 5]},
        "empty": {"dtype": "F32", "shape": [0], "data_offsets": [3, 3]},
        "a": {"dtype": "I8", "shape": [3], "data_offsets": [0, 3]},
        "__metadata__": {"k": "v"},
    }
    header = json.dumps(entries, indent=3).encode() + b" " * 13
    path = tmp_path / "odd.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"ABCde")
    assert [tensor.name for tensor in round_trip(path, codec="raw").tensors] == ["a", "empty", "b"]


def test_packed_and_future_dtypes_travel_as_bytes(tmp_path):
    entries = {
        "f4": {"dtype": "F4", "shape": [4, 2], "data_offsets": [0, 4]},
        "new": {"dtype": "F3_E9", "shape": [7], "data_offsets": [4, 9]},
    }
    header = json.dumps(entries).encode()
    path = tmp_path / "new.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(9)))
    info = round_trip(path, codec="pcodec")
    assert [(tensor.dtype, tensor.codecs) for tensor in info.tensors] == [("F4", ("raw",)), ("F3_E9", ("raw",))]


ARRAYS = {
    "c": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(24, dtype=np.float64).reshape(4, 6)),
    "big_endian": np.arange(9, dtype=">f4"),
    "structured": np.zeros(3, dtype=[("x", "<f4"), ("name", "S5"), ("sub", "<i2", (2,))]),
    "text": np.array(["a", "bcd"]),
    "dates": np.array(["2024-01-01"], dtype="datetime64[D]"),
    "bool": np.array([[True, False]]),
    "half": np.linspace(-1, 1, 1000, dtype=np.float16),
    "complex": np.ones(4, np.complex128),
    "longdouble": np.ones(3, np.longdouble),
    "empty": np.empty((0, 3), np.float32),
    "scalar": np.array(3.25),
    "void0": np.zeros(4, dtype="V0"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_npy(tmp_path, name):
    path = tmp_path / "array.npy"
    np.save(path, ARRAYS[name])
    (tensor,) = round_trip(path, codec="zstd").tensors
    assert tensor.shape == ARRAYS[name].shape
    assert tensor.original_bytes == ARRAYS[name].nbytes


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions_and_what_follows(tmp_path, version):
    path = tmp_path / "array.npy"
    names = [("ü" if version == (3, 0) else "u", "<f4")]
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.ones(5, dtype=names), version=version)
        file.write(b"a second array, say" * 100_000)
    assert round_trip(path, codec="zstd").trailer_bytes == 1_900_000


@pytest.mark.parametrize("num_bytes", [0, 1, 3, 4, 1000, 1003])
def test_raw_with_trailing_bytes(tmp_path, num_bytes):
    path = tmp_path / "dump.bin"
    path.write_bytes(np.random.default_rng(1).bytes(num_bytes))
    info = round_trip(path, codec="pcodec", dtype=torch.float32)
    assert info.trailer_bytes == num_bytes % 4
    assert info.tensors[0].shape == (num_bytes // 4,)


def test_long_tensors_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(compress, "SEGMENT_BYTES", 4096)
    path = tmp_path / "dump.bin"
    path.write_bytes(torch.randn(5000).numpy().tobytes())
    assert round_trip(path, codec="zstd", dtype=torch.float32).tensors[0].num_frames == 5


def test_segments_hold_whole_elements():
    assert container.SEGMENT_BYTES % 16 == 0
    assert container.SEGMENT_BYTES <= container.MAX_SEGMENT_BYTES


def test_without_checksum(tmp_path):
    path = tmp_path / "dump.bin"
    path.write_bytes(torch.zeros(1000).numpy().tobytes())
    assert not round_trip(path, codec="zstd", dtype=torch.float32, checksum=False).tensors[0].checksum


def test_lossy_codec_is_refused(tmp_path):
    class Lossy(type(codecs.get("raw"))):
        lossless = False

    with pytest.raises(InputError, match="lossy"):
        files.compress_file(tmp_path / "a.bin", tmp_path / "b", codec=Lossy(), dtype=torch.float32)


def test_inspect_takes_a_single_frame(tmp_path):
    import wirezip

    path = tmp_path / "one.frame"
    frame = wirezip.compress(torch.zeros(50, 20), codec="zstd")
    path.write_bytes(frame.numpy().tobytes())
    info = files.inspect_file(path)
    assert (info.kind, info.encoded_bytes, info.tensors[0].shape) == ("frame", frame.numel(), (50, 20))
    for damaged in (path.read_bytes()[:-1], path.read_bytes() + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(wirezip.errors.FrameError):
            files.inspect_file(path)
