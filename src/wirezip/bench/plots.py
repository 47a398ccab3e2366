"""The picture of a run: effective bandwidth per codec, one panel per link."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirezip.bench.rows import Row
from wirezip.bench.tables import codec_label, describe_link, sentence_case
from wirezip.errors import FileError

# Okabe and Ito's colours, which colour-blind readers can tell apart; raw is the grey reference.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_GREY = "#8C8C8C"
_UNCOMPRESSED = ("none", "raw")


def plot_bandwidth(rows: Sequence[Row], path: Path, title: str) -> None:
    """Draw bars of effective bandwidth with confidence intervals, and the best uncompressed path as a line.

    Args:
        rows: Rows of p2p and collectives, over one link or several.
        path: PNG file to write.
        title: Heading.

    Raises:
        FileError: The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    links = list(dict.fromkeys(row.link for row in rows))
    labels = list(dict.fromkeys(map(codec_label, rows)))
    compressed = dict.fromkeys(codec_label(row) for row in rows if row.codec not in _UNCOMPRESSED)
    colours = dict(zip(compressed, _COLOURS * len(labels), strict=False))
    # A figure of its own, so that no global state of pyplot is touched.
    figure = Figure(figsize=(12, 1.2 + 3.6 * len(links)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=13, fontweight="bold")
    for panel, link in zip(figure.subplots(len(links), 1, squeeze=False)[:, 0], links, strict=True):
        _draw_panel(panel, [row for row in rows if row.link == link], colours)
        rate = "" if link.rate_gbit_s is None else f": {link.rate_gbit_s / 8:g} GB/s out of each rank"
        panel.set_title(sentence_case(describe_link(link)) + rate, loc="left", fontsize=11)
    try:
        figure.savefig(path, dpi=150)
    except OSError as reason:
        raise FileError(f"cannot write {path}: {reason.strerror or reason}") from reason


def _draw_panel(panel: Any, rows: Sequence[Row], colours: dict[str, str]) -> None:
    cells: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.op, row.data, row.logical_bytes), []).append(row)
    labelled: set[str] = set()
    for place, members in enumerate(cells.values()):
        width = 0.84 / len(members)
        for index, row in enumerate(members):
            x = place + (index - (len(members) - 1) / 2) * width
            _draw_bar(panel, row, colours, labelled, x=x, width=width)
        best = members[0].logical_bytes / members[0].raw_path_time_us / 1e3
        name = "" if place else "best uncompressed path"
        panel.hlines(best, place - 0.46, place + 0.46, color="black", linestyle=(0, (4, 2)), linewidth=1.1, label=name)
    panel.set_xticks(range(len(cells)), [f"{op}\n{data}\n{size / 1e6:.2g} MB" for op, data, size in cells], fontsize=9)
    panel.set_xlim(-0.6, len(cells) - 0.4)
    panel.set_ylabel("effective bandwidth\n(GB/s of original bytes)")
    panel.set_ylim(0, panel.get_ylim()[1] * 1.15)
    panel.grid(axis="y", alpha=0.3)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    legend = panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, alignment="left")
    legend.set_title("figures: speed over\nthe dashed line", prop={"size": 8})


def _draw_bar(panel: Any, row: Row, colours: dict[str, str], labelled: set[str], *, x: float, width: float) -> None:
    label = codec_label(row)
    spread = None
    if row.time_us.ci95 is not None:
        low, high = (row.logical_bytes / time_us / 1e3 for time_us in reversed(row.time_us.ci95))
        spread = [[max(0.0, row.algbw_gbps - low)], [max(0.0, high - row.algbw_gbps)]]
    plain = row.codec == "none"
    panel.bar(
        x,
        row.algbw_gbps,
        width * 0.92,
        yerr=spread,
        color="white" if plain else colours.get(label, _GREY),
        edgecolor=_GREY if plain else "none",
        hatch="///" if plain else None,
        error_kw={"elinewidth": 0.9, "ecolor": "#333333", "capsize": 1.5},
        label="" if label in labelled else label,
    )
    labelled.add(label)
    if row.codec not in _UNCOMPRESSED:
        top = row.algbw_gbps + (spread[1][0] if spread else 0.0)
        panel.annotate(
            f"{row.codec_gain:.2f}x",
            (x, top),
            (0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7.5,
            rotation=90,
            # A patch of background, because the reference line may run behind the figure.
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            zorder=5,
        )
