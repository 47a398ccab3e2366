"""Statistics against values worked out by hand."""

import random

import pytest

from wirezip.bench import statistics
from wirezip.errors import InputError


def test_slowest_rank_is_taken_per_iteration():
    assert statistics.slowest_rank([[1.0, 5.0, 2.0], [3.0, 1.0, 2.5]]) == [3.0, 5.0, 2.5]


def test_slowest_rank_refuses_ranks_of_different_length():
    with pytest.raises(InputError, match=r"\[2, 3\]"):
        statistics.slowest_rank([[1.0, 2.0], [1.0, 2.0, 3.0]])


def test_summary_of_known_samples():
    summary = statistics.summarise([float(n) for n in range(100, 0, -1)])
    assert (summary.min, summary.median, summary.p95, summary.max) == (1.0, 50.5, 95.0, 100.0)
    # floor((100 - 19.6) / 2) = 40 and ceil(1 + (100 + 19.6) / 2) = 61
    assert summary.ci95 == (40.0, 61.0)


def test_few_samples_claim_nothing():
    assert statistics.summarise([3.0]).ci95 is None
    assert statistics.summarise([1.0] * 5).ci95 is None
    assert statistics.summarise([1.0] * 6).ci95 == (1.0, 1.0)
    assert statistics.summarise([1.0] * 19).p95 is None
    assert statistics.summarise([1.0] * 20).p95 == 1.0


def test_no_sample_is_refused():
    with pytest.raises(InputError, match="no samples"):
        statistics.summarise([])


def test_interval_covers_the_median_about_as_often_as_it_says():
    draw = random.Random(7)
    covered = 0
    for _ in range(400):
        low, high = statistics.median_ci95([draw.expovariate(1.0) for _ in range(30)])
        covered += low <= 0.6931471805599453 <= high
    # 95 % of 400 is 380, with a standard deviation of 4.4; order statistics err on the wide side.
    assert covered >= 366


def test_unstable_when_the_median_is_not_known():
    assert statistics.is_unstable(statistics.summarise([100.0, 101.0]))
    assert not statistics.is_unstable(statistics.summarise([100.0 + n * 0.1 for n in range(20)]))
    assert statistics.is_unstable(statistics.summarise([100.0 + n * 10 for n in range(20)]))


def test_gain_interval_encloses_the_gain_and_repeats():
    reference = [200.0 + n % 7 for n in range(30)]
    samples = [100.0 + n % 5 for n in range(30)]
    interval = statistics.gain_ci95(reference, samples)
    assert interval == statistics.gain_ci95(reference, samples)
    low, high = interval
    assert 1.9 < low <= 203 / 102 <= high < 2.1


def test_gain_interval_of_equal_times_is_one():
    assert statistics.gain_ci95([5.0] * 10, [5.0] * 10) == (1.0, 1.0)
    assert statistics.gain_ci95([5.0] * 5, [5.0] * 5) is None


def test_gain_interval_needs_pairs():
    with pytest.raises(InputError, match="3 reference times against 2"):
        statistics.gain_ci95([1.0, 2.0, 3.0], [1.0, 2.0])
