"""Tables and streams of the `rans` kernels, encoding. Arguments are named in `wirezip.codecs.rans.kernels`."""

import triton
import triton.language as tl

from wirezip.codecs.tiles.kernels import (
    find_constants,
    order_bits,
)

NUM_LANES = tl.constexpr(32)
LANE_RUN = tl.constexpr(4)
GROUP_ELEMS = tl.constexpr(128)
STATE_MIN = tl.constexpr(1 << 15)
NUM_SYMBOLS = tl.constexpr(256)
ESCAPE = tl.constexpr(256)
BITMAP_BYTES = tl.constexpr(32)
SAMPLED_FROM_ELEMS = tl.constexpr(1 << 14)
SAMPLE_STEP = tl.constexpr(4)
WIDE_SPAN = tl.constexpr(254)
ALL_ONES = tl.constexpr(255)
FIELD = tl.constexpr((1 << 12) - 1)
CHUNK_ELEMS = tl.constexpr(2048)


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
        symbols = tl.where(distance < WIDE_SPAN, distance.to(tl.int32) + 1, ESCAPE)
        symbols = tl.where(values == 0, 0, tl.where(values == G.value_count - 1, ALL_ONES, symbols))
    return symbols


@triton.jit
def choose_base(words_ptr, numel, G: tl.constexpr):
    """Return the base that ends the span of symbols at the largest value sampled that is not all ones."""
    base = numel & 0
    if G.value_bytes > 1:
        start = numel & 0
        largest = numel & 0
        while start < numel:
            values, inside = sampled_values(words_ptr, start, numel, G)
            largest = tl.maximum(largest, tl.max(tl.where(inside & (values < G.value_count - 1), values, 0), 0))
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
