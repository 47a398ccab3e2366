"""Verdicts and summaries in words."""

from dataclasses import replace

import pytest

from wirezip.bench import tables
from wirezip.bench.rows import LinkInfo


@pytest.mark.parametrize(
    ("gain", "interval", "text"),
    [
        (1.42, (1.3, 1.5), "pays 1.42x"),
        (0.60, (0.5, 0.7), "costs 0.60x"),
        (1.42, (0.9, 1.9), "even"),
        (0.60, (0.5, 1.1), "even"),
        (1.02, (1.01, 1.03), "even"),
        (1.42, None, "pays 1.42x"),
    ],
)
def test_verdict_needs_a_sure_difference(row, gain, interval, text):
    assert tables.verdict(replace(row, codec_gain=gain, codec_gain_ci95=interval)) == text


def test_verdict_of_what_is_not_compressed(row):
    assert tables.verdict(replace(row, codec="none", codec_gain=1.0)) == "reference"
    assert tables.verdict(replace(row, codec="raw", codec_gain=0.5)) == ""
    assert tables.verdict(replace(row, served_by="raw/encode_send")) == "went raw"


def test_summary_has_a_line_per_link_by_geometric_mean(row):
    slow = LinkInfo("emulated:1Gbit", True, 1.0)
    rows = [replace(row, codec_gain=0.5, codec_gain_ci95=(0.4, 0.6))]
    rows += [replace(row, link=slow, codec_gain=gain, codec_gain_ci95=(gain, gain)) for gain in (1.0, 4.0)]
    rows += [replace(row, link=slow, codec="lz4", codec_gain=gain, codec_gain_ci95=(gain, gain)) for gain in (1.2, 1.2)]
    first, second = tables.summary_lines(rows)
    assert first == "On the bare loopback no codec pays; send raw. The nearest is zstd at 0.50x the speed."
    assert "zstd does best: 2.00x" in second
    assert "pays in 1 of 2 cases" in second


def test_summary_leaves_out_what_went_raw(row):
    (line,) = tables.summary_lines([replace(row, served_by="raw/encode_send")])
    assert line == "On the bare loopback no codec made the data smaller."
