"""A 64-bit checksum of the original bytes that any number of workers can compute in any order.

The bytes, zero-padded to a multiple of four, are read as little-endian 32-bit words `w[i]`; the
checksum is the sum modulo 2**64 of `spread(w[i]) * odd(i)`, where `odd(i)` is the i-th output of
splitmix64 with its lowest bit set. `spread` makes 64 bits of a word without losing any, so that a
change of its high bits, such as a flipped sign, is not shifted out of the product; it and the
multiplication are invertible, so a change confined to one word is always found. A cyclic redundancy
check would serve as well on a CPU, but it cannot be summed tile by tile on a GPU without a table of
powers.

Source: multilinear hashing (Lemire and Kaser, "Strongly universal string hashing is fast");
splitmix64 (Steele, Lea and Flood, OOPSLA 2014). Normative text: docs/format.md, "Checksum".
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

WORDS_PER_STEP = 1 << 20
SPREAD = 0xFF51AFD7ED558CCD


def multipliers(first: int, count: int) -> np.ndarray:
    """Return `odd(first) .. odd(first + count - 1)` as uint64."""
    z = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


def spread(words: np.ndarray) -> np.ndarray:
    """Return 64 bits of each 32-bit word, given and returned as uint64."""
    products = words * np.uint64(SPREAD)
    return products ^ (products >> np.uint64(32))


def checksum_reference(data: np.ndarray) -> int:
    """Return the checksum of uint8 `data` by the definition, one step of words at a time."""
    padded = np.concatenate([data, np.zeros(-len(data) % 4, np.uint8)])
    words = padded.view("<u4").astype(np.uint64)
    total = 0
    for first in range(0, len(words), WORDS_PER_STEP):
        step = words[first : first + WORDS_PER_STEP]
        total += int((spread(step) * multipliers(first, len(step))).sum(dtype=np.uint64))
    return total % 2**64


@functools.cache
def _compiled() -> Callable[[np.ndarray], Any]:
    # Numba is loaded at the first checksum, not with the package.
    import numba

    @numba.njit(nogil=True, cache=True)
    def words_sum(words: np.ndarray) -> np.uint64:
        total = np.uint64(0)
        for i in range(len(words)):
            z = (np.uint64(i) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = (z ^ (z >> np.uint64(31))) | np.uint64(1)
            w = np.uint64(words[i]) * np.uint64(SPREAD)
            total += (w ^ (w >> np.uint64(32))) * z
        return total

    return words_sum


def checksum(data: torch.Tensor) -> int:
    """Return the checksum of the bytes of a tensor.

    Args:
        data: Contiguous tensor of any dtype; a tensor on a GPU is copied to the host first.

    Returns:
        An integer in [0, 2**64).
    """
    octets = data.reshape(-1).view(torch.uint8).cpu().numpy()
    whole = len(octets) // 4
    total = int(_compiled()(octets[: whole * 4].view("<u4")))
    tail = octets[whole * 4 :]
    if len(tail):
        word = int.from_bytes(tail.tobytes(), "little")
        total += int((spread(np.array([word], np.uint64)) * multipliers(whole, 1))[0])
    return total % 2**64
