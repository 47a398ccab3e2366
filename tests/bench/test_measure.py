"""Order of the calls, and when results are checked."""

import pytest

from wirezip.bench import measure
from wirezip.errors import CodecError


def recording(name, log):
    return measure.Variant(
        lambda: log.append(f"prepare {name}"), lambda: log.append(name), lambda: log.append(f"verify {name}")
    )


def test_variants_run_forwards_and_backwards_by_turns_and_are_checked_last():
    log: list[str] = []
    timings = measure.interleave([recording(name, log) for name in "abc"], lambda: log.append("sync"), 3)
    assert [entry for entry in log if entry in "abc"] == list("abccbaabc")
    assert [entry for entry in log if entry.startswith("verify")] == ["verify a", "verify b", "verify c"]
    assert log[:4] == ["prepare a", "sync", "a", "prepare b"]
    assert [len(timing.durations_us) for timing in timings] == [3, 3, 3]
    assert all(duration > 0 for timing in timings for duration in timing.durations_us)


def test_groups_keep_their_inner_order():
    log: list[str] = []
    groups = [[recording("e1", log), recording("d1", log)], [recording("e2", log), recording("d2", log)]]
    measure.interleave_groups(groups, lambda: None, 2)
    assert [entry for entry in log if " " not in entry] == ["e1", "d1", "e2", "d2", "e2", "d2", "e1", "d1"]


def test_a_wrong_last_result_raises():
    def wrong():
        raise CodecError("wrong")

    with pytest.raises(CodecError):
        measure.interleave([measure.Variant(lambda: None, lambda: None, wrong)], lambda: None, 1)


@pytest.mark.parametrize(
    ("round_s", "budget_s", "rounds"),
    [(1.0, None, 50), (1.0, 20.0, 20), (1.0, 3.0, 10), (0.0, 3.0, 50), (0.01, 3.0, 50)],
)
def test_rounds_fit_the_budget_but_not_below_the_least(round_s, budget_s, rounds):
    assert measure.fit_rounds(round_s, budget_s, 50, 10) == rounds


def test_no_more_rounds_than_wanted():
    assert measure.fit_rounds(5.0, 1.0, 3, 10) == 3
