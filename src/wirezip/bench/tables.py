"""Tables for the terminal, and verdicts in words."""

import math
from collections.abc import Sequence

from rich import box
from rich.table import Table

from wirezip.bench.rows import LinkInfo, Row

# Gains nearer to 1 than this are called even, however sure they are.
EVEN_WITHIN = 0.03


def verdict(row: Row) -> str:
    """Return what a row says of its codec: `pays 1.42x`, `costs 0.60x`, `even`, `went raw` or `reference`.

    A gain counts when it is more than 3 % and the confidence interval leaves 1 out.

    Args:
        row: The row.
    """
    if row.codec in ("none", "raw"):
        return "reference" if row.codec_gain == 1.0 else ""
    if not is_compressed(row):
        return "went raw"
    return {1: f"pays {row.codec_gain:.2f}x", -1: f"costs {row.codec_gain:.2f}x", 0: "even"}[gain_sign(row)]


def is_compressed(row: Row) -> bool:
    """Return whether a codec served the row: data that do not shrink go raw.

    Args:
        row: The row.
    """
    return row.codec not in ("none", "raw") and not row.served_by.startswith("raw/")


def gain_sign(row: Row) -> int:
    """Return 1 when the codec pays, -1 when it costs, 0 when neither is sure.

    Args:
        row: The row.
    """
    low, high = row.codec_gain_ci95 or (row.codec_gain, row.codec_gain)
    if abs(row.codec_gain - 1) <= EVEN_WITHIN or low <= 1 <= high:
        return 0
    return 1 if row.codec_gain > 1 else -1


def describe_link(link: LinkInfo) -> str:
    """Return a link in words.

    Args:
        link: The link.
    """
    if link.rate_gbit_s is None:
        return f"bare {link.name}"
    return f"emulated {link.rate_gbit_s:g} Gbit/s link (paced in software)"


def sentence_case(text: str) -> str:
    """Return a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def comm_table(rows: Sequence[Row], title: str) -> Table:
    """Return the table of one link's rows, at most 100 columns wide; rows of one cell stand together.

    Args:
        rows: Rows of p2p and collectives, in the order measured.
        title: Heading.
    """
    table = _table(title)
    for name in ("op", "data"):
        table.add_column(name, no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("codec", no_wrap=True)
    for name in ("ratio", "wire MB", "time ms", "eff. GB/s", "vs raw"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    last: tuple[object, ...] = ()
    for row in rows:
        cell = (row.op, row.data, row.logical_bytes)
        if last and cell != last:
            table.add_section()
        table.add_row(
            *((row.op, row.data, _megabytes(row.logical_bytes)) if cell != last else ("", "", "")),
            codec_label(row),
            f"{row.ratio:.3f}",
            _megabytes(row.wire_bytes),
            f"{row.time_us.median / 1e3:.3f}{'~' if row.unstable else ' '}",
            f"{row.algbw_gbps:.3f}",
            f"{row.codec_gain:.2f}x",
            verdict(row),
            style=_style(row),
        )
        last = cell
    return table


def codec_label(row: Row) -> str:
    """Return the name a row goes by in tables and plots.

    Args:
        row: The row.
    """
    if row.codec == "none":
        return "(plain gloo)"
    special = [
        part for part in (row.strategy, row.algorithm) if part not in (None, "encode_send", "raw", "direct", "two_shot")
    ]
    return "/".join([row.codec, *map(str, special)])


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.3f}"


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )


def _style(row: Row) -> str:
    if row.codec in ("none", "raw"):
        return "dim"
    return {1: "green", -1: "red", 0: ""}[gain_sign(row)]


def codec_table(rows: Sequence[Row], title: str) -> Table:
    """Return the table of `bench codec`: one line per codec.

    Args:
        rows: Rows of encode and decode, in pairs.
        title: Heading.
    """
    table = _table(title)
    table.add_column("codec", no_wrap=True)
    for name in ("ratio", "over bound", "encode GB/s", "95 % CI", "decode GB/s", "95 % CI"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bits", no_wrap=True)
    for encode, decode in zip(rows[::2], rows[1::2], strict=True):
        table.add_row(
            encode.codec,
            f"{encode.ratio:.4f}",
            "-" if encode.bound is None else f"{encode.ratio - encode.bound:+.4f}",
            *_speed(encode),
            *_speed(decode),
            "exact" if encode.error.exact else "differ",
        )
    return table


def _speed(row: Row) -> tuple[str, str]:
    mark = "~" if row.unstable else " "
    if row.time_us.ci95 is None:
        return f"{row.algbw_gbps:.3f}{mark}", "-"
    low, high = (row.logical_bytes / time_us / 1e3 for time_us in reversed(row.time_us.ci95))
    return f"{row.algbw_gbps:.3f}{mark}", f"{low:.2f} .. {high:.2f}"


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """Return one sentence per link: which codec did best there, against the best uncompressed path.

    Args:
        rows: Rows of p2p and collectives.
    """
    lines = []
    for link in dict.fromkeys(row.link for row in rows):
        gains: dict[str, list[Row]] = {}
        for row in rows:
            if row.link == link and is_compressed(row):
                gains.setdefault(row.codec, []).append(row)
        where = f"On the {describe_link(link)}"
        if not gains:
            lines.append(f"{where} no codec made the data smaller.")
            continue
        best = max(gains, key=lambda codec: _mean_gain(gains[codec]))
        gain, cases = _mean_gain(gains[best]), gains[best]
        num_paid = sum(gain_sign(row) > 0 for row in cases)
        if num_paid:
            lines.append(
                f"{where} {best} does best: {gain:.2f}x the speed of the best uncompressed path "
                f"(geometric mean); it pays in {num_paid} of {len(cases)} cases."
            )
        else:
            lines.append(f"{where} no codec pays; send raw. The nearest is {best} at {gain:.2f}x the speed.")
    return lines


def _mean_gain(rows: Sequence[Row]) -> float:
    return math.exp(sum(math.log(row.codec_gain) for row in rows) / len(rows))
