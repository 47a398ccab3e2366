"""`bench quick`, the main job: real tensors, two ranks, a fast and a slow link, and what compression does there."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wirezip.bench import console, environment, runner, summary, tables
from wirezip.bench.contenders import Skip
from wirezip.bench.options import DEFAULT_CODECS, Request, Sizes
from wirezip.bench.outputs import results_folder, write_text
from wirezip.bench.rows import Row, to_json
from wirezip.bench.statistics import MIN_SAMPLES_CI
from wirezip.bench.sweep import Cell
from wirezip.bench.tables import describe_link, is_compressed, outcome

# Operation, data and size: p2p sends the real tensors as they are; a collective of the size of a small
# bucket needs more than there are, and its table says what was derived.
CASES: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
    ("p2p", ("weights-bf16", "weights-fp32", "kv-bf16", "field-fp32"), None),
    ("all_gather", ("weights-bf16",), "4M"),
    ("all_reduce", ("grad-bf16",), "4M"),
)
_LEGEND = (
    "ratio: bytes sent / bytes sent uncompressed. GB/s: original bytes / median time of the slowest rank. "
    "vs raw: speed against the best uncompressed path over the same link, the reference. "
    "pays, costs: by more than 3 %, and the 95 % confidence interval leaves out 1. "
    "even: the interval lies within 3 % of 1. unclear: neither; more rounds (-n) may tell.",
    "Every result was checked before it was timed and on the last timed round: bit by bit, but that of a "
    "plain all_reduce, which adds in an order of its own, within the rounding of its additions.",
)


@dataclass(frozen=True)
class Plan:
    """What `bench quick` does.

    Attributes:
        codecs: Codec names.
        links: Link names.
        num_ranks: Ranks of the collectives; p2p takes two.
        num_bytes: Size of every case; None for the sizes in `CASES`.
        num_iters: Timed rounds at most.
        num_warmup: Untimed rounds.
        budget_s: Seconds for the timed rounds of one case.
        parent: Folder that the results folder is made in.
    """

    codecs: Sequence[str] = DEFAULT_CODECS
    links: Sequence[str] = ("loopback", "emulated:1Gbit")
    num_ranks: int = 2
    num_bytes: str | None = None
    num_iters: int = 50
    num_warmup: int = 5
    budget_s: float = 8.0
    parent: Path = Path("results")


def run(plan: Plan) -> Path:
    """Measure, print tables and a summary, and write the results folder.

    Args:
        plan: What to do.

    Returns:
        The folder, which holds `rows.json`, `environment.json` and `bandwidth.png`.

    Raises:
        WirezipError: A word of the plan is unknown, a rank failed, a result was wrong, or the folder
            cannot be written.
    """
    cells, skips = _cells(plan)
    # Made first, so that a folder that cannot be written ends the run before it starts.
    folder = results_folder(plan.parent)
    surroundings = environment.describe()
    start = time.perf_counter()
    rows = []
    with console.progress(len(cells)) as on_step:
        # p2p takes two ranks whatever the collectives take, so the cells run in groups.
        done = 0
        for num_ranks, group in _by_ranks(cells, plan.num_ranks):
            before = done
            rows += runner.run(group, num_ranks, lambda what, count: on_step(what, before + count))  # noqa: B023
            done += len(group)
    elapsed_s = time.perf_counter() - start
    _print_report(rows, skips, plan, elapsed_s)
    write_text(str(folder / "rows.json"), to_json(rows))
    surroundings |= {"load_average_after": environment.load_average(), "elapsed_s": elapsed_s, "plan": _plain(plan)}
    write_text(str(folder / "environment.json"), json.dumps(surroundings, indent=2) + "\n")
    from wirezip.bench.plots import plot_bandwidth

    title = f"What compression does between {plan.num_ranks} ranks (real tensors, {surroundings['cpu']})"
    plot_bandwidth(rows, folder / "bandwidth.png", title)
    out = console.console()
    out.print(f"\nResults: {folder} (rows.json, environment.json, bandwidth.png)", soft_wrap=True)
    if surroundings["num_gpus"]:
        count = surroundings["num_gpus"]
        console.print_text(f"This run used the CPU only; {count} GPUs are here, for which --device cuda is to come.")
    return folder


def _cells(plan: Plan) -> tuple[list[Cell], list[Skip]]:
    cells: list[Cell] = []
    skips: dict[Skip, None] = {}
    for link in plan.links:
        for op, data, num_bytes in CASES:
            request = Request(
                op,
                plan.codecs,
                data,
                (link,),
                sizes=Sizes(plan.num_bytes or num_bytes),
                num_ranks=2 if op == "p2p" else plan.num_ranks,
                num_iters=plan.num_iters,
                num_warmup=plan.num_warmup,
            )
            found, skipped = request.cells()
            cells += [replace(cell, budget_s=plan.budget_s) for cell in found]
            skips.update(dict.fromkeys(skipped))
    return cells, list(skips)


def _by_ranks(cells: Sequence[Cell], num_ranks: int) -> list[tuple[int, list[Cell]]]:
    if num_ranks == 2:
        return [(2, list(cells))]
    p2p = [cell for cell in cells if cell.op == "p2p"]
    return [(2, p2p), (num_ranks, [cell for cell in cells if cell.op != "p2p"])]


def _print_report(rows: Sequence[Row], skips: Sequence[Skip], plan: Plan, elapsed_s: float) -> None:
    out = console.console()
    for link in dict.fromkeys(row.link for row in rows):
        title = f"{tables.sentence_case(tables.describe_link(link))}, {plan.num_ranks} ranks over gloo"
        out.print(tables.comm_table([row for row in rows if row.link == link], title))
    print_notes(rows, skips)
    out.print()
    for line in summary.summary_lines(rows):
        console.print_text(line, "" if line.startswith(" ") else "bold")
    out.print(f"It took {elapsed_s:.0f} s.")


def print_notes(rows: Sequence[Row], skips: Sequence[Skip]) -> None:
    """Print what the figures mean, what was skipped, and what is not real.

    Args:
        rows: All rows.
        skips: Codecs that did not run.
    """
    for line in _LEGEND:
        console.print_text(line, "dim")
    if any(outcome(row) == "too few rounds" for row in rows):
        console.print_text(f"Below {MIN_SAMPLES_CI} rounds (-n) there is no confidence interval, so no verdict.", "dim")
    if any(row.unstable for row in rows):
        console.print_text(
            "~ the median is not known to within 10 %: too few rounds, or other work disturbs it.", "dim"
        )
    for skip in skips:
        console.print_text(f"skipped codec {skip.name}: {skip.reason}", "yellow")
    for note in dict.fromkeys(f"{row.op} of {row.data}: {row.note}" for row in rows if row.note):
        console.print_text(note, "dim")
    for row in rows:
        if row.num_ranks_raw and is_compressed(row):
            where = f"{row.op} of {row.data} by {row.codec} over the {describe_link(row.link)}"
            console.print_text(f"{where}: {row.num_ranks_raw} of {row.world_size} ranks sent raw", "dim")


def _plain(plan: Plan) -> dict[str, Any]:
    return asdict(plan) | {"parent": str(plan.parent)}
