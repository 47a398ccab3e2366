"""From a cell to rows: check, warm up, time, gather, summarise.

A cell is one operation on one dataset, size and link, with all the routes that are compared there.
`run_cell` runs on every rank; rank 0 gets the rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from wirezip import codecs
from wirezip.bench import measure, metrics
from wirezip.bench.assemble import Context, RankReport, assemble
from wirezip.bench.datasets import dtype_of
from wirezip.bench.links import communicator
from wirezip.bench.operations import OPERATIONS, PLAIN, Operation, Route, Setup, Traffic, has_plain, raw_route
from wirezip.bench.rows import ErrorSummary, LinkInfo, Row

MIN_ROUNDS = 10


@dataclass(frozen=True)
class Cell:
    """One point of a sweep.

    Attributes:
        op: Operation.
        data: Dataset name.
        link: Link.
        routes: Routes compared; the plain backend and the uncompressed route are added.
        dtype: Dtype of generated data; None for the dataset's own.
        num_bytes: Logical bytes; None for the natural size of the real data.
        num_iters: Timed rounds.
        num_warmup: Untimed rounds before them.
        num_checks: Rounds whose results are checked before any timing.
        budget_s: Seconds for the timed rounds, which are cut to fit, but not below ten; None for no
            limit.
        seed: Seed of generated and derived data.
    """

    op: str
    data: str
    link: LinkInfo
    routes: tuple[Route, ...]
    dtype: torch.dtype | None = None
    num_bytes: int | None = None
    num_iters: int = 20
    num_warmup: int = 5
    num_checks: int = 1
    budget_s: float | None = None
    seed: int = 0


def run_cells(cells: Sequence[Cell], rank: int, world_size: int) -> Iterator[list[Row]]:
    """Run cells on this rank and yield the rows of each (on rank 0; empty lists elsewhere).

    Args:
        cells: Cells, the same on every rank.
        rank: This rank.
        world_size: Number of ranks.
    """
    for cell in cells:
        yield run_cell(cell, rank, world_size)


def run_cell(cell: Cell, rank: int, world_size: int) -> list[Row]:
    """Check, then time one cell.

    1. Run every route and check its result; a wrong one raises, and nothing is timed.
    2. Warm every route up, then time them in turns, and check each again on the last round.
    3. Gather times and traffic of all ranks and make the rows.

    Args:
        cell: The cell.
        rank: This rank.
        world_size: Number of ranks.

    Raises:
        CodecError: A result was wrong.
    """
    import torch.distributed as dist

    comm = communicator(cell.link)
    operation = OPERATIONS[cell.op](Setup(comm, rank, world_size, cell.data, cell.dtype, cell.num_bytes, cell.seed))
    routes = all_routes(cell)
    traffic: dict[Route, Traffic] = {}
    variants = [_variant(operation, route, traffic) for route in routes]
    for _ in range(cell.num_checks):
        errors = [_checked(operation, route, variant) for route, variant in zip(routes, variants, strict=True)]
    num_warmup, round_s = _warm_up(cell, variants)
    num_rounds = measure.fit_rounds(round_s, cell.budget_s, cell.num_iters, MIN_ROUNDS)
    timings = measure.interleave(variants, dist.barrier, num_rounds)
    bound = None if operation.values is None else metrics.entropy_bound(operation.values)
    reports = [
        RankReport(
            tuple(timing.starts_us),
            tuple(timing.durations_us),
            operation.raw_bytes(),
            traffic[route],
            error,
            bound,
        )
        for route, timing, error in zip(routes, timings, errors, strict=True)
    ]
    by_route = _gather(reports, world_size)
    if rank != 0:
        return []
    num_untimed = cell.num_checks + num_warmup
    return assemble(_context(cell, operation, world_size, num_untimed), routes, by_route)


def _context(cell: Cell, operation: Operation, world_size: int, num_untimed: int) -> Context:
    return Context(
        op=cell.op,
        data=cell.data,
        note=operation.note,
        dtype=operation.sample_dtype,
        world_size=world_size,
        logical_bytes=operation.logical_bytes,
        plain_name=operation.plain_name,
        link=cell.link,
        warmup_iters=num_untimed,
    )


def _gather(reports: list[RankReport], world_size: int) -> list[list[RankReport]]:
    """Return, for each route, the reports of all ranks."""
    import torch.distributed as dist

    gathered: list[list[RankReport]] = [[] for _ in range(world_size)]
    dist.all_gather_object(gathered, reports)
    return [list(ranks) for ranks in zip(*gathered, strict=True)]


def all_routes(cell: Cell) -> list[Route]:
    """Return the routes of a cell, the plain backend (where it can serve) and the uncompressed one first.

    Args:
        cell: The cell.
    """
    is_plain_measured = not cell.link.emulated and has_plain(cell.op, dtype_of(cell.data, cell.dtype))
    baseline = [PLAIN] if is_plain_measured else []
    return list(dict.fromkeys([*baseline, raw_route(cell.op), *cell.routes]))


def _variant(operation: Operation, route: Route, traffic: dict[Route, Traffic]) -> measure.Variant:
    if route == PLAIN:
        traffic[route] = Traffic(operation.raw_bytes(), "gloo")
        return measure.Variant(operation.prepare, operation.run_plain, operation.verify_plain)

    def run() -> None:
        traffic[route] = operation.run(route)

    return measure.Variant(operation.prepare, run, lambda: operation.verify(route))


def _checked(operation: Operation, route: Route, variant: measure.Variant) -> ErrorSummary | None:
    """Run once, raise when the result is wrong, and measure its error on the ranks that have one."""
    import torch.distributed as dist

    measure.timed(variant, dist.barrier, measure.Timing())
    variant.verify()
    result = operation.result()
    if result is None:
        return None
    lossless = route == PLAIN or codecs.get(route.codec).lossless
    return metrics.measure_error(result, operation.expected(), operation.truth(), lossless=lossless)


def _warm_up(cell: Cell, variants: Sequence[measure.Variant]) -> tuple[int, float]:
    """Warm up, within half the budget; return the rounds that ran and the seconds of one, 0 when there was none."""
    import torch.distributed as dist

    if cell.num_warmup == 0:
        return 0, 0.0
    round_s = _agreed(measure.warm_up(variants, dist.barrier, 1))
    left_s = None if cell.budget_s is None else cell.budget_s / 2
    num_more = measure.fit_rounds(round_s, left_s, cell.num_warmup - 1, 0)
    if num_more:
        round_s = _agreed(measure.warm_up(variants, dist.barrier, num_more))
    return 1 + num_more, round_s


def _agreed(round_s: float) -> float:
    """Return rank 0's figure on every rank, so that all make the same number of rounds."""
    import torch.distributed as dist

    value = torch.tensor([round_s], dtype=torch.float64)
    dist.broadcast(value, src=0)
    return float(value)
