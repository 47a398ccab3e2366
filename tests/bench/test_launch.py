"""Local ranks: results stream back; an error or a death ends the run with its cause."""

import os
import signal
import time

import pytest

from wirezip.bench.launch import stream_results
from wirezip.errors import CodecError, CommError, InputError, PeerLostError


def add_ranks(rank, world_size):
    import torch
    import torch.distributed as dist

    for base in (0, 10):
        total = torch.tensor([base + rank])
        dist.all_reduce(total)
        yield int(total)


def raise_codec_error(rank, world_size):
    import torch.distributed as dist

    yield "begun"
    if rank == 1:
        raise CodecError("the data are wrong")
    dist.barrier()


def raise_foreign_error(rank, world_size):
    import torch.distributed as dist

    if rank == 1:
        raise ZeroDivisionError("a fault in the program")
    dist.barrier()
    yield "never"


def die(rank, world_size):
    import torch.distributed as dist

    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    yield "never"


def leave(rank, world_size):
    if rank == 0:
        os._exit(3)
    yield "never"


def endless(rank, world_size):
    while True:
        yield os.getpid()
        time.sleep(0.01)


def test_results_of_rank_zero_stream_back():
    assert list(stream_results(3, add_ranks)) == [3, 33]


def test_an_error_ends_the_run_as_itself():
    results = stream_results(2, raise_codec_error)
    with pytest.raises(CodecError, match="rank 1: the data are wrong"):
        list(results)


def test_a_foreign_error_carries_its_trace():
    with pytest.raises(CommError, match=r"(?s)rank 1: ZeroDivisionError: a fault in the program.*raise_foreign_error"):
        list(stream_results(2, raise_foreign_error))


@pytest.mark.parametrize(
    ("function", "text"), [(die, "rank 1 was killed by signal 9"), (leave, "rank 0 ended with exit code 3")]
)
def test_a_death_is_named_and_does_not_hang(function, text):
    start = time.monotonic()
    with pytest.raises(PeerLostError, match=text):
        list(stream_results(2, function))
    assert time.monotonic() - start < 30


def test_stopping_early_leaves_no_process():
    results = stream_results(2, endless)
    pid = next(results)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("world_size", [0, -1, 65])
def test_number_of_ranks_is_checked(world_size):
    with pytest.raises(InputError, match="1 to 64"):
        next(stream_results(world_size, add_ranks))
