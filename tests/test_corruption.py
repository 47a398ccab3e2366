"""Damaged frames give an error or the original; nothing crashes, hangs or takes memory it should not."""

import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import torch

import wirezip
from wirezip import codecs
from wirezip.errors import CorruptFrameError, FrameError, NotAFrameError, TruncatedFrameError
from wirezip.floats import WIRE_IDS
from wirezip.frame import FrameHeader

SCRIPT = Path(__file__).parent / "corrupting.py"
NUM_MUTATIONS = 20_000
MAX_TENSOR_BYTES = 64 << 20
MAX_GROWN_BYTES = 256 << 20
MAX_CALL_CPU_S = 5.0
# Mostly for compiling all codecs for all dtypes, where they are not in the cache.
TIMEOUT_S = 580
ONE_TB = 10**12

every_codec = pytest.mark.parametrize("name", codecs.names())


def run_apart(tmp_path, *arguments):
    """Run corrupting.py and return its summary; a crash or hang fails with the frame that caused it."""
    progress = tmp_path / "progress"
    command = [sys.executable, str(SCRIPT), *arguments, str(progress)]
    source = str(Path(wirezip.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, "PYTHONPATH": path}
    )
    if done.returncode:
        last = progress.read_text().strip() if progress.exists() else "nothing"
        pytest.fail(f"ended with {done.returncode} after decoding {last}\n{done.stderr[-3000:]}")
    summary = json.loads(done.stdout)
    assert summary["failures"] == []
    assert summary["num_failures"] == 0
    assert summary["slowest_cpu_s"] <= MAX_CALL_CPU_S
    assert summary["largest_bytes"] <= MAX_TENSOR_BYTES
    return summary


@pytest.mark.timeout(600)
def test_mutations(tmp_path):
    summary = run_apart(tmp_path, "mutations", str(NUM_MUTATIONS))
    outcomes = summary["outcomes"]
    assert summary["decoded"] == NUM_MUTATIONS
    assert summary["grown_bytes"] <= MAX_GROWN_BYTES
    # Mutations that are all refused by one check would show little.
    for kind in ("CorruptFrameError", "ChecksumError", "TruncatedFrameError", "NotAFrameError", "the original"):
        assert outcomes[kind] >= NUM_MUTATIONS // 100, outcomes


@pytest.mark.timeout(600)
def test_prefixes_and_noise(tmp_path):
    summary = run_apart(tmp_path, "prefixes")
    assert set(summary["codecs"]) == {name for name in codecs.names() if not codecs.unavailable_reason(name)}
    assert summary["decoded"] > 10_000
    assert "the original" not in summary["outcomes"]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_too_short_for_the_magic(size):
    with pytest.raises(NotAFrameError, match="expected a frame starting with"):
        wirezip.decompress(torch.zeros(size, dtype=torch.uint8))


@pytest.mark.parametrize("size", [4, 47])
def test_too_short_for_a_header(size):
    frame = wirezip.compress(torch.zeros(100))
    with pytest.raises(TruncatedFrameError, match=f"at least 48 bytes, got {size}"):
        wirezip.decompress(frame[:size])


def test_header_only():
    frame = wirezip.compress(torch.randn(100), "raw")
    with pytest.raises(TruncatedFrameError, match="the frame declares 464 bytes, got 64"):
        wirezip.decompress(frame[:64])


def forged(name, dtype, shape, body, declared=None):
    """Return a frame whose header, check included, claims what it is told to."""
    header = FrameHeader(name, dtype, shape, len(body) if declared is None else declared, checksum=1)
    return torch.frombuffer(bytearray(header.pack() + body), dtype=torch.uint8)


@pytest.fixture
def no_large_memory(monkeypatch):
    """Fail where a tensor of more than a GB is asked for."""
    empty = torch.empty

    def guarded(*size, **options):
        shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
        assert shape.numel() * options["dtype"].itemsize < 1e9, f"torch.empty of {shape}"
        return empty(*size, **options)

    monkeypatch.setattr(torch, "empty", guarded)


@every_codec
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("body", [b"", bytes(56), b"\x10" + bytes(4000), b"\xff" * 1_000_000])
@pytest.mark.usefixtures("no_large_memory")
def test_one_tb_is_refused_before_memory_is_taken(name, dtype, body):
    if codecs.unavailable_reason(name):
        pytest.skip(codecs.unavailable_reason(name))
    numel = ONE_TB // dtype.itemsize
    for shape in [(numel,), (1, numel), (1000, numel // 1000)]:
        with pytest.raises(CorruptFrameError, match=rf"claims {numel} elements of {dtype} by codec {name}"):
            wirezip.decompress(forged(name, dtype, shape, body))
        with pytest.raises(TruncatedFrameError, match=f"declares {ONE_TB // 2 + 64} bytes"):
            wirezip.decompress(forged(name, dtype, shape, body, declared=ONE_TB // 2))


@pytest.mark.usefixtures("no_large_memory")
@pytest.mark.parametrize("shape", [(2**63,), (2**62, 2), (2**32, 2**32), (0, 2**63), (2**64 - 1, 0, 2**64 - 1)])
def test_more_than_2_63_bytes_is_refused(shape):
    for dtype in WIRE_IDS:
        with pytest.raises(FrameError, match=r"more than 2\*\*63 bytes"):
            wirezip.decompress(forged("raw", dtype, shape, b""))


def test_forged_frames_reach_the_decoder():
    # What the tests above forge is refused for its claims only, not for the way it is made.
    values = torch.arange(5, dtype=torch.uint8)
    header = FrameHeader("raw", torch.uint8, (5,), 5).pack()
    assert zlib.crc32(header[:44] + bytes(4) + header[48:]) == struct.unpack("<I", header[44:48])[0]
    frame = torch.frombuffer(bytearray(header + bytes(values.tolist())), dtype=torch.uint8)
    assert torch.equal(wirezip.decompress(frame), values)
