"""The `rans` codec in Triton: one program a tile, a warp a stream, a lane an interleaved state.

Arguments are named in `wirezip.codecs.tiles.kernels`. Further ones:

- `table_ptr`: uint64, in scratch memory: the entry of each symbol, and that of the escape:
  start | frequency << 12 | shift << 24 | reciprocal << 32.
- `spill_ptr`: uint16, in scratch memory: the words of each stream before they are placed.
- `slots_ptr`: uint32, in scratch memory: for each slot of the probabilities
  symbol | (frequency - 1) << 8 | (slot - start) << 20; `ranked_ptr`: symbol, frequency - 1 and start
  of the symbols present, in the same places.
- `base`: the value of symbol 1 where values are wider than symbols.
- Tensors of shape [S, 32] hold a stream in a row and a lane in a column; those of shape [S, 32, 4]
  the four elements that follow one another in a lane.
"""

import triton
import triton.language as tl

from wirezip.codecs.rans.kernels_decode import (
    MAX_SLOTS,
    build_slots,
    decode_streams,
    load_lower,
    load_table,
    patch_escapes,
)
from wirezip.codecs.rans.kernels_encode import (
    BITMAP_BYTES,
    NUM_LANES,
    NUM_SYMBOLS,
    STATE_MIN,
    build_table,
    choose_base,
    encode_streams,
    scan_constants,
    store_escapes,
    store_streams,
    store_table,
)
from wirezip.codecs.tiles.kernels import (
    BYTE_PLANES_MASK,
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    STORED,
    aligned,
    byte_planes,
    columns_of,
    known_aligned,
    load_heads,
    load_rows,
    order_bits,
    restore_bits,
    store_constant_block,
    store_heads,
    store_padding,
    store_remainder,
    store_residue,
)
from wirezip.codecs.tiles.kernels_place import (
    ENTRY_BYTES,
    HEADER_BYTES,
    load_entry,
    outside,
    place_tile,
    store_entry,
)

TABLE_BYTES = tl.constexpr((256 + 16) * 8)
DECODER_BYTES = tl.constexpr((4096 + 512) * 4)
# Columns of the loops over a whole tile, elements of those over its sample and its escapes.
CHUNK_COLUMNS = tl.constexpr(256)
HALF_CHUNK_ELEMS = tl.constexpr(1024)
MIN_PROB_BITS = tl.constexpr(9)
MAX_PROB_BITS = tl.constexpr(12)


@triton.jit
def store_uncoded(words_ptr, residue_ptr, fields_ptr, wanted, size, G: tl.constexpr):
    """Store the residue of a tile, and at `fields_ptr` its heads or its remainder.

    `wanted` are constant_planes, whether the heads are stored, and whether the remainder is.
    """
    constant_planes, heads, remainder = wanted
    numel, columns = size
    start = numel & 0
    while start < columns:
        column = known_aligned(start) + tl.arange(0, CHUNK_COLUMNS)
        rows = load_rows(words_ptr, column, numel, columns, G)
        store_residue(residue_ptr, rows, column, size, constant_planes, G)
        if heads:
            store_heads(fields_ptr, rows, column, size, G)
        if G.remainder_bits > 0:
            if remainder:
                store_remainder(fields_ptr, rows, column, columns, G)
        start += CHUNK_COLUMNS


@triton.jit
def encode_tile(words_ptr, tile, numel, out, scratch, G: tl.constexpr):
    """Encode one tile; `out` is the body, its sections and the state, `scratch` table and spill.

    1. Find constant planes; build the table from a sample; code the streams into scratch memory.
    2. Place the tile.
    3. Store the entry, the residue, and what was coded or the heads.
    """
    body_ptr, residue_ptr, symbols_ptr, state_ptr = out
    table_ptr, spill_ptr = scratch
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    columns = known_aligned(columns_of(numel))
    first = order_bits(tl.load(words_ptr), G)
    constant_planes, constant_value = scan_constants(words_ptr, first, numel, G)
    base = (first >> G.value_shift).to(tl.int32)
    frequency = tl.zeros([NUM_SYMBOLS], tl.int32)
    states = tl.full([S, NUM_LANES], STATE_MIN, tl.uint32)
    words = tl.zeros([S], tl.int32)
    num_escapes = numel & 0
    coded_bytes = numel & 0
    if not constant_value:
        base = choose_base(words_ptr, numel, G)
        frequency = build_table(words_ptr, table_ptr, base, numel, G)
        tl.debug_barrier()
        states, words, num_escapes = encode_streams(words_ptr, table_ptr, spill_ptr, base, numel, G)
        num_streams = (numel + ((1 << G.log2_stream) - 1)) >> G.log2_stream
        num_present = tl.sum((frequency > 0).to(tl.int32), 0)
        coded_bytes = BITMAP_BYTES + (num_present + 1) // 2 * 4 + num_streams * (4 + 4 * NUM_LANES)
        coded_bytes += 2 * tl.sum(words, 0) + num_escapes * (2 + G.value_bytes)

    varies = ((constant_planes >> REMAINDER_BIT) & 1) ^ 1
    coded_at = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    fields_at = coded_at
    coded_at += varies * (G.remainder_bits * columns)
    stored_planes = constant_planes & BYTE_PLANES_MASK
    heads_at = tl.where(stored_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    stored_end = heads_at + numel * G.head_bytes
    stored = aligned(coded_at + coded_bytes) >= aligned(stored_end)
    end = tl.where(stored, stored_end, coded_at + coded_bytes)
    constant_planes = tl.where(stored, stored_planes, constant_planes)
    residue_bytes = (G.residue_planes - byte_planes(constant_planes, G)) * aligned(numel)

    residue_at, symbols_at = place_tile(state_ptr, tile, residue_bytes, aligned(end), G)
    width = tl.where(stored, STORED, tl.where(constant_value, 0, G.prob_bits))
    fields = (tl.where(stored, 0, num_escapes), tl.where(stored, 0, base), width, constant_planes)
    store_entry(body_ptr, tile, (residue_at, symbols_at), fields)
    target_ptr = symbols_ptr + symbols_at
    store_constant_block(target_ptr, first, constant_planes, G)
    wanted = (constant_planes, stored, (varies != 0) & (stored == 0))
    fields_ptr = target_ptr + tl.where(stored, heads_at, fields_at)
    store_uncoded(words_ptr, residue_ptr + residue_at, fields_ptr, wanted, (numel, columns), G)
    if (stored | constant_value) == 0:
        tl.debug_barrier()
        coded_ptr = target_ptr + coded_at
        coded_ptr += store_table(coded_ptr, frequency)
        coded_ptr = store_streams(coded_ptr, spill_ptr, states, words, numel, G)
        store_escapes(coded_ptr, words_ptr, table_ptr, base, (numel, num_escapes), G)
    store_padding(target_ptr, end)


@triton.jit
def encode_kernel(words_ptr, body_ptr, state_ptr, scratch_ptr, numel, num_tiles, max_residue_bytes, G: tl.constexpr):
    """Encode tiles in the order of tickets; a program has scratch memory of its own."""
    program = tl.program_id(0).to(tl.int64)
    residue_ptr = body_ptr + HEADER_BYTES + aligned(program * 0 + num_tiles * ENTRY_BYTES)
    out = (body_ptr, residue_ptr, residue_ptr + known_aligned(program * 0 + max_residue_bytes), state_ptr)
    table_ptr = scratch_ptr + program * G.scratch_bytes
    scratch = (table_ptr.to(tl.pointer_type(tl.uint64)), (table_ptr + TABLE_BYTES).to(tl.pointer_type(tl.uint16)))
    tile = tl.atomic_add(state_ptr, 1)
    while tile < num_tiles:
        tile_numel = tl.minimum(numel - tile * G.tile_elems, G.tile_elems).to(tl.int32)
        encode_tile(words_ptr + tile * G.tile_elems, tile, tile_numel, out, scratch, G)
        # The next tile overwrites the scratch memory.
        tl.debug_barrier()
        tile = tl.atomic_add(state_ptr, 1)


@triton.jit
def is_illegal(entry, numel, columns, section_bytes, G: tl.constexpr):
    """Return whether a directory entry is not legal, or what it surely has leaves its sections."""
    residue_at, symbols_at, num_escapes, base, width, constant_planes = entry
    stored = width == STORED
    coded = (width >= MIN_PROB_BITS) & (width <= MAX_PROB_BITS)
    wrong = (stored | coded | (width == 0)) == 0
    wrong |= num_escapes > tl.where(coded, numel, 0)
    wrong |= base >= G.value_count
    fixed = constant_planes >> REMAINDER_BIT
    wrong |= (fixed > 0) & (stored | (G.remainder_bits == 0))
    wrong |= (constant_planes & BYTE_PLANES_MASK) >> G.residue_planes != 0
    num_streams = (numel + ((1 << G.log2_stream) - 1)) >> G.log2_stream
    least = BITMAP_BYTES + num_streams * (4 + 4 * NUM_LANES) + num_escapes * (2 + G.value_bytes)
    fields = (1 - fixed) * (G.remainder_bits * columns) + tl.where(coded, least, 0)
    block = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    symbol_bytes = block + tl.where(stored, numel * G.head_bytes, fields)
    residue_bytes = (G.residue_planes - byte_planes(constant_planes, G)) * aligned(numel)
    wrong |= outside(residue_at, residue_bytes, section_bytes[0])
    return wrong | outside(symbols_at, symbol_bytes, section_bytes[1])


@triton.jit
def decode_uncoded(words_ptr, source, base, stored, size, G: tl.constexpr):
    """Decode a tile of which the heads are stored, or the value is constant."""
    WORD: tl.constexpr = words_ptr.dtype.element_ty
    numel, _ = size
    start = numel & 0
    while start < numel:
        index = known_aligned(start) + tl.arange(0, HALF_CHUNK_ELEMS)
        inside = index < numel
        heads = load_heads(source[1], index, inside & stored, G).to(WORD) << (8 * G.residue_planes)
        lower = load_lower(source, index, inside, size, WORD, G)
        value = base.to(WORD) << G.value_shift
        tl.store(words_ptr + index, restore_bits(lower | tl.where(stored, heads, value), G), mask=inside)
        start += HALF_CHUNK_ELEMS


@triton.jit
def decode_coded(words_ptr, source, coded_ptr, entry, room, size, scratch, G: tl.constexpr):
    """Decode a tile of streams, of which `room` bytes are in the section; returns whether it is corrupt."""
    num_escapes, base, prob_bits = entry
    slots_ptr, ranked_ptr = scratch
    numel, _ = size
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    stream = tl.arange(0, S)
    num_streams = (numel + ((1 << G.log2_stream) - 1)) >> G.log2_stream
    frequency, present, table_bytes, corrupt = load_table(coded_ptr, prob_bits, room)
    coded_ptr += table_bytes
    after = table_bytes + num_streams * (4 + 4 * NUM_LANES) + num_escapes * (2 + G.value_bytes)
    corrupt |= after > room
    counts_ptr = coded_ptr.to(tl.pointer_type(tl.uint32))
    counts = tl.load(counts_ptr + stream, mask=(stream < num_streams) & (corrupt == 0), other=0)
    # No stream has more words than elements, so their sum fits 32 bits.
    corrupt |= tl.max((counts > (1 << G.log2_stream)).to(tl.int32), 0) != 0
    words = tl.minimum(counts, 1 << G.log2_stream).to(tl.int32)
    num_words = tl.sum(words, 0)
    corrupt |= after + 2 * num_words > room
    if corrupt == 0:
        build_slots(slots_ptr, ranked_ptr, frequency, present, prob_bits)
        coded = (base, prob_bits, words)
        corrupt = decode_streams(words_ptr, slots_ptr, coded_ptr + 4 * num_streams, source, coded, size, G)
        list_ptr = coded_ptr + num_streams * (4 + 4 * NUM_LANES) + 2 * num_words
        tl.debug_barrier()
        corrupt |= patch_escapes(words_ptr, list_ptr, num_escapes, numel, G)
    return corrupt


@triton.jit
def decode_tile(words_ptr, body_ptr, tile, numel, sections, scratch, G: tl.constexpr):
    """Decode one tile; `sections` are their two pointers and sizes. Returns whether it is corrupt."""
    residue_ptr, symbols_ptr, residue_bytes, symbol_bytes = sections
    columns = known_aligned(columns_of(numel))
    entry = load_entry(body_ptr, tile)
    corrupt = is_illegal(entry, numel, columns, (residue_bytes, symbol_bytes), G)
    if corrupt == 0:
        residue_at, symbols_at, num_escapes, base, width, constant_planes = entry
        stored = width == STORED
        has_block = constant_planes != 0
        at = known_aligned(symbols_at.to(tl.int64))
        block = tl.load((symbols_ptr + at).to(tl.pointer_type(tl.uint64)), mask=has_block, other=0)
        at += tl.where(has_block, CONSTANT_BLOCK_BYTES, 0)
        varies = ((((constant_planes >> REMAINDER_BIT) & 1) ^ 1) != 0) & (stored == 0)
        residue_at = known_aligned(residue_at.to(tl.int64))
        source = (residue_ptr + residue_at, symbols_ptr + at, varies, constant_planes, block)
        if stored | (width == 0):
            decode_uncoded(words_ptr, source, base, stored, (numel, columns), G)
        else:
            at += varies.to(tl.int32) * (G.remainder_bits * columns)
            coded = (num_escapes, base, width)
            room = symbol_bytes - at
            corrupt = decode_coded(words_ptr, source, symbols_ptr + at, coded, room, (numel, columns), scratch, G)
    return corrupt


@triton.jit
def decode_kernel(words_ptr, body_ptr, error_ptr, scratch_ptr, numel, num_tiles, section_bytes, G: tl.constexpr):
    """Decode tiles; `error_ptr` gets the lowest number of one that is corrupt."""
    program = tl.program_id(0).to(tl.int64)
    residue_bytes = known_aligned(program * 0 + section_bytes[0])
    residue_ptr = body_ptr + HEADER_BYTES + aligned(program * 0 + num_tiles * ENTRY_BYTES)
    sections = (residue_ptr, residue_ptr + residue_bytes, residue_bytes, program * 0 + section_bytes[1])
    slots_ptr = (scratch_ptr + program * G.scratch_bytes).to(tl.pointer_type(tl.uint32))
    tile = program
    while tile < num_tiles:
        tile_numel = tl.minimum(numel - tile * G.tile_elems, G.tile_elems).to(tl.int32)
        tile_ptr = words_ptr + tile * G.tile_elems
        corrupt = decode_tile(tile_ptr, body_ptr, tile, tile_numel, sections, (slots_ptr, slots_ptr + MAX_SLOTS), G)
        if corrupt:
            tl.atomic_min(error_ptr, tile)
        # The next tile overwrites the scratch memory.
        tl.debug_barrier()
        tile += tl.num_programs(0)
