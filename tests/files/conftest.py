"""Files that several tests start from."""

import pytest
import torch
from safetensors.torch import save_file

from wirezip import files


@pytest.fixture
def original(tmp_path):
    path = tmp_path / "m.safetensors"
    save_file({"w": torch.randn(30, 40).bfloat16(), "z": torch.zeros(500), "i": torch.arange(7)}, path)
    return path


@pytest.fixture
def packed(tmp_path, original):
    files.compress_file(original, tmp_path / "m.wz", codec="zstd")
    return tmp_path / "m.wz"
