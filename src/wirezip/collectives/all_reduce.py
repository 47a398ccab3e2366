"""All-reduce: every rank gets the combination of all ranks' tensors."""

from collections.abc import Callable

import torch

from wirezip.codecs.base import Codec
from wirezip.codecs.framed import resolve_codec
from wirezip.collectives import reduction
from wirezip.collectives.exchange import Awaited, Exchange
from wirezip.collectives.record import CollectiveRecord
from wirezip.comm.base import Communicator
from wirezip.errors import InputError
from wirezip.transfer.channel import collective_turn, uses_checksum
from wirezip.transfer.message import Call
from wirezip.transfer.payload import (
    Payload,
    check_codec,
    check_writable,
    encode,
    flat_target,
    flat_values,
    write_through,
)


def two_shot(exchange: Exchange, values: torch.Tensor, result: torch.Tensor, op: str) -> None:
    """Reduce-scatter, then all-gather, each element encoded twice in all however many ranks there are.

    1. Cut the elements into one shard per rank, the first ones larger by one where it must be.
    2. Encode each peer's shard and send it to that peer; decode the peers' parts of the own shard.
    3. Combine them in rank order as `reduction` says, and round once.
    4. Encode the reduced shard once and send the same bytes to every peer; decode theirs.

    Args:
        exchange: The messages of this rank.
        values: This rank's elements, contiguous and 1-D.
        result: Where the result goes, contiguous and 1-D; may be the memory of `values`, because a
            peer's reduced shard arrives only after that peer has received this rank's part of it.
        op: Name of the operation.

    Raises:
        WirezipError: As `all_reduce`.

    Source:
        UCCL-Zip, collectives (two-shot, one recompression).
    """
    checksum = uses_checksum(exchange.comm)
    rank, world_size = exchange.comm.rank, exchange.comm.world_size
    shards, reduced_shards = values.tensor_split(world_size), result.tensor_split(world_size)
    exchange.expect()
    for peer in exchange.peers:
        exchange.send(peer, encode(shards[peer], exchange.codec, checksum=checksum), step=0)
    parts = {peer: torch.empty_like(shards[rank]) for peer in exchange.peers}
    awaited = exchange.accept(parts, step=0)
    reduced = _reduce_parts(exchange, awaited, shards[rank], op)

    exchange.expect()
    if exchange.error is None:
        own = reduced_shards[rank].copy_(reduced)
        message = encode(own, exchange.codec, checksum=checksum)
        for peer in exchange.peers:
            exchange.send(peer, message, step=1)
        _keep_as_peers_see_it(exchange.codec, message, own)
    else:
        exchange.abort(step=1)
    awaited = exchange.accept(dict(enumerate(reduced_shards)), step=1)
    for peer in sorted(awaited):
        exchange.take(awaited[peer])
    exchange.finish()


def _reduce_parts(exchange: Exchange, awaited: dict[int, Awaited], own: torch.Tensor, op: str) -> torch.Tensor:
    """Combine the parts of the own shard in rank order; what is returned is meaningless after an error."""
    total: torch.Tensor | None = None
    for rank in range(exchange.comm.world_size):
        values = own
        if rank in awaited:
            exchange.take(awaited[rank])
            values = awaited[rank].out
        if total is None:
            # A part is this call's own memory and may become the accumulator; the caller's may not.
            total = values.to(reduction.work_dtype(own.dtype)) if rank in awaited else reduction.start(values)
        else:
            reduction.combine(op, total, values)
    assert total is not None
    return reduction.finish(op, total, own.dtype, exchange.comm.world_size)


def _keep_as_peers_see_it(codec: Codec, message: Payload, own: torch.Tensor) -> None:
    """Put what a lossy codec made of the reduced shard in its place, so that all ranks hold the same bits."""
    if not codec.lossless and message.served == codec.name:
        codec.decode(message.body, own)


ALGORITHMS: dict[str, Callable[[Exchange, torch.Tensor, torch.Tensor, str], None]] = {"two_shot": two_shot}


def all_reduce(
    comm: Communicator,
    tensor: torch.Tensor,
    *,
    op: str = "sum",
    codec: str | Codec = "raw",
    algorithm: str = "two_shot",
) -> CollectiveRecord:
    """Combine the tensors of all ranks and leave the result in each of them.

    Every rank ends with the same bits. With a lossless codec they are those of
    `reference.all_reduce_reference`, whatever the codec; a group of one rank keeps its tensor as it
    is. All ranks name the same operation, dtype, element count, codec and algorithm.

    Args:
        comm: The group.
        tensor: CPU tensor of any shape and layout, changed in place; undefined after an error.
        op: `sum`, `avg`, `min`, `max` or `product`.
        codec: A codec name, `auto`, or a codec object.
        algorithm: `two_shot`.

    Returns:
        What this rank did.

    Raises:
        InputError: An argument is not legal.
        CodecError: The codec is not known or does not take this dtype.
        MismatchError: The ranks disagree about the call; the group can be used again.
        FrameError: A message is corrupt.
        CommError: A peer is lost, gave up or does not answer.
    """
    what = f"rank {comm.rank}: all_reduce"
    if algorithm not in ALGORITHMS:
        raise InputError(f"{what}: unknown algorithm {algorithm!r}; known: {', '.join(ALGORITHMS)}")
    check_writable(tensor, what)
    reduction.check_op(op, tensor.dtype, what)
    chosen = resolve_codec(codec, tensor.dtype)
    check_codec(chosen, tensor.dtype, what)
    call = Call(f"all_reduce.{op}", algorithm, chosen.name, tensor.dtype, tensor.numel())
    exchange = Exchange(comm, call, chosen)
    if comm.world_size > 1:
        result = flat_target(tensor)
        with collective_turn(comm):
            ALGORITHMS[algorithm](exchange, flat_values(tensor), result, op)
        write_through(result, tensor)
    return exchange.record(tensor.nbytes)
