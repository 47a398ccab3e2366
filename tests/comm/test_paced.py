"""The emulated link keeps its rate, its order and its latency."""

import gc
import threading
import time

import pytest
import torch

from wirezip.comm.faulty import FaultyCommunicator
from wirezip.comm.paced import MIN_PIECE_BYTES, PacedCommunicator
from wirezip.comm.threads import run_ranks
from wirezip.errors import InputError, PeerLostError

MIB = 1 << 20


def exchange_s(comm, num_bytes, sends=True, receives=True):
    """Seconds from a common start until what this rank sends and receives is through."""
    comm.barrier()
    started = time.perf_counter()
    pendings = []
    if receives:
        pendings.append(comm.irecv(torch.zeros(num_bytes, dtype=torch.uint8), 1 - comm.rank))
    if sends:
        pendings.append(comm.isend(torch.zeros(num_bytes, dtype=torch.uint8), 1 - comm.rank))
    for pending in pendings:
        pending.wait()
    return time.perf_counter() - started


def test_never_faster_than_the_rate():
    def one_way(comm):
        paced = PacedCommunicator(comm, 0.1)
        return exchange_s(paced, 4 * MIB, sends=comm.rank == 0, receives=comm.rank == 1)

    assert min(run_ranks(2, one_way, timeout_s=10)) >= 4 * MIB / 0.1e9 * 0.99


def test_receiving_does_not_hold_the_outgoing_link():
    def both_ways(comm):
        paced = PacedCommunicator(comm, 0.1)
        receive = paced.irecv(torch.zeros(4 * MIB, dtype=torch.uint8), 1 - comm.rank)
        send = paced.isend(torch.zeros(4 * MIB, dtype=torch.uint8), 1 - comm.rank)
        posted_s = time.perf_counter()
        receive.wait()
        send.wait()
        return send.last_due_s - posted_s

    assert max(run_ranks(2, both_ways, timeout_s=10)) <= 4 * MIB / 0.1e9


def test_one_outgoing_link_serves_all_peers():
    def scatter(comm):
        paced = PacedCommunicator(comm, 0.1)
        paced.barrier()
        started = time.perf_counter()
        octets = torch.zeros(2 * MIB, dtype=torch.uint8)
        pendings = [paced.isend(octets, peer) for peer in (1, 2)] if comm.rank == 0 else [paced.irecv(octets, 0)]
        for pending in pendings:
            pending.wait()
        return time.perf_counter() - started

    assert max(run_ranks(3, scatter, timeout_s=10)) >= 4 * MIB / 0.1e9 * 0.99


def test_latency_delays_and_does_not_hold_the_link():
    def burst(comm):
        paced = PacedCommunicator(comm, 1.0, latency_us=50_000)
        octets = [torch.full((10,), index, dtype=torch.uint8) for index in range(10)]
        started = time.perf_counter()
        if comm.rank == 0:
            pendings = [paced.isend(octet, 1) for octet in octets]
            posted_s = time.perf_counter()
            assert pendings[-1].last_due_s - posted_s <= 0.05 + 100 / 1e9
        else:
            pendings = [paced.irecv(octet, 0) for octet in octets]
        for pending in pendings:
            pending.wait()
        return time.perf_counter() - started, [int(octet[0]) for octet in octets]

    (sent_s, _), (_, got) = run_ranks(2, burst, timeout_s=10)
    assert got == list(range(10))
    assert sent_s >= 0.05


def test_pieces_are_cut_alike_on_both_sides():
    def odd(comm):
        paced = PacedCommunicator(comm, 0.5)
        for num_bytes in (1, MIN_PIECE_BYTES, 2 * MIN_PIECE_BYTES + 1, 999_999):
            octets = torch.full((num_bytes,), comm.rank, dtype=torch.uint8)
            (paced.isend(octets, 1) if comm.rank == 0 else paced.irecv(octets, 0)).wait()
            assert not octets.any()
        return True

    assert run_ranks(2, odd, timeout_s=10) == [True, True]


def test_receives_of_two_threads_do_not_mix_their_pieces():
    class Slow(FaultyCommunicator):
        def irecv(self, octets, src, tag=0):
            # Gives the other thread the chance to put a receive between two pieces of this one.
            time.sleep(0.002)
            return super().irecv(octets, src, tag)

    def both(comm):
        paced = PacedCommunicator(Slow(comm, lambda index, octets: octets), 0.1)
        octets = [torch.full((5 * MIN_PIECE_BYTES,), index * (1 - comm.rank), dtype=torch.uint8) for index in (1, 2)]

        def receive(index):
            paced.irecv(octets[index], 0).wait()

        if comm.rank == 0:
            for pending in [paced.isend(octet, 1) for octet in octets]:
                pending.wait()
            return None
        threads = [threading.Thread(target=receive, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(octet.unique().tolist() for octet in octets)

    assert run_ranks(2, both, timeout_s=10)[1] == [[1], [2]]


def test_lost_peer_is_reported_through_the_link():
    def lost(comm):
        if comm.rank == 0:
            return
        with pytest.raises(PeerLostError, match="rank 1: send to rank 0"):
            PacedCommunicator(comm, 1.0).isend(torch.zeros(MIB, dtype=torch.uint8), 0).wait()

    run_ranks(2, lost, timeout_s=10)


def test_the_links_thread_ends_with_the_communicator():
    def use(comm):
        paced = PacedCommunicator(comm, 1.0)
        paced.barrier()
        names = [thread.name for thread in threading.enumerate()]
        assert "paced link" in names

    run_ranks(2, use, timeout_s=10)
    gc.collect()
    limit = time.monotonic() + 5
    while any(thread.name == "paced link" for thread in threading.enumerate()) and time.monotonic() < limit:
        time.sleep(0.01)
    assert not [thread for thread in threading.enumerate() if thread.name == "paced link"]


@pytest.mark.parametrize(("rate_gbps", "latency_us"), [(0, 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), (1, -1)])
def test_impossible_links_are_refused(rate_gbps, latency_us):
    with pytest.raises(InputError, match="positive rate"):
        run_ranks(1, lambda comm: PacedCommunicator(comm, rate_gbps, latency_us))
