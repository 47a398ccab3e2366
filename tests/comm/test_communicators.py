"""One body of tests over every communicator."""

import threading
import time

import pytest
import torch

from wirezip.comm.base import BARRIER_TAG
from wirezip.comm.paced import PacedCommunicator
from wirezip.comm.processes import run_forked
from wirezip.comm.threads import run_ranks
from wirezip.errors import InputError


def over_threads(world_size, function):
    return run_ranks(world_size, function, timeout_s=10)


def over_gloo(world_size, function):
    return run_forked(world_size, function)


def over_paced_threads(world_size, function):
    return run_ranks(world_size, lambda comm: function(PacedCommunicator(comm, 1.0, latency_us=5)), timeout_s=10)


def over_paced_gloo(world_size, function):
    return run_forked(world_size, lambda comm: function(PacedCommunicator(comm, 1.0)))


@pytest.fixture(params=[over_threads, over_gloo, over_paced_threads, over_paced_gloo])
def launch(request, monkeypatch):
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "10")
    return request.param


def octets(*values):
    return torch.tensor(values, dtype=torch.uint8)


def random_octets(num_bytes, seed=0):
    return torch.randint(0, 256, (num_bytes,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_ranks_know_their_place(launch):
    places = launch(3, lambda comm: (comm.rank, comm.world_size, comm.timeout_s, bool(comm.name)))
    assert places == [(rank, 3, 10.0, True) for rank in range(3)]


@pytest.mark.parametrize("num_bytes", [1, 7, 65536, 65537, 8 << 20])
def test_ring(launch, num_bytes):
    def ring(comm):
        got = torch.zeros(num_bytes, dtype=torch.uint8)
        receive = comm.irecv(got, (comm.rank - 1) % comm.world_size)
        send = comm.isend(random_octets(num_bytes, comm.rank), (comm.rank + 1) % comm.world_size)
        receive.wait()
        send.wait()
        return torch.equal(got, random_octets(num_bytes, (comm.rank - 1) % comm.world_size))

    assert launch(3, ring) == [True] * 3


def test_tags_are_apart_and_each_keeps_its_order(launch):
    def shuffled(comm):
        if comm.rank == 0:
            tags = (5, 0, BARRIER_TAG - 2)
            sends = [comm.isend(octets(tag % 251, index), 1, tag) for index in range(3) for tag in tags]
            for send in sends:
                send.wait()
            return None
        got = {}
        for tag in (BARRIER_TAG - 2, 5, 0):
            buffers = [torch.zeros(2, dtype=torch.uint8) for _ in range(3)]
            for receive in [comm.irecv(buffer, 0, tag) for buffer in buffers]:
                receive.wait()
            got[tag] = [int(buffer[1]) for buffer in buffers]
        return got

    assert launch(2, shuffled)[1] == {5: [0, 1, 2], 0: [0, 1, 2], BARRIER_TAG - 2: [0, 1, 2]}


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_barrier_waits_for_the_last(launch, world_size):
    def enter(comm):
        if comm.rank == world_size - 1:
            time.sleep(0.1)
        entered = time.monotonic()
        comm.barrier()
        return entered, time.monotonic()

    times = launch(world_size, enter)
    assert min(left for _, left in times) >= max(entered for entered, _ in times)


def test_threads_of_a_rank_may_send_and_receive_at_once(launch):
    def both_ways(comm):
        wrong = []

        def talk(tag):
            for index in range(20):
                got = torch.zeros(1000 + tag, dtype=torch.uint8)
                receive = comm.irecv(got, 1 - comm.rank, tag)
                send = comm.isend(random_octets(1000 + tag, 100 * tag + index), 1 - comm.rank, tag)
                receive.wait()
                send.wait()
                if not torch.equal(got, random_octets(1000 + tag, 100 * tag + index)):
                    wrong.append((tag, index))

        threads = [threading.Thread(target=talk, args=(tag,)) for tag in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return wrong

    assert launch(2, both_ways) == [[], []]


@pytest.mark.parametrize(
    ("buffer", "peer", "tag"),
    [
        (torch.zeros(4), 1, 0),
        (torch.zeros(2, 2, dtype=torch.uint8), 1, 0),
        (torch.zeros(8, dtype=torch.uint8)[::2], 1, 0),
        (torch.zeros(4, dtype=torch.uint8), 0, 0),
        (torch.zeros(4, dtype=torch.uint8), 2, 0),
        (torch.zeros(4, dtype=torch.uint8), -1, 0),
        (torch.zeros(4, dtype=torch.uint8), 1, -1),
        (torch.zeros(4, dtype=torch.uint8), 1, BARRIER_TAG + 1),
    ],
)
def test_bad_arguments_are_refused(launch, buffer, peer, tag):
    def refused(comm):
        if comm.rank == 0:
            for operation in (comm.isend, comm.irecv):
                with pytest.raises(InputError, match="rank 0"):
                    operation(buffer, peer, tag)
        return True

    assert launch(2, refused) == [True, True]
