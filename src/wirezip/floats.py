"""Facts about dtypes: where the bits of each float type lie, and the number each dtype has on the wire.

A word is the bit pattern of one element as an unsigned integer. The codecs reorder its fields to
exponent, sign, mantissa, from the most significant bit. The low `residue_planes` bytes of the
ordered word are the residue, which travels as it is; the rest is the head: the exponent with
`remainder_bits` of sign and mantissa below it. The sign stands above the mantissa so that trailing
zero bits of the mantissa, as in float32 that was bfloat16, leave whole bytes constant.

Source: UCCL-Zip, section 2.1.1 (exponents are skewed, sign and mantissa are near uniform).
"""

from dataclasses import dataclass

import torch

from wirezip.errors import UnsupportedDtypeError


@dataclass(frozen=True)
class FloatFormat:
    """The layout of one float dtype.

    Attributes:
        dtype: The torch dtype.
        word_bits: Bits of one element.
        exponent_bits: Bits of the exponent field.
    """

    dtype: torch.dtype
    word_bits: int
    exponent_bits: int

    @property
    def word_bytes(self) -> int:
        """Bytes of one element."""
        return self.word_bits // 8

    @property
    def mantissa_bits(self) -> int:
        """Bits of the mantissa field."""
        return self.word_bits - 1 - self.exponent_bits

    @property
    def residue_planes(self) -> int:
        """Whole bytes of sign and mantissa below the head."""
        return (self.word_bits - self.exponent_bits) // 8

    @property
    def remainder_bits(self) -> int:
        """Mantissa and sign bits that share the head with the exponent."""
        return (self.word_bits - self.exponent_bits) % 8

    @property
    def head_bytes(self) -> int:
        """Bytes of the head: 2 for float64, 1 for all others."""
        return self.word_bytes - self.residue_planes

    @property
    def word_dtype(self) -> torch.dtype:
        """The signed torch dtype of the same width, for views of the bit patterns."""
        return {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[self.word_bits]


FLOAT_FORMATS: dict[torch.dtype, FloatFormat] = {
    layout.dtype: layout
    for layout in (
        FloatFormat(torch.bfloat16, 16, 8),
        FloatFormat(torch.float16, 16, 5),
        FloatFormat(torch.float32, 32, 8),
        FloatFormat(torch.float64, 64, 11),
        FloatFormat(torch.float8_e4m3fn, 8, 4),
        FloatFormat(torch.float8_e5m2, 8, 5),
        FloatFormat(torch.float8_e4m3fnuz, 8, 4),
        FloatFormat(torch.float8_e5m2fnuz, 8, 5),
    )
}

# Numbers on the wire; never reuse one.
WIRE_IDS: dict[torch.dtype, int] = {
    torch.bfloat16: 1,
    torch.float16: 2,
    torch.float32: 3,
    torch.float64: 4,
    torch.float8_e4m3fn: 5,
    torch.float8_e5m2: 6,
    torch.float8_e4m3fnuz: 7,
    torch.float8_e5m2fnuz: 8,
    torch.uint8: 16,
    torch.int8: 17,
    torch.uint16: 18,
    torch.int16: 19,
    torch.uint32: 20,
    torch.int32: 21,
    torch.uint64: 22,
    torch.int64: 23,
    torch.bool: 24,
    torch.complex64: 25,
    torch.complex128: 26,
    torch.float8_e8m0fnu: 27,
    torch.complex32: 28,
}
DTYPES: dict[int, torch.dtype] = {number: dtype for dtype, number in WIRE_IDS.items()}

ALIASES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
ALIASES |= {"f16": "float16", "f32": "float32", "f64": "float64", "half": "float16", "float": "float32"}
ALIASES |= {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "double": "float64"}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype without torch's prefix, such as `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def parse_dtype(name: str) -> torch.dtype:
    """Return the dtype of a name such as `bfloat16`, `bf16` or `torch.bfloat16`.

    Args:
        name: The name, in any case.

    Raises:
        UnsupportedDtypeError: The name is not one that wirezip carries.
    """
    key = name.lower().removeprefix("torch.")
    by_name = {dtype_name(dtype): dtype for dtype in WIRE_IDS}
    dtype = by_name.get(ALIASES.get(key, key))
    if dtype is None:
        raise UnsupportedDtypeError(f"unknown dtype {name!r}; known: {', '.join(by_name)}")
    return dtype
