"""Ranks as forked processes, and the process groups they run on."""

import os
import signal
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from wirezip.comm.processes import Failure, collect_forked, run_forked
from wirezip.comm.torchdist import TorchCommunicator
from wirezip.errors import CommError, CommTimeoutError, InputError, PeerLostError


@pytest.fixture(autouse=True)
def timeout(monkeypatch):
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "20")


def buffer(num_bytes=4):
    return torch.zeros(num_bytes, dtype=torch.uint8)


def test_results_come_by_rank_tensors_included():
    results = run_forked(3, lambda comm: torch.full((2,), comm.rank))
    assert [result.tolist() for result in results] == [[0, 0], [1, 1], [2, 2]]


def test_first_failure_is_raised():
    def fail(comm):
        if comm.rank == 1:
            raise KeyError("rank one")
        comm.irecv(buffer(), 1).wait()

    with pytest.raises(KeyError, match="rank one"):
        run_forked(2, fail)


def test_result_that_cannot_be_pickled_is_an_error():
    with pytest.raises(CommError, match="cannot pickle"):
        run_forked(1, lambda comm: lambda: None)


def test_killed_peer_is_lost():
    def die(comm):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(PeerLostError, match="rank 0: receive from rank 1"):
            comm.irecv(buffer(), 1).wait()
        return "survived"

    survivor, dead = collect_forked(2, die)
    assert survivor == "survived"
    assert isinstance(dead, Failure)
    assert isinstance(dead.error, PeerLostError)


def test_silent_peer_times_out(monkeypatch):
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "1")

    def wait(comm):
        if comm.rank == 0:
            with pytest.raises(CommTimeoutError, match=r"rank 0: receive from rank 1 \(tag 2, 4 bytes\).*within 1 s"):
                comm.irecv(buffer(), 1, 2).wait()
        return comm.rank

    assert run_forked(2, wait) == [0, 1]


def test_ranks_are_those_of_the_group():
    def in_group(comm):
        group = dist.new_group([2, 1])
        if comm.rank == 0:
            with pytest.raises(InputError, match="not in the group"):
                TorchCommunicator(group)
            return None
        pair = TorchCommunicator(group)
        got = buffer()
        receive = pair.irecv(got, 1 - pair.rank)
        pair.isend(torch.full((4,), comm.rank, dtype=torch.uint8), 1 - pair.rank).wait()
        receive.wait()
        return pair.rank, pair.world_size, got.tolist()

    _, one, two = run_forked(3, in_group)
    assert {one[0], two[0]} == {0, 1}
    assert (one[1:], two[1:]) == ((2, [2] * 4), (2, [1] * 4))


def test_the_timeout_is_the_groups_own_unless_one_is_set(monkeypatch):
    def timeouts(comm):
        monkeypatch.delenv("WIREZIP_TIMEOUT_S")
        group = dist.new_group([0, 1], timeout=timedelta(seconds=1))
        own = TorchCommunicator(group)
        if comm.rank == 0:
            with pytest.raises(CommTimeoutError, match="within 1 s"):
                own.irecv(buffer(), 1).wait()
        default = TorchCommunicator().timeout_s
        monkeypatch.setenv("WIREZIP_TIMEOUT_S", "3")
        return own.timeout_s, default, TorchCommunicator(group).timeout_s, TorchCommunicator(group, 4.0).timeout_s

    assert run_forked(2, timeouts) == [(1.0, 20.0, 3.0, 4.0)] * 2


def test_a_destroyed_group_is_not_kept_alive():
    def destroy(comm):
        group = dist.new_group([0, 1])
        pair = TorchCommunicator(group)
        pair.barrier()
        dist.destroy_process_group(group)
        del group
        with pytest.raises(CommError, match="destroyed"):
            pair.isend(buffer(), 1 - pair.rank).wait()
        return True

    assert run_forked(2, destroy) == [True, True]


def test_torch_distributed_must_be_initialised():
    with pytest.raises(InputError, match="init_process_group"):
        TorchCommunicator()
