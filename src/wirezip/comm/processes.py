"""Ranks as forked processes of this machine over gloo: real sockets, real deaths, a tenth of a second to start."""

import io
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

import torch
import torch.distributed as dist

from wirezip import settings
from wirezip.comm.base import Communicator
from wirezip.comm.torchdist import TorchCommunicator
from wirezip.errors import CommError, PeerLostError

Result = TypeVar("Result")


class Failure(Generic[Result]):
    """Why a rank has no result.

    Attributes:
        error: What it raised; `PeerLostError` when it died without a word.
        order: How many ranks had ended before it.
    """

    def __init__(self, error: BaseException, order: int) -> None:
        self.error, self.order = error, order


def _pack(outcome: tuple[bool, object]) -> bytes:
    """Pickle an outcome; torch's own pickling takes tensors of every dtype."""
    buffer = io.BytesIO()
    torch.save(outcome, buffer)
    return buffer.getvalue()


@dataclass(frozen=True)
class _Pipes:
    """A rank's connections to the parent: its outcome goes up, and the end of `release` lets it exit."""

    outcome: Connection
    release: Connection
    release_writer: Connection


def _serve_rank(
    rank: int, world_size: int, store: str, function: Callable[[Communicator], Result], pipes: _Pipes
) -> None:
    """Run the function as one rank and send up its result or error, pickled."""
    # The forked process has no OpenMP workers, and a parallel region would wait for them.
    torch.set_num_threads(1)
    pipes.release_writer.close()
    outcome: tuple[bool, object]
    try:
        try:
            timeout_s = settings.read().own_group_timeout_s
            limit = timedelta(seconds=timeout_s)
            dist.init_process_group("gloo", f"file://{store}", limit, rank=rank, world_size=world_size)
            outcome = (True, function(TorchCommunicator(timeout_s=timeout_s)))
        except BaseException as error:
            outcome = (False, error)
        try:
            packed = _pack(outcome)
        except Exception as error:
            packed = _pack((False, CommError(f"rank {rank}: cannot pickle {outcome[1]!r}: {error}")))
        pipes.outcome.send_bytes(packed)
        # A socket closed with unread octets resets the connection and what a peer has yet to read from it,
        # so a rank that is done stays until all are. One that failed must look dead at once.
        if outcome[0]:
            pipes.release.poll(None)
        sys.stdout.flush()
    finally:
        # Whatever the parent registered for its own exit is not this process's business.
        os._exit(0)


def collect_forked(world_size: int, function: Callable[[Communicator], Result]) -> list[Result | Failure[Result]]:
    """Run a function once per rank, each in a forked process, and return what became of each.

    The timeout is that of the settings (`WIREZIP_TIMEOUT_S`), or 300 s.

    Args:
        world_size: Number of ranks.
        function: Called with the rank's communicator; its result is pickled.
    """
    context = multiprocessing.get_context("fork")
    release, release_writer = context.Pipe(duplex=False)
    processes: list[BaseProcess] = []
    awaited: dict[Connection, int] = {}
    outcomes: dict[int, Result | Failure[Result]] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(world_size):
                receiver, sender = context.Pipe(duplex=False)
                pipes = _Pipes(sender, release, release_writer)
                arguments = (rank, world_size, os.path.join(folder, "store"), function, pipes)
                processes.append(process := context.Process(target=_serve_rank, args=arguments, daemon=True))
                process.start()
                # Only the child may hold the sending end, or its death would not close the pipe.
                sender.close()
                awaited[receiver] = rank
            while awaited:
                for ready in wait(list(awaited)):
                    assert isinstance(ready, Connection)
                    rank = awaited.pop(ready)
                    outcomes[rank] = _outcome(ready, rank, len(outcomes))
        finally:
            release_writer.close()
            release.close()
            _end(processes, are_done=len(outcomes) == world_size)
    return [outcomes[rank] for rank in range(world_size)]


def _end(processes: list[BaseProcess], *, are_done: bool) -> None:
    """Wait for the ranks to exit; kill them if not all of them are done."""
    for process in processes:
        if process.pid is not None:
            if not are_done:
                process.kill()
            process.join()


def _outcome(pipe: Connection, rank: int, order: int) -> Result | Failure[Result]:
    try:
        packed = pipe.recv_bytes()
    except (EOFError, OSError):
        # It may have died while it was writing, too.
        return Failure(PeerLostError(f"rank {rank} died before it had a result"), order)
    finally:
        pipe.close()
    try:
        succeeded, value = torch.load(io.BytesIO(packed), weights_only=False)
    # What a pickle runs is its own affair, such as an exception with arguments that it does not keep.
    except Exception as error:
        return Failure(CommError(f"rank {rank}: cannot read its result: {type(error).__name__}: {error}"), order)
    return value if succeeded else Failure(value, order)


def run_forked(world_size: int, function: Callable[[Communicator], Result]) -> list[Result]:
    """Run a function once per rank, each in a forked process, and return the results by rank.

    Args:
        world_size: Number of ranks.
        function: Called with the rank's communicator; its result is pickled.

    Raises:
        BaseException: Whatever the first rank to fail raised.
    """
    outcomes = collect_forked(world_size, function)
    failures = sorted((entry for entry in outcomes if isinstance(entry, Failure)), key=lambda failure: failure.order)
    if failures:
        raise failures[0].error
    return [entry for entry in outcomes if not isinstance(entry, Failure)]
