"""`bench codec`: what is timed is right, and what cannot run is said."""

import threading

import numba
import pytest
import torch

from wirezip import codecs
from wirezip.bench import codec_bench
from wirezip.bench.contenders import PEERS, OwnCodec, Skip, contender
from wirezip.bench.datasets import load
from wirezip.bench.metrics import bits_equal
from wirezip.codecs.raw.codec import Raw
from wirezip.errors import CodecError, UnknownCodecError

SAMPLE = load("weights-bf16", num_bytes=50_002)


@pytest.mark.parametrize("name", [*codecs.names(), *PEERS])
def test_every_contender_round_trips_and_leaves_its_input_alone(name):
    values = SAMPLE.values.clone()
    entry = contender(name, values)
    if isinstance(entry, Skip):
        pytest.skip(entry.reason)
    for _ in range(2):
        entry.prepare_encode()
        entry.encode()
        entry.prepare_decode()
        entry.decode()
        assert bits_equal(entry.decoded(), SAMPLE.values)
    assert bits_equal(values, SAMPLE.values)
    assert 0 < entry.encoded_bytes() <= 1.01 * values.nbytes


def test_rows_come_in_pairs_with_raw_as_the_control():
    run = codec_bench.run(SAMPLE, ["zstd"], num_iters=6, num_warmup=2)
    assert [(row.codec, row.op) for row in run.rows] == [
        ("raw", "encode"),
        ("raw", "decode"),
        ("zstd", "encode"),
        ("zstd", "decode"),
    ]
    zstd = run.rows[2]
    assert zstd.ratio == zstd.wire_bytes / 50_002
    assert 0.6 < zstd.bound < zstd.ratio < 0.9
    assert zstd.algbw_gbps == pytest.approx(50_002 / zstd.time_us.median / 1e3)
    assert zstd.raw_path_time_us == run.rows[0].time_us.median
    assert zstd.busbw_gbps is None
    assert all(row.error.exact and row.verified and len(row.samples_us) == 6 for row in run.rows)
    assert run.skips == []
    assert run.cores_used > 0


def test_thread_limits_are_put_back():
    torch_threads, numba_threads = torch.get_num_threads(), numba.get_num_threads()
    with codec_bench.one_core():
        assert (torch.get_num_threads(), numba.get_num_threads()) == (1, 1)
    assert (torch.get_num_threads(), numba.get_num_threads()) == (torch_threads, numba_threads)
    assert threading.active_count() >= 1


def test_a_codec_that_does_not_take_the_dtype_is_skipped():
    run = codec_bench.run(
        load("normal", num_bytes=4096, dtype=torch.float64), ["zipnn", "zstd"], num_iters=1, num_warmup=0
    )
    assert [skip.name for skip in run.skips] == ["zipnn"]
    assert [row.codec for row in run.rows] == ["raw", "raw", "zstd", "zstd"]


def test_unknown_codec_lists_codecs_and_peers():
    with pytest.raises(UnknownCodecError, match=r"known: raw.*zipnn"):
        codec_bench.run(SAMPLE, ["nope"], num_iters=1, num_warmup=0)


def test_a_wrong_codec_is_caught_before_timing(monkeypatch):
    timed = []
    monkeypatch.setattr(Raw, "decode", lambda self, body, out: out.zero_())
    monkeypatch.setattr(codec_bench.measure, "interleave_groups", lambda *arguments: timed.append(arguments))
    with pytest.raises(CodecError, match="codec raw on weights-bf16"):
        codec_bench.run(SAMPLE, [], num_iters=1, num_warmup=0)
    assert timed == []


def test_own_codecs_reuse_their_buffer():
    entry = OwnCodec(Raw(), SAMPLE.values)
    entry.encode()
    first = entry._body.data_ptr()
    entry.encode()
    assert entry._body.data_ptr() == first
