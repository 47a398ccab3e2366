"""Statistics of repeated times: reduced over ranks per iteration first, then summarised by the median.

No outlier is removed and no distribution is assumed. Source: Hoefler and Belli, "Scientific
benchmarking of parallel computing systems", SC'15, rules 4 to 8; Le Boudec, "Performance Evaluation",
for the order statistics of a median's confidence interval.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from wirezip.bench.rows import TimeSummary
from wirezip.errors import InputError

MIN_SAMPLES_CI = 6
MIN_SAMPLES_P95 = 20
# Above this relative width of the median's confidence interval a result is called unstable.
UNSTABLE_WIDTH = 0.10
_RESAMPLES = 2000
_SEED = 20260101


def slowest_rank(per_rank_us: Sequence[Sequence[float]]) -> list[float]:
    """Return, for each iteration, the longest time of all ranks.

    Args:
        per_rank_us: One sequence of times per rank, all of the same length.

    Raises:
        InputError: The ranks did not measure the same number of iterations.
    """
    lengths = {len(times) for times in per_rank_us}
    if len(lengths) != 1:
        raise InputError(f"ranks measured different numbers of iterations: {sorted(lengths)}")
    return [max(times) for times in zip(*per_rank_us, strict=True)]


def median_ci95(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the median by order statistics.

    The bounds are the samples of rank floor((n - 1.96 sqrt n) / 2) and ceil(1 + (n + 1.96 sqrt n) / 2),
    held inside the sample.

    Args:
        samples: The samples, in any order.

    Returns:
        The bounds, or None below six samples, where no two samples enclose the median with 95 %.
    """
    n = len(samples)
    if n < MIN_SAMPLES_CI:
        return None
    ordered = sorted(samples)
    low = max(1, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    high = min(n, math.ceil(1 + (n + 1.96 * math.sqrt(n)) / 2))
    return ordered[low - 1], ordered[high - 1]


def nearest_rank(samples: Sequence[float], fraction: float) -> float:
    """Return the percentile by nearest rank: the smallest sample that `fraction` of them do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def summarise(samples_us: Sequence[float]) -> TimeSummary:
    """Summarise times.

    Args:
        samples_us: At least one time, in microseconds.

    Raises:
        InputError: There is no sample.
    """
    if not samples_us:
        raise InputError("no samples to summarise")
    return TimeSummary(
        min=min(samples_us),
        median=statistics.median(samples_us),
        p95=nearest_rank(samples_us, 0.95) if len(samples_us) >= MIN_SAMPLES_P95 else None,
        max=max(samples_us),
        ci95=median_ci95(samples_us),
    )


def is_unstable(summary: TimeSummary) -> bool:
    """Return whether the median is known to less than 10 % (or, with too few samples, not known)."""
    if summary.ci95 is None:
        return True
    low, high = summary.ci95
    return high - low > UNSTABLE_WIDTH * summary.median


def gain_ci95(reference_us: Sequence[float], samples_us: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of median(reference) / median(samples).

    Percentile bootstrap with a fixed seed. Iterations are drawn in pairs, because the two were
    measured in turns and share the machine's drift.

    Args:
        reference_us: Times of the reference.
        samples_us: Times of the candidate, as many, from the same rounds.

    Returns:
        The bounds, or None below six samples.

    Raises:
        InputError: The two differ in length.
    """
    if len(reference_us) != len(samples_us):
        raise InputError(f"{len(reference_us)} reference times against {len(samples_us)} samples")
    n = len(samples_us)
    if n < MIN_SAMPLES_CI:
        return None
    drawn = np.random.default_rng(_SEED).integers(0, n, (_RESAMPLES, n))
    reference = np.median(np.asarray(reference_us)[drawn], axis=1)
    gains = reference / np.median(np.asarray(samples_us)[drawn], axis=1)
    low, high = np.percentile(gains, [2.5, 97.5])
    return float(low), float(high)
