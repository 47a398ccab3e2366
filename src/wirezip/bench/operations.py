"""The operations that can be measured: their data, their plain form, their wirezip form, what is right.

One object holds the buffers of one cell on one rank. To add an operation, write a subclass and a line
in `OPERATIONS`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from wirezip.bench import datasets
from wirezip.bench.bandwidth import bus_factor
from wirezip.bench.metrics import require_exact
from wirezip.errors import CodecError, InputError
from wirezip.floats import dtype_name

if TYPE_CHECKING:
    from wirezip.comm import Communicator

# A pattern no result consists of, so that a call that writes nothing is found out.
_POISON = 0xA5


@dataclass(frozen=True)
class Route:
    """How an operation is carried out.

    Attributes:
        codec: Codec name; `none` for the backend's own call.
        algorithm: Algorithm of a collective; None for p2p.
        strategy: Strategy of p2p; None for collectives; `plain` for the backend's own call.
    """

    codec: str
    algorithm: str | None = None
    strategy: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.codec, self.algorithm, self.strategy) if part)


PLAIN = Route("none", None, "plain")


# Dtypes that gloo adds up; the fp8 types it refuses.
_GLOO_SUMS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def has_plain(op: str, dtype: torch.dtype) -> bool:
    """Return whether the plain backend carries out an operation on a dtype.

    Args:
        op: Operation.
        dtype: Dtype of the tensor.
    """
    return op != AllReduce.name or dtype in _GLOO_SUMS


def raw_route(op: str) -> Route:
    """Return the route that carries an operation through wirezip without compression.

    Args:
        op: Operation.
    """
    if op == PointToPoint.name:
        return Route("raw", None, "raw")
    return Route("raw", OPERATIONS[op].default_algorithm)


@dataclass(frozen=True)
class Traffic:
    """What one rank sent in one call.

    Attributes:
        wire_bytes: Bytes sent, metadata included.
        served_by: What the library says did the work.
        went_raw: Whether a codec was asked for and this rank sent without it all the same.
    """

    wire_bytes: int
    served_by: str
    went_raw: bool = False


@dataclass(frozen=True)
class Setup:
    """What an operation is made of.

    Attributes:
        comm: Communicator over the link.
        rank: This rank.
        world_size: Number of ranks.
        data: Dataset name.
        dtype: Dtype of generated data; None for the dataset's own.
        num_bytes: Logical bytes; None for the natural size of the real data.
        seed: Seed of generated and derived data.
    """

    comm: "Communicator"
    rank: int
    world_size: int
    data: str
    dtype: torch.dtype | None
    num_bytes: int | None
    seed: int


class Operation(ABC):
    """One operation on this rank."""

    name: ClassVar[str]
    plain_name: ClassVar[str]
    default_algorithm: ClassVar[str | None] = None
    values: torch.Tensor | None
    note: str
    logical_bytes: int

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @property
    def sample_dtype(self) -> str:
        """Name of the dtype of the data."""
        return dtype_name(self.expected().dtype)

    @abstractmethod
    def raw_bytes(self) -> int:
        """Return the bytes of tensors that this rank sends when nothing is compressed."""

    @abstractmethod
    def prepare(self) -> None:
        """Poison the output and restore the input; not timed."""

    @abstractmethod
    def run_plain(self) -> None:
        """Make the backend's own call."""

    @abstractmethod
    def run(self, route: Route) -> Traffic:
        """Make the wirezip call, and return what this rank sent."""

    @abstractmethod
    def result(self) -> torch.Tensor | None:
        """Return this rank's result as one tensor, or None when it receives nothing."""

    @abstractmethod
    def expected(self) -> torch.Tensor:
        """Return what the stated algorithm gives."""

    def truth(self) -> torch.Tensor:
        """Return the fp64 reference."""
        return self.expected().double()

    def verify_plain(self) -> None:
        """Check the result of the plain call."""
        self.verify(PLAIN)

    def verify(self, route: Route) -> None:
        """Check the result of the wirezip call bit by bit.

        Args:
            route: How it was made, for the message.

        Raises:
            CodecError: The result is wrong.
        """
        result = self.result()
        if result is not None:
            require_exact(result, self.expected(), f"{self.name} of {self.setup.data} by {route}")


def _poison(tensor: torch.Tensor) -> None:
    tensor.view(torch.uint8).fill_(_POISON)


class PointToPoint(Operation):
    """Rank 0 sends to rank 1."""

    name = "p2p"
    plain_name = "gloo send/recv"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.world_size != 2:
            raise InputError(f"p2p takes 2 ranks, got {setup.world_size}")
        sample = datasets.load(setup.data, num_bytes=setup.num_bytes, dtype=setup.dtype, seed=setup.seed)
        self.values = sample.values if setup.rank == 0 else None
        self.note = datasets.describe([sample])
        self.logical_bytes = sample.values.nbytes
        self._sent = sample.values
        self._received = torch.empty_like(sample.values)

    def raw_bytes(self) -> int:
        """Return the tensor's bytes on rank 0."""
        return self._sent.nbytes if self.setup.rank == 0 else 0

    def prepare(self) -> None:
        """Poison the receiver's buffer."""
        _poison(self._received)

    def run_plain(self) -> None:
        """Send or receive with torch.distributed."""
        import torch.distributed as dist

        if self.setup.rank == 0:
            dist.send(self._sent.view(torch.uint8), dst=1)
        else:
            dist.recv(self._received.view(torch.uint8), src=0)

    def run(self, route: Route) -> Traffic:
        """Send or receive with wirezip."""
        from wirezip import transfer

        call, tensor = (transfer.send, self._sent) if self.setup.rank == 0 else (transfer.recv, self._received)
        record = call(
            self.setup.comm, tensor, 1 - self.setup.rank, codec=route.codec, strategy=route.strategy or "encode_send"
        )
        served_by = f"{record.codec}/{record.strategy}"
        # Both sides report the same message; it is counted once.
        if self.setup.rank != 0:
            return Traffic(0, served_by)
        return Traffic(record.wire_bytes, served_by, went_raw=record.codec != route.codec)

    def result(self) -> torch.Tensor | None:
        """Return what rank 1 received."""
        return self._received if self.setup.rank == 1 else None

    def expected(self) -> torch.Tensor:
        """Return what rank 0 sent."""
        return self._sent


class AllGather(Operation):
    """Every rank hands its part to every other; the logical bytes are those of all parts together."""

    name = "all_gather"
    plain_name = "gloo all_gather"
    default_algorithm = "direct"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        parts = [_part(setup, rank, setup.world_size) for rank in range(setup.world_size)]
        self.values, self.note = parts[setup.rank].values, datasets.describe(parts)
        self._expected = torch.cat([part.values for part in parts])
        self.logical_bytes = self._expected.nbytes
        self._gathered = torch.empty_like(self._expected)
        self._outputs = list(self._gathered.chunk(setup.world_size))

    def raw_bytes(self) -> int:
        """Return this rank's part to every other rank."""
        assert self.values is not None
        return self.values.nbytes * (self.setup.world_size - 1)

    def prepare(self) -> None:
        """Poison the gathered parts."""
        _poison(self._gathered)

    def run_plain(self) -> None:
        """Gather with torch.distributed."""
        import torch.distributed as dist

        assert self.values is not None
        dist.all_gather([output.view(torch.uint8) for output in self._outputs], self.values.view(torch.uint8))

    def run(self, route: Route) -> Traffic:
        """Gather with wirezip."""
        from wirezip import collectives

        assert self.values is not None
        assert route.algorithm is not None
        record = collectives.all_gather(
            self.setup.comm, self._outputs, self.values, codec=route.codec, algorithm=route.algorithm
        )
        return Traffic(record.wire_bytes, f"{record.codec}/{record.algorithm}", went_raw=record.codec != route.codec)

    def result(self) -> torch.Tensor:
        """Return all parts as gathered."""
        return self._gathered

    def expected(self) -> torch.Tensor:
        """Return all parts as loaded."""
        return self._expected


class AllReduce(Operation):
    """Sum over ranks, in place."""

    name = "all_reduce"
    plain_name = "gloo all_reduce"
    default_algorithm = "two_shot"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        parts = [_part(setup, rank, 1) for rank in range(setup.world_size)]
        self.values, self.note = parts[setup.rank].values, datasets.describe(parts)
        if not self.values.is_floating_point():
            raise InputError(f"bench all_reduce sums float tensors, got {self.values.dtype}")
        self._inputs = [part.values for part in parts]
        self._expected = _sum_in_rank_order(self._inputs)
        self.logical_bytes = self.values.nbytes
        self._tensor = self.values.clone()

    def raw_bytes(self) -> int:
        """Return 2 (n - 1) / n of the tensor."""
        return round(self.logical_bytes * bus_factor(self.name, self.setup.world_size))

    def prepare(self) -> None:
        """Restore the input, which the last call replaced by the sum."""
        assert self.values is not None
        self._tensor.copy_(self.values)

    def run_plain(self) -> None:
        """Reduce with torch.distributed."""
        import torch.distributed as dist

        dist.all_reduce(self._tensor)

    def run(self, route: Route) -> Traffic:
        """Reduce with wirezip."""
        from wirezip import collectives

        assert route.algorithm is not None
        record = collectives.all_reduce(
            self.setup.comm, self._tensor, op="sum", codec=route.codec, algorithm=route.algorithm
        )
        return Traffic(record.wire_bytes, f"{record.codec}/{record.algorithm}", went_raw=record.codec != route.codec)

    def result(self) -> torch.Tensor:
        """Return the sum."""
        return self._tensor

    def expected(self) -> torch.Tensor:
        """Return the sum in fp32 in rank order, rounded once."""
        return self._expected

    def truth(self) -> torch.Tensor:
        """Return the sum in fp64."""
        return torch.stack([part.double() for part in self._inputs]).sum(dim=0)

    def verify_plain(self) -> None:
        """Check the backend's sum, whose order of additions is its own, against the rounding it may make.

        Raises:
            CodecError: An element is further from the fp64 sum than one rounding per addition allows.
        """
        epsilon = torch.finfo(self._tensor.dtype).eps
        magnitude = torch.stack([part.double().abs() for part in self._inputs]).sum(dim=0)
        tiny = torch.finfo(self._tensor.dtype).smallest_normal
        allowed = self.setup.world_size * (epsilon * magnitude + tiny)
        truth = self.truth()
        # A sum near the largest number may be infinity or not, by the order of the additions.
        near_overflow = magnitude > torch.finfo(self._tensor.dtype).max * (1 - self.setup.world_size * epsilon)
        wrong = ((self._tensor.double() - truth).abs() > allowed) & ~near_overflow
        if bool(wrong.any()):
            raise CodecError(f"{self.plain_name} of {self.setup.data}: {int(wrong.sum())} elements are wrong")


def _part(setup: Setup, rank: int, num_shares: int) -> datasets.Sample:
    # Without a size, the ranks share out the real data there are.
    num_bytes = None if setup.num_bytes is None else setup.num_bytes // num_shares
    return datasets.load(
        setup.data,
        num_bytes=num_bytes,
        dtype=setup.dtype,
        rank=rank,
        num_parts=setup.world_size,
        seed=setup.seed,
    )


def _sum_in_rank_order(inputs: list[torch.Tensor]) -> torch.Tensor:
    accumulate = torch.float64 if inputs[0].dtype == torch.float64 else torch.float32
    total = inputs[0].to(accumulate)
    for part in inputs[1:]:
        total = total + part.to(accumulate)
    return total.to(inputs[0].dtype)


OPERATIONS: dict[str, type[Operation]] = {cls.name: cls for cls in (PointToPoint, AllGather, AllReduce)}
