"""Tables for the terminal, with a verdict on every row."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from wirezip.bench.rows import LinkInfo, Row

# Gains nearer to 1 than this neither pay nor cost, however sure they are.
EVEN_WITHIN = 0.03
UNCOMPRESSED = ("none", "raw")
_STYLES = {"reference": "dim", "uncompressed": "dim", "pays": "green", "costs": "red"}


def outcome(row: Row) -> str:
    """Return in words what a codec does to the time of a row.

    `reference` is the fastest uncompressed path and `uncompressed` any other; `went raw` are data that did
    not shrink. The rest is judged by the 95 % confidence interval of the gain: `pays` and `costs` need a
    difference of more than 3 % and an interval that leaves out 1, `even` an interval within 3 % of 1;
    `unclear` is what remains, and `too few rounds` support no interval.

    Args:
        row: The row.
    """
    if row.codec in UNCOMPRESSED:
        return "reference" if row.codec_gain == 1.0 else "uncompressed"
    if not is_compressed(row):
        return "went raw"
    if row.codec_gain_ci95 is None:
        return "too few rounds"
    low, high = row.codec_gain_ci95
    if row.codec_gain > 1 + EVEN_WITHIN and low > 1:
        return "pays"
    if row.codec_gain < 1 - EVEN_WITHIN and high < 1:
        return "costs"
    return "even" if low >= 1 - EVEN_WITHIN and high <= 1 + EVEN_WITHIN else "unclear"


def is_compressed(row: Row) -> bool:
    """Return whether a codec served some rank of the row: data that do not shrink go raw.

    Args:
        row: The row.
    """
    # Of p2p only rank 0 sends.
    num_senders = 1 if row.op == "p2p" else row.world_size
    return row.codec not in UNCOMPRESSED and row.num_ranks_raw < num_senders


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
        title: Heading, which has to name the operation when there is only one.
    """
    table = _table(title)
    # The widest names of codecs come with strategies and algorithms, where only one operation runs.
    has_several = len({row.op for row in rows}) > 1
    for name in ("op", "data") if has_several else ("data",):
        table.add_column(name, no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("codec", no_wrap=True)
    for name in ("ratio", "wire MB", "time ms", "GB/s", "vs raw"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    last: tuple[str, ...] = ()
    for row in rows:
        cell = (row.op, row.data, _megabytes(row.logical_bytes))
        if last and cell != last:
            table.add_section()
        leading = cell if has_several else cell[1:]
        table.add_row(
            *(leading if cell != last else [""] * len(leading)),
            codec_label(row),
            f"{row.ratio:.3f}",
            _megabytes(row.wire_bytes),
            f"{row.time_us.median / 1e3:.3f}{'~' if row.unstable else ' '}",
            f"{row.algbw_gbps:.3f}",
            f"{row.codec_gain:.2f}x",
            outcome(row),
            style=_STYLES.get(outcome(row), ""),
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
    usual = (None, "direct", "two_shot", "raw" if row.codec == "raw" else "encode_send")
    special = [part for part in (row.strategy, row.algorithm) if part not in usual]
    return "/".join([row.codec, *map(str, special)])


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.3f}" if num_bytes < 100e6 else f"{num_bytes / 1e6:.1f}"


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )


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
