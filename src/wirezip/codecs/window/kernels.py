"""The `window` codec in Triton, encoding: a program a tile, a column's 8 elements in one thread.

Arguments are named in `wirezip.codecs.tiles.kernels` and `wirezip.codecs.tiles.kernels_place`.
Further ones:

- `choice_ptr`: int32, for each segment of tiles: width | base << 8.
- `listed`: for each group of columns, those of one thread, a mask of its escapes: column by column, 8
  bits a column.
"""

import triton
import triton.language as tl

from wirezip.codecs.tiles.kernels import (
    BYTE_PLANES_MASK,
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    ROWS,
    STORED,
    add_field,
    aligned,
    columns_of,
    either,
    existing_bits,
    find_constants,
    folded,
    known_aligned,
    load_unit,
    lowest_bit,
    order_bits,
    popcount32,
    store_constant_block,
    store_fields,
    store_padding,
    value_lanes,
    varying_planes,
    zero_fields,
)
from wirezip.codecs.tiles.kernels_lower import store_heads, store_lower
from wirezip.codecs.tiles.kernels_place import (
    JOB_SEGMENT,
    JOB_TILE,
    finish_tile,
    locate,
    num_tiles_of,
    place_tile,
    section_pointer,
    store_entry,
)

MAX_WIDTH = tl.constexpr(4)
HALF_ROWS = tl.constexpr(4)
SEGMENT_TILES = tl.constexpr(8)
# In each row 16 columns of every 1024 are sampled, and at least 16, from another column on.
SAMPLED_COLUMNS = tl.constexpr(16)
SAMPLE_STEP = tl.constexpr(1024)
# A key to find the least cost: cost, then width, then base.
BASE_BITS = tl.constexpr(11)
BASES = tl.constexpr(1 << 11)
KEY_BITS = tl.constexpr(14)


@triton.jit
def sample_counts(words_ptr, numel, G: tl.constexpr):
    """Return how often each value occurs in the sample of a segment of `numel` elements, and the sum."""
    SPAN: tl.constexpr = max(SAMPLED_COLUMNS.value, G.columns // SAMPLE_STEP.value * SAMPLED_COLUMNS.value)
    place = tl.arange(0, SEGMENT_TILES * ROWS * SPAN)
    tile = place // (ROWS * SPAN)
    row = place // SPAN % ROWS
    left = numel - tile * G.tile_elems
    columns = tl.maximum(columns_of(tl.minimum(left, G.tile_elems)), SAMPLED_COLUMNS)
    span = tl.maximum(columns // SAMPLE_STEP, 1) * SAMPLED_COLUMNS
    column = row * (columns // 128 * SAMPLED_COLUMNS + span) + place % SPAN
    within = row * columns + column % columns
    inside = (place % SPAN < span) & (within < left)
    words = tl.load(words_ptr + (tile * G.tile_elems + within), mask=inside, other=0)
    values = (order_bits(words, G) >> G.value_shift).to(tl.int32)
    return tl.histogram(values, G.value_bins, mask=inside), tl.sum(inside.to(tl.int32), 0)


@triton.jit
def choose_window(counts, total, G: tl.constexpr):
    """Return the width and base that code the sample in the fewest bits, `STORED` if none do."""
    base = tl.arange(0, G.value_bins)
    upto = tl.cumsum(counts, 0)
    best = tl.full([G.value_bins], 1 << 62, tl.int64)
    for width in tl.static_range(1, MAX_WIDTH + 1):
        last = tl.minimum(base + ((1 << width) - 2), G.value_bins - 1)
        covered = tl.gather(upto, last, 0) - upto + counts
        bits = (width * total + 8 * G.value_bytes * (total - covered)).to(tl.int64)
        key = (bits << KEY_BITS) | (base + BASES * width)
        best = tl.where(base <= G.value_count - ((1 << width) - 1), tl.minimum(best, key), best)
    key = tl.min(best, 0)
    worth = (key >> KEY_BITS) < G.value_bits * total
    width = ((key >> BASE_BITS) & 7).to(tl.int32)
    return tl.where(worth, width, STORED), tl.where(worth, (key & (BASES - 1)).to(tl.int32), 0)


@triton.jit
def choose_kernel(words_ptr, job_ptr, state_ptr, choice_ptr, numel, G: tl.constexpr):
    """Choose width and base of a segment of tiles, and clear the state of its tiles.

    `numel` is the number of tensors in a batch.
    """
    task = tl.program_id(0).to(tl.int64)
    # There is no body yet.
    body_ptr = choice_ptr.to(tl.pointer_type(tl.uint8))
    words_ptr, _, _, facts = locate(words_ptr, body_ptr, job_ptr, task, (numel, 0), JOB_SEGMENT, G)
    numel, _, first_tile, first_segment = facts
    segment = task - first_segment
    tile = segment * SEGMENT_TILES
    start = tile * G.tile_elems
    left = tl.minimum(numel - start, SEGMENT_TILES * G.tile_elems).to(tl.int32)
    counts, total = sample_counts(words_ptr + start, left, G)
    width, base = choose_window(counts, total, G)
    tl.store(choice_ptr + first_segment + segment, width | (base << 8))
    tiles = tile + tl.arange(0, SEGMENT_TILES)
    zeros = tl.zeros([SEGMENT_TILES], tl.int64)
    tl.store(state_ptr + first_tile + tiles, zeros, mask=tiles < num_tiles_of(numel, G))


@triton.jit
def code_row(x, found, row, unit, size, choice, FULL: tl.constexpr, G: tl.constexpr):
    """Add a row of units to columns of codes, masks of escapes, and the bits that vary from `first`."""
    fields, escaped, varying = found
    escape, base, width, first = choice
    LANE_BITS: tl.constexpr = 32 // G.lanes
    HIGH: tl.constexpr = G.ones << (LANE_BITS - 1)
    # The highest bit of a lane stays set unless the value is below the window, or below its end.
    above = (value_lanes(x, G) | HIGH) - base * G.ones
    beyond = above - escape * G.ones
    escapes = (((above ^ HIGH) | beyond) & HIGH) >> (LANE_BITS - 1)
    differs = x ^ first
    if not FULL:
        differs &= existing_bits(row, unit, size, G)
    codes = (above | (escapes * escape)) & (escape * G.ones)
    return add_field(fields, codes, row, width, G), escaped | (escapes << row), varying | differs


@triton.jit
def code_rows(words_ptr, first, size, choice, FULL: tl.constexpr, G: tl.constexpr):
    """Return columns of codes, masks of escapes in lanes, and the bits that vary."""
    width, base = choice
    unit = tl.arange(0, G.units)
    UNIT: tl.constexpr = tl.uint64 if G.word_bits == 64 else tl.uint32
    found = (zero_fields(unit, G), tl.zeros(unit.shape, tl.uint32), tl.zeros(unit.shape, UNIT))
    # Places without an element are given the value of code 0.
    fill = (base.to(UNIT) << G.mantissa_bits).to(words_ptr.dtype.element_ty)
    width = width.to(tl.uint32)
    chosen = ((1 << width) - 1, base.to(tl.uint32), width, first)
    if FULL:
        # Halves, because with the words of all rows in flight too few registers are left.
        for half in tl.range(0, ROWS, HALF_ROWS, loop_unroll_factor=1):
            for step in tl.static_range(HALF_ROWS):
                x = load_unit(words_ptr, half + step, unit, size, fill, FULL, G)
                found = code_row(x, found, half + step, unit, size, chosen, FULL, G)
    else:
        row = size[0] * 0
        while row < tl.minimum(size[0], ROWS):
            x = load_unit(words_ptr, row, unit, size, fill, FULL, G)
            found = code_row(x, found, row, unit, size, chosen, FULL, G)
            row += 1
    return found


@triton.jit
def group_masks(escaped, G: tl.constexpr):
    """Return the masks of escapes of each thread's columns, from those in lanes."""
    if G.lanes == 2:
        escaped = (escaped | (escaped >> 8)) & 0xFFFF
    UNITS: tl.constexpr = G.units // G.groups
    MASK: tl.constexpr = tl.uint64 if 8 * G.lanes * UNITS > 32 else tl.uint32
    listed = escaped.to(MASK)
    if UNITS > 1:
        shift = (tl.arange(0, UNITS) * (8 * G.lanes)).to(MASK)
        listed = tl.sum(tl.reshape(listed, [G.groups, UNITS]) << shift[None, :], 1)
    return listed


@triton.jit
def popcount(mask):
    """Return the number of ones in masks."""
    count = popcount32(mask.to(tl.uint32))
    if mask.dtype == tl.uint64:
        count += popcount32((mask >> 32).to(tl.uint32))
    return count


@triton.jit
def add_and_most(sum_a, most_a, sum_b, most_b):
    """Combine sum and maximum in a reduction."""
    return sum_a + sum_b, tl.maximum(most_a, most_b)


@triton.jit
def index_of(bit, columns, G: tl.constexpr):
    """Return the elements of a tile that bits of the groups' masks stand for."""
    GROUP_COLUMNS: tl.constexpr = G.columns // G.groups
    return (bit & 7) * columns + tl.arange(0, G.groups) * GROUP_COLUMNS + (bit >> 3)


@triton.jit
def store_escapes(list_ptr, words_ptr, listed, place, most, columns, G: tl.constexpr):
    """Store the values of the escapes: in each step the next of every group, the first at its `place`."""
    VALUE: tl.constexpr = tl.uint16 if G.value_bytes == 2 else tl.uint8
    place_ptr = list_ptr.to(tl.pointer_type(VALUE)) + place
    step = most * 0
    while step < most:
        some = listed != 0
        index = index_of(lowest_bit(listed), columns, G)
        words = tl.load(words_ptr + index, mask=some, other=0)
        tl.store(place_ptr + step, (order_bits(words, G) >> G.value_shift).to(VALUE), mask=some)
        listed &= listed - 1
        step += 1


@triton.jit
def lay_out(entry, size, G: tl.constexpr):
    """Return whether a tile is stored, its entry, and where its fields, codes, list and symbols end.

    Offsets are from the start of the symbols; `entry` are num_escapes, base, width and constant_planes.
    """
    numel, columns = size
    num_escapes, base, width, constant_planes = entry
    stored_planes = constant_planes & BYTE_PLANES_MASK
    stored_end = tl.where(stored_planes != 0, CONSTANT_BLOCK_BYTES, 0) + numel * G.head_bytes
    varies = ((constant_planes >> REMAINDER_BIT) & 1) ^ 1
    fields_at = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    codes_at = fields_at + varies * (G.remainder_bits * columns)
    list_at = codes_at + tl.where(width <= MAX_WIDTH, width, 0) * columns
    end = list_at + num_escapes * G.value_bytes
    stored = (width > MAX_WIDTH) | (aligned(end) >= aligned(stored_end))
    constant_planes = tl.where(stored, stored_planes, constant_planes)
    fields_at = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    entry = (tl.where(stored, 0, num_escapes), tl.where(stored, 0, base), tl.where(stored, STORED, width))
    return stored, entry + (constant_planes,), fields_at, codes_at, list_at, tl.where(stored, stored_end, end)


@triton.jit
def encode_tile(words_ptr, tile, numel, columns, choice, out, FULL: tl.constexpr, G: tl.constexpr):
    """Encode one tile; `out` is the body, its tiles and the state.

    1. Code all rows with the window chosen; find constant planes and the escapes.
    2. Place the tile.
    3. Store the entry, the residue, and the codes with the escapes or the heads. The words are loaded
       again, from the cache, because holding them would leave no registers for other programs.
    """
    size = (numel, columns)
    width, base = choice
    body_ptr, num_tiles, state_ptr = out
    UNIT: tl.constexpr = tl.uint64 if G.word_bits == 64 else tl.uint32
    word = tl.load(words_ptr)
    first = order_bits(word, G)
    codes, escaped, varying = code_rows(words_ptr, word.to(UNIT) * G.ones, size, choice, FULL, G)
    varying = order_bits(folded(tl.reduce(varying, 0, either), G).to(word.dtype), G).to(tl.uint64)
    constant_planes, constant_value = find_constants(varying, G)
    width = tl.where(constant_value, 0, width)
    base = tl.where(constant_value, (first >> G.value_shift).to(tl.int32), base)
    coded = (width > 0) & (width <= MAX_WIDTH)
    listed = group_masks(escaped, G)
    found = popcount(listed)
    place = tl.cumsum(found, 0) - found
    num_escapes, most = tl.reduce((found, found), 0, add_and_most)

    entry = (tl.where(coded, num_escapes, 0), base, width, constant_planes)
    stored, entry, fields_at, codes_at, list_at, end = lay_out(entry, size, G)
    constant_planes = entry[3]
    residue_bytes = varying_planes(constant_planes, G) * aligned(numel)
    at = place_tile(state_ptr, tile, residue_bytes + aligned(end), G)
    store_entry(body_ptr, tile, at, entry)
    finish_tile(body_ptr, tile, num_tiles, at + residue_bytes + aligned(end), G)
    record_ptr = section_pointer(body_ptr, num_tiles) + at
    symbols_ptr = record_ptr + known_aligned(residue_bytes)
    fields_ptr = symbols_ptr + known_aligned(fields_at)
    varies = (stored | (((constant_planes >> REMAINDER_BIT) & 1) != 0)) == 0
    unit = tl.arange(0, G.units)
    store_lower(words_ptr, (record_ptr, constant_planes), fields_ptr, varies, unit, size, FULL, G)
    if constant_planes != 0:
        store_constant_block(symbols_ptr, first, constant_planes, G)
    if stored:
        store_heads(words_ptr, fields_ptr, unit, size, FULL, G)
    elif coded:
        codes_ptr = symbols_ptr + known_aligned(codes_at)
        store_fields(codes_ptr, codes, width.to(tl.uint32), unit, columns, MAX_WIDTH, FULL, G)
        store_escapes(symbols_ptr + list_at, words_ptr, listed, place, most, columns, G)
    store_padding(symbols_ptr, end)


@triton.jit
def encode_kernel(words_ptr, body_ptr, job_ptr, state_ptr, choice_ptr, numel, G: tl.constexpr):
    """Encode a tile; what is known of full tiles is compiled in. `numel` is the number of tensors in a batch."""
    task = tl.program_id(0).to(tl.int64)
    words_ptr, body_ptr, _, facts = locate(words_ptr, body_ptr, job_ptr, task, (numel, 0), JOB_TILE, G)
    numel, _, first_tile, first_segment = facts
    tile = task - first_tile
    choice = tl.load(choice_ptr + first_segment + tile // SEGMENT_TILES)
    choice = (choice & 0xFF, choice >> 8)
    out = (body_ptr, num_tiles_of(numel, G), state_ptr + first_tile)
    left = numel - tile * G.tile_elems
    words_ptr += tile * G.tile_elems
    if left >= G.tile_elems:
        encode_tile(words_ptr, tile, G.tile_elems, G.columns, choice, out, True, G)
    else:
        partial = left.to(tl.int32)
        encode_tile(words_ptr, tile, partial, known_aligned(columns_of(partial)), choice, out, False, G)
