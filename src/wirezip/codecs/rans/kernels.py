"""The `rans` codec in Triton, encoding: a program a tile, a warp a stream, a lane an interleaved state.

Arguments are named in `wirezip.codecs.tiles.kernels` and `wirezip.codecs.tiles.kernels_place`.
Further ones:

- `scratch_ptr`: memory of all programs, `G.scratch_bytes` each.
- `table_ptr`: uint64, in scratch memory: the encoder's entry of each symbol, and that of the escape; see
  `kernels_encode`.
- `spill_ptr`: uint16, in scratch memory: the words of each stream, before they are placed.
- `base`: the value of symbol 1 where values are wider than symbols.
- Tensors of shape [32, S] hold a lane in a row and a stream in a column, so that a warp has a stream.
"""

import triton
import triton.language as tl

from wirezip.codecs.rans.kernels_encode import (
    CHUNK_ELEMS,
    LARGE,
    NUM_LANES,
    NUM_SYMBOLS,
    STATE_MIN,
    build_table,
    choose_base,
    count_symbols,
    counts_bytes_of,
    encode_streams,
    padded_words,
    store_escapes,
    store_streams,
    store_table,
    table_bytes_of,
)
from wirezip.codecs.tiles.kernels import (
    BYTE_PLANES_MASK,
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    STORED,
    aligned,
    columns_of,
    either,
    find_constants,
    known_aligned,
    order_bits,
    store_constant_block,
    store_padding,
    varying_planes,
)
from wirezip.codecs.tiles.kernels_lower import store_heads, store_lower
from wirezip.codecs.tiles.kernels_place import (
    JOB_TILE,
    finish_tile,
    locate,
    num_tiles_of,
    place_tile,
    section_pointer,
    store_entry,
)

TABLE_BYTES = tl.constexpr((256 + 16) * 8)
# More than any tile has.
TOO_MANY_BYTES = tl.constexpr(1 << 24)


@triton.jit
def clear_kernel(state_ptr, num_tiles, BLOCK: tl.constexpr):
    """Clear the ticket and the state of all tiles."""
    word = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(state_ptr + word, tl.zeros([BLOCK], tl.int64), mask=word <= num_tiles)


@triton.jit
def scan_constants(words_ptr, first, numel, G: tl.constexpr):
    """Return the mask of constant planes and whether the value is constant; stops once all vary."""
    varying = first & 0
    constant_planes, constant_value = find_constants(varying.to(tl.uint64), G)
    start = numel & 0
    while (start < numel) & ((constant_planes != 0) | constant_value):
        index = start + tl.arange(0, CHUNK_ELEMS)
        words = tl.load(words_ptr + index, mask=index < numel, other=0)
        varying |= tl.reduce(tl.where(index < numel, order_bits(words, G) ^ first, 0), 0, either)
        constant_planes, constant_value = find_constants(varying.to(tl.uint64), G)
        start += CHUNK_ELEMS
    return constant_planes, constant_value


@triton.jit
def store_uncoded(words_ptr, target, fields_ptr, wanted, numel, columns, FULL: tl.constexpr, G: tl.constexpr):
    """Store the residue of a tile, and at `fields_ptr` its heads or its remainder.

    `target` are where the record is, and constant_planes; `wanted` whether the heads are stored, and
    whether the remainder is.
    """
    heads, remainder = wanted
    size = (numel, columns)
    start = target[1] * 0
    while start * G.lanes < columns:
        unit = known_aligned(start) + tl.arange(0, G.units)
        store_lower(words_ptr, target, fields_ptr, remainder, unit, size, FULL, G)
        if heads:
            store_heads(words_ptr, fields_ptr, unit, size, FULL, G)
        start += G.units


@triton.jit
def store_coded(target, words_ptr, scratch, coded, frequency, numel, G: tl.constexpr):
    """Store table, streams and escapes of a tile at `target`.

    `coded` are what `encode_streams` gave, with base before the escapes and num_escapes after them.
    """
    table_ptr, spill_ptr = scratch
    states, words, base, escapes, num_escapes = coded
    target += store_table(target, frequency)
    target = store_streams(target, spill_ptr, states, words, numel, G)
    if num_escapes > 0:
        store_escapes(target, words_ptr, table_ptr, base, escapes, (numel, num_escapes), G)


@triton.jit
def lay_out(coded_bytes, constant_planes, size, G: tl.constexpr):
    """Return whether a tile is stored, its constant_planes, and where fields, code and symbols end."""
    numel, columns = size
    varies = ((constant_planes >> REMAINDER_BIT) & 1) ^ 1
    coded_at = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0) + varies * (G.remainder_bits * columns)
    stored_planes = constant_planes & BYTE_PLANES_MASK
    stored_end = tl.where(stored_planes != 0, CONSTANT_BLOCK_BYTES, 0) + numel * G.head_bytes
    stored = aligned(coded_at + coded_bytes) >= aligned(stored_end)
    constant_planes = tl.where(stored, stored_planes, constant_planes)
    fields_at = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    return stored, constant_planes, fields_at, coded_at, tl.where(stored, stored_end, coded_at + coded_bytes)


@triton.jit
def encode_tile(words_ptr, tile, numel, out, scratch, G: tl.constexpr):
    """Encode one tile; `out` is the body, its tiles and the state, `scratch` table and spill.

    1. Find constant planes; build the table from a sample; code the streams into scratch memory.
    2. Place the tile.
    3. Store the entry, the residue, and what was coded or the heads.
    """
    size = (numel, known_aligned(columns_of(numel)))
    full = (numel == G.tile_elems) & (G.words_aligned != 0)
    body_ptr, num_tiles, state_ptr = out
    table_ptr, spill_ptr = scratch
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    first = order_bits(tl.load(words_ptr), G)
    constant_planes, constant_value = scan_constants(words_ptr, first, numel, G)
    base = (first >> G.value_shift).to(tl.int32)
    frequency = tl.zeros([NUM_SYMBOLS], tl.int32)
    states = tl.full([NUM_LANES, S], STATE_MIN, tl.uint32)
    words = tl.zeros([S], tl.int32)
    escapes = (tl.zeros([NUM_LANES, S], tl.int32), tl.zeros([NUM_LANES, S], tl.uint64))
    num_escapes = numel & 0
    coded_bytes = numel & 0
    if not constant_value:
        base = choose_base(words_ptr, numel, G)
        frequency = build_table(count_symbols(words_ptr, base, numel, G), table_ptr, G)
        tl.debug_barrier()
        # What is known of full tiles is compiled in.
        if full:
            states, words, escapes = encode_streams(words_ptr, table_ptr, spill_ptr, base, G.tile_elems, True, G)
        else:
            states, words, escapes = encode_streams(words_ptr, table_ptr, spill_ptr, base, numel, False, G)
        num_escapes = tl.sum(tl.sum(escapes[0], 0), 0)
        num_streams = (numel + ((1 << G.log2_stream) - 1)) >> G.log2_stream
        num_present = tl.sum((frequency > 0).to(tl.int32), 0)
        # A decoder's ranks are bytes, and the escape has one: with all symbols present a tile is stored.
        coded_bytes = tl.where(num_present < NUM_SYMBOLS, 0, TOO_MANY_BYTES)
        coded_bytes += table_bytes_of(num_present, tl.sum((frequency >= LARGE).to(tl.int32), 0))
        coded_bytes += counts_bytes_of(num_streams) + num_streams * (4 * NUM_LANES)
        coded_bytes += 2 * tl.sum(padded_words(words), 0) + num_escapes * (2 + G.value_bytes)

    varies = ((constant_planes >> REMAINDER_BIT) & 1) == 0
    stored, constant_planes, fields_at, coded_at, end = lay_out(coded_bytes, constant_planes, size, G)
    residue_bytes = varying_planes(constant_planes, G) * aligned(numel)
    num_bytes = residue_bytes + aligned(end)
    at = place_tile(state_ptr, tile, num_bytes, G)
    finish_tile(body_ptr, tile, num_tiles, at + num_bytes, G)
    width = tl.where(stored, STORED, tl.where(constant_value, 0, G.prob_bits))
    fields = (tl.where(stored, 0, num_escapes), tl.where(stored, 0, base), width, constant_planes)
    store_entry(body_ptr, tile, at, fields)
    record_ptr = section_pointer(body_ptr, num_tiles) + at
    symbols_ptr = record_ptr + known_aligned(residue_bytes)
    fields_ptr = symbols_ptr + known_aligned(fields_at)
    wanted = (stored, varies & (stored == 0))
    if full:
        store_uncoded(words_ptr, (record_ptr, constant_planes), fields_ptr, wanted, G.tile_elems, G.columns, True, G)
    else:
        store_uncoded(words_ptr, (record_ptr, constant_planes), fields_ptr, wanted, numel, size[1], False, G)
    store_constant_block(symbols_ptr, first, constant_planes, G)
    if (stored | constant_value) == 0:
        coded = (states, words, base, escapes, num_escapes)
        tl.debug_barrier()
        store_coded(symbols_ptr + coded_at, words_ptr, scratch, coded, frequency, numel, G)
    store_padding(symbols_ptr, end)


@triton.jit
def encode_kernel(words_ptr, body_ptr, job_ptr, state_ptr, scratch_ptr, numel, num_tasks, G: tl.constexpr):
    """Encode tiles in the order of tickets; a program has scratch memory of its own.

    `numel` is the number of tensors in a batch, `num_tasks` that of the tiles of all.
    """
    scratch_ptr += tl.program_id(0).to(tl.int64) * G.scratch_bytes
    table_ptr = scratch_ptr.to(tl.pointer_type(tl.uint64))
    scratch = (table_ptr, (scratch_ptr + TABLE_BYTES).to(tl.pointer_type(tl.uint16)))
    task = tl.atomic_add(state_ptr, 1)
    while task < num_tasks:
        tensor_ptr, target_ptr, _, facts = locate(words_ptr, body_ptr, job_ptr, task, (numel, 0), JOB_TILE, G)
        tensor_numel, _, first_tile, _ = facts
        tile = task - first_tile
        out = (target_ptr, num_tiles_of(tensor_numel, G), state_ptr + 1 + first_tile)
        left = tensor_numel - tile * G.tile_elems
        tensor_ptr += tile * G.tile_elems
        tile_numel = tl.minimum(left, G.tile_elems).to(tl.int32)
        encode_tile(tensor_ptr, tile, tile_numel, out, scratch, G)
        # The next tile overwrites the scratch memory.
        tl.debug_barrier()
        task = tl.atomic_add(state_ptr, 1)
