"""The `window` codec in Triton: one program a tile, every tile independent of the others.

Arguments are named in `wirezip.codecs.tiles.kernels`. Further ones:

- `values`: the coded values of a tile as rows, int32; `codes`: their window codes, uint32.
- `base`, `width`: of the directory entry; `STORED` as width means that the heads are stored.
- `error_ptr`: int64, the lowest number of a tile that cannot be decoded.
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
    byte_planes,
    columns_of,
    field_of,
    find_constants,
    known_aligned,
    load_heads,
    load_plane,
    load_planes,
    load_residue,
    load_rows,
    order_bits,
    restore_bits,
    store_constant_block,
    store_heads,
    store_padding,
    store_remainder,
    store_residue,
    store_rows,
)
from wirezip.codecs.tiles.kernels_place import (
    ENTRY_BYTES,
    HEADER_BYTES,
    load_entry,
    outside,
    place_tile,
    store_entry,
)

MAX_WIDTH = tl.constexpr(4)
SAMPLE_STEP = tl.constexpr(8)
MIN_SAMPLE_COLUMNS = tl.constexpr(16)
# Keys of the search: bits, then the width, then the base, so that the least key wins as specified.
BASE_BITS = tl.constexpr(11)
BASES = tl.constexpr(1 << 11)
BASE_MASK = tl.constexpr((1 << 11) - 1)
WIDTH_MASK = tl.constexpr((1 << 3) - 1)
KEY_BITS = tl.constexpr(11 + 3)


@triton.jit
def sample_counts(words_ptr, numel, columns, G: tl.constexpr):
    """Return how often each value occurs in the first eighth of the columns, and the sum."""
    BINS: tl.constexpr = G.value_bins
    SPAN: tl.constexpr = max(16, G.columns // 8)
    place = tl.arange(0, ROWS * SPAN)
    column = place % SPAN
    index = place // SPAN * columns + column
    inside = (column < tl.maximum(columns // SAMPLE_STEP, MIN_SAMPLE_COLUMNS)) & (index < numel)
    ordered = order_bits(tl.load(words_ptr + index, mask=inside, other=0), G)
    values = (ordered >> G.value_shift).to(tl.int32)
    return tl.histogram(values, BINS, mask=inside), tl.sum(inside.to(tl.int32), 0)


@triton.jit
def choose_window(counts, total, G: tl.constexpr):
    """Return the width and base that code the sample in the fewest bits."""
    BINS: tl.constexpr = G.value_bins
    base = tl.arange(0, BINS)
    upto = tl.cumsum(counts, 0)
    best = tl.full([BINS], 1 << 62, tl.int64)
    for width in tl.static_range(1, MAX_WIDTH + 1):
        last = tl.minimum(base + ((1 << width) - 2), G.value_bins - 1)
        covered = tl.gather(upto, last, 0) - upto + counts
        bits = (width * total + 8 * G.value_bytes * (total - covered)).to(tl.int64)
        key = (bits << KEY_BITS) | (base + BASES * width)
        best = tl.where(base <= G.value_count - ((1 << width) - 1), tl.minimum(best, key), best)
    key = tl.min(best, 0)
    worth = (key >> KEY_BITS) < G.value_bits * total
    width = ((key >> BASE_BITS) & WIDTH_MASK).to(tl.int32)
    return tl.where(worth, width, STORED), tl.where(worth, (key & BASE_MASK).to(tl.int32), 0)


@triton.jit
def code_rows(rows, base, width, numel, columns, G: tl.constexpr):
    """Return the codes of each column as 8 nibbles, its escapes as 8 bits, and their number."""
    COLUMNS: tl.constexpr = G.columns
    column = tl.arange(0, COLUMNS)
    escape = ((1 << width) - 1).to(tl.uint32)
    nibbles = tl.zeros([COLUMNS], tl.uint32)
    escaped = tl.zeros([COLUMNS], tl.uint32)
    found = tl.zeros([COLUMNS], tl.int32)
    for row in tl.static_range(ROWS):
        inside = (column < columns) & (row * columns + column < numel)
        # What lies below the window wraps to a large number, and so is an escape too.
        distance = (rows[row] >> G.value_shift).to(tl.uint32) - base.to(tl.uint32)
        nibbles |= tl.where(inside, tl.minimum(distance, escape), 0) << (4 * row)
        is_escape = inside & (distance >= escape)
        escaped |= is_escape.to(tl.uint32) << row
        found += is_escape.to(tl.int32)
    return nibbles, escaped, found


@triton.jit
def store_codes(codes_ptr, nibbles, width, columns):
    """Store codes of 1 to 4 bits; those of 3 bits are a plane of 2 and a plane of 1."""
    column = tl.arange(0, nibbles.shape[0])
    inside = column < columns
    if width == 4:
        tl.store(codes_ptr.to(tl.pointer_type(tl.uint32)) + column, nibbles, mask=inside)
    else:
        low = width & 2
        if low != 0:
            tl.store(codes_ptr.to(tl.pointer_type(tl.uint16)) + column, pairs_of(nibbles), mask=inside)
        if (width & 1) != 0:
            tl.store(codes_ptr + low * columns + column, bits_of(nibbles >> low), mask=inside)


@triton.jit
def pairs_of(nibbles):
    """Return the low 2 bits of 8 nibbles side by side."""
    packed = nibbles & 0x33333333
    packed = (packed | (packed >> 2)) & 0x0F0F0F0F
    packed = (packed | (packed >> 4)) & 0x00FF00FF
    return (packed | (packed >> 8)).to(tl.uint16)


@triton.jit
def bits_of(nibbles):
    """Return the low bit of 8 nibbles side by side."""
    packed = nibbles & 0x11111111
    packed = (packed | (packed >> 3)) & 0x03030303
    packed = (packed | (packed >> 6)) & 0x000F000F
    return (packed | (packed >> 12)).to(tl.uint8)


@triton.jit
def store_escapes(list_ptr, rows, escaped, before, G: tl.constexpr):
    """Store the values of the escapes, column by column, from `before` on."""
    VALUE: tl.constexpr = tl.uint16 if G.value_bytes == 2 else tl.uint8
    place_ptr = list_ptr.to(tl.pointer_type(VALUE)) + before
    for row in tl.static_range(ROWS):
        is_escape = (escaped >> row) & 1
        tl.store(place_ptr, (rows[row] >> G.value_shift).to(VALUE), mask=is_escape != 0)
        place_ptr += is_escape.to(tl.int32)


@triton.jit
def encode_tile(words_ptr, tile, numel, columns, out, G: tl.constexpr):
    """Encode one tile; `out` is the body, its sections and the state.

    1. Find constant planes; choose width and base from a sample; count escapes.
    2. Place the tile.
    3. Store the entry, the residue, and the codes with the escapes or the heads.
    """
    COLUMNS: tl.constexpr = G.columns
    body_ptr, residue_ptr, symbols_ptr, state_ptr = out
    first = order_bits(tl.load(words_ptr), G)
    column = tl.arange(0, COLUMNS)
    rows = load_rows(words_ptr, column, numel, columns, G)
    varying = rows[0] & 0
    for row in tl.static_range(ROWS):
        inside = (column < columns) & (row * columns + column < numel)
        varying |= tl.where(inside, rows[row] ^ first, 0)
    constant_planes, constant_value = find_constants(varying, G)
    counts, total = sample_counts(words_ptr, numel, columns, G)
    width, base = choose_window(counts, total, G)
    width = tl.where(constant_value, 0, width)
    base = tl.where(constant_value, (first >> G.value_shift).to(tl.int32), base)
    coded = (width > 0) & (width <= MAX_WIDTH)

    nibbles, escaped, found = code_rows(rows, base, tl.where(coded, width, 0), numel, columns, G)
    before = tl.cumsum(found, 0) - found
    num_escapes = tl.where(coded, tl.sum(found, 0), 0)

    varies = ((constant_planes >> REMAINDER_BIT) & 1) ^ 1
    block_bytes = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    remainder_bytes = varies * (G.remainder_bits * columns)
    codes_start = block_bytes + remainder_bytes
    list_start = codes_start + tl.where(coded, width, 0) * columns
    end = list_start + num_escapes * G.value_bytes
    stored_planes = constant_planes & BYTE_PLANES_MASK
    heads_start = tl.where(stored_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    stored_end = heads_start + numel * G.head_bytes
    stored = (width == STORED) | (aligned(end) >= aligned(stored_end))
    end = tl.where(stored, stored_end, end)
    constant_planes = tl.where(stored, stored_planes, constant_planes)
    residue_bytes = (G.residue_planes - byte_planes(constant_planes, G)) * aligned(numel)

    residue_at, symbols_at = place_tile(state_ptr, tile, residue_bytes, aligned(end), G)
    fields = (tl.where(stored, 0, num_escapes), tl.where(stored, 0, base), tl.where(stored, STORED, width))
    store_entry(body_ptr, tile, (residue_at, symbols_at), fields + (constant_planes,))
    store_residue(residue_ptr + residue_at, rows, column, (numel, columns), constant_planes, G)
    target_ptr = symbols_ptr + symbols_at
    store_constant_block(target_ptr, first, constant_planes, G)
    if stored:
        store_heads(target_ptr + heads_start, rows, column, (numel, columns), G)
    else:
        if G.remainder_bits > 0:
            if varies != 0:
                store_remainder(target_ptr + block_bytes, rows, column, columns, G)
        if coded:
            store_codes(target_ptr + codes_start, nibbles, width, columns)
            store_escapes(target_ptr + list_start, rows, escaped, before, G)
    store_padding(target_ptr, end)


@triton.jit
def encode_kernel(words_ptr, body_ptr, state_ptr, numel, num_tiles, max_residue_bytes, G: tl.constexpr):
    """Encode tiles in the order of tickets; what is known of full tiles is compiled in."""
    tile = tl.atomic_add(state_ptr, 1)
    residue_ptr = body_ptr + HEADER_BYTES + aligned(tile * 0 + num_tiles * ENTRY_BYTES)
    symbols_ptr = residue_ptr + known_aligned(tile * 0 + max_residue_bytes)
    out = (body_ptr, residue_ptr, symbols_ptr, state_ptr)
    left = numel - tile * G.tile_elems
    tile_ptr = words_ptr + tile * G.tile_elems
    if left >= G.tile_elems:
        encode_tile(tile_ptr, tile, G.tile_elems, G.columns, out, G)
    else:
        partial = left.to(tl.int32)
        encode_tile(tile_ptr, tile, partial, known_aligned(columns_of(partial)), out, G)


@triton.jit
def load_codes(codes_ptr, width, column, columns):
    """Return the codes of each column, of 0 to 4 bits, as 8 nibbles; codes of 0 bits are 0."""
    low = width & 2
    inside = column < columns
    pairs = load_plane(codes_ptr, column, inside & (low != 0), 2)
    pairs = (pairs | (pairs << 8)) & 0x00FF00FF
    pairs = (pairs | (pairs << 4)) & 0x0F0F0F0F
    pairs = (pairs | (pairs << 2)) & 0x33333333
    bits = load_plane(codes_ptr + low * columns, column, inside & ((width & 1) != 0), 1)
    bits = (bits | (bits << 12)) & 0x000F000F
    bits = (bits | (bits << 6)) & 0x03030303
    bits = (bits | (bits << 3)) & 0x11111111
    return load_plane(codes_ptr, column, inside & (width == 4), 4) | pairs | (bits << low)


@triton.jit
def load_values(codes_ptr, fields, numel, columns, G: tl.constexpr):
    """Return the values of a tile as rows, and how many escape codes there are."""
    COLUMNS: tl.constexpr = G.columns
    column = tl.arange(0, COLUMNS)
    num_escapes, base, width = fields
    nibbles = load_codes(codes_ptr, width, column, columns)
    # No code reaches 16, so without codes nothing is an escape.
    escape = tl.where(width > 0, (1 << width) - 1, 16).to(tl.uint32)
    found = tl.zeros([COLUMNS], tl.int32)
    for row in tl.static_range(ROWS):
        inside = (column < columns) & (row * columns + column < numel)
        found += (inside & (((nibbles >> (4 * row)) & 15) == escape)).to(tl.int32)
    VALUE: tl.constexpr = tl.uint16 if G.value_bytes == 2 else tl.uint8
    list_ptr = (codes_ptr + width * columns).to(tl.pointer_type(VALUE))
    place = tl.cumsum(found, 0) - found
    values = ()
    for row in tl.static_range(ROWS):
        inside = (column < columns) & (row * columns + column < numel)
        code = (nibbles >> (4 * row)) & 15
        escaped = inside & (code == escape)
        listed = tl.load(list_ptr + place, mask=escaped & (place < num_escapes), other=0)
        values = values + (tl.where(escaped, listed.to(tl.int32), base + code.to(tl.int32)),)
        place += escaped.to(tl.int32)
    return values, tl.sum(found, 0)


@triton.jit
def is_illegal(entry, numel, columns, section_bytes, G: tl.constexpr):
    """Return whether a directory entry is not legal or points outside its sections."""
    residue_at, symbols_at, num_escapes, base, width, constant_planes = entry
    stored = width == STORED
    codes = tl.where(stored, 0, width)
    wrong = codes > MAX_WIDTH
    codes = tl.minimum(codes, MAX_WIDTH)
    wrong |= num_escapes > tl.where(codes > 0, numel, 0)
    wrong |= stored & (base > 0)
    wrong |= base + tl.maximum((1 << codes) - 2, 0) >= G.value_count
    fixed = constant_planes >> REMAINDER_BIT
    wrong |= (fixed > 0) & (stored | (G.remainder_bits == 0))
    wrong |= (constant_planes & BYTE_PLANES_MASK) >> G.residue_planes != 0
    fields = (codes + (1 - fixed) * G.remainder_bits) * columns + num_escapes * G.value_bytes
    block = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    symbol_bytes = block + tl.where(stored, numel * G.head_bytes, fields)
    residue_bytes = (G.residue_planes - byte_planes(constant_planes, G)) * aligned(numel)
    wrong |= outside(residue_at, residue_bytes, section_bytes[0])
    return wrong | outside(symbols_at, symbol_bytes, section_bytes[1])


@triton.jit
def decode_tile(words_ptr, body_ptr, tile, numel, columns, sections, G: tl.constexpr):
    """Decode one tile; `sections` are their two pointers and sizes. Returns whether it is corrupt."""
    residue_ptr, symbols_ptr, residue_bytes, symbol_bytes = sections
    entry = load_entry(body_ptr, tile)
    corrupt = is_illegal(entry, numel, columns, (residue_bytes, symbol_bytes), G)
    if not corrupt:
        residue_at, symbols_at, num_escapes, base, width, constant_planes = entry
        # Checked above.
        source_ptr = symbols_ptr + known_aligned(symbols_at.to(tl.int64))
        residue_start = residue_ptr + known_aligned(residue_at.to(tl.int64))
        stored = width == STORED
        width = tl.where(stored, 0, width)
        has_block = constant_planes != 0
        block = tl.load(source_ptr.to(tl.pointer_type(tl.uint64)), mask=has_block, other=0)
        source_ptr += tl.where(has_block, CONSTANT_BLOCK_BYTES, 0)
        varies = (((constant_planes >> REMAINDER_BIT) & 1) ^ 1) * (1 - stored.to(tl.int32))
        codes_ptr = source_ptr + varies * (G.remainder_bits * columns)
        values, num_codes = load_values(codes_ptr, (num_escapes, base, width), numel, columns, G)
        WORD: tl.constexpr = words_ptr.dtype.element_ty
        COLUMNS: tl.constexpr = G.columns
        column = tl.arange(0, COLUMNS)
        if G.remainder_bits > 0:
            planes = load_planes(source_ptr, column, columns, (column < columns) & (varies != 0), G.remainder_bits)
            fixed = ((block >> 56) & ((1 << G.remainder_bits) - 1)).to(tl.uint32)
        rows = ()
        for row in tl.static_range(ROWS):
            index = row * columns + column
            inside = (column < columns) & (index < numel)
            heads = load_heads(source_ptr, index, stored & inside, G)
            above = values[row].to(WORD) << G.value_shift
            if G.remainder_bits > 0:
                above |= (field_of(planes, row, G.remainder_bits) | fixed).to(WORD) << (8 * G.residue_planes)
            above = tl.where(stored, heads.to(WORD) << (8 * G.residue_planes), above)
            residue = load_residue(residue_start, index, inside, (numel, constant_planes, block), WORD, G)
            rows = rows + (restore_bits(residue | above, G),)
            # Rows of 8-byte words do not fit the registers; others are stored once all are loaded.
            if G.head_bytes == 2:
                tl.store(words_ptr + index, rows[row], mask=inside)
        if G.head_bytes == 1:
            store_rows(words_ptr, rows, column, (numel, columns))
        corrupt = num_codes != num_escapes
    return corrupt


@triton.jit
def decode_kernel(words_ptr, body_ptr, error_ptr, numel, num_tiles, section_bytes, G: tl.constexpr):
    """Decode tiles; `error_ptr` gets the lowest number of one that is corrupt."""
    tile = tl.program_id(0).to(tl.int64)
    residue_bytes = known_aligned(tile * 0 + section_bytes[0])
    symbol_bytes = tile * 0 + section_bytes[1]
    residue_ptr = body_ptr + HEADER_BYTES + aligned(tile * 0 + num_tiles * ENTRY_BYTES)
    sections = (residue_ptr, residue_ptr + residue_bytes, residue_bytes, symbol_bytes)
    left = numel - tile * G.tile_elems
    tile_ptr = words_ptr + tile * G.tile_elems
    if left >= G.tile_elems:
        corrupt = decode_tile(tile_ptr, body_ptr, tile, G.tile_elems, G.columns, sections, G)
    else:
        partial = left.to(tl.int32)
        columns = known_aligned(columns_of(partial))
        corrupt = decode_tile(tile_ptr, body_ptr, tile, partial, columns, sections, G)
    if corrupt:
        tl.atomic_min(error_ptr, tile)
