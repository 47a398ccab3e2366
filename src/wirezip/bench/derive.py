"""Data beyond the real tensors at hand: derived copies and controlled generators.

Repeating one buffer would let a codec with a long window find the repeat, and would show every codec
the same tiles again and again. A derived copy is a real tensor with its rows and its columns each in
a new random order and all values multiplied by one factor that is not a power of two, so exponents
keep their spread while no mantissa survives. What is lost is the order of the original: smooth fields
become rough. Rows that use derived data say so.
"""

from collections.abc import Callable, Iterator, Sequence

import torch

# Factors 2**u with |u| in this range: far from powers of two, and no exponent moves by more than one.
_SCALE_LOG2 = (0.05, 0.45)


def generator(*seeds: int) -> torch.Generator:
    """Return a random generator for a sequence of small non-negative integers, the same on every machine."""
    state = 0
    for seed in seeds:
        state = (state * 1_000_003 + seed + 1) % (2**63 - 1)
    return torch.Generator().manual_seed(state)


def derived_copy(tensor: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
    """Return a derived copy of a tensor, in its dtype.

    Args:
        tensor: Real tensor; its last dimension counts as columns, all others as rows.
        seeds: What makes this copy differ from others.
    """
    source = generator(*seeds)
    table = tensor.reshape(-1, tensor.shape[-1])
    low, high = _SCALE_LOG2
    exponent = low + (high - low) * float(torch.rand((), generator=source))
    sign = 1 if float(torch.rand((), generator=source)) < 0.5 else -1
    rows = torch.randperm(table.shape[0], generator=source)
    columns = torch.randperm(table.shape[1], generator=source)
    factor: float = 2.0 ** (sign * exponent)
    return (table[rows][:, columns].float() * factor).to(tensor.dtype)


def stream(
    tensors: Sequence[torch.Tensor], seeds: Sequence[int], first_copy: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield tensors without end: the real ones as copy 0, then derived copies of each in turn.

    Args:
        tensors: Real tensors of one kind.
        seeds: What makes this stream differ from others.
        first_copy: 0 to begin with the real tensors, 1 to begin with derived ones.
    """
    copy = first_copy
    while True:
        for index, tensor in enumerate(tensors):
            yield copy, (tensor if copy == 0 else derived_copy(tensor, (*seeds, copy, index)))
        copy += 1


def _random_bits(numel: int, dtype: torch.dtype, source: torch.Generator) -> torch.Tensor:
    octets = torch.randint(0, 256, (numel * dtype.itemsize,), dtype=torch.uint8, generator=source)
    return octets.view(dtype)


GENERATORS: dict[str, Callable[[int, torch.dtype, torch.Generator], torch.Tensor]] = {
    "normal": lambda numel, dtype, source: torch.randn(numel, generator=source).to(dtype),
    "uniform": lambda numel, dtype, source: (torch.rand(numel, generator=source) * 2 - 1).to(dtype),
    "random-bits": _random_bits,
    "zeros": lambda numel, dtype, source: torch.zeros(numel, dtype=dtype),
}
