"""Fault injection: a communicator that damages, drops or refuses chosen sends, for tests.

A fault is a function of the send's index (counted from 0 per communicator) and its octets; it
returns the octets to send, or None to drop the message, or raises.
"""

import itertools
from collections.abc import Callable

import torch

from wirezip.comm.base import Communicator, Pending
from wirezip.errors import PeerLostError

Fault = Callable[[int, torch.Tensor], torch.Tensor | None]


def flip_byte(message: int, offset: int) -> Fault:
    """Return a fault that inverts one byte of one message.

    Args:
        message: Index of the send.
        offset: Index of the byte, from the end when negative.
    """

    def fault(index: int, octets: torch.Tensor) -> torch.Tensor:
        if index != message:
            return octets
        damaged = octets.clone()
        damaged[offset] ^= 0xFF
        return damaged

    return fault


def drop(first: int, count: int = 1) -> Fault:
    """Return a fault that loses messages.

    Args:
        first: Index of the first send that is lost.
        count: Number of sends that are lost.
    """
    return lambda index, octets: None if first <= index < first + count else octets


def close(message: int) -> Fault:
    """Return a fault that refuses every send from one on, as a closed connection does.

    Args:
        message: Index of the first send that is refused.
    """

    def fault(index: int, octets: torch.Tensor) -> torch.Tensor:
        if index >= message:
            raise PeerLostError(f"send {index}: the connection is closed (injected fault)")
        return octets

    return fault


class _Dropped(Pending):
    """A send that went nowhere."""

    def wait(self) -> None:
        """Return at once."""


class FaultyCommunicator(Communicator):
    """Another communicator with a fault in its sends.

    Args:
        inner: Carries what the fault lets through.
        fault: The fault.
    """

    def __init__(self, inner: Communicator, fault: Fault) -> None:
        self._inner, self._fault, self._indices = inner, fault, itertools.count()

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
        """The inner communicator's name, marked."""
        return f"faulty({self._inner.name})"

    @property
    def timeout_s(self) -> float:
        """Longest wait for a peer, in seconds."""
        return self._inner.timeout_s

    def isend(self, octets: torch.Tensor, dst: int, tag: int = 0) -> Pending:
        """Post a send, or what the fault makes of it."""
        passed = self._fault(next(self._indices), octets)
        return _Dropped() if passed is None else self._inner.isend(passed, dst, tag)

    def irecv(self, octets: torch.Tensor, src: int, tag: int = 0) -> Pending:
        """Post a receive; see `Communicator.irecv`."""
        return self._inner.irecv(octets, src, tag)
