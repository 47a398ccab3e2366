"""Facts about dtypes agree with torch and with the format page."""

import re
from pathlib import Path

import pytest
import torch

from wirezip.errors import UnsupportedDtypeError
from wirezip.floats import ALIASES, FLOAT_FORMATS, WIRE_IDS, dtype_name, parse_dtype

FORMAT_PAGE = (Path(__file__).parent.parent / "docs" / "format.md").read_text()


def rows(start: str) -> list[list[str]]:
    """Return the cells of the table of the format page whose head begins so."""
    table = FORMAT_PAGE[FORMAT_PAGE.index(start) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_numbers_on_the_wire_are_those_of_the_format_page():
    listed = {}
    for cells in rows("| dtype | number |"):
        listed |= {cells[i]: int(cells[i + 1]) for i in range(0, len(cells), 2) if cells[i]}
    assert listed == {dtype_name(dtype): number for dtype, number in WIRE_IDS.items()}


def test_layouts_are_those_of_the_format_page():
    listed = {}
    for names, *numbers in rows("| dtype | exponent bits |"):
        listed |= {name: tuple(map(int, numbers)) for name in re.split(", *", names)}
    assert listed == {
        dtype_name(dtype): (
            form.exponent_bits,
            form.mantissa_bits,
            form.residue_planes,
            form.head_bytes,
            form.remainder_bits,
        )
        for dtype, form in FLOAT_FORMATS.items()
    }


@pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=dtype_name)
def test_layouts_are_those_of_torch(dtype):
    form, limits = FLOAT_FORMATS[dtype], torch.finfo(dtype)
    assert form.dtype == dtype
    assert form.word_bits == limits.bits
    assert form.word_bytes == dtype.itemsize == form.word_dtype.itemsize
    one, two = torch.tensor([1.0, 2.0]).to(dtype).view(form.word_dtype).tolist()
    assert two - one == 1 << form.mantissa_bits
    assert 1 + form.exponent_bits + form.mantissa_bits == form.word_bits
    assert 8 * form.residue_planes + form.remainder_bits == 1 + form.mantissa_bits
    assert form.residue_planes + form.head_bytes == form.word_bytes


@pytest.mark.parametrize("dtype", WIRE_IDS, ids=dtype_name)
def test_names(dtype):
    name = dtype_name(dtype)
    assert not name.startswith("torch")
    for spelling in (name, name.upper(), f"torch.{name}"):
        assert parse_dtype(spelling) == dtype


def test_aliases():
    assert {parse_dtype(alias) for alias in ALIASES} <= set(FLOAT_FORMATS)
    assert parse_dtype("BF16") == parse_dtype("torch.bf16") == torch.bfloat16
    assert parse_dtype("half") == torch.half
    assert parse_dtype("float") == torch.float
    assert parse_dtype("double") == torch.double


@pytest.mark.parametrize("name", ["", "bfloat", "float128", "quint8", "int4", "torch", "fp8"])
def test_unknown_names_are_refused_with_the_known_ones(name):
    with pytest.raises(UnsupportedDtypeError, match=f"unknown dtype {name!r}; known: bfloat16, float16, .*complex32"):
        parse_dtype(name)
