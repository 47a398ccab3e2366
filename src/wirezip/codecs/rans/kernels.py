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

from wirezip.codecs.tiles.kernels import (
    BYTE_PLANES_MASK,
    CONSTANT_BLOCK_BYTES,
    ENTRY_BYTES,
    HEADER_BYTES,
    REMAINDER_BIT,
    STORED,
    aligned,
    byte_planes,
    columns_of,
    field_of,
    find_constants,
    known_aligned,
    load_entry,
    load_heads,
    load_planes,
    load_residue,
    load_rows,
    order_bits,
    outside,
    place_tile,
    restore_bits,
    store_constant_block,
    store_entry,
    store_heads,
    store_padding,
    store_remainder,
    store_residue,
)

NUM_LANES = tl.constexpr(32)
LANE_RUN = tl.constexpr(4)
GROUP_ELEMS = tl.constexpr(128)
STATE_MIN = tl.constexpr(1 << 15)
NUM_SYMBOLS = tl.constexpr(256)
ESCAPE = tl.constexpr(256)
BITMAP_BYTES = tl.constexpr(32)
MIN_PROB_BITS = tl.constexpr(9)
MAX_PROB_BITS = tl.constexpr(12)
MAX_SLOTS = tl.constexpr(1 << 12)
SAMPLED_FROM_ELEMS = tl.constexpr(1 << 14)
SAMPLE_STEP = tl.constexpr(4)
WIDE_SPAN = tl.constexpr(255)
TABLE_BYTES = tl.constexpr((256 + 16) * 8)
DECODER_BYTES = tl.constexpr((4096 + 512) * 4)
FIELD = tl.constexpr((1 << 12) - 1)
# Columns of the loops over a whole tile, elements of those over its sample and its escapes.
CHUNK_COLUMNS = tl.constexpr(256)
CHUNK_ELEMS = tl.constexpr(2048)
HALF_CHUNK_ELEMS = tl.constexpr(1024)


@triton.jit
def scan_constants(words_ptr, first, numel, G: tl.constexpr):
    """Return the mask of constant planes and whether the value is constant; stops once all vary."""
    varying = tl.zeros([CHUNK_ELEMS], words_ptr.dtype.element_ty)
    constant_planes, constant_value = find_constants(varying, G)
    start = numel & 0
    while (start < numel) & ((constant_planes != 0) | constant_value):
        index = start + tl.arange(0, CHUNK_ELEMS)
        words = tl.load(words_ptr + index, mask=index < numel, other=0)
        varying |= tl.where(index < numel, order_bits(words, G) ^ first, 0)
        constant_planes, constant_value = find_constants(varying, G)
        start += CHUNK_ELEMS
    return constant_planes, constant_value


@triton.jit
def sampled_values(words_ptr, start, numel, G: tl.constexpr):
    """Return the values of the sample from its `start` on, and which of them there are."""
    place = start + tl.arange(0, CHUNK_ELEMS)
    spread = place // GROUP_ELEMS * (GROUP_ELEMS * SAMPLE_STEP) + place % GROUP_ELEMS
    index = tl.where(numel < SAMPLED_FROM_ELEMS, place, spread)
    words = tl.load(words_ptr + index, mask=index < numel, other=0)
    return (order_bits(words, G) >> G.value_shift).to(tl.int32), index < numel


@triton.jit
def symbols_of(values, base, G: tl.constexpr):
    """Return the symbols of int32 values, `ESCAPE` where there is none."""
    if G.value_bytes == 1:
        symbols = values
    else:
        distance = (values - base).to(tl.uint32)
        symbols = tl.where(values == 0, 0, tl.minimum(distance, WIDE_SPAN).to(tl.int32) + 1)
    return symbols


@triton.jit
def choose_base(words_ptr, numel, G: tl.constexpr):
    """Return the base that ends the span of symbols at the largest value sampled."""
    base = numel & 0
    if G.value_bytes > 1:
        start = numel & 0
        largest = numel & 0
        while start < numel:
            values, inside = sampled_values(words_ptr, start, numel, G)
            largest = tl.maximum(largest, tl.max(tl.where(inside, values, 0), 0))
            start += CHUNK_ELEMS
        base = tl.maximum(largest - (WIDE_SPAN - 1), 0)
    return base


@triton.jit
def build_table(words_ptr, table_ptr, base, numel, G: tl.constexpr):
    """Store the table of a tile, from its sample; return the frequencies, 0 where a symbol is absent."""
    counts = tl.zeros([NUM_SYMBOLS], tl.int32)
    start = numel & 0
    while start < numel:
        values, inside = sampled_values(words_ptr, start, numel, G)
        symbols = symbols_of(values, base, G)
        known = inside & (symbols < NUM_SYMBOLS)
        counts += tl.histogram(tl.where(known, symbols, 0), NUM_SYMBOLS, mask=known)
        start += CHUNK_ELEMS
    symbol = tl.arange(0, NUM_SYMBOLS)
    present = counts > 0
    shared = (1 << G.prob_bits) - 1 - tl.sum(present.to(tl.int32), 0)
    total = tl.maximum(tl.sum(counts, 0), 1)
    frequency = tl.where(present, 1 + counts * shared // total, 0)
    # The commonest, the lowest of equals, is the largest of these keys.
    key = counts * NUM_SYMBOLS + (NUM_SYMBOLS - 1 - symbol)
    left = (1 << G.prob_bits) - 1 - tl.sum(frequency, 0)
    frequency += tl.where(key == tl.max(key, 0), left, 0)

    # For f in (2**(shift - 1), 2**shift], state // f = (umulhi(state, reciprocal) + state) >> shift.
    divisor = tl.maximum(frequency, 1)
    shift = tl.zeros([NUM_SYMBOLS], tl.int32)
    for bit in tl.static_range(12):
        shift += (divisor > (1 << bit)).to(tl.int32)
    reciprocal = (((1 << shift) - divisor).to(tl.int64) << 32) // divisor + 1
    begin = tl.cumsum(frequency, 0) - frequency
    entry = (begin | (frequency << 12)).to(tl.int64) | (shift.to(tl.int64) << 24) | (reciprocal << 32)
    escape = (1 << 32) | (1 << 12) | ((1 << G.prob_bits) - 1)
    entry = tl.where(frequency > 0, entry, escape)
    tl.store(table_ptr + symbol, entry.to(tl.uint64))
    tl.store(table_ptr + NUM_SYMBOLS + tl.arange(0, 1), tl.full([1], escape, tl.uint64))
    return frequency


@triton.jit
def quarters(run):
    """Return the four elements of each lane of a [S, 32, 4] tensor as [S, 32] tensors, in order."""
    even, odd = tl.split(tl.reshape(run, [run.shape[0], run.shape[1], 2, 2]))
    zeroth, second = tl.split(even)
    first, third = tl.split(odd)
    return zeroth, first, second, third


@triton.jit
def encode_step(states, words, entry, active, spill_ptr, G: tl.constexpr):
    """Code one symbol a lane; returns the states and the number of words of each stream."""
    low = entry.to(tl.uint32)
    frequency = (low >> 12) & FIELD
    full = active & (states >= (frequency << (31 - G.prob_bits)))
    leaves = full.to(tl.int32)
    place = tl.expand_dims(words, 1) + tl.cumsum(leaves, 1) - leaves
    tl.store(spill_ptr + place, states.to(tl.uint16), mask=full)
    states = tl.where(full, states >> 16, states)
    quotient = (tl.umulhi(states, (entry >> 32).to(tl.uint32)) + states) >> ((low >> 24) & 15)
    coded = (quotient << G.prob_bits) + (states - quotient * frequency) + (low & FIELD)
    return tl.where(active, coded, states), words + tl.sum(leaves, 1)


@triton.jit
def encode_streams(words_ptr, table_ptr, spill_ptr, base, numel, G: tl.constexpr):
    """Code all streams of a tile; returns states, words of each stream, and the number of escapes."""
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    STREAM: tl.constexpr = 1 << G.log2_stream
    stream = tl.arange(0, S)
    lane = tl.arange(0, NUM_LANES)
    length = tl.minimum(tl.maximum(numel - stream * STREAM, 0), STREAM)
    run = lane[:, None] * LANE_RUN + tl.arange(0, LANE_RUN)[None, :]
    run_ptr = words_ptr + (stream * STREAM)[:, None, None]
    row_ptr = spill_ptr + (stream * STREAM)[:, None]
    states = tl.full([S, NUM_LANES], STATE_MIN, tl.uint32)
    words = tl.zeros([S], tl.int32)
    escapes = tl.zeros([S, NUM_LANES], tl.int32)
    group = numel & 0
    while group < tl.minimum(numel, STREAM):
        within = (group + run)[None, :, :]
        inside = within < length[:, None, None]
        ordered = order_bits(tl.load(run_ptr + within, mask=inside, other=0), G)
        symbols = symbols_of((ordered >> G.value_shift).to(tl.int32), base, G)
        entries = quarters(tl.load(table_ptr + symbols, mask=inside, other=0))
        for turn in tl.static_range(LANE_RUN):
            active = (group + lane * LANE_RUN + turn)[None, :] < length[:, None]
            escapes += (active & ((entries[turn] & FIELD) == (1 << G.prob_bits) - 1)).to(tl.int32)
            states, words = encode_step(states, words, entries[turn], active, row_ptr, G)
        group += GROUP_ELEMS
    return states, words, tl.sum(tl.sum(escapes, 1), 0)


@triton.jit
def store_table(coded_ptr, frequency):
    """Store bitmap and frequency list of a tile; returns their bytes."""
    present = frequency > 0
    bit = tl.arange(0, 8)[None, :]
    octets = tl.sum(tl.reshape(present.to(tl.int32), [BITMAP_BYTES, 8]) << bit, 1)
    tl.store(coded_ptr + tl.arange(0, BITMAP_BYTES), octets.to(tl.uint8))
    list_ptr = (coded_ptr + BITMAP_BYTES).to(tl.pointer_type(tl.uint16))
    rank = tl.cumsum(present.to(tl.int32), 0) - 1
    tl.store(list_ptr + rank, frequency.to(tl.uint16), mask=present)
    num_present = tl.sum(present.to(tl.int32), 0)
    tl.store(list_ptr + num_present, (num_present & 0).to(tl.uint16), mask=num_present % 2 == 1)
    return BITMAP_BYTES + (num_present + 1) // 2 * 4


@triton.jit
def store_streams(coded_ptr, spill_ptr, states, words, numel, G: tl.constexpr):
    """Store word counts, states and words of all streams; returns their end."""
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    stream = tl.arange(0, S)
    num_streams = (numel + ((1 << G.log2_stream) - 1)) >> G.log2_stream
    counts_ptr = coded_ptr.to(tl.pointer_type(tl.uint32))
    tl.store(counts_ptr + stream, words.to(tl.uint32), mask=stream < num_streams)
    place = (num_streams + stream * NUM_LANES)[:, None] + tl.arange(0, NUM_LANES)[None, :]
    tl.store(counts_ptr + place, states, mask=(stream < num_streams)[:, None])
    target_ptr = (coded_ptr + num_streams * (4 + 4 * NUM_LANES)).to(tl.pointer_type(tl.uint16))
    before = (tl.cumsum(words, 0) - words)[:, None]
    most = tl.max(words, 0)
    start = numel & 0
    while start < most:
        word = start + tl.arange(0, GROUP_ELEMS)[None, :]
        inside = word < words[:, None]
        moved = tl.load(spill_ptr + (stream << G.log2_stream)[:, None] + word, mask=inside, other=0)
        tl.store(target_ptr + before + word, moved, mask=inside)
        start += GROUP_ELEMS
    return (target_ptr + tl.sum(words, 0)).to(tl.pointer_type(tl.uint8))


@triton.jit
def store_escapes(list_ptr, words_ptr, table_ptr, base, counts, G: tl.constexpr):
    """Store positions and values of the escapes; `counts` are numel and num_escapes."""
    numel, num_escapes = counts
    VALUE: tl.constexpr = tl.uint16 if G.value_bytes == 2 else tl.uint8
    places_ptr = list_ptr.to(tl.pointer_type(tl.uint16))
    values_ptr = (list_ptr + 2 * num_escapes).to(tl.pointer_type(VALUE))
    found = numel & 0
    start = numel & 0
    while found < num_escapes:
        index = start + tl.arange(0, CHUNK_ELEMS)
        words = tl.load(words_ptr + index, mask=index < numel, other=0)
        values = (order_bits(words, G) >> G.value_shift).to(tl.int32)
        entry = tl.load(table_ptr + symbols_of(values, base, G), mask=index < numel, other=0)
        escaped = (entry & FIELD) == (1 << G.prob_bits) - 1
        rank = found + tl.cumsum(escaped.to(tl.int32), 0) - 1
        tl.store(places_ptr + rank, index.to(tl.uint16), mask=escaped)
        tl.store(values_ptr + rank, values.to(VALUE), mask=escaped)
        found += tl.sum(escaped.to(tl.int32), 0)
        start += CHUNK_ELEMS


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
def load_table(coded_ptr, prob_bits, room):
    """Return frequencies, presence and bytes of a table in `room` bytes, and whether it is illegal."""
    symbol = tl.arange(0, NUM_SYMBOLS)
    present = (tl.load(coded_ptr + symbol // 8) >> (symbol % 8).to(tl.uint8)) & 1
    present = present.to(tl.int32)
    num_present = tl.sum(present, 0)
    table_bytes = BITMAP_BYTES + (num_present + 1) // 2 * 4
    list_ptr = (coded_ptr + BITMAP_BYTES).to(tl.pointer_type(tl.uint16))
    wanted = (present != 0) & (table_bytes <= room)
    frequency = tl.load(list_ptr + tl.cumsum(present, 0) - 1, mask=wanted, other=0).to(tl.int32)
    absent = tl.max(((present != 0) & (frequency == 0)).to(tl.int32), 0)
    illegal = (absent != 0) | (tl.sum(frequency, 0) >= (1 << prob_bits))
    return frequency, present, table_bytes, illegal


@triton.jit
def build_slots(slots_ptr, ranked_ptr, frequency, present, prob_bits):
    """Store the table of slots: for every slot of the probabilities its symbol and place in it."""
    symbol = tl.arange(0, NUM_SYMBOLS)
    begin = tl.cumsum(frequency, 0) - frequency
    rank = tl.cumsum(present, 0) - 1
    packed = symbol | ((frequency - 1) << 8) | (begin << 20)
    tl.store(ranked_ptr + rank, packed.to(tl.uint32), mask=present != 0)
    # The escape comes last; the symbol it decodes to is replaced later.
    escape_begin = tl.sum(frequency, 0)
    escape = (((1 << prob_bits) - escape_begin - 1) << 8) | (escape_begin << 20)
    tl.store(ranked_ptr + tl.sum(present, 0), escape.to(tl.uint32))
    tl.debug_barrier()
    slot = tl.arange(0, MAX_SLOTS)
    begins = tl.histogram(begin, MAX_SLOTS, mask=present != 0) + (slot == escape_begin).to(tl.int32)
    inside = slot < (1 << prob_bits)
    entry = tl.load(ranked_ptr + tl.cumsum(begins, 0) - 1, mask=inside, other=0)
    # Subtracting the start from the slot leaves the place in the symbol, in the same bits.
    entry = (entry & ((1 << 20) - 1)) | ((slot.to(tl.uint32) - (entry >> 20)) << 20)
    tl.store(slots_ptr + slot, entry, mask=inside)
    tl.debug_barrier()


@triton.jit
def decode_step(states, words, active, slots_ptr, row_ptr, prob_bits):
    """Decode one symbol a lane; returns the states, the words left of each stream, and the symbols."""
    slot = states & ((1 << prob_bits) - 1).to(tl.uint32)
    entry = tl.load(slots_ptr + slot, mask=active, other=0)
    taken = (((entry >> 8) & FIELD) + 1) * (states >> prob_bits.to(tl.uint32)) + (entry >> 20)
    states = tl.where(active, taken, states)
    empty = active & (states < STATE_MIN)
    enters = empty.to(tl.int32)
    words -= tl.sum(enters, 1)
    place = tl.expand_dims(words, 1) + tl.cumsum(enters, 1) - enters
    word = tl.load(row_ptr + place, mask=empty & (place >= 0), other=0).to(tl.uint32)
    return tl.where(empty, (states << 16) | word, states), words, (entry & 0xFF).to(tl.int32)


@triton.jit
def joined(run):
    """Undo `quarters`."""
    even = tl.join(run[0], run[2])
    return tl.reshape(tl.join(even, tl.join(run[1], run[3])), [even.shape[0], even.shape[1], 4])


@triton.jit
def values_of(symbols, base, G: tl.constexpr):
    """Undo `symbols_of`."""
    if G.value_bytes == 1:
        values = symbols
    else:
        values = tl.where(symbols == 0, 0, symbols + base - 1)
    return values


@triton.jit
def load_lower(source, index, inside, size, WORD: tl.constexpr, G: tl.constexpr):
    """Return what lies below the values: residue and remainder.

    `source` are pointers to residue and remainder, whether there is a remainder field,
    constant_planes and the constant block.
    """
    residue_ptr, fields_ptr, varies, constant_planes, block = source
    numel, columns = size
    lower = load_residue(residue_ptr, index, inside, (numel, constant_planes, block), WORD, G)
    if G.remainder_bits > 0:
        planes = load_planes(fields_ptr, index % columns, columns, inside & varies, G.remainder_bits)
        fixed = ((block >> 56) & ((1 << G.remainder_bits) - 1)).to(tl.uint32)
        row = (index // columns).to(tl.uint32)
        lower |= (field_of(planes, row, G.remainder_bits) | fixed).to(WORD) << (8 * G.residue_planes)
    return lower


@triton.jit
def decode_streams(words_ptr, slots_ptr, coded_ptr, source, coded, size, G: tl.constexpr):
    """Decode all streams of a tile into words; returns whether one does not end where it began.

    `coded` are base, width and the words of each stream; `coded_ptr` points to the states.
    """
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    STREAM: tl.constexpr = 1 << G.log2_stream
    WORD: tl.constexpr = words_ptr.dtype.element_ty
    base, prob_bits, words = coded
    numel, columns = size
    stream = tl.arange(0, S)
    lane = tl.arange(0, NUM_LANES)
    num_streams = (numel + (STREAM - 1)) >> G.log2_stream
    length = tl.minimum(tl.maximum(numel - stream * STREAM, 0), STREAM)
    place = (stream * NUM_LANES)[:, None] + lane[None, :]
    exists = (stream < num_streams)[:, None]
    states = tl.load(coded_ptr.to(tl.pointer_type(tl.uint32)) + place, mask=exists, other=STATE_MIN)
    words_at = (coded_ptr + num_streams * (4 * NUM_LANES)).to(tl.pointer_type(tl.uint16))
    row_ptr = words_at + (tl.cumsum(words, 0) - words)[:, None]
    run = lane[:, None] * LANE_RUN + tl.arange(0, LANE_RUN)[None, :]
    group = (tl.minimum(numel, STREAM) - 1) // GROUP_ELEMS * GROUP_ELEMS
    while group >= 0:
        within = (group + run)[None, :, :]
        inside = within < length[:, None, None]
        index = (stream * STREAM)[:, None, None] + within
        lower = load_lower(source, index, inside, size, WORD, G)
        first = (group + lane * LANE_RUN)[None, :]
        states, words, third = decode_step(states, words, first + 3 < length[:, None], slots_ptr, row_ptr, prob_bits)
        states, words, second = decode_step(states, words, first + 2 < length[:, None], slots_ptr, row_ptr, prob_bits)
        states, words, other = decode_step(states, words, first + 1 < length[:, None], slots_ptr, row_ptr, prob_bits)
        states, words, zeroth = decode_step(states, words, first < length[:, None], slots_ptr, row_ptr, prob_bits)
        values = values_of(joined((zeroth, other, second, third)), base, G)
        ordered = lower | (values.to(WORD) << G.value_shift)
        tl.store(words_ptr + index, restore_bits(ordered, G), mask=inside)
        group -= GROUP_ELEMS
    wrong = tl.sum((states != STATE_MIN).to(tl.int32), 1) + (words != 0).to(tl.int32)
    return tl.sum(wrong, 0) != 0


@triton.jit
def patch_escapes(words_ptr, list_ptr, num_escapes, numel, G: tl.constexpr):
    """Replace the values of the escapes; returns whether one lies outside the tile."""
    VALUE: tl.constexpr = tl.uint16 if G.value_bytes == 2 else tl.uint8
    places_ptr = list_ptr.to(tl.pointer_type(tl.uint16))
    values_ptr = (list_ptr + 2 * num_escapes).to(tl.pointer_type(VALUE))
    wrong = numel & 0
    start = num_escapes & 0
    while start < num_escapes:
        escape = start + tl.arange(0, NUM_SYMBOLS)
        index = tl.load(places_ptr + escape, mask=escape < num_escapes, other=0).to(tl.int32)
        value = tl.load(values_ptr + escape, mask=escape < num_escapes, other=0)
        inside = (escape < num_escapes) & (index < numel)
        wrong |= tl.max((index >= numel).to(tl.int32), 0)
        ordered = order_bits(tl.load(words_ptr + index, mask=inside, other=0), G) & ((1 << G.value_shift) - 1)
        ordered |= value.to(words_ptr.dtype.element_ty) << G.value_shift
        tl.store(words_ptr + index, restore_bits(ordered, G), mask=inside)
        start += NUM_SYMBOLS
    return wrong != 0


@triton.jit
def decode_uncoded(words_ptr, source, base, stored, size, G: tl.constexpr):
    """Decode a tile of which the heads are stored, or the value is constant."""
    WORD: tl.constexpr = words_ptr.dtype.element_ty
    numel, columns = size
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
    numel, columns = size
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
