"""The final name holds the whole result or what it held before, whatever happens."""

import errno
import os
import stat

import pytest
import torch

from wirezip import files
from wirezip.errors import FileError, InputError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_exists(tmp_path, original):
    out = tmp_path / "out"
    out.write_bytes(b"before")
    with pytest.raises(FileError, match="force=True"):
        files.compress_file(original, out, codec="raw")
    assert out.read_bytes() == b"before"
    files.compress_file(original, out, codec="raw", force=True)
    files.decompress_file(out, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == original.read_bytes()


def test_same_file(tmp_path, original):
    os.link(original, tmp_path / "hard")
    os.symlink(original, tmp_path / "soft")
    before = original.read_bytes()
    for target in (original, tmp_path / "hard", tmp_path / "soft"):
        with pytest.raises(InputError, match="same file"):
            files.compress_file(original, target, codec="raw", force=True)
    assert original.read_bytes() == before


def test_no_folder_or_a_folder(tmp_path, original):
    for target in (tmp_path / "none" / "out", tmp_path, "/dev/null", original / "out"):
        with pytest.raises(FileError, match="cannot write"):
            files.compress_file(original, target, codec="raw", force=True)


def test_link_is_followed(tmp_path, original):
    (tmp_path / "real").write_bytes(b"old")
    os.symlink(tmp_path / "real", tmp_path / "link")
    files.compress_file(original, tmp_path / "link", codec="raw", force=True)
    assert (tmp_path / "link").is_symlink()
    assert files.inspect_file(tmp_path / "real").kind == "safetensors"


def test_umask_rules_the_mode(tmp_path, original):
    original.chmod(0o644)
    mask = os.umask(0o027)
    try:
        files.compress_file(original, tmp_path / "out", codec="raw")
    finally:
        os.umask(mask)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_full_disk(tmp_path, original, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "out").write_bytes(b"before")
    monkeypatch.setattr(os, call, full)
    with pytest.raises(FileError, match=r"cannot write .*out: No space left"):
        files.compress_file(original, tmp_path / "out", codec="raw", force=True)
    assert names(tmp_path) == ["m.safetensors", "out"]
    assert (tmp_path / "out").read_bytes() == b"before"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError, SystemExit])
def test_interrupted(tmp_path, original, packed, monkeypatch, failure):
    def interrupted(*_, **__):
        assert len(names(tmp_path)) == 3
        raise failure

    monkeypatch.setattr("wirezip.files.compress.encode_frame", interrupted)
    monkeypatch.setattr("wirezip.files.decompress.decode_into", interrupted)
    with pytest.raises(failure):
        files.compress_file(original, tmp_path / "out", codec="raw")
    with pytest.raises(failure):
        files.decompress_file(packed, tmp_path / "out")
    assert names(tmp_path) == ["m.safetensors", "m.wz"]


@pytest.mark.parametrize("exists", [False, True])
def test_output_keeps_permissions(tmp_path, exists):
    source, target = tmp_path / "in.bin", tmp_path / "out.wz"
    source.write_bytes(bytes(4000))
    source.chmod(0o600)
    if exists:
        target.write_bytes(b"old")
        target.chmod(0o640)
    files.compress_file(source, target, dtype=torch.float32, force=True)
    assert stat.S_IMODE(target.stat().st_mode) == (0o640 if exists else 0o600)


def test_long_output_name(tmp_path):
    source = tmp_path / "in.bin"
    source.write_bytes(bytes(4000))
    target = tmp_path / ("ü" * 120 + ".wz")
    files.compress_file(source, target, dtype=torch.float32)
    assert target.exists()
