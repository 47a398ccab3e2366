"""Timing: the variants of one cell take turns inside one loop, so that drift hits all of them alike.

Rounds run forwards and backwards by turns (A B C, C B A), so that no variant always follows the same
one. Before each timed call the ranks meet; the clock is the host's monotonic one, which local
processes share. What is reported later is, per iteration, the longest time of all ranks.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Variant:
    """One way of doing the work.

    Attributes:
        before: Untimed preparation of each call, such as a fresh input.
        run: What is timed.
        verify: Untimed check of the outcome; raises when it is wrong.
    """

    before: Callable[[], None]
    run: Callable[[], object]
    verify: Callable[[], None]


@dataclass
class Timing:
    """Times of one variant on this rank.

    Attributes:
        starts_us: When each call began, by the host's monotonic clock.
        durations_us: How long it took.
    """

    starts_us: list[float] = field(default_factory=list)
    durations_us: list[float] = field(default_factory=list)


def timed(variant: Variant, sync: Callable[[], None], timing: Timing) -> None:
    """Prepare, meet the other ranks, run and record.

    Args:
        variant: What to run.
        sync: Returns when all ranks have called it.
        timing: Where the times go.
    """
    variant.before()
    sync()
    start = time.perf_counter_ns()
    variant.run()
    end = time.perf_counter_ns()
    timing.starts_us.append(start / 1e3)
    timing.durations_us.append((end - start) / 1e3)


def warm_up(variants: Sequence[Variant], sync: Callable[[], None], num_rounds: int) -> float:
    """Run each variant untimed and return the seconds that one round takes, preparation included.

    Args:
        variants: What to run.
        sync: Returns when all ranks have called it.
        num_rounds: Rounds, at least one.
    """
    start = time.perf_counter()
    for _ in range(num_rounds):
        for variant in variants:
            timed(variant, sync, Timing())
    return (time.perf_counter() - start) / num_rounds


def interleave(variants: Sequence[Variant], sync: Callable[[], None], num_rounds: int) -> list[Timing]:
    """Time variants in turns and check each once more on the last round.

    Args:
        variants: What to time.
        sync: Returns when all ranks have called it.
        num_rounds: Timed calls of each variant.

    Returns:
        One timing per variant, in their order.
    """
    groups = interleave_groups([[variant] for variant in variants], sync, num_rounds)
    return [timing for group in groups for timing in group]


def interleave_groups(
    groups: Sequence[Sequence[Variant]], sync: Callable[[], None], num_rounds: int
) -> list[list[Timing]]:
    """Time groups of variants in turns; within a group they always run in the order given.

    A decode follows its encode, for example, which makes what it decodes.

    Args:
        groups: What to time.
        sync: Returns when all ranks have called it.
        num_rounds: Timed calls of each variant.

    Returns:
        For each group, one timing per variant, in their order.
    """
    timings = [[Timing() for _ in group] for group in groups]
    turns = list(zip(groups, timings, strict=True))
    gc.collect()
    gc.disable()
    try:
        for number in range(num_rounds):
            for group, records in turns if number % 2 == 0 else reversed(turns):
                for variant, timing in zip(group, records, strict=True):
                    timed(variant, sync, timing)
                    if number == num_rounds - 1:
                        variant.verify()
    finally:
        gc.enable()
    return timings


def fit_rounds(round_s: float, budget_s: float | None, num_rounds: int, least: int) -> int:
    """Return how many rounds fit a time budget.

    Args:
        round_s: Seconds of one round.
        budget_s: Seconds there are; None for no limit.
        num_rounds: Rounds wanted.
        least: Rounds to make in any case.
    """
    if budget_s is None or round_s <= 0:
        return num_rounds
    return max(min(least, num_rounds), min(num_rounds, int(budget_s / round_s)))
