"""The `rans` codec in Triton, decoding. Arguments are named in `wirezip.codecs.rans.kernels`.

Further ones:

- `slots_ptr`: uint8, in scratch memory: for each slot of the probabilities the rank of its symbol among
  those present, the escape last; `ranked_ptr`: uint32, for each rank symbol | frequency << 8 |
  start << 20. Two small tables, because a load that gathers from n cache lines takes n cycles.
- `error_ptr`: int64, gets the lowest number of a tile that is corrupt, or `HEADER_ERROR`; in a batch one
  for each tensor.
"""

import triton
import triton.language as tl

from wirezip.codecs.rans.kernels_encode import (
    BITMAP_BYTES,
    GROUP_ELEMS,
    LANE_RUN,
    LARGE,
    NUM_LANES,
    NUM_SYMBOLS,
    STATE_MIN,
    counts_bytes_of,
    padded_words,
    table_bytes_of,
)
from wirezip.codecs.rans.kernels_runs import (
    NEAR_GROUPS,
    SECTOR_WORDS,
    constant_octets,
    load_four,
    store_run,
    touch_residue,
    values_of,
)
from wirezip.codecs.tiles.kernels import (
    BYTE_PLANES_MASK,
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    STORED,
    aligned,
    columns_of,
    either,
    known_aligned,
    order_bits,
    popcount32,
    restore_bits,
    varying_planes,
)
from wirezip.codecs.tiles.kernels_lower import load_heads
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

DECODER_BYTES = tl.constexpr(4096 + (256 + 64) * 4)
MAX_SLOTS = tl.constexpr(1 << 12)
# Slots of a step of the loops over the table, elements of those over the uncoded.
CHUNK_SLOTS = tl.constexpr(1 << 9)
CHUNK_ELEMS = tl.constexpr(512)
MIN_PROB_BITS = tl.constexpr(9)
MAX_PROB_BITS = tl.constexpr(12)
FREQUENCY_MASK = tl.constexpr((1 << 12) - 1)
START_AT = tl.constexpr(20)


@triton.jit
def load_table(coded_ptr, prob_bits, room):
    """Return frequencies, presence and bytes of a table in `room` bytes, and whether it is illegal."""
    symbol = tl.arange(0, NUM_SYMBOLS)
    present = (tl.load(coded_ptr + symbol // 8) >> (symbol % 8).to(tl.uint8)) & 1
    present = present.to(tl.int32)
    num_present = tl.sum(present, 0)
    list_ptr = coded_ptr + BITMAP_BYTES
    wanted = (present != 0) & (table_bytes_of(num_present, 0) <= room)
    small = tl.load(list_ptr + tl.cumsum(present, 0) - 1, mask=wanted, other=0).to(tl.int32)
    large = (small == LARGE).to(tl.int32)
    table_bytes = table_bytes_of(num_present, tl.sum(large, 0))
    large_ptr = (list_ptr + (num_present + 1) // 2 * 2).to(tl.pointer_type(tl.uint16))
    wanted = (large != 0) & (table_bytes <= room)
    frequency = tl.load(large_ptr + tl.cumsum(large, 0) - 1, mask=wanted, other=0).to(tl.int32)
    # A small one is no less than 1, a large one no less than the least of them.
    absent_large = tl.max(((large != 0) & (frequency < LARGE)).to(tl.int32), 0)
    frequency = tl.where(large != 0, frequency, small)
    absent = tl.max(((present != 0) & (frequency == 0)).to(tl.int32), 0)
    illegal = (absent != 0) | (absent_large != 0) | (num_present == 0) | (num_present == NUM_SYMBOLS)
    illegal |= tl.sum(frequency, 0) >= (1 << prob_bits)
    return frequency, present, table_bytes, illegal


@triton.jit
def build_slots(slots_ptr, ranked_ptr, frequency, present, prob_bits):
    """Store the table of slots: for every slot of the probabilities its symbol and place in it."""
    symbol = tl.arange(0, NUM_SYMBOLS)
    num_slots = 1 << prob_bits
    begin = tl.cumsum(frequency, 0) - frequency
    rank = tl.cumsum(present, 0) - 1
    # The escape comes last; the symbol it decodes to is replaced later.
    escape_begin = tl.sum(frequency, 0)
    slot = tl.arange(0, CHUNK_SLOTS)
    start = num_slots * 0
    while start < num_slots:
        tl.store(slots_ptr + start + slot, (start + slot == escape_begin).to(tl.uint8))
        start += CHUNK_SLOTS
    packed = symbol | (frequency << 8) | (begin << START_AT)
    tl.store(ranked_ptr + rank, packed.to(tl.uint32), mask=present != 0)
    escape = ((num_slots - escape_begin) << 8) | (escape_begin << START_AT)
    tl.store(ranked_ptr + tl.sum(present, 0), escape.to(tl.uint32))
    tl.debug_barrier()
    tl.store(slots_ptr + begin, tl.full([NUM_SYMBOLS], 1, tl.uint8), mask=present != 0)
    tl.debug_barrier()
    start = num_slots * 0
    ranked = start - 1
    while start < num_slots:
        begins = tl.load(slots_ptr + start + slot).to(tl.int32)
        tl.store(slots_ptr + start + slot, (ranked + tl.cumsum(begins, 0)).to(tl.uint8))
        ranked += tl.sum(begins, 0)
        start += CHUNK_SLOTS
    tl.debug_barrier()


@triton.jit
def decode_step(states, words, active, tables, row_ptr, prob_bits):
    """Decode one symbol a lane; returns the states, the words left of each stream, and the symbols."""
    slot = states & ((1 << prob_bits) - 1).to(tl.uint32)
    entry = tl.load(tables[1] + tl.load(tables[0] + slot).to(tl.int32))
    taken = ((entry >> 8) & FREQUENCY_MASK) * (states >> prob_bits.to(tl.uint32)) + slot - (entry >> START_AT)
    states = tl.where(active, taken, states)
    empty = active & (states < STATE_MIN)
    bit = (1 << tl.arange(0, NUM_LANES)).to(tl.uint32)[:, None]
    ballot = tl.reduce(tl.where(empty, bit, 0), 0, either)
    words -= popcount32(ballot)
    place = words[None, :] + popcount32(ballot[None, :] & (bit - 1))
    word = tl.load(row_ptr + place, mask=empty & (place >= 0), other=0).to(tl.uint32)
    return tl.where(empty, (states << 16) | word, states), words, entry & 0xFF


@triton.jit
def decode_streams(words_ptr, tables, coded_ptr, source, coded, numel, columns, FULL: tl.constexpr, G: tl.constexpr):
    """Decode all streams of a tile into words; returns whether one does not end where it began.

    `coded` are base, width and the words of each stream; `coded_ptr` points to the states.
    """
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    STREAM: tl.constexpr = 1 << G.log2_stream
    base, prob_bits, words = coded
    stream = tl.arange(0, S)
    lane = tl.arange(0, NUM_LANES)
    num_streams = (base * 0 + numel + (STREAM - 1)) >> G.log2_stream
    exists = (stream < num_streams)[None, :]
    state_ptr = coded_ptr.to(tl.pointer_type(tl.uint32)) + (stream * NUM_LANES)[None, :] + lane[:, None]
    states = tl.load(state_ptr, mask=exists, other=STATE_MIN)
    words_at = (coded_ptr + num_streams * (4 * NUM_LANES)).to(tl.pointer_type(tl.uint16))
    filled = padded_words(words)
    row_ptr = words_at + (tl.cumsum(filled, 0) - filled)[None, :]
    # Every sector of the words is brought near at once, before the steps wait for each.
    place = lane[:, None] * SECTOR_WORDS
    touched = tl.zeros([NUM_LANES, S], tl.uint32)
    most = tl.max(words, 0)
    touched_words = most * 0
    while touched_words < most:
        word = touched_words + place
        touched += tl.load(row_ptr + word, mask=word < words[None, :], other=0).to(tl.uint32)
        touched_words += NUM_LANES * SECTOR_WORDS
    start = (stream * STREAM)[None, :] + (lane * LANE_RUN)[:, None]
    length = tl.minimum(tl.maximum(numel - stream * STREAM, 0), STREAM)
    group = (tl.minimum(base * 0 + numel, STREAM) - 1) // GROUP_ELEMS * GROUP_ELEMS
    left = length[None, :] - (lane * LANE_RUN)[:, None] - group
    constants = constant_octets(source[3], source[4], G)
    while group >= 0:
        inside = tl.full([NUM_LANES, S], True, tl.int1) if FULL else left > 0
        index = group + start
        if (group // GROUP_ELEMS) % NEAR_GROUPS == NEAR_GROUPS - 1:
            touched += touch_residue(source, group, stream, length, (numel, columns), G)
        planes = load_four(source, index, inside, (numel, columns), G)
        values = ()
        for turn in tl.static_range(LANE_RUN):
            active = inside if FULL else LANE_RUN - 1 - turn < left
            states, words, symbols = decode_step(states, words, active, tables, row_ptr, prob_bits)
            values = (values_of(symbols, base, G),) + values
        store_run(words_ptr + index, values, planes, constants, left, FULL, G)
        group -= GROUP_ELEMS
        left += GROUP_ELEMS
    # What was brought near must look as if it were used.
    tl.store(tables[1] + NUM_SYMBOLS + stream, tl.max(touched, 0))
    wrong = tl.sum((states != STATE_MIN).to(tl.int32), 0) + (words != 0).to(tl.int32)
    return tl.sum(wrong, 0) != 0


@triton.jit
def turn_of(index, G: tl.constexpr):
    """Return a number by which elements of a tile ascend stream by stream, lane by lane."""
    LANE_BITS: tl.constexpr = G.log2_stream - 5
    within = index & ((1 << G.log2_stream) - 1)
    lane = (within // LANE_RUN) % NUM_LANES
    step = within // GROUP_ELEMS * LANE_RUN + within % LANE_RUN
    return (index - within) + (lane << LANE_BITS) + step


@triton.jit
def patch_escapes(words_ptr, list_ptr, num_escapes, numel, G: tl.constexpr):
    """Replace the values of the escapes; returns whether they are not in the order of streams and lanes."""
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
        before = tl.load(places_ptr + escape - 1, mask=(escape > 0) & (escape < num_escapes), other=0).to(tl.int32)
        descends = (escape > 0) & (escape < num_escapes) & (turn_of(index, G) <= turn_of(before, G))
        wrong |= tl.max(((index >= numel) | descends).to(tl.int32), 0)
        ordered = order_bits(tl.load(words_ptr + index, mask=inside, other=0), G) & ((1 << G.value_shift) - 1)
        ordered |= value.to(words_ptr.dtype.element_ty) << G.value_shift
        tl.store(words_ptr + index, restore_bits(ordered, G), mask=inside)
        start += NUM_SYMBOLS
    return wrong != 0


@triton.jit
def is_illegal(entry, size, section_bytes, G: tl.constexpr):
    """Return whether a directory entry is not legal, or what it surely has leaves its section."""
    numel, columns = size
    offset, num_escapes, base, width, constant_planes, stray = entry
    stored = width == STORED
    coded = (width >= MIN_PROB_BITS) & (width <= MAX_PROB_BITS)
    wrong = stray | ((stored | coded | (width == 0)) == 0)
    wrong |= num_escapes > tl.where(coded, numel, 0)
    wrong |= base >= G.value_count
    fixed = constant_planes >> REMAINDER_BIT
    wrong |= (fixed > 0) & (stored | (G.remainder_bits == 0))
    wrong |= (constant_planes & BYTE_PLANES_MASK) >> G.residue_planes != 0
    num_streams = (numel + ((1 << G.log2_stream) - 1)) >> G.log2_stream
    least = table_bytes_of(1, 0) + counts_bytes_of(num_streams) + num_streams * (4 * NUM_LANES)
    least += num_escapes * (2 + G.value_bytes)
    fields = (1 - fixed) * (G.remainder_bits * columns) + tl.where(coded, least, 0)
    symbol_bytes = tl.where(constant_planes != 0, CONSTANT_BLOCK_BYTES, 0)
    symbol_bytes += tl.where(stored, numel * G.head_bytes, fields)
    num_bytes = varying_planes(constant_planes, G) * aligned(numel) + symbol_bytes
    return wrong | outside(offset, num_bytes, section_bytes)


@triton.jit
def decode_constant(words_ptr, source, base, size, G: tl.constexpr):
    """Decode a tile of which all values are `base`."""
    numel, _ = size
    WORD: tl.constexpr = words_ptr.dtype.element_ty
    WIDE: tl.constexpr = G.residue_planes
    start = numel & 0
    while start < numel:
        index = start + tl.arange(0, CHUNK_ELEMS) * LANE_RUN
        planes = load_four(source, index, index < numel, size, G)
        constants = constant_octets(source[3], source[4], G)
        for element in tl.static_range(LANE_RUN):
            ordered = tl.zeros(index.shape, WORD) + (base.to(WORD) << G.value_shift)
            for plane in tl.static_range(WIDE + (G.remainder_bits > 0)):
                octets = planes[plane] | constants[plane]
                ordered |= ((octets >> (8 * element)) & 0xFF).to(WORD) << (8 * plane)
            tl.store(words_ptr + index + element, restore_bits(ordered, G), mask=index + element < numel)
        start += CHUNK_ELEMS * LANE_RUN


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
    counts_bytes = counts_bytes_of(num_streams)
    after = table_bytes + counts_bytes + num_streams * (4 * NUM_LANES) + num_escapes * (2 + G.value_bytes)
    corrupt |= after > room
    counts_ptr = coded_ptr.to(tl.pointer_type(tl.uint32))
    counts = tl.load(counts_ptr + stream, mask=(stream < num_streams) & (corrupt == 0), other=0)
    # No stream has more words than elements, so their sum fits 32 bits.
    corrupt |= tl.max((counts > (1 << G.log2_stream)).to(tl.int32), 0) != 0
    words = tl.minimum(counts, 1 << G.log2_stream).to(tl.int32)
    num_words = tl.sum(padded_words(words), 0)
    corrupt |= after + 2 * num_words > room
    if corrupt == 0:
        build_slots(slots_ptr, ranked_ptr, frequency, present, prob_bits)
        coded = (base, prob_bits, words)
        states_ptr = coded_ptr + counts_bytes
        # What is known of full tiles is compiled in.
        if (numel == G.tile_elems) & (G.words_aligned != 0):
            corrupt = decode_streams(words_ptr, scratch, states_ptr, source, coded, G.tile_elems, G.columns, True, G)
        else:
            corrupt = decode_streams(words_ptr, scratch, states_ptr, source, coded, numel, columns, False, G)
        list_ptr = states_ptr + num_streams * (4 * NUM_LANES) + 2 * num_words
        if num_escapes > 0:
            tl.debug_barrier()
            corrupt |= patch_escapes(words_ptr, list_ptr, num_escapes, numel, G)
    return corrupt


@triton.jit
def decode_tile(words_ptr, section_ptr, section_bytes, entry, numel, scratch, G: tl.constexpr):
    """Decode a tile whose entry has been checked; returns whether it is corrupt."""
    columns = known_aligned(columns_of(numel))
    size = (numel, columns)
    offset, num_escapes, base, width, constant_planes, _ = entry
    at = known_aligned(offset.to(tl.int64))
    record_ptr = section_ptr + at
    at += known_aligned(varying_planes(constant_planes, G) * aligned(numel))
    has_block = constant_planes != 0
    block = tl.load((section_ptr + at).to(tl.pointer_type(tl.uint64)), mask=has_block, other=0)
    at += known_aligned(tl.where(has_block, CONSTANT_BLOCK_BYTES, 0))
    stored = width == STORED
    varies = (((constant_planes >> REMAINDER_BIT) & 1) == 0) & (stored == 0)
    source = (record_ptr, section_ptr + at, varies, constant_planes, block)
    corrupt = stored & False
    if stored:
        start = columns * 0
        while start * G.lanes < columns:
            unit = known_aligned(start) + tl.arange(0, G.units)
            lower = (constant_planes, block, 0)
            load_heads(words_ptr, record_ptr, section_ptr + at, unit, size, lower, False, G)
            start += G.units
    elif width == 0:
        decode_constant(words_ptr, source, base, size, G)
    else:
        at += varies.to(tl.int32) * (G.remainder_bits * columns)
        coded = (num_escapes, base, width)
        room = section_bytes - at
        corrupt = decode_coded(words_ptr, source, section_ptr + at, coded, room, size, scratch, G)
    return corrupt


@triton.jit
def decode_kernel(words_ptr, body_ptr, job_ptr, error_ptr, scratch_ptr, numel, body_bytes, num_tasks, G: tl.constexpr):
    """Decode tiles; a program has scratch memory of its own.

    `numel` is the number of tensors in a batch, `num_tasks` that of the tiles of all.
    """
    task = tl.program_id(0).to(tl.int64)
    slots_ptr = scratch_ptr + task * G.scratch_bytes
    scratch = (slots_ptr, (slots_ptr + MAX_SLOTS).to(tl.pointer_type(tl.uint32)))
    while task < num_tasks:
        sizes = (numel, body_bytes)
        tensor_ptr, source_ptr, job, facts = locate(words_ptr, body_ptr, job_ptr, task, sizes, JOB_TILE, G)
        tensor_numel, tensor_bytes, first_tile, _ = facts
        tile = task - first_tile
        num_tiles = num_tiles_of(tensor_numel, G)
        section_bytes, wrong = load_section_bytes(source_ptr, num_tiles, tensor_bytes, G)
        failed = tile * 0 + HEADER_ERROR
        if wrong == 0:
            failed = tile
            entry = load_entry(source_ptr, tile)
            tile_numel = tl.minimum(tensor_numel - tile * G.tile_elems, G.tile_elems).to(tl.int32)
            wrong = is_illegal(entry, (tile_numel, known_aligned(columns_of(tile_numel))), section_bytes, G)
            if wrong == 0:
                tile_ptr = tensor_ptr + tile * G.tile_elems
                section_ptr = section_pointer(source_ptr, num_tiles)
                wrong = decode_tile(tile_ptr, section_ptr, section_bytes, entry, tile_numel, scratch, G)
        if wrong:
            tl.atomic_min(error_ptr + job, failed)
        # The next tile overwrites the scratch memory.
        tl.debug_barrier()
        task += tl.num_programs(0)
