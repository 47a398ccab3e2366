"""The checksum: definition, reference and compiled code agree, and what it finds."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from wirezip.checksum import WORDS_PER_STEP, checksum, checksum_reference

FORMAT_PAGE = (Path(__file__).parent.parent / "docs" / "format.md").read_text()


def by_definition(data: bytes) -> int:
    """Return the checksum as the format page defines it, in Python's integers."""
    total = 0
    for i in range(-(-len(data) // 4)):
        z = (i + 1) * 0x9E3779B97F4A7C15 % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        product = int.from_bytes(data[4 * i : 4 * i + 4], "little") * 0xFF51AFD7ED558CCD % 2**64
        total += (product ^ (product >> 32)) * ((z ^ (z >> 31)) | 1)
    return total % 2**64


def random_bytes(num_bytes: int) -> np.ndarray:
    return np.random.default_rng(num_bytes).integers(0, 256, num_bytes, np.uint8)


@pytest.mark.parametrize("num_bytes", [0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 1823, 4096, 100_001])
def test_all_agree(num_bytes):
    data = random_bytes(num_bytes)
    expected = by_definition(data.tobytes())
    assert checksum_reference(data) == expected
    assert checksum(torch.from_numpy(data)) == expected


def test_steps_of_the_reference():
    # The reference takes its words in steps; the next word begins another.
    data = random_bytes(4 * WORDS_PER_STEP + 3)
    assert checksum_reference(data) == checksum(torch.from_numpy(data))


def test_value_of_the_format_page():
    octets, value = re.search(r"checksum of the bytes `([0-9A-F ]+)` is 0x([0-9A-F]+)\.", FORMAT_PAGE).groups()
    assert checksum(torch.tensor(list(bytes.fromhex(octets)), dtype=torch.uint8)) == int(value, 16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float8_e5m2, torch.bool, torch.int16])
def test_dtype_and_shape_do_not_matter(dtype):
    octets = torch.randint(0, 2, (240,), dtype=torch.uint8)
    assert checksum(octets.view(dtype)) == checksum(octets.view(dtype).view(-1, 3)) == checksum(octets)


def test_every_flipped_bit_is_found():
    data = random_bytes(333)
    before = checksum_reference(data)
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert checksum_reference(data) != before
        data[bit // 8] ^= 1 << bit % 8


def test_swapped_words_are_found():
    words = torch.randperm(500, dtype=torch.int32)
    before = checksum(words)
    for i in range(499):
        swapped = words.clone()
        swapped[[i, i + 1]] = words[[i + 1, i]]
        assert checksum(swapped) != before


def test_two_flipped_signs_are_found():
    # A plain sum of products keeps only the low half of such a change, and misses this one.
    values = torch.ones(400_000)
    values[264_525] = -1.0
    before = checksum(values)
    values[[264_525, 376_165]] *= -1
    assert checksum(values) != before
