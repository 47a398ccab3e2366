"""What is said of a run as a whole."""

from dataclasses import replace

import pytest

from wirezip.bench.rows import LinkInfo
from wirezip.bench.summary import summary_lines

SLOW = LinkInfo("emulated:1Gbit", True, 1.0)


def sure(row, gain, **changes):
    return replace(row, codec_gain=gain, codec_gain_ci95=(gain - 0.01, gain + 0.01), **changes)


def test_a_headline_per_link_and_a_tally_per_codec(row):
    rows = [sure(row, 0.5)]
    rows += [sure(row, gain, link=SLOW) for gain in (1.0, 4.0)]
    rows += [sure(row, gain, link=SLOW, codec="lz4") for gain in (1.2, 0.9)]
    rows += [replace(row, codec_gain=1.5, codec_gain_ci95=(0.9, 2.0), link=SLOW, codec="lz4")]
    assert summary_lines(rows) == [
        "On the bare loopback no codec pays on the whole; send raw. The nearest is zstd at 0.50x the speed.",
        "  zstd: costs in 1 of 1 case; 0.50x on geometric mean",
        "On the emulated 1 Gbit/s link (paced in software) zstd does best: 2.00x the speed of sending raw.",
        "  zstd: pays in 1, even in 1 of 2 cases; 2.00x on geometric mean",
        "  lz4: pays in 1, costs in 1, unclear in 1 of 3 cases; 1.17x on geometric mean",
    ]


@pytest.mark.parametrize("gain", [0.975, 1.02])
def test_a_mean_within_three_percent_is_about_even(row, gain):
    assert "zstd, is about even with sending raw" in summary_lines([sure(row, gain)])[0]


def test_a_gain_that_is_sure_nowhere_is_no_win(row):
    (line, _) = summary_lines([replace(row, codec_gain=1.5, codec_gain_ci95=(0.9, 2.0))])
    assert "no codec surely pays" in line


def test_few_rounds_give_no_conclusion(row):
    lines = summary_lines([replace(row, codec_gain_ci95=None)])
    assert lines[0] == "On the bare loopback there were too few rounds for a verdict."
    assert lines[1].startswith("  zstd: too few rounds in 1 of 1 case")


def test_what_went_raw_is_counted_and_not_averaged(row):
    lines = summary_lines([replace(row, num_ranks_raw=1)])
    assert lines == ["On the bare loopback no codec made the data smaller.", "  zstd: went raw in 1 of 1 case"]
    lines = summary_lines([replace(row, num_ranks_raw=1), sure(row, 1.5)])
    assert lines[1] == "  zstd: pays in 1, went raw in 1 of 2 cases; 1.50x on geometric mean"


def test_no_rows_say_nothing():
    assert summary_lines([]) == []
