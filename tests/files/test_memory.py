"""Memory stays at a few segments, however large the tensor."""

from pathlib import Path

import pytest
import torch

from wirezip import files
from wirezip.files.container import SEGMENT_BYTES

TENSOR_BYTES = 96 << 20


def status_bytes(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(key)


def peak_growth(call):
    try:
        # Sets the high-water mark of this process to what it uses now.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as reason:
        pytest.skip(f"the peak of this process's memory cannot be reset: {reason}")
    before = status_bytes("VmHWM")
    call()
    return status_bytes("VmHWM") - before


def test_peak_memory(tmp_path):
    small, large, packed, back = (tmp_path / name for name in ("small", "large", "packed", "back"))
    small.write_bytes(bytes(1000))
    # Compiles and loads what the measurement should not count.
    files.compress_file(small, packed, codec="zstd", dtype=torch.uint8)
    files.decompress_file(packed, back)
    with large.open("wb") as file:
        for _ in range(TENSOR_BYTES // SEGMENT_BYTES):
            file.write(torch.randint(0, 256, (SEGMENT_BYTES,), dtype=torch.uint8).numpy().tobytes())

    def both_ways():
        files.compress_file(large, packed, codec="zstd", dtype=torch.uint8, force=True)
        files.decompress_file(packed, back, force=True)

    assert peak_growth(both_ways) < 8 * SEGMENT_BYTES < TENSOR_BYTES
