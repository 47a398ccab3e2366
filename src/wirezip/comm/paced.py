"""An emulated slower link around any communicator.

What is emulated: each rank has one outgoing link of a given rate, which all its messages share in
the order in which they were posted, whatever their destination, and a fixed latency. The last octet
of a piece is handed to the inner communicator no sooner than

    max(time posted, time the link is free) + octets / rate + latency

so octets never travel faster than the rate. Sending and receiving are independent (full duplex).

What is not: incoming links (what several ranks send to one adds up), switches and contention,
packet headers, fair sharing between messages, loss. The inner communicator's own time comes on top:
of one piece for its transfer, and of the whole if it is slower than the emulated link.

Messages are cut into pieces that take about `PIECE_S` seconds of the link, so that the receiver
gets them while the rest is still under way. Both sides derive the cuts from the message's size and
the rate: all ranks must name the same rate. A timer's error, about 0.1 ms, does not accumulate,
because the times form one schedule.
"""

import queue
import threading
import time
import weakref
from dataclasses import dataclass, field

import torch

from wirezip.comm.base import Communicator, Operation, Pending
from wirezip.errors import CommTimeoutError, InputError

PIECE_S = 250e-6
MIN_PIECE_BYTES = 1 << 16
# A sleep may end this much late, so the last stretch before a message ends is spent yielding.
_SLEEP_ERROR_S = 150e-6


@dataclass
class _Job:
    """A piece on its way: what to send, and when."""

    octets: torch.Tensor
    due_s: float
    is_last: bool
    message: "_PacedSend"


class _PacedSend(Pending):
    """A send whose pieces leave on schedule."""

    def __init__(self, operation: Operation, dst: int, tag: int, timeout_s: float) -> None:
        self.operation, self.dst, self.tag = operation, dst, tag
        self.inner: list[Pending] = []
        self.error: Exception | None = None
        self.posted = threading.Event()
        self.last_due_s = 0.0
        self._timeout_s = timeout_s

    def wait(self) -> None:
        """See `Pending.wait`; the time the emulated link takes does not count against the timeout."""
        limit_s = max(0.0, self.last_due_s - time.perf_counter()) + self._timeout_s
        if not self.posted.wait(limit_s):
            raise CommTimeoutError(f"{self.operation}: the emulated link did not take it within {limit_s:g} s")
        if self.error is not None:
            raise self.error
        for pending in self.inner:
            pending.wait()


@dataclass
class _PacedReceive(Pending):
    """A receive in pieces."""

    inner: list[Pending]

    def wait(self) -> None:
        """See `Pending.wait`."""
        for pending in self.inner:
            pending.wait()


@dataclass
class _Link:
    """The outgoing link: the schedule, and the queue its thread works through."""

    jobs: "queue.SimpleQueue[_Job | None]" = field(default_factory=queue.SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)
    free_s: float = 0.0
    is_started: bool = False


def _transmit(inner: Communicator, jobs: "queue.SimpleQueue[_Job | None]") -> None:
    """Hand pieces to the inner communicator when they are due, until None comes."""
    while (job := jobs.get()) is not None:
        margin_s = _SLEEP_ERROR_S if job.is_last else 0.0
        time.sleep(max(0.0, job.due_s - time.perf_counter() - margin_s))
        while time.perf_counter() < job.due_s:
            time.sleep(0)
        message = job.message
        try:
            if message.error is None:
                message.inner.append(inner.isend(job.octets, message.dst, message.tag))
        # Whatever it is, the thread that waits for the message must see it.
        except Exception as error:
            message.error = error
        if job.is_last:
            message.posted.set()


class PacedCommunicator(Communicator):
    """Another communicator behind an emulated link; see the module for what that means.

    A thread per communicator keeps the schedule; it starts with the first send and ends when the
    communicator is collected.
    """

    def __init__(self, inner: Communicator, rate_gbps: float, latency_us: float = 0.0) -> None:
        """Wrap a communicator.

        Args:
            inner: Carries the octets.
            rate_gbps: Rate of each rank's outgoing link, in GB/s (1e9 bytes); the same on all ranks.
            latency_us: Time between the end of a piece and its delivery, in microseconds.

        Raises:
            InputError: The rate is not positive and finite, or the latency is negative.
        """
        if not 0 < rate_gbps < float("inf") or not 0 <= latency_us < float("inf"):
            raise InputError(f"a link has a positive rate and a latency >= 0, got {rate_gbps} GB/s and {latency_us} us")
        self._inner, self._rate_gbps, self._latency_us = inner, rate_gbps, latency_us
        self._piece_bytes = max(MIN_PIECE_BYTES, int(rate_gbps * 1e9 * PIECE_S))
        self._link = _Link()
        self._receive_lock = threading.Lock()
        weakref.finalize(self, self._link.jobs.put, None)

    @property
    def rank(self) -> int:
        """Number of this rank in the group."""
        return self._inner.rank

    @property
    def world_size(self) -> int:
        """Number of ranks in the group."""
        return self._inner.world_size

    @property
    def name(self) -> str:
        """The inner communicator's name with the link's rate and latency."""
        return f"paced({self._inner.name}, {self._rate_gbps:g} GB/s, {self._latency_us:g} us)"

    @property
    def timeout_s(self) -> float:
        """Longest wait for a peer, in seconds."""
        return self._inner.timeout_s

    def isend(self, octets: torch.Tensor, dst: int, tag: int = 0) -> Pending:
        """Post a send that leaves at the link's rate; see `Communicator.isend`."""
        message = _PacedSend(self.operation("send to", octets, dst, tag), dst, tag, self.timeout_s)
        pieces = self._pieces(octets)
        link = self._link
        with link.lock:
            if not link.is_started:
                # The thread must not hold this object, or it would never be collected.
                threading.Thread(
                    target=_transmit, args=(self._inner, link.jobs), name="paced link", daemon=True
                ).start()
                link.is_started = True
            start_s = max(time.perf_counter(), link.free_s)
            for index, piece in enumerate(pieces):
                start_s += piece.numel() / (self._rate_gbps * 1e9)
                message.last_due_s = start_s + self._latency_us * 1e-6
                link.jobs.put(_Job(piece, message.last_due_s, index == len(pieces) - 1, message))
            link.free_s = start_s
        return message

    def irecv(self, octets: torch.Tensor, src: int, tag: int = 0) -> Pending:
        """Post a receive of the pieces; see `Communicator.irecv`."""
        self.operation("receive from", octets, src, tag)
        # The pieces of two receives must not mix: those of the sends do not.
        with self._receive_lock:
            return _PacedReceive([self._inner.irecv(piece, src, tag) for piece in self._pieces(octets)])

    def _pieces(self, octets: torch.Tensor) -> list[torch.Tensor]:
        return list(octets.split(self._piece_bytes))
