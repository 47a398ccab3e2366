"""`send` and `recv`: one tensor from one rank to another."""

from dataclasses import dataclass

import torch

from wirezip.codecs.base import Codec
from wirezip.comm.base import MAX_TAG, Communicator
from wirezip.errors import InputError
from wirezip.transfer.channel import open_endpoint, post
from wirezip.transfer.message import HEADER_BYTES, Call
from wirezip.transfer.payload import (
    check_codec,
    check_tensor,
    check_writable,
    encode_raw,
    flat_target,
    flat_values,
    write_through,
)
from wirezip.transfer.strategies import get_strategy


@dataclass(frozen=True)
class TransferRecord:
    """What one side of a transfer did.

    Attributes:
        logical_bytes: Bytes of the tensor.
        wire_bytes: Bytes that travelled, headers included; 0 for a send to oneself.
        codec: Codec that served it: the one asked for, or `raw`.
        strategy: Strategy that served it.
        peer: The other rank.
    """

    logical_bytes: int
    wire_bytes: int
    codec: str
    strategy: str
    peer: int


def send(
    comm: Communicator,
    tensor: torch.Tensor,
    dst: int,
    *,
    codec: str | Codec = "raw",
    strategy: str = "encode_send",
    tag: int = 0,
) -> TransferRecord:
    """Send a tensor to a rank, which must call `recv` with the same dtype, size, codec and strategy.

    Returns when the tensor may be changed again. A send to oneself is a local copy, made before
    this returns and kept until it is received.

    Args:
        comm: The group.
        tensor: CPU tensor of any shape and layout; its elements travel in logical order.
        dst: Rank in the group.
        codec: A codec name, `auto`, or a codec object; strategy `raw` takes only `raw` and `auto`.
        strategy: `raw` or `encode_send`.
        tag: Number that the receiver asks for.

    Returns:
        What was sent.

    Raises:
        InputError: An argument is not legal.
        CodecError: The codec is not known or does not take this dtype.
        CommError: The peer is lost or does not answer.
    """
    what = f"rank {comm.rank}: send to rank {dst}"
    _check_tag(tag, what)
    check_tensor(tensor, what)
    plan = get_strategy(strategy)
    chosen = plan.resolve(codec, tensor.dtype)
    check_codec(chosen, tensor.dtype, what)
    call = Call("send", strategy, chosen.name, tensor.dtype, tensor.numel())
    values = flat_values(tensor)
    endpoint = open_endpoint(comm, dst, tag)
    if dst == comm.rank:
        post(endpoint, call, encode_raw(values.clone(), checksum=False))
        return TransferRecord(tensor.nbytes, 0, "raw", strategy, dst)
    outgoing, served = plan.send(endpoint, call, values, chosen)
    outgoing.wait()
    return TransferRecord(tensor.nbytes, outgoing.wire_bytes, served, strategy, dst)


def recv(
    comm: Communicator,
    tensor: torch.Tensor,
    src: int,
    *,
    codec: str | Codec = "raw",
    strategy: str = "encode_send",
    tag: int = 0,
) -> TransferRecord:
    """Receive a tensor that a rank sends with the same dtype, size, codec and strategy.

    Args:
        comm: The group.
        tensor: CPU tensor of any shape and layout; overwritten, undefined after an error.
        src: Rank in the group.
        codec: A codec name, `auto`, or a codec object; strategy `raw` takes only `raw` and `auto`.
        strategy: `raw` or `encode_send`.
        tag: Number that the sender gave.

    Returns:
        What was received.

    Raises:
        InputError: An argument is not legal.
        CodecError: The codec is not known or does not take this dtype.
        MismatchError: The ranks disagree; the message is dropped and the next can be received.
        FrameError: The message is corrupt.
        CommError: The peer is lost or does not answer.
    """
    what = f"rank {comm.rank}: recv from rank {src}"
    _check_tag(tag, what)
    check_writable(tensor, what)
    plan = get_strategy(strategy)
    chosen = plan.resolve(codec, tensor.dtype)
    check_codec(chosen, tensor.dtype, what)
    call = Call("send", strategy, chosen.name, tensor.dtype, tensor.numel())
    values = flat_target(tensor)
    header = plan.recv(open_endpoint(comm, src, tag), call, values, chosen)
    write_through(values, tensor)
    wire_bytes = 0 if src == comm.rank else HEADER_BYTES + header.body_bytes
    return TransferRecord(tensor.nbytes, wire_bytes, header.served, strategy, src)


def _check_tag(tag: int, what: str) -> None:
    if not 0 <= tag <= MAX_TAG:
        raise InputError(f"{what}: a tag lies between 0 and {MAX_TAG}, got {tag}")
