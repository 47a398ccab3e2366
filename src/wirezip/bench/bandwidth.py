"""The bandwidth formulas, all of them; GB = 1e9 bytes.

algbw = logical bytes / time, where the logical bytes of an all-gather are those of the gathered
output. busbw = algbw * factor, which makes algorithms and rank counts comparable with the speed of a
link, as in nccl-tests (PERFORMANCE.md). Both count bytes before compression, so an effective
bandwidth above the link's own rate is what compression earned.
"""

from collections.abc import Callable

from wirezip.errors import InputError

_BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "p2p": lambda n: 1.0,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "all_reduce": lambda n: 2.0 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
}


def bus_factor(op: str, world_size: int) -> float:
    """Return busbw / algbw.

    Args:
        op: Operation, such as `all_reduce`.
        world_size: Number of ranks.

    Raises:
        InputError: The operation has no such factor.
    """
    if op not in _BUS_FACTORS:
        raise InputError(f"no bus bandwidth is defined for {op!r}; known: {', '.join(_BUS_FACTORS)}")
    return _BUS_FACTORS[op](world_size)


def gbps(num_bytes: int, time_us: float) -> float:
    """Return GB/s.

    Args:
        num_bytes: Bytes before compression.
        time_us: Time in microseconds.
    """
    return num_bytes / time_us / 1e3


def gbit_to_gbps(rate_gbit: float) -> float:
    """Return GB/s of a rate in Gbit/s."""
    return rate_gbit / 8
