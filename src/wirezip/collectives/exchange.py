"""One step of a collective: every rank sends one message to each peer and receives one from each.

All receives are posted before anything is waited for, so no order of arrival can lock the ranks.
An error that one rank sees (a mismatch, a damaged body) does not put the ranks out of step: the
messages of the step are received to the end, and later steps are exchanged with every peer that
asked for the same call, as notices of the failure. So the peers raise at once, and the next
collective starts clean. Only a lost peer, a timeout or a damaged header ends a group.
"""

from dataclasses import dataclass, field
from typing import NoReturn

import torch

from wirezip.codecs.base import Codec
from wirezip.collectives.record import CollectiveRecord
from wirezip.comm.base import COLLECTIVE_TAG, Communicator
from wirezip.errors import CommError, FrameError, MismatchError, WirezipError
from wirezip.transfer.channel import Incoming, Outgoing, open_endpoint, post, post_abort
from wirezip.transfer.message import Call, MessageHeader
from wirezip.transfer.payload import Payload


@dataclass
class Awaited:
    """A message of the step that was accepted: its header, and where it goes."""

    incoming: Incoming
    header: MessageHeader
    body: torch.Tensor
    out: torch.Tensor


@dataclass
class Exchange:
    """The messages of one rank in one collective.

    Attributes:
        comm: The group.
        call: What this rank was asked for.
        codec: Codec asked for.
        peers: Ranks still exchanged with, from the next higher rank upwards, cyclically; those that
            asked for another call drop out.
        error: The first error that left the ranks in step.
        num_messages: Messages sent.
        num_raw: Messages sent raw.
        wire_bytes: Bytes sent.
    """

    comm: Communicator
    call: Call
    codec: Codec
    peers: list[int] = field(init=False)
    error: WirezipError | None = None
    num_messages: int = 0
    num_raw: int = 0
    wire_bytes: int = 0
    _outgoing: list[Outgoing] = field(default_factory=list)
    _incoming: dict[int, Incoming] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rank, world_size = self.comm.rank, self.comm.world_size
        self.peers = [(rank + distance) % world_size for distance in range(1, world_size)]

    def expect(self) -> None:
        """Post the receives of the step's headers.

        Raises:
            CommError: The transport refuses one.
        """
        # The rank below sends to this one first, the rank above last.
        endpoints = [open_endpoint(self.comm, peer, COLLECTIVE_TAG) for peer in reversed(self.peers)]
        self._incoming = {endpoint.peer: Incoming(endpoint) for endpoint in endpoints}

    def send(self, peer: int, message: Payload, step: int) -> None:
        """Post the step's message to one peer.

        Args:
            peer: The peer.
            message: The body.
            step: Number of the step.

        Raises:
            CommError: The transport refuses it.
        """
        endpoint = open_endpoint(self.comm, peer, COLLECTIVE_TAG)
        self._outgoing.append(outgoing := post(endpoint, self.call, message, step=step))
        self.num_messages += 1
        self.num_raw += message.served == "raw"
        self.wire_bytes += outgoing.wire_bytes

    def abort(self, step: int) -> None:
        """Post a notice of failure to every peer in place of the step's message.

        Args:
            step: Number of the step.

        Raises:
            CommError: The transport refuses it.
        """
        for peer in self.peers:
            endpoint = open_endpoint(self.comm, peer, COLLECTIVE_TAG)
            self._outgoing.append(post_abort(endpoint, self.call, step))

    def accept(self, outs: dict[int, torch.Tensor], step: int) -> dict[int, Awaited]:
        """Wait for the step's headers and post the receives of the bodies.

        Args:
            outs: Per peer, a contiguous 1-D tensor for the elements.
            step: Number of the step.

        Returns:
            The messages accepted, by peer; the others have been dropped and the first error kept.

        Raises:
            WirezipError: The error kept, if a peer is lost or does not answer thereafter.
            CommError: A peer is lost or does not answer.
            CorruptFrameError: A header is damaged.
        """
        accepted = {}
        for peer, incoming in self._incoming.items():
            header = self._read_header(incoming)
            try:
                incoming.check(header, self.call, outs[peer].numel(), step)
            except CommError as error:
                self.keep(error)
                incoming.drop_body(header, self.error or error)
                if isinstance(error, MismatchError) and self.call.differences(header.call):
                    self.peers.remove(peer)
                continue
            body = incoming.start_body(header, outs[peer], self.codec)
            accepted[peer] = Awaited(incoming, header, body, outs[peer])
        return accepted

    def _read_header(self, incoming: Incoming) -> MessageHeader:
        try:
            return incoming.read_header()
        except CommError as later:
            self._raise_first(later)

    def take(self, awaited: Awaited) -> None:
        """Wait for one body and decode it; an error in its content is kept.

        Args:
            awaited: One of the messages that `accept` returned.

        Raises:
            CommError: The peer is lost or does not answer.
        """
        try:
            awaited.incoming.take(awaited.header, awaited.body, awaited.out, self.codec)
        except FrameError as error:
            self.keep(error)
        except CommError as later:
            self._raise_first(later)

    def _raise_first(self, later: CommError) -> NoReturn:
        """Raise the error kept if there is one, else the later one."""
        if self.error is None:
            raise later
        # A peer that is out of step cannot answer; what put it there says more than its silence.
        raise self.error from later

    def keep(self, error: WirezipError) -> None:
        """Keep an error to raise at the end, unless there is an earlier one."""
        self.error = self.error or error

    def finish(self) -> None:
        """Wait until all messages sent have left, then raise the error kept, if any.

        Raises:
            WirezipError: The error kept.
            CommError: A peer is lost or does not answer.
        """
        for outgoing in self._outgoing:
            try:
                outgoing.wait()
            except CommError as later:
                self._raise_first(later)
        self._outgoing.clear()
        if self.error is not None:
            raise self.error

    def record(self, logical_bytes: int) -> CollectiveRecord:
        """Return the report of this rank.

        Args:
            logical_bytes: Bytes of this rank's tensor.
        """
        codec = self.codec.name if self.num_raw < self.num_messages else "raw"
        return CollectiveRecord(
            logical_bytes, self.wire_bytes, codec, self.call.method, self.num_messages, self.num_raw
        )
