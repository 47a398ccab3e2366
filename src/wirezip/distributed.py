"""torch.distributed's point-to-point and collective functions, with compression.

Names, argument order and return values are torch.distributed's; `codec` and `strategy` or
`algorithm` come on top. The functions work on CPU tensors over a gloo group, which must already be
initialised; all ranks of the group must use them, because the messages differ from torch's own.
"""

import threading
import weakref

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup, ReduceOp

from wirezip import collectives, transfer
from wirezip.codecs.base import Codec
from wirezip.comm.base import Communicator
from wirezip.comm.torchdist import TorchCommunicator
from wirezip.errors import InputError
from wirezip.transfer.payload import check_writable, flat_target, write_through

_OPS = {"SUM": "sum", "AVG": "avg", "MIN": "min", "MAX": "max", "PRODUCT": "product"}

_communicators: "weakref.WeakKeyDictionary[ProcessGroup, Communicator]" = weakref.WeakKeyDictionary()
_communicators_lock = threading.Lock()


def communicator_of(group: ProcessGroup | None = None) -> Communicator:
    """Return the communicator of a process group, made at its first use.

    Args:
        group: The group; the default group when None.

    Raises:
        InputError: torch.distributed is not initialised, this process is not in the group, or the
            group does not move CPU tensors.
    """
    group = dist.group.WORLD if group is None and dist.is_initialized() else group
    if not isinstance(group, ProcessGroup):
        return TorchCommunicator(group)
    with _communicators_lock:
        if group not in _communicators:
            _communicators[group] = TorchCommunicator(group)
        return _communicators[group]


def send(
    tensor: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
    *,
    codec: str | Codec = "auto",
    strategy: str = "encode_send",
) -> None:
    """Send a tensor; see `torch.distributed.send` and `wirezip.transfer.send`.

    Args:
        tensor: CPU tensor of any layout.
        dst: Global rank that receives; or give `group_dst`.
        group: The group; the default group when None.
        tag: Number that the receiver asks for.
        group_dst: Rank that receives, within the group.
        codec: A codec name, `auto`, or a codec object; the receiver names the same.
        strategy: Strategy; the receiver names the same.

    Raises:
        WirezipError: As `wirezip.transfer.send`.
    """
    comm = communicator_of(group)
    transfer.send(comm, tensor, _group_rank(group, dst, group_dst, "dst"), codec=codec, strategy=strategy, tag=tag)


def recv(
    tensor: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
    *,
    codec: str | Codec = "auto",
    strategy: str = "encode_send",
) -> int:
    """Receive a tensor; see `torch.distributed.recv` and `wirezip.transfer.recv`.

    Args:
        tensor: CPU tensor of any layout; overwritten.
        src: Global rank that sends; or give `group_src`. One of them is required.
        group: The group; the default group when None.
        tag: Number that the sender gave.
        group_src: Rank that sends, within the group.
        codec: A codec name, `auto`, or a codec object; the sender names the same.
        strategy: Strategy; the sender names the same.

    Returns:
        The global rank of the sender.

    Raises:
        WirezipError: As `wirezip.transfer.recv`.
    """
    comm = communicator_of(group)
    source = _group_rank(group, src, group_src, "src")
    transfer.recv(comm, tensor, source, codec=codec, strategy=strategy, tag=tag)
    return source if group is None else dist.get_global_rank(group, source)


def all_gather(
    tensor_list: list[torch.Tensor],
    tensor: torch.Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    *,
    codec: str | Codec = "auto",
    algorithm: str = "direct",
) -> None:
    """Gather every rank's tensor; see `torch.distributed.all_gather` and `wirezip.collectives.all_gather`.

    Args:
        tensor_list: One CPU tensor per rank, in any layout; overwritten.
        tensor: This rank's tensor.
        group: The group; the default group when None.
        async_op: Only False as yet.
        codec: A codec name, `auto`, or a codec object.
        algorithm: Algorithm.

    Raises:
        WirezipError: As `wirezip.collectives.all_gather`.
    """
    _refuse_async(async_op, "all_gather")
    collectives.all_gather(communicator_of(group), tensor_list, tensor, codec=codec, algorithm=algorithm)


def all_gather_into_tensor(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    *,
    codec: str | Codec = "auto",
    algorithm: str = "direct",
) -> None:
    """Gather every rank's tensor into one; see `torch.distributed.all_gather_into_tensor`.

    Args:
        output_tensor: CPU tensor of world size times the elements of `input_tensor`, in any layout:
            concatenated or stacked along the first dimension.
        input_tensor: This rank's tensor.
        group: The group; the default group when None.
        async_op: Only False as yet.
        codec: A codec name, `auto`, or a codec object.
        algorithm: Algorithm.

    Raises:
        WirezipError: As `wirezip.collectives.all_gather`.
    """
    _refuse_async(async_op, "all_gather_into_tensor")
    comm = communicator_of(group)
    numel = input_tensor.numel()
    if output_tensor.numel() != comm.world_size * numel:
        raise InputError(
            f"rank {comm.rank}: all_gather_into_tensor of {numel} elements on {comm.world_size} ranks needs an output "
            f"of {comm.world_size * numel} elements, got {output_tensor.numel()}"
        )
    check_writable(output_tensor, f"rank {comm.rank}: all_gather_into_tensor, output")
    target = flat_target(output_tensor)
    outputs = [target[rank * numel : (rank + 1) * numel] for rank in range(comm.world_size)]
    collectives.all_gather(comm, outputs, input_tensor, codec=codec, algorithm=algorithm)
    write_through(target, output_tensor)


def all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp | ReduceOp.RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    *,
    codec: str | Codec = "auto",
    algorithm: str = "two_shot",
) -> None:
    """Reduce a tensor on all ranks; see `torch.distributed.all_reduce` and `wirezip.collectives.all_reduce`.

    Args:
        tensor: CPU tensor of any layout, changed in place.
        op: SUM, AVG, MIN, MAX or PRODUCT.
        group: The group; the default group when None.
        async_op: Only False as yet.
        codec: A codec name, `auto`, or a codec object.
        algorithm: Algorithm.

    Raises:
        WirezipError: As `wirezip.collectives.all_reduce`.
    """
    _refuse_async(async_op, "all_reduce")
    name = next((ours for theirs, ours in _OPS.items() if op == getattr(ReduceOp, theirs)), None)
    if name is None:
        raise InputError(f"all_reduce: operation {op} is not supported; known: {', '.join(_OPS)}")
    collectives.all_reduce(communicator_of(group), tensor, op=name, codec=codec, algorithm=algorithm)


def _refuse_async(async_op: bool, what: str) -> None:
    if async_op:
        raise InputError(f"{what}: async_op=True is not supported as yet; the call returns when it is complete")


def _group_rank(group: ProcessGroup | None, global_rank: int | None, group_rank: int | None, role: str) -> int:
    """Return the rank within the group, of which the caller gave one form."""
    if (global_rank is None) == (group_rank is None):
        raise InputError(f"give either {role} or group_{role}, got {global_rank} and {group_rank}")
    if group_rank is not None:
        return group_rank
    assert global_rank is not None
    if group is None:
        return global_rank
    try:
        return dist.get_group_rank(group, global_rank)
    except ValueError as error:
        raise InputError(f"{role}={global_rank} is not in the group") from error
