"""Local ranks: forked processes in one gloo group, whose results stream back as they come.

The ranks meet through a file, so no port is taken. A rank that raises or dies ends the run at once
with its own error text; the others are terminated.
"""

import contextlib
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from wirezip import errors, settings
from wirezip.errors import CommError, InputError, PeerLostError, WirezipError

_RESULT, _ERROR, _DONE, _DIED = "result", "error", "done", "died"
_GRACE_S = 1.0
MAX_LOCAL_RANKS = 64

# What every rank runs: rank and world size in, results out. Results must be picklable.
RankFunction = Callable[[int, int], Iterable[Any]]


def stream_results(world_size: int, function: RankFunction) -> Iterator[Any]:
    """Run a function on local ranks and yield what rank 0 yields, as it comes.

    1. Fork one process per rank; each joins a gloo group and limits torch to one thread.
    2. Every rank iterates over `function(rank, world_size)`; rank 0's items come back. A rank that is
       done waits for the others.
    3. At the end, or when the caller stops early, no process is left.

    Args:
        world_size: Number of ranks.
        function: What each rank runs; other ranks' items are dropped.

    Raises:
        InputError: The number of ranks is not between 1 and 64.
        WirezipError: A rank raised: its error, of the same class where it is one of wirezip's.
        PeerLostError: A rank died.
    """
    if not 1 <= world_size <= MAX_LOCAL_RANKS:
        raise InputError(f"expected 1 to {MAX_LOCAL_RANKS} local ranks, got {world_size}")
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="wirezip-") as folder:
        pipes: dict[int, Connection] = {}
        processes: dict[int, ForkProcess] = {}
        try:
            for rank in range(world_size):
                ours, theirs = context.Pipe()
                arguments = (function, rank, world_size, f"{folder}/store", theirs)
                process = context.Process(target=_rank_main, args=arguments, daemon=True)
                process.start()
                # With our copy closed, the pipe ends when the rank does.
                theirs.close()
                pipes[rank], processes[rank] = ours, process
            yield from _collect(pipes, processes)
        finally:
            for process in processes.values():
                if process.is_alive():
                    process.terminate()
                process.join(timeout=5)
                if process.is_alive():
                    process.kill()
                    process.join()
            for pipe in pipes.values():
                pipe.close()


def _collect(pipes: dict[int, Connection], processes: dict[int, ForkProcess]) -> Iterator[Any]:
    open_ranks = dict(pipes)
    failures: list[tuple[int, WirezipError]] = []
    while open_ranks:
        # One failure brings others with it, so the run waits a moment for the cause to show up.
        ready = wait(list(open_ranks.values()), timeout=_GRACE_S if failures else None)
        if not ready:
            break
        for rank in [rank for rank, pipe in open_ranks.items() if pipe in ready]:
            try:
                kind, content = open_ranks[rank].recv()
            except EOFError:
                kind, content = _DIED, None
            if kind == _RESULT:
                if rank == 0 and not failures:
                    yield content
                continue
            del open_ranks[rank]
            if kind == _DIED:
                failures.append((1, _death(rank, processes[rank])))
            elif kind == _ERROR:
                failures.append(_rebuild(rank, *content))
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]
    for pipe in pipes.values():
        # A rank that has died since has sent all it had.
        with contextlib.suppress(OSError):
            pipe.send(_DONE)


def _death(rank: int, process: ForkProcess) -> WirezipError:
    process.join(timeout=5)
    code = process.exitcode
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
    return PeerLostError(f"rank {rank} {how} before it was done")


def _rebuild(rank: int, class_name: str, text: str, trace: str) -> tuple[int, WirezipError]:
    """Return a rank's error and how far from the cause it is: 0 a cause, 2 perhaps a consequence."""
    cls = getattr(errors, class_name, None)
    if isinstance(cls, type) and issubclass(cls, WirezipError):
        # Most of them name the rank already.
        return 2 if issubclass(cls, CommError) else 0, cls(text if text.startswith("rank ") else f"rank {rank}: {text}")
    # Not one of ours, so a fault in the program or in the backend: the trace is what its owner needs.
    distance = 2 if class_name in ("RuntimeError", "DistBackendError", "DistNetworkError") else 0
    return distance, CommError(f"rank {rank}: {class_name}: {text}\n{trace}")


def _rank_main(function: RankFunction, rank: int, world_size: int, store: str, pipe: Connection) -> None:
    code = 0
    try:
        import torch

        torch.set_num_threads(1)
        _join_group(rank, world_size, store)
        for item in function(rank, world_size):
            if rank == 0:
                pipe.send((_RESULT, item))
        pipe.send((_DONE, None))
        # A rank that left now could take its connections from under one that is not done.
        with contextlib.suppress(EOFError):
            pipe.recv()
    except BaseException as reason:
        code = 1
        trace = traceback.format_exc()
        pipe.send((_ERROR, (type(reason).__name__, str(reason), trace)))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        pipe.close()
        # gloo may abort in its destructors at interpreter exit; the results are already sent.
        os._exit(code)


def _join_group(rank: int, world_size: int, store: str) -> None:
    import torch.distributed as dist

    if sys.platform == "linux" and Path("/sys/class/net/lo").exists():
        # Without this, gloo picks the interface of the host's name, and fails if it has no address.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    timeout = timedelta(seconds=settings.read().own_group_timeout_s)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size, timeout=timeout)
