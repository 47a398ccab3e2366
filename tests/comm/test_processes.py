"""Ranks as forked processes, and the process groups they run on."""

import multiprocessing
import os
import signal
import time
from datetime import timedelta
from multiprocessing.connection import Connection

import pytest
import torch
import torch.distributed as dist

from wirezip.comm import processes
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


class DemandingError(Exception):
    """Pickles, but cannot be made again from what it keeps."""

    def __init__(self, one, other):
        super().__init__(one)


def test_result_that_cannot_be_read_back_is_an_error():
    def fail(comm):
        raise DemandingError(1, 2)

    with pytest.raises(CommError, match="rank 0: cannot read its result: TypeError"):
        run_forked(1, fail)


def test_rank_that_dies_while_it_writes_its_result_is_lost(monkeypatch):
    def send_half(connection, packed):
        os.write(connection.fileno(), len(packed).to_bytes(4, "big") + packed[: len(packed) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Connection, "send_bytes", send_half)
    with pytest.raises(PeerLostError, match="rank 0 died"):
        run_forked(1, lambda comm: 1)


def test_ranks_end_when_the_caller_is_interrupted(monkeypatch):
    def interrupt(connections):
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        collect_forked(2, lambda comm: time.sleep(60))
    assert not multiprocessing.active_children()


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
