"""Datasets by name: real tensors carried in the package, and generated ones.

Ranks never share data: a gradient dataset has one tensor per rank, and of all other datasets each
rank takes a part of its own. Where real tensors run out, derived copies follow (see
`wirezip.bench.derive`) and every result row says so.
"""

import functools
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from wirezip.bench.derive import GENERATORS, generator, stream
from wirezip.errors import InputError
from wirezip.floats import FLOAT_FORMATS, dtype_name

_FILE = "tensors.safetensors"
DEFAULT_GENERATED_BYTES = 4 << 20


@dataclass(frozen=True)
class RealData:
    """A dataset of real tensors.

    Attributes:
        dtype: Dtype handed out; the stored tensors are cast to it, rounding to nearest even.
        keys: Keys of the stored tensors; for `per_rank` data, one per rank.
        per_rank: Whether each key belongs to one rank.
    """

    dtype: torch.dtype
    keys: tuple[str, ...]
    per_rank: bool = False


REAL: dict[str, RealData] = {
    "weights-bf16": RealData(torch.bfloat16, ("weights.intermediate", "weights.query")),
    "weights-fp32": RealData(torch.float32, ("weights.intermediate", "weights.query")),
    "weights-fp16": RealData(torch.float16, ("weights_fp16.q_proj",)),
    "kv-bf16": RealData(torch.bfloat16, ("kv.k", "kv.v")),
    "grad-bf16": RealData(torch.bfloat16, ("grad.rank0", "grad.rank1"), per_rank=True),
    "resid-bf16": RealData(torch.bfloat16, ("resid",)),
    "field-fp32": RealData(torch.float32, ("field.temperature",)),
}


@dataclass(frozen=True)
class Sample:
    """Data of one rank.

    Attributes:
        name: Dataset name.
        values: Contiguous 1-D tensor.
        num_real: Elements that are real, not derived; None for generated data.
    """

    name: str
    values: torch.Tensor
    num_real: int | None


def describe(samples: Sequence[Sample]) -> str:
    """Return what of some samples is not real, in words; empty when all of it is.

    Args:
        samples: Samples of one dataset, such as those of all ranks.
    """
    numel = sum(sample.values.numel() for sample in samples)
    num_real = sum(sample.num_real or 0 for sample in samples)
    if any(sample.num_real is None for sample in samples):
        return "generated"
    if num_real == numel:
        return ""
    return f"derived: {num_real} of {numel} elements are real, the rest permuted and rescaled copies"


def names() -> list[str]:
    """Return the names of all datasets."""
    return [*REAL, *GENERATORS]


def check(name: str, dtype: torch.dtype | None = None) -> None:
    """Refuse a name that no dataset has, or a dtype that it does not come in.

    Args:
        name: Dataset name.
        dtype: Dtype asked for; None for the dataset's own.

    Raises:
        InputError: The name is unknown, or the dtype is not that of the real data.
    """
    if name not in REAL and name not in GENERATORS:
        raise InputError(f"unknown data {name!r}; known: {', '.join(names())}")
    if name in REAL and dtype not in (None, REAL[name].dtype):
        raise InputError(
            f"data {name} are {dtype_name(REAL[name].dtype)} and are not cast to {dtype_name(dtype)}; "
            f"generated data take any dtype: {', '.join(GENERATORS)}"
        )
    if name in ("normal", "uniform") and dtype is not None and dtype not in FLOAT_FORMATS:
        known = ", ".join(map(dtype_name, FLOAT_FORMATS))
        raise InputError(f"data {name} need a float dtype, got {dtype_name(dtype)}; known: {known}")


def dtype_of(name: str, dtype: torch.dtype | None = None) -> torch.dtype:
    """Return the dtype that a dataset comes in.

    Args:
        name: Dataset name.
        dtype: Dtype asked for; None for the real data's own, or bfloat16 for generated data.

    Raises:
        InputError: As in `check`.
    """
    check(name, dtype)
    return REAL[name].dtype if name in REAL else dtype or torch.bfloat16


def load(
    name: str,
    *,
    num_bytes: int | None = None,
    dtype: torch.dtype | None = None,
    rank: int = 0,
    num_parts: int = 1,
    seed: int = 0,
) -> Sample:
    """Return the data of one rank.

    Args:
        name: Dataset name.
        num_bytes: Bytes wanted for this rank, rounded down to whole elements. None takes all real
            data there are, split over `num_parts`, and of generated data 4 MiB so split.
        dtype: Dtype of generated data, bfloat16 when None; for real data None or their own.
        rank: Rank the data are for.
        num_parts: Ranks that share the real data.
        seed: Seed of generated and derived data.

    Raises:
        InputError: The dataset is unknown, comes in another dtype, or fewer bytes than an element
            are wanted.
    """
    own_dtype = dtype_of(name, dtype)
    if num_bytes is None:
        num_bytes = natural_bytes(name) // (1 if name in REAL and REAL[name].per_rank else num_parts)
    numel = num_bytes // own_dtype.itemsize
    if numel < 1:
        raise InputError(f"{num_bytes} bytes hold no element of {dtype_name(own_dtype)}")
    if name in GENERATORS:
        values = GENERATORS[name](numel, own_dtype, generator(seed, rank))
        return Sample(name, values, None)
    return _real(name, numel, rank, seed)


def natural_bytes(name: str) -> int:
    """Return the bytes of the real data of a dataset (of one rank, for data per rank); 4 MiB if generated.

    Args:
        name: Dataset name.
    """
    if name in GENERATORS:
        return DEFAULT_GENERATED_BYTES
    kind = REAL[name]
    keys = kind.keys[:1] if kind.per_rank else kind.keys
    return sum(_stored()[key].numel() for key in keys) * kind.dtype.itemsize


def _real(name: str, numel: int, rank: int, seed: int) -> Sample:
    kind = REAL[name]
    if kind.per_rank:
        # A rank beyond those captured gets derived data from its first element on.
        tensors = [_stored()[kind.keys[rank % len(kind.keys)]]]
        copies = stream(tensors, (seed, rank), first_copy=0 if rank < len(kind.keys) else 1)
        skip = 0
    else:
        tensors = [_stored()[key] for key in kind.keys]
        copies = stream(tensors, (seed,), first_copy=0)
        skip = rank * numel
    parts: list[torch.Tensor] = []
    num_real, filled = 0, 0
    for copy, tensor in copies:
        flat = tensor.reshape(-1)
        part = flat[skip : skip + numel - filled]
        skip = max(0, skip - flat.numel())
        parts.append(part.to(kind.dtype))
        filled += part.numel()
        num_real += part.numel() if copy == 0 else 0
        if filled == numel:
            break
    return Sample(name, torch.cat(parts), num_real)


@functools.cache
def _stored() -> dict[str, torch.Tensor]:
    from safetensors.torch import load as parse

    data = importlib.resources.files("wirezip.bench") / "data" / _FILE
    return parse(data.read_bytes())
