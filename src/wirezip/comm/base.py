"""The contract every communicator keeps.

A communicator moves octets between the ranks of one group. The contract:

- Ranks are numbered within the group. Messages between two ranks with the same tag arrive in the
  order in which they were posted; messages with different tags do not wait for each other.
- A receive names exactly as many octets as the matching send; another number is an error.
- `isend` and `irecv` return at once. The octets belong to the communicator until `wait` returns. A
  send may complete only once the peer has posted the receive, so two ranks that both wait for a
  send before they post a receive are in deadlock until the timeout.
- `wait` returns, or raises within the timeout: it never waits for ever.
- All methods may be called from several threads at once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from wirezip.errors import InputError

MAX_TAG = 2**30 - 1
# Above the tags of callers, so that neither meets a message of theirs.
COLLECTIVE_TAG = MAX_TAG + 1
BARRIER_TAG = MAX_TAG + 2


@dataclass(frozen=True)
class Operation:
    """One send or receive, for the text of errors.

    Attributes:
        verb: `send to` or `receive from`.
        rank: This rank.
        peer: The other rank.
        tag: Tag of the message.
        num_bytes: Octets to move.
    """

    verb: str
    rank: int
    peer: int
    tag: int
    num_bytes: int

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.verb} rank {self.peer} (tag {self.tag}, {self.num_bytes} bytes)"


class Pending(ABC):
    """A send or receive that has been posted."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until the octets have left (send) or are in place (receive).

        Raises:
            CommTimeoutError: The peer did not answer within the timeout.
            PeerLostError: The peer left or closed the connection.
            CommError: The transport failed in another way.
        """


class Communicator(ABC):
    """One rank's end of a group."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of this rank in the group."""

    @property
    @abstractmethod
    def world_size(self) -> int:
        """Number of ranks in the group."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What carries the octets, such as `gloo` or `threads`."""

    @property
    @abstractmethod
    def timeout_s(self) -> float:
        """Longest wait for a peer, in seconds."""

    @abstractmethod
    def isend(self, octets: torch.Tensor, dst: int, tag: int = 0) -> Pending:
        """Post a send.

        Args:
            octets: Contiguous 1-D uint8 CPU tensor; not to be changed until the wait returns.
            dst: Rank that receives, not this one.
            tag: Number that the receiver asks for.

        Raises:
            InputError: `octets` or `dst` is not as described.
            CommError: The transport refuses the operation.
        """

    @abstractmethod
    def irecv(self, octets: torch.Tensor, src: int, tag: int = 0) -> Pending:
        """Post a receive.

        Args:
            octets: Contiguous 1-D uint8 CPU tensor that is overwritten; undefined until the wait returns.
            src: Rank that sends, not this one.
            tag: Number that the sender gave.

        Raises:
            InputError: `octets` or `src` is not as described.
            CommError: The transport refuses the operation.
        """

    def barrier(self) -> None:
        """Return once every rank has entered.

        In round k each rank tells the rank 2**k above it and hears from the rank 2**k below it;
        after log2(world_size) rounds everybody has heard of everybody.

        Raises:
            CommError: A peer did not enter within the timeout, or left.

        Source:
            Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization" (dissemination).
        """
        token, heard = torch.zeros(1, dtype=torch.uint8), torch.empty(1, dtype=torch.uint8)
        distance = 1
        while distance < self.world_size:
            receive = self.irecv(heard, (self.rank - distance) % self.world_size, BARRIER_TAG)
            send = self.isend(token, (self.rank + distance) % self.world_size, BARRIER_TAG)
            receive.wait()
            send.wait()
            distance *= 2

    def operation(self, verb: str, octets: torch.Tensor, peer: int, tag: int) -> Operation:
        """Check the arguments of `isend` or `irecv` and describe the operation.

        Args:
            verb: `send to` or `receive from`.
            octets: The octets to move.
            peer: The other rank.
            tag: Tag of the message.

        Raises:
            InputError: An argument is not as `isend` and `irecv` require.
        """
        described = Operation(verb, self.rank, peer, tag, octets.numel())
        if (
            octets.dtype != torch.uint8
            or octets.dim() != 1
            or not octets.is_contiguous()
            or octets.device.type != "cpu"
        ):
            raise InputError(
                f"{described}: expected a contiguous 1-D uint8 CPU tensor, "
                f"got {octets.dtype} {tuple(octets.shape)} on {octets.device}"
            )
        if not 0 <= peer < self.world_size or peer == self.rank:
            raise InputError(f"{described}: the peer is another rank of a group of {self.world_size}")
        if not 0 <= tag <= BARRIER_TAG:
            raise InputError(f"{described}: a tag lies between 0 and {BARRIER_TAG}")
        return described
