"""A disk that really is full, where the tests may mount one."""

import os
import subprocess

import pytest
import torch

from wirezip import files
from wirezip.errors import FileError


@pytest.fixture
def tiny_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode(errors='replace').strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_full_disk(tmp_path, tiny_disk):
    source = tmp_path / "dump.bin"
    source.write_bytes(torch.randint(0, 256, (300_000,), dtype=torch.uint8).numpy().tobytes())
    with pytest.raises(FileError, match=r"cannot write .*out\.wz: No space left"):
        files.compress_file(source, tiny_disk / "out.wz", codec="raw", dtype=torch.uint8)
    assert list(tiny_disk.iterdir()) == []
    files.compress_file(source, tmp_path / "out.wz", codec="raw", dtype=torch.uint8)
    with pytest.raises(FileError, match="No space left"):
        files.decompress_file(tmp_path / "out.wz", tiny_disk / "back.bin")
    assert list(tiny_disk.iterdir()) == []
