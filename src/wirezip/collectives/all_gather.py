"""All-gather: every rank gets every rank's tensor."""

from collections.abc import Callable

import torch

from wirezip.codecs.base import Codec
from wirezip.codecs.framed import resolve_codec
from wirezip.collectives.exchange import Exchange
from wirezip.collectives.record import CollectiveRecord
from wirezip.comm.base import Communicator
from wirezip.errors import InputError
from wirezip.transfer.channel import collective_turn, uses_checksum
from wirezip.transfer.message import Call
from wirezip.transfer.payload import (
    check_codec,
    check_tensor,
    check_writable,
    encode,
    flat_target,
    flat_values,
    write_through,
)


def direct(exchange: Exchange, outputs: list[torch.Tensor], values: torch.Tensor) -> None:
    """Send this rank's elements to every peer.

    1. Post the receives.
    2. Encode once; send the same bytes to every peer.
    3. Decode what arrives, in rank order.

    Args:
        exchange: The messages of this rank.
        outputs: Per rank, a contiguous 1-D tensor; this rank's own is left alone.
        values: This rank's elements, contiguous and 1-D.

    Raises:
        WirezipError: As `all_gather`.
    """
    exchange.expect()
    message = encode(values, exchange.codec, checksum=uses_checksum(exchange.comm))
    for peer in exchange.peers:
        exchange.send(peer, message, step=0)
    awaited = exchange.accept(dict(enumerate(outputs)), step=0)
    for peer in sorted(awaited):
        exchange.take(awaited[peer])
    exchange.finish()


ALGORITHMS: dict[str, Callable[[Exchange, list[torch.Tensor], torch.Tensor], None]] = {"direct": direct}


def all_gather(
    comm: Communicator,
    outputs: list[torch.Tensor],
    tensor: torch.Tensor,
    *,
    codec: str | Codec = "raw",
    algorithm: str = "direct",
) -> CollectiveRecord:
    """Fill `outputs[r]` with the tensor of rank r, on every rank.

    All ranks name the same dtype, element count, codec and algorithm. This rank's own tensor is
    copied without the codec.

    Args:
        comm: The group.
        outputs: One CPU tensor per rank, of the dtype and element count of `tensor`, in any layout;
            undefined after an error.
        tensor: This rank's tensor, of any shape and layout; not changed.
        codec: A codec name, `auto`, or a codec object.
        algorithm: `direct`.

    Returns:
        What this rank did.

    Raises:
        InputError: An argument is not legal.
        CodecError: The codec is not known or does not take this dtype.
        MismatchError: The ranks disagree about the call; the group can be used again.
        FrameError: A message is corrupt.
        CommError: A peer is lost, gave up or does not answer.
    """
    what = f"rank {comm.rank}: all_gather"
    if algorithm not in ALGORITHMS:
        raise InputError(f"{what}: unknown algorithm {algorithm!r}; known: {', '.join(ALGORITHMS)}")
    check_tensor(tensor, what)
    _check_outputs(outputs, tensor, comm.world_size, what)
    chosen = resolve_codec(codec, tensor.dtype)
    check_codec(chosen, tensor.dtype, what)
    values = flat_values(tensor)
    if any(rank != comm.rank and _overlap(tensor, output) for rank, output in enumerate(outputs)):
        # What a peer sends would arrive in these elements while they are still being sent.
        values = values.clone()
    targets = [flat_target(output) for output in outputs]
    exchange = Exchange(comm, Call("all_gather", algorithm, chosen.name, tensor.dtype, tensor.numel()), chosen)
    with collective_turn(comm):
        ALGORITHMS[algorithm](exchange, targets, values)
    targets[comm.rank].copy_(values)
    for target, output in zip(targets, outputs, strict=True):
        write_through(target, output)
    return exchange.record(tensor.nbytes)


def _overlap(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether the address ranges of two tensors meet; they may do so without sharing an element."""
    if not tensor.numel() or not other.numel():
        return False
    (start, end), (other_start, other_end) = _address_range(tensor), _address_range(other)
    return start < other_end and other_start < end


def _address_range(tensor: torch.Tensor) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.itemsize


def _check_outputs(outputs: list[torch.Tensor], tensor: torch.Tensor, world_size: int, what: str) -> None:
    if len(outputs) != world_size:
        raise InputError(f"{what}: expected one output per rank, {world_size} in all, got {len(outputs)}")
    for rank, output in enumerate(outputs):
        check_writable(output, f"{what}, output {rank}")
        if output.dtype != tensor.dtype or output.numel() != tensor.numel():
            raise InputError(
                f"{what}: expected output {rank} as {tensor.numel()} elements of {tensor.dtype}, "
                f"got {output.numel()} of {output.dtype}"
            )
