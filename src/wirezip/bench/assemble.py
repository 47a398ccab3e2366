"""Rows from what the ranks measured."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wirezip.bench import bandwidth
from wirezip.bench import statistics as summaries
from wirezip.bench.operations import PLAIN, Route, Traffic
from wirezip.bench.rows import ErrorSummary, LinkInfo, Row


@dataclass(frozen=True)
class RankReport:
    """What one rank measured of one route.

    Attributes:
        starts_us: When each timed call began, by the host's clock.
        durations_us: How long it took.
        raw_bytes: Bytes of tensors it sends when nothing is compressed.
        traffic: What it sent.
        error: Deviation of its result; None when it receives nothing.
        bound: Entropy bound of its input; None when it has none.
    """

    starts_us: tuple[float, ...]
    durations_us: tuple[float, ...]
    raw_bytes: int
    traffic: Traffic
    error: ErrorSummary | None
    bound: float | None


@dataclass(frozen=True)
class Context:
    """What all rows of a cell share; the fields are those of `Row`.

    Attributes:
        op: Operation.
        data: Dataset name.
        note: What of the data is not real.
        dtype: Dtype of the data.
        world_size: Number of ranks.
        logical_bytes: Bytes the user asked to move.
        plain_name: Name of the backend's own call.
        link: The link.
        warmup_iters: Untimed iterations that ran.
    """

    op: str
    data: str
    note: str
    dtype: str
    world_size: int
    logical_bytes: int
    plain_name: str
    link: LinkInfo
    warmup_iters: int


@dataclass(frozen=True)
class Reference:
    """What the routes of a cell are compared with.

    Attributes:
        name: What it is, in words.
        samples_us: Its times.
    """

    name: str
    samples_us: list[float]


def assemble(context: Context, routes: Sequence[Route], reports: Sequence[Sequence[RankReport]]) -> list[Row]:
    """Return the rows of a cell.

    Args:
        context: What the rows share.
        routes: The routes measured.
        reports: For each route, the reports of all ranks.
    """
    samples = {
        route: summaries.slowest_rank([report.durations_us for report in ranks])
        for route, ranks in zip(routes, reports, strict=True)
    }
    uncompressed = [
        Reference(_uncompressed_name(route, context), samples[route])
        for route in routes
        if route.codec in ("none", "raw")
    ]
    raw_path = min(uncompressed, key=lambda reference: statistics.median(reference.samples_us))
    # The plain backend comes first where it can run; an emulated link cannot pace it.
    baseline = uncompressed[0]
    return [
        _row(context, route, samples[route], ranks, (baseline, raw_path))
        for route, ranks in zip(routes, reports, strict=True)
    ]


def _uncompressed_name(route: Route, context: Context) -> str:
    if route == PLAIN:
        return context.plain_name
    path = f"wirezip raw ({route.algorithm or route.strategy})"
    return f"{path} over the same emulated link" if context.link.emulated else path


def _row(
    context: Context,
    route: Route,
    samples_us: list[float],
    ranks: Sequence[RankReport],
    references: tuple[Reference, Reference],
) -> Row:
    baseline, raw_path = references
    time_us = summaries.summarise(samples_us)
    baseline_us, raw_us = (statistics.median(reference.samples_us) for reference in references)
    raw_bytes = sum(report.raw_bytes for report in ranks)
    wire_bytes = sum(report.traffic.wire_bytes for report in ranks)
    bounds = [report.bound for report in ranks if report.bound is not None]
    algbw_gbps = bandwidth.gbps(context.logical_bytes, time_us.median)
    return Row(
        op=context.op,
        backend="gloo",
        algorithm=route.algorithm,
        strategy=route.strategy,
        codec=route.codec,
        dtype=context.dtype,
        data=context.data,
        note=context.note,
        world_size=context.world_size,
        logical_bytes=context.logical_bytes,
        raw_wire_bytes=raw_bytes,
        wire_bytes=wire_bytes,
        ratio=wire_bytes / raw_bytes if raw_bytes else float("nan"),
        bound=statistics.mean(bounds) if bounds else None,
        time_us=time_us,
        algbw_gbps=algbw_gbps,
        busbw_gbps=algbw_gbps * bandwidth.bus_factor(context.op, context.world_size),
        baseline=baseline.name,
        baseline_time_us=baseline_us,
        speedup=baseline_us / time_us.median,
        raw_path=raw_path.name,
        raw_path_time_us=raw_us,
        codec_gain=raw_us / time_us.median,
        codec_gain_ci95=summaries.gain_ci95(raw_path.samples_us, samples_us),
        error=worst([report.error for report in ranks if report.error is not None]),
        served_by=" ".join(dict.fromkeys(report.traffic.served_by for report in ranks)),
        num_ranks_raw=sum(report.traffic.went_raw for report in ranks),
        verified=True,
        link=context.link,
        device="cpu",
        samples_us=tuple(samples_us),
        warmup_iters=context.warmup_iters,
        skew_us=skew_us([report.starts_us for report in ranks]),
        unstable=summaries.is_unstable(time_us),
    )


def skew_us(starts_us: Sequence[Sequence[float]]) -> float:
    """Return the median, over iterations, of the time between the first and the last rank's start.

    Args:
        starts_us: One sequence of starts per rank, by one clock.
    """
    spread: list[float] = [max(starts) - min(starts) for starts in zip(*starts_us, strict=True)]
    return statistics.median(spread)


def worst(errors: Sequence[ErrorSummary]) -> ErrorSummary:
    """Return the worst of each metric over the ranks that have a result.

    Args:
        errors: At least one error summary.
    """

    def pick(choose: Callable[[list[float]], float], name: str) -> float | None:
        values = [getattr(error, name) for error in errors if getattr(error, name) is not None]
        return choose(values) if values else None

    bounds = [error.bound_ok for error in errors if error.bound_ok is not None]
    return ErrorSummary(
        exact=all(error.exact for error in errors),
        max_abs=pick(max, "max_abs"),
        mae=pick(max, "mae"),
        mse=pick(max, "mse"),
        psnr_db=pick(min, "psnr_db"),
        cosine=pick(min, "cosine"),
        rel_l2=pick(max, "rel_l2"),
        bound_ok=all(bounds) if bounds else None,
    )
