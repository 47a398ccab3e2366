"""Ranks as threads: matching, timeouts, and ranks that leave."""

import threading
import time

import pytest
import torch

from wirezip.comm.threads import run_ranks
from wirezip.errors import CommError, CommTimeoutError, PeerLostError


def buffer(num_bytes=4):
    return torch.zeros(num_bytes, dtype=torch.uint8)


def test_results_come_by_rank():
    assert run_ranks(4, lambda comm: comm.rank * 10) == [0, 10, 20, 30]


def test_first_failure_is_raised_and_the_others_do_not_hang():
    seen = []

    def fail(comm):
        if comm.rank == 1:
            raise KeyError("rank one")
        with pytest.raises(PeerLostError, match=rf"rank {comm.rank}.*receive from rank 1.*KeyError.*rank one") as lost:
            comm.irecv(buffer(), 1).wait()
        seen.append(comm.rank)
        raise lost.value

    started = time.monotonic()
    with pytest.raises(KeyError, match="rank one"):
        run_ranks(3, fail, timeout_s=60)
    assert sorted(seen) == [0, 2]
    assert time.monotonic() - started < 30


def test_operations_posted_before_and_after_a_peer_leaves_fail():
    def leave(comm):
        if comm.rank == 1:
            comm.irecv(buffer(), 0).wait()
            return
        waiting = comm.irecv(buffer(), 1)
        comm.isend(buffer(), 1).wait()
        with pytest.raises(PeerLostError, match="finished"):
            waiting.wait()
        with pytest.raises(PeerLostError, match="send to rank 1"):
            comm.isend(buffer(), 1).wait()

    run_ranks(2, leave, timeout_s=60)


def test_what_a_rank_sent_before_it_left_still_arrives():
    def leave(comm):
        if comm.rank == 0:
            comm.isend(torch.full((4,), 7, dtype=torch.uint8), 1)
            return None
        time.sleep(0.05)
        got = buffer()
        comm.irecv(got, 0).wait()
        return got.tolist()

    assert run_ranks(2, leave, timeout_s=60)[1] == [7] * 4


def test_timeout_names_both_ranks_and_frees_the_operation():
    timed_out = threading.Event()

    def late(comm):
        if comm.rank == 1:
            timed_out.wait(10)
            comm.isend(torch.full((4,), 9, dtype=torch.uint8), 0, 3).wait()
            return None
        lost, got = buffer(), buffer()
        with pytest.raises(CommTimeoutError, match=r"rank 0: receive from rank 1 \(tag 3, 4 bytes\)"):
            comm.irecv(lost, 1, 3).wait()
        timed_out.set()
        comm.irecv(got, 1, 3).wait()
        return lost.tolist(), got.tolist()

    assert run_ranks(2, late, timeout_s=0.5)[0] == ([0] * 4, [9] * 4)


def test_sizes_that_differ_fail_on_both_sides():
    def uneven(comm):
        pending = comm.isend(buffer(4), 1) if comm.rank == 0 else comm.irecv(buffer(5), 0)
        with pytest.raises(CommError, match=r"4 bytes.*5 bytes"):
            pending.wait()
        return True

    assert run_ranks(2, uneven, timeout_s=10) == [True, True]
