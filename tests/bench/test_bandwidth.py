"""Bandwidth formulas against nccl-tests' definitions."""

import pytest

from wirezip.bench import bandwidth
from wirezip.errors import InputError


@pytest.mark.parametrize(
    ("op", "world_size", "factor"),
    [
        ("p2p", 2, 1.0),
        ("all_reduce", 2, 1.0),
        ("all_reduce", 4, 1.5),
        ("all_gather", 2, 0.5),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 4, 0.75),
        ("broadcast", 8, 1.0),
    ],
)
def test_bus_factor(op, world_size, factor):
    assert bandwidth.bus_factor(op, world_size) == factor


def test_bus_factor_of_unknown_operation_lists_the_known():
    with pytest.raises(InputError, match="all_reduce"):
        bandwidth.bus_factor("telepathy", 2)


def test_one_gigabyte_in_one_second():
    assert bandwidth.gbps(10**9, 1e6) == pytest.approx(1.0)


def test_one_gigabit_is_an_eighth_of_a_gigabyte():
    assert bandwidth.gbit_to_gbps(1.0) == 0.125
