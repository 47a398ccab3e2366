"""Running cells on local ranks and collecting the rows."""

import functools
from collections.abc import Callable, Sequence

from wirezip.bench.launch import stream_results
from wirezip.bench.rows import Row
from wirezip.bench.sweep import Cell, run_cells


def run(cells: Sequence[Cell], num_ranks: int, on_step: Callable[[str, int], None]) -> list[Row]:
    """Measure cells one after another on one set of local ranks.

    Args:
        cells: The cells.
        num_ranks: Ranks to start.
        on_step: Told what comes next and how many cells are done.

    Raises:
        WirezipError: A rank raised or died, or a result was wrong; no row is returned.
    """
    rows: list[Row] = []
    on_step("starting ranks, compiling codecs", 0)
    for done, found in enumerate(stream_results(num_ranks, functools.partial(run_cells, cells)), start=1):
        rows += found
        on_step(_describe(cells[done]) if done < len(cells) else "done", done)
    return rows


def _describe(cell: Cell) -> str:
    size = "" if cell.num_bytes is None else f", {cell.num_bytes} bytes"
    return f"{cell.op} of {cell.data}{size} over {cell.link.name}"
