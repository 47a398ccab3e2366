"""A row for tests of what is made from rows."""

import pytest

from wirezip.bench.rows import ErrorSummary, LinkInfo, Row, TimeSummary


@pytest.fixture
def row():
    return Row(
        op="p2p",
        backend="gloo",
        algorithm=None,
        strategy="encode_send",
        codec="zstd",
        dtype="bfloat16",
        data="kv-bf16",
        note="",
        world_size=2,
        logical_bytes=1000,
        raw_wire_bytes=1000,
        wire_bytes=800,
        ratio=0.8,
        bound=0.7,
        time_us=TimeSummary(1.0, 2.0, None, 3.0, (1.5, 2.5)),
        algbw_gbps=0.5,
        busbw_gbps=0.5,
        baseline="gloo send/recv",
        baseline_time_us=4.0,
        speedup=2.0,
        raw_path="wirezip raw (raw)",
        raw_path_time_us=3.0,
        codec_gain=1.5,
        codec_gain_ci95=(1.4, 1.6),
        error=ErrorSummary(True, 0.0, 0.0, 0.0, None, 1.0, 0.0, True),
        served_by="zstd/encode_send",
        num_ranks_raw=0,
        verified=True,
        link=LinkInfo("loopback", False, None),
        device="cpu",
        samples_us=(1.0, 2.0, 3.0),
        warmup_iters=1,
        skew_us=0.1,
        unstable=False,
    )
