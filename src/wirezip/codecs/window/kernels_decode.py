"""The `window` codec in Triton, decoding. Arguments are named in `wirezip.codecs.window.kernels`.

A further one: `error_ptr`: int64, gets the lowest number of a tile that is corrupt, or `HEADER_ERROR`;
in a batch one for each tensor.
"""

import triton
import triton.language as tl

from wirezip.codecs.tiles.kernels import (
    BYTE_PLANES_MASK,
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    ROWS,
    STORED,
    aligned,
    columns_of,
    existing_bits,
    field_of,
    known_aligned,
    load_fields,
    lowest_bit,
    order_bits,
    restore_bits,
    store_unit,
    units_of,
    varying_planes,
)
from wirezip.codecs.tiles.kernels_lower import load_heads, load_lower
from wirezip.codecs.tiles.kernels_place import (
    HEADER_ERROR,
    JOB_TILE,
    load_entry,
    load_section_bytes,
    locate,
    num_tiles_of,
    outside,
    section_pointer,
)
from wirezip.codecs.window.kernels import (
    MAX_WIDTH,
    add_and_most,
    group_masks,
    index_of,
    popcount,
)


@triton.jit
def is_illegal(entry, size, section_bytes, G: tl.constexpr):
    """Return whether a directory entry is not legal or points outside the section."""
    numel, columns = size
    offset, num_escapes, base, width, constant_planes, stray = entry
    stored = width == STORED
    codes = tl.where(stored, 0, width)
    wrong = stray | (codes > MAX_WIDTH)
    codes = tl.minimum(codes, MAX_WIDTH)
    wrong |= num_escapes > tl.where(codes > 0, numel, 0)
    wrong |= stored & (base > 0)
    wrong |= base + tl.maximum((1 << codes) - 2, 0) >= G.value_count
    fixed = constant_planes >> REMAINDER_BIT
    wrong |= (fixed > 0) & (stored | (G.remainder_bits == 0))
    wrong |= (constant_planes & BYTE_PLANES_MASK) >> G.residue_planes != 0
    fields = (codes + (1 - fixed) * G.remainder_bits) * columns + num_escapes * G.value_bytes
    symbol_bytes = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    symbol_bytes += tl.where(stored, numel * G.head_bytes, fields)
    num_bytes = varying_planes(constant_planes, G) * aligned(numel) + symbol_bytes
    return wrong | outside(offset, num_bytes, section_bytes)


@triton.jit
def decode_row(words_ptr, record_ptr, row, unit, size, coded, lower, FULL: tl.constexpr, G: tl.constexpr):
    """Decode a row, its escapes as some value; return which lanes are escapes.

    `coded` are columns of codes, width and base.
    """
    codes = field_of(coded[0], row, coded[1], G)
    x = units_of(codes + coded[2] * G.ones, load_lower(record_ptr, row, unit, size, lower, FULL, G), G)
    store_unit(words_ptr, x, row, unit, size, FULL, G)
    escapes = ((codes + G.ones) >> coded[1]) & G.ones
    if not FULL:
        escapes &= existing_bits(row, unit, size, G).to(tl.uint32)
    return escapes


@triton.jit
def decode_rows(words_ptr, record_ptr, size, coded, lower, FULL: tl.constexpr, G: tl.constexpr):
    """Decode all rows but for the escapes; return the masks of escapes in lanes."""
    unit = tl.arange(0, G.units)
    escaped = tl.zeros(unit.shape, tl.uint32)
    if FULL:
        for row in tl.static_range(ROWS):
            escapes = decode_row(words_ptr, record_ptr, row, unit, size, coded, lower, FULL, G)
            escaped |= escapes << row
    else:
        row = size[0] * 0
        while row < ROWS:
            escapes = decode_row(words_ptr, record_ptr, row, unit, size, coded, lower, FULL, G)
            escaped |= escapes << row
            row += 1
    return escaped


@triton.jit
def patch_escapes(words_ptr, list_ptr, listed, place, most, columns, G: tl.constexpr):
    """Put the values of the escapes into the words: in each step the next of every group."""
    VALUE: tl.constexpr = tl.uint16 if G.value_bytes == 2 else tl.uint8
    place_ptr = list_ptr.to(tl.pointer_type(VALUE)) + place
    step = most * 0
    while step < most:
        some = listed != 0
        index = index_of(lowest_bit(listed), columns, G)
        value = tl.load(place_ptr + step, mask=some, other=0).to(words_ptr.dtype.element_ty)
        ordered = order_bits(tl.load(words_ptr + index, mask=some, other=0), G) & ((1 << G.value_shift) - 1)
        tl.store(words_ptr + index, restore_bits(ordered | (value << G.value_shift), G), mask=some)
        listed &= listed - 1
        step += 1


@triton.jit
def decode_tile(words_ptr, section_ptr, entry, numel, columns, FULL: tl.constexpr, G: tl.constexpr):
    """Decode a tile whose entry has been checked; returns whether its codes and escapes disagree."""
    size = (numel, columns)
    offset, num_escapes, base, width, constant_planes, _ = entry
    record_ptr = section_ptr + known_aligned(offset.to(tl.int64))
    symbols_ptr = record_ptr + known_aligned(varying_planes(constant_planes, G) * aligned(numel))
    has_block = constant_planes != 0
    block = tl.load(symbols_ptr.to(tl.pointer_type(tl.uint64)), mask=has_block, other=0)
    fields_ptr = symbols_ptr + known_aligned(tl.where(has_block, CONSTANT_BLOCK_BYTES, 0))
    unit = tl.arange(0, G.units)
    stored = width == STORED
    varies = (stored | (((constant_planes >> REMAINDER_BIT) & 1) != 0)) == 0
    remainders = (tl.zeros(unit.shape, tl.uint32),)
    REMAINDER: tl.constexpr = G.remainder_bits
    if REMAINDER > 0:
        remainders = load_fields(fields_ptr, REMAINDER, unit, columns, varies, REMAINDER, FULL, G)
    lower = (constant_planes, block, remainders)
    corrupt = stored & False
    if stored:
        load_heads(words_ptr, record_ptr, fields_ptr, unit, size, lower, FULL, G)
    else:
        codes_ptr = fields_ptr + known_aligned(varies.to(tl.int32) * (REMAINDER * columns))
        bits = width.to(tl.uint32)
        codes = load_fields(codes_ptr, bits, unit, columns, True, MAX_WIDTH, FULL, G)
        coded = (codes, bits, base.to(tl.uint32))
        listed = group_masks(decode_rows(words_ptr, record_ptr, size, coded, lower, FULL, G), G)
        listed = tl.where(width > 0, listed, 0)
        found = popcount(listed)
        place = tl.cumsum(found, 0) - found
        num_codes, most = tl.reduce((found, found), 0, add_and_most)
        corrupt = num_codes != num_escapes
        if (most > 0) & (corrupt == 0):
            # The words are read back.
            tl.debug_barrier()
            patch_escapes(words_ptr, codes_ptr + width * columns, listed, place, most, columns, G)
    return corrupt


@triton.jit
def decode_kernel(words_ptr, body_ptr, job_ptr, error_ptr, numel, body_bytes, G: tl.constexpr):
    """Decode a tile. `numel` is the number of tensors in a batch."""
    sizes = (numel, body_bytes)
    task = tl.program_id(0).to(tl.int64)
    words_ptr, body_ptr, job, facts = locate(words_ptr, body_ptr, job_ptr, task, sizes, JOB_TILE, G)
    numel, body_bytes, first_tile, _ = facts
    tile = task - first_tile
    num_tiles = num_tiles_of(numel, G)
    section_bytes, wrong = load_section_bytes(body_ptr, num_tiles, body_bytes, G)
    failed = tile * 0 + HEADER_ERROR
    if wrong == 0:
        failed = tile
        entry = load_entry(body_ptr, tile)
        left = numel - tile * G.tile_elems
        partial = tl.minimum(left, G.tile_elems).to(tl.int32)
        columns = known_aligned(columns_of(partial))
        wrong = is_illegal(entry, (partial, columns), section_bytes, G)
        words_ptr += tile * G.tile_elems
        section_ptr = section_pointer(body_ptr, num_tiles)
        if wrong == 0:
            if left >= G.tile_elems:
                wrong = decode_tile(words_ptr, section_ptr, entry, G.tile_elems, G.columns, True, G)
            else:
                wrong = decode_tile(words_ptr, section_ptr, entry, partial, columns, False, G)
    if wrong:
        tl.atomic_min(error_ptr + job, failed)
