"""What lies below the values, stored and loaded as it is: residue planes, remainders, heads.

Arguments are named in `wirezip.codecs.tiles.kernels`. A further one:

- `lower`: what a decoder must know of a tile for it: constant_planes, the constant block, and the
  columns of remainders.
"""

import triton
import triton.language as tl

from wirezip.codecs.tiles.kernels import (
    ROWS,
    add_field,
    aligned,
    field_of,
    known_aligned,
    load_octets,
    load_unit,
    lower_lanes,
    octets_of,
    store_fields,
    store_octets,
    store_unit,
    units_of,
    value_lanes,
    zero_fields,
)


@triton.jit
def heads_of(x, G: tl.constexpr):
    """Return the heads of units, in lanes of uint32."""
    heads = value_lanes(x, G) << G.head_shift
    if G.head_shift > 0:
        lower = (lower_lanes(x, G) >> (8 * G.residue_planes)).to(tl.uint32)
        heads |= lower & (((1 << G.head_shift) - 1) * G.ones)
    return heads


@triton.jit
def units_of_heads(heads, residue, G: tl.constexpr):
    """Return units of heads and of residue, both in lanes."""
    if G.head_shift > 0:
        lower = heads & (((1 << G.head_shift) - 1) * G.ones)
        residue |= lower.to(residue.dtype) << (8 * G.residue_planes)
    return units_of(heads >> G.head_shift, residue, G)


@triton.jit
def store_lower_row(x, fields, row, unit, target, size, FULL: tl.constexpr, G: tl.constexpr):
    """Store the residue planes of a row; return columns of remainders with those of the row."""
    record_ptr, constant_planes = target
    lower = lower_lanes(x, G)
    PLANES: tl.constexpr = G.residue_planes
    start = constant_planes * 0
    for plane in tl.static_range(PLANES):
        varies = ((constant_planes >> plane) & 1) ^ 1
        if varies != 0:
            octets = octets_of(lower, 8 * plane, G)
            store_octets(record_ptr + known_aligned(start), octets, row, unit, size, FULL, G)
        start += varies * aligned(size[0])
    if G.remainder_bits > 0:
        remainder = (lower >> (8 * PLANES)).to(tl.uint32) & (((1 << G.remainder_bits) - 1) * G.ones)
        fields = add_field(fields, remainder, row, G.remainder_bits, G)
    return fields


@triton.jit
def store_lower(words_ptr, target, fields_ptr, wanted, unit, size, FULL: tl.constexpr, G: tl.constexpr):
    """Store the residue planes of columns and, where `wanted`, their remainders.

    `target` are where the record is, and constant_planes.
    """
    fields = zero_fields(unit, G)
    if FULL:
        for row in tl.static_range(ROWS):
            x = load_unit(words_ptr, row, unit, size, 0, FULL, G)
            fields = store_lower_row(x, fields, row, unit, target, size, FULL, G)
    else:
        row = size[0] * 0
        while row < ROWS:
            x = load_unit(words_ptr, row, unit, size, 0, FULL, G)
            fields = store_lower_row(x, fields, row, unit, target, size, FULL, G)
            row += 1
    if G.remainder_bits > 0:
        if wanted:
            store_fields(fields_ptr, fields, G.remainder_bits, unit, size[1], G.remainder_bits, FULL, G)


@triton.jit
def store_heads(words_ptr, heads_ptr, unit, size, FULL: tl.constexpr, G: tl.constexpr):
    """Store the heads of columns as they are."""
    numel, columns = size
    row = numel * 0
    while row < ROWS:
        heads = heads_of(load_unit(words_ptr, row, unit, size, 0, FULL, G), G)
        if G.head_bytes == 1:
            store_octets(heads_ptr, octets_of(heads, 0, G), row, unit, size, FULL, G)
        else:
            index = row * columns + unit
            inside = (unit < columns) & (index < numel)
            tl.store(heads_ptr.to(tl.pointer_type(tl.uint16)) + index, heads.to(tl.uint16), mask=inside)
        row += 1


@triton.jit
def load_residue(record_ptr, row, unit, size, lower, FULL: tl.constexpr, G: tl.constexpr):
    """Return the residue of a row, as lanes."""
    constant_planes, block, _ = lower
    UNIT: tl.constexpr = tl.uint64 if G.word_bits == 64 else tl.uint32
    PLANES: tl.constexpr = G.residue_planes
    bits = tl.zeros(unit.shape, UNIT)
    start = constant_planes * 0
    for plane in tl.static_range(PLANES):
        varies = ((constant_planes >> plane) & 1) ^ 1
        octets = load_octets(record_ptr + known_aligned(start), row, unit, size, varies != 0, FULL, G)
        octets |= ((block >> (8 * plane)) & 0xFF).to(tl.uint32) * ((1 - varies) * G.ones).to(tl.uint32)
        bits |= octets.to(UNIT) << (8 * plane)
        start += varies * aligned(size[0])
    return bits


@triton.jit
def load_lower(record_ptr, row, unit, size, lower, FULL: tl.constexpr, G: tl.constexpr):
    """Return what lies below the values of a row, as lanes."""
    bits = load_residue(record_ptr, row, unit, size, lower, FULL, G)
    if G.remainder_bits > 0:
        _, block, remainders = lower
        remainder = field_of(remainders, row, G.remainder_bits, G)
        remainder |= ((block >> 56) & ((1 << G.remainder_bits) - 1)).to(tl.uint32) * G.ones
        bits |= remainder.to(bits.dtype) << (8 * G.residue_planes)
    return bits


@triton.jit
def load_heads(words_ptr, record_ptr, heads_ptr, unit, size, lower, FULL: tl.constexpr, G: tl.constexpr):
    """Decode columns whose heads are stored."""
    numel, columns = size
    row = numel * 0
    while row < ROWS:
        if G.head_bytes == 2:
            index = row * columns + unit
            wide_ptr = heads_ptr.to(tl.pointer_type(tl.uint16))
            heads = tl.load(wide_ptr + index, mask=(unit < columns) & (index < numel), other=0).to(tl.uint32)
        else:
            heads = load_octets(heads_ptr, row, unit, size, True, FULL, G)
        residue = load_residue(record_ptr, row, unit, size, lower, FULL, G)
        store_unit(words_ptr, units_of_heads(heads, residue, G), row, unit, size, FULL, G)
        row += 1
