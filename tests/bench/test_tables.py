"""Verdicts in words, and tables that fit."""

from dataclasses import replace

import pytest
from rich.console import Console

from wirezip.bench import tables


@pytest.mark.parametrize(
    ("gain", "interval", "word"),
    [
        (1.42, (1.3, 1.5), "pays"),
        (0.60, (0.5, 0.7), "costs"),
        (1.42, (0.9, 1.9), "unclear"),
        (0.60, (0.5, 1.1), "unclear"),
        (1.02, (1.01, 1.03), "even"),
        (1.02, (1.01, 1.04), "unclear"),
        (0.98, (0.96, 1.01), "unclear"),
        (1.42, None, "too few rounds"),
    ],
)
def test_verdict_needs_a_sure_difference(row, gain, interval, word):
    assert tables.outcome(replace(row, codec_gain=gain, codec_gain_ci95=interval)) == word


def test_verdict_of_what_is_not_compressed(row):
    assert tables.outcome(replace(row, codec="none", codec_gain=1.0)) == "reference"
    assert tables.outcome(replace(row, codec="raw", codec_gain=0.5)) == "uncompressed"
    assert tables.outcome(replace(row, num_ranks_raw=1)) == "went raw"


def test_labels_name_what_is_not_usual(row):
    assert tables.codec_label(row) == "zstd"
    assert tables.codec_label(replace(row, codec="raw")) == "raw/encode_send"
    assert tables.codec_label(replace(row, codec="raw", strategy="raw")) == "raw"
    assert tables.codec_label(replace(row, strategy=None, algorithm="ring")) == "zstd/ring"


def test_a_collective_went_raw_when_all_ranks_did(row):
    gather = replace(row, op="all_gather", world_size=4)
    assert tables.outcome(replace(gather, num_ranks_raw=3)) == "pays"
    assert tables.outcome(replace(gather, num_ranks_raw=4)) == "went raw"


@pytest.mark.parametrize("ops", [("all_gather", "all_reduce"), ("all_reduce",)])
def test_the_widest_table_fits_a_hundred_columns(row, ops):
    wide = replace(
        row,
        data="weights-bf16",
        codec="window",
        strategy=None,
        algorithm="two_shot" if len(ops) > 1 else "reference",
        logical_bytes=1 << 30,
        wire_bytes=1 << 30,
        time_us=replace(row.time_us, median=12_345_678.0),
        codec_gain=0.01,
        codec_gain_ci95=None,
        unstable=True,
    )
    console = Console(width=200)
    with console.capture() as capture:
        console.print(tables.comm_table([replace(wide, op=op) for op in ops], "title"))
    lines = capture.get().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 100
    assert "12345.678~" in lines[-2] + lines[-1]
    assert "too few rounds" in lines[-2] + lines[-1]
