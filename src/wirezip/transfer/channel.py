"""Messages between two ranks: a header, then the body in pieces, with the checks on arrival.

A body is cut into pieces of `PIECE_BYTES`, so that a receiver who finds that it cannot use a
message can let it pass through a small buffer: the sender does not hang, and the next message is
read from its beginning.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from wirezip import settings
from wirezip.codecs.base import Codec
from wirezip.comm.base import MAX_TAG, Communicator, Pending
from wirezip.comm.threads import Hub, LoopbackCommunicator
from wirezip.errors import CommError, FrameError, InputError, MismatchError, WirezipError
from wirezip.transfer import payload
from wirezip.transfer.message import HEADER_BYTES, Call, MessageHeader, unpack
from wirezip.transfer.payload import EMPTY, Payload

PIECE_BYTES = 16 << 20


@dataclass
class Channel:
    """The state of the messages between this rank and a peer with one tag.

    Attributes:
        send_lock: Held while a message is posted, so that headers and bodies do not mix.
        receive_lock: Held while a message is received.
        num_sent: Messages sent.
        num_received: Messages received.
        send_lost: Why the peer may no longer know where a message starts; empty while it does.
        receive_lost: Why the next octets are no longer known to start a message; empty while they are.
    """

    send_lock: threading.Lock = field(default_factory=threading.Lock)
    receive_lock: threading.Lock = field(default_factory=threading.Lock)
    num_sent: int = 0
    num_received: int = 0
    send_lost: str = ""
    receive_lost: str = ""


@dataclass
class _GroupState:
    """What transfers keep per communicator; holds no reference to it."""

    loopback: Communicator
    checksum: bool
    channels: dict[tuple[int, int], Channel] = field(default_factory=dict)
    collective_lock: threading.Lock = field(default_factory=threading.Lock)


_states: "weakref.WeakKeyDictionary[Communicator, _GroupState]" = weakref.WeakKeyDictionary()
_states_lock = threading.Lock()


def _state_of(comm: Communicator) -> _GroupState:
    with _states_lock:
        if comm not in _states:
            loopback = LoopbackCommunicator(Hub(), comm.rank, comm.world_size, comm.timeout_s)
            _states[comm] = _GroupState(loopback, settings.read().message_checksum)
        return _states[comm]


@contextmanager
def collective_turn(comm: Communicator) -> Iterator[None]:
    """Let one collective at a time use a communicator, so that the messages of two do not mix."""
    with _state_of(comm).collective_lock:
        yield


def uses_checksum(comm: Communicator) -> bool:
    """Return whether messages of this communicator carry a checksum (read from the settings once)."""
    return _state_of(comm).checksum


@dataclass(frozen=True)
class Endpoint:
    """This rank's end of a channel.

    Attributes:
        comm: Carries the octets.
        peer: The other rank, or this one.
        tag: Tag of the messages.
        channel: Shared by all endpoints of this communicator, peer and tag.
    """

    comm: Communicator
    peer: int
    tag: int
    channel: Channel


def open_endpoint(comm: Communicator, peer: int, tag: int) -> Endpoint:
    """Return this rank's end of the channel to a peer.

    Args:
        comm: The group; a channel to this rank itself does not touch it.
        peer: A rank of the group.
        tag: Tag of the messages.

    Raises:
        InputError: There is no such rank or tag.
    """
    if not 0 <= peer < comm.world_size:
        raise InputError(f"rank {comm.rank}: there is no rank {peer} in a group of {comm.world_size}")
    if not 0 <= tag <= MAX_TAG + 1:
        raise InputError(f"rank {comm.rank}: a tag lies between 0 and {MAX_TAG}, got {tag}")
    state = _state_of(comm)
    with _states_lock:
        channel = state.channels.setdefault((peer, tag), Channel())
    return Endpoint(state.loopback if peer == comm.rank else comm, peer, tag, channel)


@dataclass
class Outgoing:
    """A message that has been posted.

    Attributes:
        pendings: The sends of the header and the pieces.
        wire_bytes: Bytes of header and body.
        octets: What is being sent, kept until it has left.
        channel: Its channel, which is lost if the message does not leave whole.
    """

    pendings: list[Pending]
    wire_bytes: int
    octets: tuple[torch.Tensor, torch.Tensor]
    channel: Channel

    def wait(self) -> None:
        """Wait until the message has left; see `Pending.wait`."""
        try:
            for pending in self.pendings:
                pending.wait()
        except CommError as error:
            self.channel.send_lost = f"a message did not leave ({error})"
            raise


def post(endpoint: Endpoint, call: Call, message: Payload, *, step: int = 0, is_abort: bool = False) -> Outgoing:
    """Post a message.

    Args:
        endpoint: Where it goes.
        call: What this rank was asked for.
        message: The body.
        step: Step of the algorithm.
        is_abort: Whether this rank gave up and this stands for the message expected.

    Raises:
        CommError: The transport refuses it, or an earlier message did not leave.
    """
    comm, peer, tag, channel = endpoint.comm, endpoint.peer, endpoint.tag, endpoint.channel
    body_bytes = message.body.numel()
    with channel.send_lock:
        if channel.send_lost:
            raise CommError(f"rank {comm.rank} cannot send to rank {peer} (tag {tag}) any more: {channel.send_lost}")
        sequence, served = channel.num_sent, message.served
        numel, checksum = message.numel, message.checksum
        header = MessageHeader(
            call, comm.rank, peer, tag, step, sequence, numel, served, body_bytes, checksum, is_abort
        )
        packed = torch.frombuffer(bytearray(header.pack()), dtype=torch.uint8)
        channel.num_sent += 1
        pieces = message.body.split(PIECE_BYTES) if body_bytes else ()
        try:
            pendings = [comm.isend(octets, peer, tag) for octets in (packed, *pieces)]
        except BaseException as error:
            # Part of the message may be on its way, whatever it was that kept the rest.
            channel.send_lost = f"a message was not posted whole ({error})"
            raise
    return Outgoing(pendings, HEADER_BYTES + body_bytes, (packed, message.body), channel)


def post_abort(endpoint: Endpoint, call: Call, step: int) -> Outgoing:
    """Tell a peer that the message it expects will not come, in the place of that message.

    Args:
        endpoint: Where it goes.
        call: What this rank was asked for.
        step: Step of the message that is replaced.

    Raises:
        CommError: The transport refuses it.
    """
    return post(endpoint, call, EMPTY, step=step, is_abort=True)


class Incoming:
    """A message that is awaited: post, read the header, take or drop the body.

    The caller holds the channel's `receive_lock`, or otherwise keeps other receivers away, from
    construction until `take` has returned or a method has raised.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Post the receive of the header.

        Args:
            endpoint: Where the message comes from.

        Raises:
            CommError: The transport refuses it, or an earlier error lost the place in the stream.
        """
        comm, peer, tag = endpoint.comm, endpoint.peer, endpoint.tag
        if lost := endpoint.channel.receive_lost:
            raise CommError(f"rank {comm.rank} cannot receive from rank {peer} (tag {tag}) any more: {lost}")
        self.endpoint = endpoint
        self._packed = torch.empty(HEADER_BYTES, dtype=torch.uint8)
        self._pending = comm.irecv(self._packed, peer, tag)
        self._pieces: list[Pending] = []

    def read_header(self) -> MessageHeader:
        """Wait for the header.

        Raises:
            CommError: The peer did not send it.
            CorruptFrameError: It is damaged; the channel cannot be used any more.
        """
        channel = self.endpoint.channel
        try:
            self._pending.wait()
            return unpack(self._packed.numpy().tobytes())
        except FrameError as error:
            channel.receive_lost = f"message {channel.num_received} was not understood ({error})"
            raise _located(error, self.endpoint) from error

    def check(self, header: MessageHeader, call: Call, numel: int, step: int) -> None:
        """Compare a header with what this rank expects.

        Args:
            header: The header that came.
            call: What this rank was asked for.
            numel: Elements expected.
            step: Step of the algorithm expected.

        Raises:
            MismatchError: The ranks disagree; the body is still to be dropped.
            CommError: The peer gave up.
        """
        endpoint, channel = self.endpoint, self.endpoint.channel
        expected = (endpoint.peer, endpoint.comm.rank, endpoint.tag, step, channel.num_received, numel)
        came = (header.source, header.destination, header.tag, header.step, header.sequence, header.numel)
        names = ("source", "destination", "tag", "step", "sequence", "message elements")
        # The next message is numbered from this one, so one that was lost is reported once.
        channel.num_received = header.sequence + 1
        differing = call.differences(header.call)
        if header.is_abort and not differing:
            raise CommError(f"rank {endpoint.peer} gave up in {call}; rank {endpoint.comm.rank} was waiting for it")
        pairs = zip(names, expected, came, strict=True)
        differing += [f"{name} ({here} here, {there} there)" for name, here, there in pairs if here != there]
        if differing:
            raise MismatchError(
                f"rank {endpoint.comm.rank} expects {call}; rank {endpoint.peer} sent {header.call}; "
                f"they differ in {', '.join(differing)}"
            )

    def drop_body(self, header: MessageHeader, reason: WirezipError) -> None:
        """Receive the body into a small buffer and forget it.

        Args:
            header: Header of the message.
            reason: Why it is of no use.

        Raises:
            WirezipError: The reason, if the peer did not send the body; the channel cannot be used any more.
        """
        comm, peer, tag = self.endpoint.comm, self.endpoint.peer, self.endpoint.tag
        scratch = torch.empty(min(PIECE_BYTES, header.body_bytes), dtype=torch.uint8)
        try:
            with self._in_step():
                for start in range(0, header.body_bytes, PIECE_BYTES):
                    comm.irecv(scratch[: header.body_bytes - start], peer, tag).wait()
        except CommError as later:
            # A peer that was out of step may well not go on; what was wrong first says more.
            raise reason from later

    def start_body(self, header: MessageHeader, out: torch.Tensor, codec: Codec) -> torch.Tensor:
        """Post the receive of the body, straight into `out` when it is raw.

        Args:
            header: The header, which `check` accepted.
            out: Contiguous 1-D tensor for the elements.
            codec: The codec asked for.

        Returns:
            Where the body will be.

        Raises:
            CorruptFrameError: The size declared is impossible; the channel cannot be used any more.
            CommError: The transport refuses it.
        """
        comm, peer, tag = self.endpoint.comm, self.endpoint.peer, self.endpoint.tag
        try:
            payload.check_plausible(header, codec)
        except FrameError as error:
            self.endpoint.channel.receive_lost = str(error)
            raise _located(error, self.endpoint) from error
        in_place = header.served == "raw"
        body = out.view(torch.uint8) if in_place else torch.empty(header.body_bytes, dtype=torch.uint8)
        self._pieces = [comm.irecv(piece, peer, tag) for piece in (body.split(PIECE_BYTES) if body.numel() else ())]
        return body

    def take(self, header: MessageHeader, body: torch.Tensor, out: torch.Tensor, codec: Codec) -> None:
        """Wait for the body and decode it.

        Args:
            header: The header.
            body: What `start_body` returned.
            out: Contiguous 1-D tensor for the elements.
            codec: The codec asked for.

        Raises:
            CommError: The peer did not send it.
            FrameError: It is corrupt; the channel remains in step.
        """
        with self._in_step():
            for pending in self._pieces:
                pending.wait()
        try:
            payload.decode(header, body, out, codec)
        except FrameError as error:
            raise _located(error, self.endpoint) from error

    @contextmanager
    def _in_step(self) -> Iterator[None]:
        """Note that the place in the stream is lost if a body stays away."""
        try:
            yield
        except CommError as error:
            self.endpoint.channel.receive_lost = f"the body of a message did not come ({error})"
            raise


def _located(error: FrameError, endpoint: Endpoint) -> FrameError:
    """Return the error with both ranks named."""
    return type(error)(f"rank {endpoint.comm.rank}, message from rank {endpoint.peer} (tag {endpoint.tag}): {error}")


def receive(endpoint: Endpoint, call: Call, out: torch.Tensor, codec: Codec) -> MessageHeader:
    """Receive one message whole.

    Args:
        endpoint: Where it comes from.
        call: What this rank was asked for.
        out: Contiguous 1-D tensor for the elements.
        codec: The codec asked for.

    Returns:
        The header.

    Raises:
        MismatchError: The ranks disagree; the message has been dropped and the next can be received.
        FrameError: The message is corrupt.
        CommError: The peer did not send it.
    """
    with endpoint.channel.receive_lock:
        incoming = Incoming(endpoint)
        header = incoming.read_header()
        try:
            incoming.check(header, call, out.numel(), 0)
        except CommError as error:
            incoming.drop_body(header, error)
            raise
        incoming.take(header, incoming.start_body(header, out, codec), out, codec)
        return header
