"""The committed frames: encoders still make them, decoders still read them, and none is missing."""

import hashlib
import json

import make_golden
import pytest
import torch

import wirezip
from wirezip.codecs import conformance

MAX_FILE_BYTES = 12 * 1024
MAX_FOLDER_BYTES = 200 * 1024
GOLDENS = make_golden.goldens()

every_golden = pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.file)
every_implementation = pytest.mark.parametrize("implementation", ["reference", "cpu"])


def committed(golden: make_golden.Golden) -> bytes:
    return (make_golden.FOLDER / golden.file).read_bytes()


def as_frame(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def manifest_faults(folder, manifest) -> list[str]:
    """Return what of a folder does not agree with its manifest."""
    files = {path.name for path in folder.iterdir()} - {make_golden.MANIFEST.name}
    faults = [f"{file} is missing" for file in manifest.keys() - files]
    faults += [f"{file} is not listed" for file in files - manifest.keys()]
    for file in files & manifest.keys():
        if hashlib.sha256((folder / file).read_bytes()).hexdigest() != manifest[file]["sha256"]:
            faults.append(f"{file} has changed")
    return faults


def test_folder_agrees_with_manifest():
    assert manifest_faults(make_golden.FOLDER, json.loads(make_golden.MANIFEST.read_text())) == []


def test_manifest_lists_what_there_should_be():
    assert make_golden.read_manifest() == {golden.file: golden for golden in GOLDENS}


def test_files_are_small():
    sizes = [path.stat().st_size for path in make_golden.FOLDER.iterdir()]
    assert max(sizes) <= MAX_FILE_BYTES
    assert sum(sizes) <= MAX_FOLDER_BYTES


def test_manifest_check_sees_missing_extra_and_changed_files(tmp_path):
    manifest = {name: {"sha256": hashlib.sha256(b"as made").hexdigest()} for name in ("kept", "gone", "changed")}
    for name, data in (("kept", b"as made"), ("changed", b"as mads"), ("extra", b"as made")):
        (tmp_path / name).write_bytes(data)
    assert sorted(manifest_faults(tmp_path, manifest)) == [
        "changed has changed",
        "extra is not listed",
        "gone is missing",
    ]


@every_golden
@every_implementation
def test_encode_makes_the_committed_bytes(golden, implementation):
    made, expected = golden.frame(implementation), committed(golden)
    first = next((i for i, (a, b) in enumerate(zip(made, expected, strict=False)) if a != b), None)
    assert made == expected, f"{golden.file}: {len(made)} bytes for {len(expected)}, the first to differ is {first}"


@every_golden
@every_implementation
def test_committed_bytes_decode(golden, implementation, monkeypatch):
    monkeypatch.setenv("WIREZIP_IMPLEMENTATION", implementation)
    expected, decoded = golden.tensor(), wirezip.decompress(as_frame(committed(golden)))
    assert (decoded.dtype, decoded.shape) == (expected.dtype, expected.shape)
    assert torch.equal(conformance.octets(decoded), conformance.octets(expected))


@every_golden
def test_frames_are_what_they_are_called(golden):
    info = wirezip.inspect(as_frame(committed(golden)))
    assert (info.codec, info.dtype, info.version) == (golden.codec, golden.dtype, 1)
    assert info.checksum is not None
