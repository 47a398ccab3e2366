"""Cells measured on real local ranks, tiny; wrong codecs are caught before anything is timed."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from wirezip.bench import runner
from wirezip.bench.links import parse_link
from wirezip.bench.operations import PLAIN, Route, raw_route
from wirezip.bench.options import Request, Sizes
from wirezip.bench.sweep import Cell, all_routes
from wirezip.codecs import registry
from wirezip.codecs.general.codec import Zstd
from wirezip.errors import CodecError

# Decodes of one check and two warm-up rounds come first, those of ten timed rounds after.
_LATE_CALL = 6
_decoded = 0


@dataclass(frozen=True)
class Flipped(Zstd):
    """A broken codec: one bit of the result is wrong from decode number `first_wrong` on."""

    name: ClassVar[str] = "flipped"
    first_wrong: ClassVar[int] = 0

    def decode(self, body, out):
        """Decode, then flip a bit."""
        global _decoded
        super().decode(body, out)
        if _decoded >= self.first_wrong:
            out.view(torch.uint8)[17] ^= 1
        _decoded += 1


@dataclass(frozen=True)
class LateFlipped(Flipped):
    """Wrong only after a while, as a codec with a race would be."""

    name: ClassVar[str] = "late"
    first_wrong: ClassVar[int] = _LATE_CALL


@dataclass(frozen=True)
class NeverFlipped(Flipped):
    """Right throughout: the control of this file's broken codecs."""

    name: ClassVar[str] = "never"
    first_wrong: ClassVar[int] = 10**9


@pytest.fixture
def broken_codecs(monkeypatch):
    monkeypatch.setitem(registry.REGISTRY, "flipped", f"{__name__}:Flipped")
    monkeypatch.setitem(registry.REGISTRY, "late", f"{__name__}:LateFlipped")
    monkeypatch.setitem(registry.REGISTRY, "never", f"{__name__}:NeverFlipped")


def measure(request, steps=None):
    cells, _ = request.cells()
    return runner.run(
        cells, request.num_ranks, lambda what, done: (steps if steps is not None else []).append((what, done))
    )


def tiny(op, codecs=("raw", "zstd"), **changes):
    usual = {"sizes": Sizes("32K"), "num_iters": 6, "num_warmup": 1, "data": ["grad-bf16"]}
    return Request(op, codecs, **(usual | changes))


@pytest.mark.parametrize(("op", "num_ranks"), [("p2p", 2), ("all_gather", 3), ("all_reduce", 3)])
def test_rows_of_each_operation(op, num_ranks):
    steps = []
    rows = measure(tiny(op, num_ranks=num_ranks), steps)
    assert [row.codec for row in rows] == ["none", "raw", "zstd"]
    plain, raw, zstd = rows
    size = 32768 // num_ranks // 2 * 2 * num_ranks if op == "all_gather" else 32768
    sent = {"p2p": size, "all_gather": size * (num_ranks - 1), "all_reduce": 2 * size * (num_ranks - 1)}[op]
    for row in rows:
        assert (row.op, row.world_size, row.logical_bytes, row.backend) == (op, num_ranks, size, "gloo")
        assert abs(row.raw_wire_bytes - sent) <= num_ranks
        assert row.error.exact or (row.codec == "none" and op == "all_reduce")
        assert row.verified
        assert len(row.samples_us) == 6
        assert row.num_ranks_raw == 0
        # One check and one round of warm-up.
        assert row.warmup_iters == 2
        assert row.time_us.min > 0
        assert row.algbw_gbps == pytest.approx(size / row.time_us.median / 1e3)
        assert row.baseline_time_us == plain.time_us.median
        assert row.raw_path_time_us == min(plain.time_us.median, raw.time_us.median)
        assert row.speedup == pytest.approx(plain.time_us.median / row.time_us.median)
        assert row.codec_gain == pytest.approx(row.raw_path_time_us / row.time_us.median)
    assert plain.ratio == 1.0
    assert 1.0 < raw.ratio < 1.2
    assert 0.6 < zstd.ratio < 1.0
    assert zstd.served_by.startswith("zstd/")
    assert raw.served_by.startswith("raw/")
    assert steps[-1] == ("done", 1)


def test_fp64_reference_separates_rounding_from_wrongness():
    (row,) = [row for row in measure(tiny("all_reduce")) if row.codec == "zstd"]
    # A bf16 sum rounds to 8 bits, so it differs from the fp64 sum, though the bits are as stated.
    assert row.error.exact
    assert row.error.bound_ok
    assert 0 < row.error.rel_l2 < 2**-8


def test_emulated_link_keeps_its_pace_and_is_its_own_baseline():
    rows = measure(tiny("p2p", links=["emulated:100Mbit"], sizes=Sizes("128K")))
    assert [row.codec for row in rows] == ["raw", "zstd"]
    assert rows[0].link.emulated
    assert rows[0].link.rate_gbit_s == 0.1
    # 131072 bytes at 12.5 MB/s take 10.5 ms; no message may be faster.
    assert rows[0].time_us.min > 10_000
    assert rows[0].baseline == rows[0].raw_path == "wirezip raw (raw) over the same emulated link"


@pytest.mark.parametrize("op", ["p2p", "all_gather", "all_reduce"])
def test_a_wrong_codec_is_caught_before_timing(op, broken_codecs):
    steps = []
    with pytest.raises(CodecError, match=rf"rank \d: {op} of grad-bf16 by flipped.* elements are wrong; the first"):
        measure(tiny(op, ["flipped"]), steps)
    assert [done for _, done in steps] == [0]


def test_a_codec_that_goes_wrong_later_is_caught_on_the_last_round(broken_codecs):
    with pytest.raises(CodecError, match="p2p of grad-bf16 by late"):
        measure(tiny("p2p", ["late"], num_iters=10, num_warmup=2))
    assert measure(tiny("p2p", ["never"], num_iters=10, num_warmup=2))[-1].served_by == "never/encode_send"


def test_dtypes_the_backend_cannot_add_have_no_plain_baseline():
    rows = measure(tiny("all_reduce", ["zstd"], data=["normal"], dtype="e4m3"))
    assert [row.codec for row in rows] == ["raw", "zstd"]
    assert rows[1].baseline == "wirezip raw (two_shot)"
    assert rows[1].note == "generated"


def test_every_bit_pattern_passes_the_check():
    rows = measure(tiny("all_reduce", ["zstd"], data=["random-bits"]))
    assert rows[-1].served_by.startswith("raw/")
    assert rows[-1].num_ranks_raw == rows[-1].world_size
    assert rows[-1].error.exact


def test_warm_up_that_the_budget_cuts_short_is_reported_as_it_ran():
    cells, _ = tiny("p2p", ["raw"], num_warmup=50).cells()
    (row, *_) = runner.run([replace(cells[0], budget_s=1e-6)], 2, lambda what, done: None)
    assert row.warmup_iters == 2


def test_uncompressed_routes_are_always_there_once():
    loopback, paced = parse_link("loopback"), parse_link("emulated:1Gbit")
    zstd = Route("zstd", None, "encode_send")
    assert all_routes(Cell("p2p", "kv-bf16", loopback, (raw_route("p2p"), zstd))) == [PLAIN, raw_route("p2p"), zstd]
    assert all_routes(Cell("p2p", "kv-bf16", paced, (zstd,))) == [raw_route("p2p"), zstd]
