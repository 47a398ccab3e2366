"""Injected faults do what they say, and nothing else."""

import pytest
import torch

from wirezip.comm.faulty import FaultyCommunicator, close, drop, flip_byte
from wirezip.comm.threads import run_ranks
from wirezip.errors import PeerLostError


def received(fault, num_received, num_sent=3):
    """What rank 1 receives when rank 0 sends messages 0, 1, 2 of four equal bytes through a fault."""

    def talk(comm):
        if comm.rank == 0:
            faulty = FaultyCommunicator(comm, fault)
            for index in range(num_sent):
                faulty.isend(torch.full((4,), index, dtype=torch.uint8), 1).wait()
            return None
        got = [torch.zeros(4, dtype=torch.uint8) for _ in range(num_received)]
        for buffer in got:
            comm.irecv(buffer, 0).wait()
        return [buffer.tolist() for buffer in got]

    return run_ranks(2, talk, timeout_s=10)[1]


def test_flip_byte_inverts_one_byte_of_one_message():
    assert received(flip_byte(1, -1), 3) == [[0] * 4, [1, 1, 1, 254], [2] * 4]


def test_drop_loses_one_message():
    assert received(drop(1), 2) == [[0] * 4, [2] * 4]


def test_close_refuses_from_then_on():
    with pytest.raises(PeerLostError, match="injected"):
        received(close(1), 1)
