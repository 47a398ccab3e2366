"""Octets over a torch.distributed process group whose backend takes CPU tensors (gloo)."""

import re
import weakref
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import default_pg_timeout

from wirezip import settings
from wirezip.comm.base import Communicator, Operation, Pending
from wirezip.errors import CommError, CommTimeoutError, InputError, PeerLostError

# What gloo says, in lower case. It closes every connection of the group after a timeout, hence "pair closure".
_TIMEOUT_TEXTS = ("timed out", "timeout")
_LOST_TEXTS = ("closed", "reset by peer", "broken pipe", "connection refused", "connection aborted", "socket")


def translated(error: Exception, operation: Operation, timeout_s: float) -> CommError:
    """Return the wirezip error that says what a torch exception means.

    Args:
        error: What torch raised.
        operation: What was being done.
        timeout_s: The timeout, in seconds.
    """
    text = str(error).lower()
    # gloo puts its source line before the reason and advice after it; torch may append a C++ stack trace.
    reason = re.sub(r"^\[\S+\] |\. This is typically.*", "", str(error).split("\n", 1)[0])
    if any(part in text for part in _TIMEOUT_TEXTS):
        return CommTimeoutError(f"{operation}: no answer within {timeout_s:g} s ({reason})")
    if any(part in text for part in _LOST_TEXTS):
        return PeerLostError(f"{operation}: the connection is lost ({reason})")
    return CommError(f"{operation}: {reason}")


def group_timeout_s(group: dist.ProcessGroup) -> float:
    """Return the timeout that a process group was made with, in seconds.

    Args:
        group: A group that moves CPU tensors.
    """
    # Only backends of torch's own have options; MPI waits for ever, and is given torch's default.
    options = getattr(group._get_backend(torch.device("cpu")), "options", None)
    timeout: timedelta = getattr(options, "_timeout", default_pg_timeout)
    return timeout.total_seconds()


class _TorchPending(Pending):
    """A torch Work with the tensor it uses kept alive."""

    def __init__(self, post: Callable[[], dist.Work | None], operation: Operation, timeout_s: float) -> None:
        self._operation, self._timeout_s = operation, timeout_s
        try:
            work = post()
        except Exception as error:
            raise translated(error, operation, timeout_s) from error
        if work is None:
            raise CommError(f"{operation}: this process is not in the group")
        self._work = work

    def wait(self) -> None:
        """See `Pending.wait`."""
        try:
            self._work.wait(timedelta(seconds=self._timeout_s))
        except Exception as error:
            raise translated(error, self._operation, self._timeout_s) from error


class TorchCommunicator(Communicator):
    """A process group's end at this rank.

    The group is held weakly: whoever made it decides when it ends, and gloo aborts a process that
    exits while something still holds a destroyed group.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, timeout_s: float | None = None) -> None:
        """Wrap a group.

        Args:
            group: The group; the default group when None.
            timeout_s: Longest wait for a peer, in seconds; when None that of the settings, or the
                group's own if the settings leave it open.

        Raises:
            InputError: torch.distributed is not initialised, this process is not in the group, or
                its backend does not move CPU tensors point to point.
        """
        if not dist.is_initialized():
            raise InputError("torch.distributed is not initialised: call init_process_group first")
        group = dist.group.WORLD if group is None else group
        if group is None or dist.get_rank(group) < 0:
            raise InputError(f"process {dist.get_rank()} is not in the group")
        config = str(dist.get_backend_config(group))
        if not any(backend in config for backend in ("gloo", "mpi")):
            raise InputError(f"a group that moves CPU tensors was expected (gloo); its backends are {config}")
        self._group = weakref.ref(group)
        self._rank, self._world_size = dist.get_rank(group), dist.get_world_size(group)
        self._name = str(dist.get_backend(group))
        timeout_s = settings.read().timeout_s if timeout_s is None else timeout_s
        self._timeout_s = group_timeout_s(group) if timeout_s is None else timeout_s

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
        """The group's backend."""
        return self._name

    @property
    def timeout_s(self) -> float:
        """Longest wait for a peer, in seconds."""
        return self._timeout_s

    def isend(self, octets: torch.Tensor, dst: int, tag: int = 0) -> Pending:
        """Post a send; see `Communicator.isend`."""
        operation = self.operation("send to", octets, dst, tag)
        group = self._live_group(operation)
        return _TorchPending(
            lambda: dist.isend(octets, group=group, tag=tag, group_dst=dst), operation, self._timeout_s
        )

    def irecv(self, octets: torch.Tensor, src: int, tag: int = 0) -> Pending:
        """Post a receive; see `Communicator.irecv`."""
        operation = self.operation("receive from", octets, src, tag)
        group = self._live_group(operation)
        return _TorchPending(
            lambda: dist.irecv(octets, group=group, tag=tag, group_src=src), operation, self._timeout_s
        )

    def _live_group(self, operation: Operation) -> dist.ProcessGroup:
        group = self._group()
        if group is None:
            raise CommError(f"{operation}: the process group has been destroyed")
        return group
