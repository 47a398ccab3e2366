"""`bench codec`: encode and decode speed of codecs on one core, beside each other in one run."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from wirezip.bench import bandwidth, measure, metrics
from wirezip.bench import statistics as summaries
from wirezip.bench.contenders import Contender, Skip, contender
from wirezip.bench.datasets import Sample, describe
from wirezip.bench.rows import ErrorSummary, LinkInfo, Row
from wirezip.floats import dtype_name

MEMORY = LinkInfo("memory", emulated=False, rate_gbit_s=None)
# More processor time than this per wall time means that a library used further threads.
MAX_CORES_USED = 1.15
# And less means that other work had part of the core.
MIN_CORES_USED = 0.9


@dataclass(frozen=True)
class CodecRun:
    """Outcome of `bench codec` on one dataset.

    Attributes:
        rows: Two rows per codec, encode and decode.
        skips: Codecs that did not run.
        cores_used: Processor time over wall time of the timed part, over all codecs.
    """

    rows: list[Row]
    skips: list[Skip]
    cores_used: float


@dataclass(frozen=True)
class _Timed:
    entry: Contender
    error: ErrorSummary
    encode: measure.Timing
    decode: measure.Timing


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Limit torch, Numba and (where it is installed) blosc to one thread, and put back what was."""
    import numba

    torch_threads, numba_threads = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    try:
        with _one_blosc_thread():
            yield
    finally:
        torch.set_num_threads(torch_threads)
        numba.set_num_threads(numba_threads)


@contextlib.contextmanager
def _one_blosc_thread() -> Iterator[None]:
    try:
        import numcodecs.blosc as blosc
    except ImportError:
        # No codec of this run can be using it.
        yield
        return
    num_threads = blosc.get_nthreads()
    blosc.set_nthreads(1)
    try:
        yield
    finally:
        blosc.set_nthreads(num_threads)


def run(
    sample: Sample,
    names: Sequence[str],
    *,
    num_iters: int,
    num_warmup: int,
    on_step: Callable[[str], None] = lambda step: None,
) -> CodecRun:
    """Check, then time codecs on one core.

    1. Encode and decode with each codec and check the result; a wrong one raises, and nothing is
       timed.
    2. Time them in turns (see `wirezip.bench.measure`), and check each again on the last round.

    Args:
        sample: Data.
        names: Codecs and peers; raw, the control, is added.
        num_iters: Timed rounds.
        num_warmup: Untimed rounds before them; the check counts as one.
        on_step: Told what is being done.

    Raises:
        UnknownCodecError: A name is not known.
        CodecError: A codec returned wrong data.
    """
    found = [contender(name, sample.values) for name in dict.fromkeys(["raw", *names])]
    skips = [entry for entry in found if isinstance(entry, Skip)]
    entries = [entry for entry in found if not isinstance(entry, Skip)]
    with one_core():
        errors = []
        for entry in entries:
            on_step(f"checking {entry.name}")
            errors.append(_check(entry, sample))
        pairs = [_variants(entry, sample) for entry in entries]
        variants = [variant for pair in pairs for variant in pair]
        on_step("warming up")
        if num_warmup > 1:
            measure.warm_up(variants, _alone, num_warmup - 1)
        on_step(f"timing {len(entries)} codecs, {num_iters} rounds")
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        timings = measure.interleave_groups(pairs, _alone, num_iters)
        cores_used = (time.process_time() - cpu_s) / (time.perf_counter() - wall_s)
    outcomes = [_Timed(entry, error, *timing) for entry, error, timing in zip(entries, errors, timings, strict=True)]
    return CodecRun(_rows(sample, outcomes, num_warmup), skips, cores_used)


def _alone() -> None:
    """Meet the other ranks, of which there are none."""


def _check(entry: Contender, sample: Sample) -> ErrorSummary:
    entry.prepare_encode()
    entry.encode()
    entry.prepare_decode()
    entry.decode()
    _require(entry, sample)
    return metrics.measure_error(entry.decoded(), sample.values, sample.values, lossless=entry.lossless)


def _require(entry: Contender, sample: Sample) -> None:
    if entry.lossless:
        metrics.require_exact(entry.decoded(), sample.values, f"codec {entry.name} on {sample.name}")


def _variants(entry: Contender, sample: Sample) -> list[measure.Variant]:
    return [
        measure.Variant(entry.prepare_encode, entry.encode, lambda: None),
        measure.Variant(entry.prepare_decode, entry.decode, lambda: _require(entry, sample)),
    ]


def _rows(sample: Sample, outcomes: Sequence[_Timed], num_warmup: int) -> list[Row]:
    bound = metrics.entropy_bound(sample.values)
    raw = next(outcome for outcome in outcomes if outcome.entry.name == "raw")
    rows = []
    for outcome in outcomes:
        for op in ("encode", "decode"):
            timing: measure.Timing = getattr(outcome, op)
            control: measure.Timing = getattr(raw, op)
            rows.append(_row(sample, outcome, (op, timing, control), bound, num_warmup))
    return rows


def _row(
    sample: Sample,
    outcome: _Timed,
    step: tuple[str, measure.Timing, measure.Timing],
    bound: float | None,
    num_warmup: int,
) -> Row:
    op, timing, control = step
    samples_us, raw_us = timing.durations_us, statistics.median(control.durations_us)
    time_us = summaries.summarise(samples_us)
    num_bytes, encoded_bytes = sample.values.nbytes, outcome.entry.encoded_bytes()
    return Row(
        op=op,
        backend="memory",
        algorithm=None,
        strategy=None,
        codec=outcome.entry.name,
        dtype=dtype_name(sample.values.dtype),
        data=sample.name,
        note="; ".join(filter(None, (describe([sample]), f"timed: {outcome.entry.timed_call}"))),
        world_size=1,
        logical_bytes=num_bytes,
        raw_wire_bytes=num_bytes,
        wire_bytes=encoded_bytes,
        ratio=encoded_bytes / num_bytes,
        bound=bound,
        time_us=time_us,
        algbw_gbps=bandwidth.gbps(num_bytes, time_us.median),
        busbw_gbps=None,
        baseline="raw codec, a copy in memory",
        baseline_time_us=raw_us,
        speedup=raw_us / time_us.median,
        raw_path="raw codec, a copy in memory",
        raw_path_time_us=raw_us,
        codec_gain=raw_us / time_us.median,
        codec_gain_ci95=summaries.gain_ci95(control.durations_us, samples_us),
        error=outcome.error,
        served_by=outcome.entry.name,
        num_ranks_raw=0,
        verified=True,
        link=MEMORY,
        device="cpu",
        samples_us=tuple(samples_us),
        # The check is one of them, and runs in any case.
        warmup_iters=max(1, num_warmup),
        skew_us=0.0,
        unstable=summaries.is_unstable(time_us),
    )
