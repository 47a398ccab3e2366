"""Collectives among ranks that disagree, damage their messages, or die: every rank raises, and soon."""

import os
import signal
import time

import pytest
import torch

from wirezip.collectives import all_gather, all_reduce
from wirezip.comm.faulty import FaultyCommunicator, close, drop, flip_byte
from wirezip.comm.processes import Failure, collect_forked, run_forked
from wirezip.comm.threads import run_ranks
from wirezip.errors import ChecksumError, CommError, CommTimeoutError, CorruptFrameError, MismatchError, PeerLostError

# Long enough that a test which needs it is seen to hang.
TIMEOUT_S = 30


@pytest.fixture(autouse=True)
def timeout(monkeypatch):
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", str(TIMEOUT_S))


def reduce_floats(comm, numel=1000, dtype=torch.float32, **options):
    tensor = torch.full((numel,), float(comm.rank), dtype=dtype)
    all_reduce(comm, tensor, **options)
    return tensor


def gather_floats(comm, numel=1000, **options):
    tensor = torch.full((numel,), float(comm.rank))
    all_gather(comm, [torch.zeros(numel) for _ in range(comm.world_size)], tensor, **options)


def error_of(function, *arguments, **options):
    """The error a call raises, as a value."""
    try:
        function(*arguments, **options)
    except CommError as error:
        return error
    except CorruptFrameError as error:
        return error
    return None


def disagreement(launch, world_size, usual, odd):
    """The last rank calls `odd`, the others `usual`; all then agree on a sum. Return the errors."""

    def run(comm):
        error = error_of(odd if comm.rank == world_size - 1 else usual, comm)
        total = reduce_floats(comm, codec="zstd")
        assert bool((total == sum(range(world_size))).all())
        return error

    started = time.monotonic()
    errors = launch(world_size, run)
    assert time.monotonic() - started < TIMEOUT_S
    return errors


DISAGREEMENTS = {
    "dtype": (lambda comm: reduce_floats(comm, dtype=torch.bfloat16), "bfloat16"),
    "numel": (lambda comm: reduce_floats(comm, 1001), "1001 elements"),
    "no elements": (lambda comm: reduce_floats(comm, 0), "0 elements"),
    "codec": (lambda comm: reduce_floats(comm, codec="lz4"), "codec lz4"),
    "operation": (lambda comm: reduce_floats(comm, op="max"), "all_reduce.max"),
    "collective": (gather_floats, "all_gather"),
}


@pytest.mark.parametrize("launch", [run_ranks, run_forked])
@pytest.mark.parametrize("what", DISAGREEMENTS)
@pytest.mark.parametrize("world_size", [2, 3])
def test_disagreement_is_a_mismatch_on_every_rank_and_the_group_goes_on(launch, what, world_size):
    odd, text = DISAGREEMENTS[what]
    errors = disagreement(launch, world_size, reduce_floats, odd)
    assert all(isinstance(error, MismatchError) for error in errors)
    for rank, error in enumerate(errors):
        assert text in str(error)
        assert "all_reduce.sum of 1000 elements of float32, codec raw" in str(error)
        assert f"rank {rank} expects" in str(error)


def test_mismatched_gathers_leave_the_group_in_step():
    errors = disagreement(run_ranks, 3, gather_floats, lambda comm: gather_floats(comm, 999))
    assert all(isinstance(error, MismatchError) for error in errors)


def test_five_ranks_of_which_two_disagree():
    def run(comm):
        error = error_of(reduce_floats, comm, 1000 + (comm.rank in (1, 3)))
        assert bool((reduce_floats(comm) == 10).all())
        return error

    assert all(isinstance(error, MismatchError) for error in run_ranks(5, run))


@pytest.mark.parametrize("message", range(8))
@pytest.mark.parametrize("name", ["raw", "zstd"])
def test_damaged_body_raises_and_the_group_goes_on(message, name, monkeypatch):
    """Rank 1 of three damages each of its messages in turn: a header and a body per peer and step."""
    monkeypatch.setenv("WIREZIP_MESSAGE_CHECKSUM", "1")

    def run(comm):
        faulty = FaultyCommunicator(comm, flip_byte(message, 12)) if comm.rank == 1 else comm
        error = error_of(reduce_floats, faulty, codec=name)
        if message % 2:
            assert bool((reduce_floats(faulty) == 3).all())
        return error

    if message % 2 == 0:
        with pytest.raises((CorruptFrameError, PeerLostError)):
            run_ranks(3, lambda comm: (error := run(comm)) and (_ for _ in ()).throw(error))
        return
    errors = run_ranks(3, run)
    assert any(isinstance(error, CorruptFrameError) for error in errors)
    if message < 4:
        # Nobody can finish without the damaged part: the others hear so from the rank that saw it.
        assert all(isinstance(error, CorruptFrameError | CommError) for error in errors)
        assert any("gave up" in str(error) for error in errors)


def test_checksum_names_both_ranks(monkeypatch):
    monkeypatch.setenv("WIREZIP_MESSAGE_CHECKSUM", "1")

    def run(comm):
        gather_floats(FaultyCommunicator(comm, flip_byte(1, 0)) if comm.rank == 0 else comm)

    with pytest.raises(ChecksumError, match="rank 1, message from rank 0"):
        run_ranks(2, run)


def test_lost_message_is_a_mismatch_for_the_receiver():
    def run(comm):
        return error_of(reduce_floats, FaultyCommunicator(comm, drop(0, 2)) if comm.rank == 0 else comm)

    told, seen = run_ranks(2, run, timeout_s=0.3)
    assert isinstance(seen, MismatchError)
    assert "sequence (0 here, 1 there)" in str(seen)
    assert "rank 1 gave up" in str(told)


def test_mismatch_is_not_hidden_by_what_goes_wrong_after_it():
    def run(comm):
        if comm.rank == 0:
            # Its first body does not leave, so rank 1 waits in vain for the end of the message it cannot use.
            return error_of(reduce_floats, FaultyCommunicator(comm, drop(1)), codec="raw")
        return error_of(reduce_floats, comm, 999)

    _, seen = run_ranks(2, run, timeout_s=0.3)
    assert isinstance(seen, MismatchError)
    assert isinstance(seen.__cause__, CommError)


def test_closed_connection_is_a_lost_peer():
    def run(comm):
        reduce_floats(FaultyCommunicator(comm, close(1)) if comm.rank == 0 else comm)

    with pytest.raises(PeerLostError, match="injected"):
        run_ranks(3, run)


@pytest.mark.parametrize("collective", [reduce_floats, gather_floats])
def test_rank_that_never_comes_is_waited_for_no_longer_than_the_timeout(collective):
    def run(comm):
        if comm.rank == 1:
            time.sleep(1.0)
            return None
        return error_of(collective, comm)

    errors = run_ranks(2, run, timeout_s=0.2)
    assert isinstance(errors[0], CommTimeoutError)
    assert "receive from rank 1" in str(errors[0])


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("num_sends", [0, 1, 2, 3])
def test_killed_rank_is_lost_to_all_others(world_size, num_sends):
    """Rank 1 dies before, between or after its sends of a collective in mid-flight."""
    # A header and a body to each peer in both steps of the first sum.
    num_good = 4 * (world_size - 1)

    def die(index, octets):
        if index >= num_good + num_sends:
            os.kill(os.getpid(), signal.SIGKILL)
        return octets

    def run(comm):
        comm = FaultyCommunicator(comm, die) if comm.rank == 1 else comm
        reduce_floats(comm)
        started = time.monotonic()
        error = error_of(reduce_floats, comm, 1 << 20)
        return error, time.monotonic() - started

    outcomes = collect_forked(world_size, run)
    assert isinstance(outcomes.pop(1), Failure)
    for error, seconds in outcomes:
        assert isinstance(error, PeerLostError)
        assert seconds < TIMEOUT_S
