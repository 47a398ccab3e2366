"""Ranks as threads of one process: the same contract as between processes, without sockets.

A send completes when the matching receive has taken its octets (rendezvous), as over gloo, so a
program that would deadlock there does so here too.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import TypeVar

import torch

from wirezip import settings
from wirezip.comm.base import Communicator, Operation, Pending
from wirezip.errors import CommError, CommTimeoutError, PeerLostError

Result = TypeVar("Result")


class _ThreadPending(Pending):
    """One posted send or receive."""

    def __init__(self, hub: "Hub", operation: Operation, octets: torch.Tensor, timeout_s: float) -> None:
        self.operation, self.octets = operation, octets
        self.error: CommError | None = None
        self._hub, self._timeout_s, self._done = hub, timeout_s, threading.Event()

    def finish(self, error: CommError | None = None) -> None:
        """Let the waiter go on, with an error if there is one."""
        self.error = error
        self._done.set()

    def wait(self) -> None:
        """See `Pending.wait`."""
        # A withdrawn operation can no longer be matched; one that was matched meanwhile is being copied.
        if not self._done.wait(self._timeout_s) and self._hub.withdraw(self):
            raise CommTimeoutError(f"{self.operation}: no answer within {self._timeout_s:g} s")
        self._done.wait()
        if self.error is not None:
            raise self.error


class Hub:
    """Where the ranks of one process meet: posted operations wait here for their counterpart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[int, str] = {}
        # Keyed by (source, destination, tag); at most one of the two kinds waits at a time.
        self._sends: defaultdict[tuple[int, int, int], deque[_ThreadPending]] = defaultdict(deque)
        self._receives: defaultdict[tuple[int, int, int], deque[_ThreadPending]] = defaultdict(deque)

    def post(self, pending: _ThreadPending, source: int, destination: int) -> None:
        """Match an operation with its counterpart, or leave it waiting for one.

        Args:
            pending: The operation.
            source: Rank that sends.
            destination: Rank that receives.
        """
        key = (source, destination, pending.operation.tag)
        is_send = pending.operation.rank == source and pending.operation.verb == "send to"
        own, other = (self._sends, self._receives) if is_send else (self._receives, self._sends)
        with self._lock:
            if other[key]:
                counterpart = other[key].popleft()
            elif pending.operation.peer in self._left:
                pending.finish(self._lost(pending))
                return
            else:
                own[key].append(pending)
                return
        send, receive = (pending, counterpart) if is_send else (counterpart, pending)
        _deliver(send, receive)

    def withdraw(self, pending: _ThreadPending) -> bool:
        """Take back an operation; return False if it has been matched meanwhile."""
        with self._lock:
            for queues in (self._sends, self._receives):
                for queue in queues.values():
                    if pending in queue:
                        queue.remove(pending)
                        return True
        return False

    def leave(self, rank: int, reason: str) -> None:
        """Note that a rank has ended, and fail what waits for it.

        Args:
            rank: The rank that ends.
            reason: Why, for the text of errors.
        """
        with self._lock:
            self._left[rank] = reason
            for queues in (self._sends, self._receives):
                for queue in queues.values():
                    for pending in [entry for entry in queue if entry.operation.peer == rank]:
                        queue.remove(pending)
                        pending.finish(self._lost(pending))

    def _lost(self, pending: _ThreadPending) -> PeerLostError:
        return PeerLostError(f"{pending.operation}: the peer has left ({self._left[pending.operation.peer]})")


def _deliver(send: _ThreadPending, receive: _ThreadPending) -> None:
    """Copy the octets of a matched pair, or fail both when their sizes differ."""
    if send.octets.numel() == receive.octets.numel():
        receive.octets.copy_(send.octets)
        error = None
    else:
        error = CommError(f"sizes differ: {send.operation}; {receive.operation}")
    receive.finish(error)
    send.finish(error)


class ThreadCommunicator(Communicator):
    """A rank's end of a hub.

    Args:
        hub: The hub all ranks share.
        rank: Number of this rank.
        world_size: Number of ranks.
        timeout_s: Longest wait for a peer, in seconds.
    """

    def __init__(self, hub: Hub, rank: int, world_size: int, timeout_s: float) -> None:
        self._hub, self._rank, self._world_size, self._timeout_s = hub, rank, world_size, timeout_s

    @property
    def rank(self) -> int:
        """Number of this rank in the group."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of ranks in the group."""
        return self._world_size

    @property
    def name(self) -> str:
        """Always `threads`."""
        return "threads"

    @property
    def timeout_s(self) -> float:
        """Longest wait for a peer, in seconds."""
        return self._timeout_s

    def isend(self, octets: torch.Tensor, dst: int, tag: int = 0) -> Pending:
        """Post a send; see `Communicator.isend`."""
        pending = self._pending("send to", octets, dst, tag)
        self._hub.post(pending, self._rank, dst)
        return pending

    def irecv(self, octets: torch.Tensor, src: int, tag: int = 0) -> Pending:
        """Post a receive; see `Communicator.irecv`."""
        pending = self._pending("receive from", octets, src, tag)
        self._hub.post(pending, src, self._rank)
        return pending

    def _pending(self, verb: str, octets: torch.Tensor, peer: int, tag: int) -> _ThreadPending:
        return _ThreadPending(self._hub, self.operation(verb, octets, peer, tag), octets, self._timeout_s)


class LoopbackCommunicator(ThreadCommunicator):
    """A hub with one rank, which sends to itself: a send waits in the hub for this rank's own receive."""

    def operation(self, verb: str, octets: torch.Tensor, peer: int, tag: int) -> Operation:
        """Describe the operation, whose peer is this rank."""
        return Operation(verb, self.rank, peer, tag, octets.numel())


def run_ranks(
    world_size: int, function: Callable[[Communicator], Result], timeout_s: float | None = None
) -> list[Result]:
    """Run a function once per rank, each in a thread of its own, and return the results by rank.

    A rank that raises leaves the group, so that peers waiting for it raise `PeerLostError` at once.

    Args:
        world_size: Number of ranks.
        function: Called with the rank's communicator.
        timeout_s: Longest wait for a peer, in seconds; when None that of the settings, or 300.

    Raises:
        BaseException: Whatever the first rank to fail raised.
    """
    timeout_s = settings.read().own_group_timeout_s if timeout_s is None else timeout_s
    hub = Hub()
    results: dict[int, Result] = {}
    failures: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = function(ThreadCommunicator(hub, rank, world_size, timeout_s))
        except BaseException as error:
            failures.append(error)
            hub.leave(rank, f"it failed: {type(error).__name__}: {error}")
        else:
            hub.leave(rank, "it has finished")

    threads = [
        threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(world_size)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[rank] for rank in range(world_size)]
