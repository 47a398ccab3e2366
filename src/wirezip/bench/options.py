"""What the command line's words mean: sizes, codecs, data, and the cells they ask for."""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from wirezip import codecs
from wirezip.bench import datasets
from wirezip.bench.contenders import Skip
from wirezip.bench.launch import MAX_LOCAL_RANKS
from wirezip.bench.links import parse_link
from wirezip.bench.operations import OPERATIONS, Route
from wirezip.bench.sweep import Cell
from wirezip.errors import InputError
from wirezip.floats import dtype_name, parse_dtype

BACKENDS = ("gloo",)
DEFAULT_CODECS = ("raw", "window", "rans", "zstd")
MAX_SIZES = 64
_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Return the bytes meant by a size such as `8`, `64K`, `1M` or `2G`; the units are powers of 1024.

    Args:
        text: The size, as nccl-tests writes it.

    Raises:
        InputError: The text is not a positive size.
    """
    match = _SIZE.fullmatch(text.strip())
    num_bytes = int(match[1]) * _UNITS[match[2].upper()] if match else 0
    if num_bytes <= 0:
        raise InputError(f"expected a size such as 4096, 64K, 16M or 1G, got {text!r}")
    return num_bytes


@dataclass(frozen=True)
class Sizes:
    """The sizes of a sweep, by nccl-tests' rules.

    Attributes:
        min_bytes: First size; None for the natural size of the data, when `max_bytes` is None too.
        max_bytes: Last size; None for `min_bytes`.
        factor: Each size is this many times the last; None for 2 unless `step_bytes` is given.
        step_bytes: Each size is this much larger than the last.
    """

    min_bytes: str | None = None
    max_bytes: str | None = None
    factor: int | None = None
    step_bytes: str | None = None

    def list(self) -> "list[int | None]":
        """Return the sizes in bytes, smallest first; `[None]` for the natural size.

        Raises:
            InputError: A size, factor or step is not legal, or there would be too many.
        """
        if self.factor is not None and self.step_bytes is not None:
            raise InputError("give a factor (-f) or a step (-i), not both")
        if self.factor is not None and self.factor < 2:
            raise InputError(f"expected a factor of 2 or more, got {self.factor}")
        if self.min_bytes is None and self.max_bytes is None:
            return [None]
        last = parse_size(self.max_bytes or self.min_bytes or "")
        size = parse_size(self.min_bytes) if self.min_bytes else min(last, 1 << 20)
        if size > last:
            raise InputError(f"the smallest size, {size} bytes, exceeds the largest, {last}")
        step = parse_size(self.step_bytes) if self.step_bytes else None
        sizes: list[int | None] = []
        while size <= last:
            sizes.append(size)
            if len(sizes) > MAX_SIZES:
                raise InputError(f"more than {MAX_SIZES} sizes between {sizes[0]} and {last} bytes")
            size = size * (self.factor or 2) if step is None else size + step
        return sizes


def split_list(words: Sequence[str]) -> list[str]:
    """Return the entries of options that may be repeated or comma-separated, each once."""
    entries = [entry.strip() for word in words for entry in word.split(",")]
    return list(dict.fromkeys(entry for entry in entries if entry))


@dataclass(frozen=True)
class Request:
    """A sweep of one operation as asked for.

    Attributes:
        op: Operation.
        codecs: Codec names.
        data: Dataset names.
        links: Link names.
        algorithms: Algorithms of a collective; empty for its default.
        strategies: Strategies of p2p; empty for `encode_send`.
        dtype: Name of the dtype of generated data.
        sizes: Sizes.
        reduction: Reduction, for all_reduce.
        backend: Backend.
        num_ranks: Local ranks.
        num_iters: Timed rounds.
        num_warmup: Untimed rounds.
        num_checks: Checked rounds before timing.
        seed: Seed of generated and derived data.
    """

    op: str
    codecs: Sequence[str] = DEFAULT_CODECS
    data: Sequence[str] = ("weights-bf16",)
    links: Sequence[str] = ("loopback",)
    algorithms: Sequence[str] = ()
    strategies: Sequence[str] = ()
    dtype: str | None = None
    sizes: Sizes = field(default_factory=Sizes)
    reduction: str = "sum"
    backend: str = "gloo"
    num_ranks: int = 2
    num_iters: int = 20
    num_warmup: int = 5
    num_checks: int = 1
    seed: int = 0

    def cells(self) -> tuple[list[Cell], list[Skip]]:
        """Return the cells asked for, and the codecs that cannot run, with why.

        Raises:
            InputError: A word of the request is not known here or does not fit the others.
            UnknownCodecError: A codec is not known.
            UnsupportedDtypeError: The dtype is not known.
        """
        self._check()
        dtype = None if self.dtype is None else parse_dtype(self.dtype)
        cells: list[Cell] = []
        skips: dict[Skip, None] = {}
        for link in map(parse_link, self.links):
            for data in self.data:
                own_dtype = datasets.dtype_of(data, dtype)
                runnable, skipped = _runnable(self.codecs, own_dtype)
                skips.update(dict.fromkeys(skipped))
                skips.update(dict.fromkeys(self._mismatches(runnable)))
                routes = tuple(route for codec in runnable for route in self._routes(codec))
                for num_bytes in self.sizes.list():
                    check_memory(num_bytes, self.num_ranks)
                    cells.append(
                        Cell(
                            self.op,
                            data,
                            link,
                            routes,
                            dtype=dtype,
                            num_bytes=num_bytes,
                            num_iters=self.num_iters,
                            num_warmup=self.num_warmup,
                            num_checks=self.num_checks,
                            seed=self.seed,
                        )
                    )
        return cells, list(skips)

    def _check(self) -> None:
        if self.op not in OPERATIONS:
            raise InputError(f"unknown operation {self.op!r}; known: {', '.join(OPERATIONS)}")
        if self.backend not in BACKENDS:
            raise InputError(f"unknown backend {self.backend!r}; known: {', '.join(BACKENDS)}")
        if self.reduction != "sum":
            raise InputError(f"unknown reduction {self.reduction!r}; known: sum")
        if self.op == "p2p" and self.algorithms:
            raise InputError("p2p has strategies (--strategy), no algorithms")
        if self.op != "p2p" and self.strategies:
            raise InputError(f"{self.op} has algorithms (--algorithm), no strategies")
        if not 2 <= self.num_ranks <= MAX_LOCAL_RANKS or (self.op == "p2p" and self.num_ranks != 2):
            legal = "2 ranks" if self.op == "p2p" else f"2 to {MAX_LOCAL_RANKS} ranks"
            raise InputError(f"{self.op} runs on {legal}, got {self.num_ranks}")
        known = _methods(self.op)
        for method in (*self.algorithms, *self.strategies):
            if method not in known:
                what = "strategy" if self.op == "p2p" else f"algorithm of {self.op}"
                raise InputError(f"unknown {what} {method!r}; known: {', '.join(known)}")
        for name, value, least in (("-n", self.num_iters, 1), ("-w", self.num_warmup, 0), ("-c", self.num_checks, 1)):
            if value < least:
                raise InputError(f"expected {name} of {least} or more, got {value}")
        for words, what in ((self.codecs, "codec"), (self.data, "dataset"), (self.links, "link")):
            if not words:
                raise InputError(f"expected at least one {what}")

    def _mismatches(self, codec_names: Sequence[str]) -> list[Skip]:
        return [
            Skip(codec, f"strategy {strategy} sends without a codec")
            for strategy in self.strategies
            for codec in codec_names
            if not _fits(codec, strategy)
        ]

    def _routes(self, codec: str) -> list[Route]:
        if self.op == "p2p":
            default = "raw" if codec == "raw" else "encode_send"
            chosen = self.strategies or (default,)
            return [Route(codec, None, strategy) for strategy in chosen if _fits(codec, strategy)]
        algorithms = self.algorithms or (OPERATIONS[self.op].default_algorithm,)
        return [Route(codec, algorithm) for algorithm in algorithms]


def _fits(codec: str, strategy: str) -> bool:
    return codec == "raw" or strategy != "raw"


def _methods(op: str) -> list[str]:
    if op == "p2p":
        from wirezip.transfer.strategies import STRATEGIES

        return list(STRATEGIES)
    # The package exports functions of the same names as these modules.
    return list(importlib.import_module(f"wirezip.collectives.{op}").ALGORITHMS)


def check_memory(num_bytes: int | None, num_ranks: int) -> None:
    """Raise InputError if a size needs more memory than is free."""
    import psutil

    # Every rank holds every rank's data for the check, and fp64 copies of a few of them.
    needed = (num_bytes or 0) * num_ranks * (num_ranks + 16)
    available = psutil.virtual_memory().available
    if needed > available:
        raise InputError(
            f"{num_bytes} bytes on {num_ranks} ranks need about {needed} bytes of memory; {available} are free"
        )


def _runnable(names: Sequence[str], dtype: torch.dtype) -> tuple[list[str], list[Skip]]:
    runnable, skips = [], []
    for name in names:
        reason = codecs.unavailable_reason(name)
        if reason is None and not codecs.get(name).supports(dtype):
            reason = f"does not take {dtype_name(dtype)}"
        if reason is None:
            runnable.append(name)
        else:
            skips.append(Skip(name, reason))
    return runnable, skips
