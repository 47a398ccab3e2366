"""Tables and streams of the `rans` kernels, encoding. Arguments are named in `wirezip.codecs.rans.kernels`."""

import triton
import triton.language as tl

from wirezip.codecs.tiles.kernels import either, lowest_bit64, order_bits, popcount32, value_lanes
from wirezip.codecs.tiles.kernels_lower import heads_of

NUM_LANES = tl.constexpr(32)
LANE_RUN = tl.constexpr(4)
GROUP_ELEMS = tl.constexpr(128)
STATE_MIN = tl.constexpr(1 << 15)
NUM_SYMBOLS = tl.constexpr(256)
ESCAPE = tl.constexpr(256)
BITMAP_BYTES = tl.constexpr(32)
# Frequencies from here on are in a list of their own, 2 bytes each.
LARGE = tl.constexpr(255)
SAMPLED_FROM_ELEMS = tl.constexpr(1 << 13)
WIDE_SPAN = tl.constexpr(254)
ALL_ONES = tl.constexpr(255)
# Elements of a step of the loops over a sample or over the escapes.
CHUNK_ELEMS = tl.constexpr(1024)
# Parts of a stream, of which each lane notes in which it has escapes.
PARTS = tl.constexpr(64)
SAMPLE_ELEMS = tl.constexpr(2048)
# Words that are moved as one, and how many such of each stream at once.
WIDE_WORDS = tl.constexpr(4)
MOVED_WIDE = tl.constexpr(128)
# Entry of the encoder's table, in its lower half: bias, shift and frequency, and a mark of the escape.
SHIFT_AT = tl.constexpr(16)
FREQUENCY_AT = tl.constexpr(20)
ESCAPE_MARK = tl.constexpr(1 << 14)
BIAS_MASK = tl.constexpr((1 << 14) - 1)


@triton.jit
def sampled_values(words_ptr, start, numel, G: tl.constexpr):
    """Return the values of the sample from its `start` on, and which of them there are."""
    place = start + tl.arange(0, SAMPLE_ELEMS)
    spread = place // GROUP_ELEMS * (GROUP_ELEMS * G.sample_step) + place % GROUP_ELEMS
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
            start += SAMPLE_ELEMS
        base = tl.maximum(largest - (WIDE_SPAN - 1), 0)
    return base


@triton.jit
def count_symbols(words_ptr, base, numel, G: tl.constexpr):
    """Return how often each symbol occurs in the sample."""
    counts = tl.zeros([NUM_SYMBOLS], tl.int32)
    sampled = tl.where(numel < SAMPLED_FROM_ELEMS, numel, (numel + (G.sample_step - 1)) // G.sample_step)
    # The last group of a partial tile may lie wholly in the sample.
    sampled += tl.where(numel < SAMPLED_FROM_ELEMS, 0, GROUP_ELEMS)
    start = numel & 0
    while start < sampled:
        values, inside = sampled_values(words_ptr, start, numel, G)
        symbols = symbols_of(values, base, G)
        known = inside & (symbols < NUM_SYMBOLS)
        counts += tl.histogram(tl.where(known, symbols, 0), NUM_SYMBOLS, mask=known)
        start += SAMPLE_ELEMS
    return counts


@triton.jit
def build_table(counts, table_ptr, G: tl.constexpr):
    """Store the encoder's table; return the frequencies, 0 where a symbol is absent."""
    symbol = tl.arange(0, NUM_SYMBOLS)
    present = counts > 0
    SLOTS: tl.constexpr = (1 << G.prob_bits) - 1
    total = tl.maximum(tl.sum(counts, 0), 1)
    frequency = tl.where(present, 1 + counts * (SLOTS - tl.sum(present.to(tl.int32), 0)) // total, 0)
    # The commonest, the lowest of equals, is the largest of these keys.
    key = counts * NUM_SYMBOLS + (NUM_SYMBOLS - 1 - symbol)
    frequency += tl.where(key == tl.max(key, 0), SLOTS - tl.sum(frequency, 0), 0)

    # For a frequency f in (2**s / 2, 2**s] and states below 2**31, state // f is umulhi(state,
    # ceil(2**(31 + s) / f)) >> (s - 1). A frequency of 1 has the quotient state - 1, which the bias mends.
    divisor = tl.maximum(frequency, 2)
    shift = tl.zeros([NUM_SYMBOLS], tl.int32)
    for bit in tl.static_range(1, 12):
        shift += (divisor > (1 << bit)).to(tl.int32)
    reciprocal = ((1 << 32) << shift.to(tl.int64)) // divisor
    reciprocal += (reciprocal * divisor < ((1 << 32) << shift.to(tl.int64))).to(tl.int64)
    begin = tl.cumsum(frequency, 0) - frequency
    alone = frequency == 1
    bias = begin + tl.where(alone, SLOTS, 0)
    reciprocal = tl.where(alone, (1 << 32) - 1, reciprocal)
    low = bias.to(tl.int64) | (shift.to(tl.int64) << SHIFT_AT) | (frequency.to(tl.int64) << FREQUENCY_AT)
    # All ones above, as the reciprocal of a frequency of 1.
    LONE: tl.constexpr = ((1 << 20) | (1 << 14) | (2 * SLOTS)) - (1 << 32)
    entry = tl.where(frequency > 0, low | (reciprocal << 32), LONE)
    tl.store(table_ptr + symbol, entry.to(tl.uint64))
    tl.store(table_ptr + NUM_SYMBOLS + tl.arange(0, 1), tl.full([1], LONE, tl.int64).to(tl.uint64))
    return frequency


@triton.jit
def load_run(lane_ptr, left, wanted, FULL: tl.constexpr, G: tl.constexpr):
    """Load four elements that follow one another, of which `left` exist: units of 8 bytes or words."""
    run = ()
    if FULL and G.word_bits == 8:
        run = (tl.load(lane_ptr.to(tl.pointer_type(tl.uint32)), mask=wanted, other=0),)
    elif FULL:
        for part in tl.static_range(G.word_bits // 16):
            run = run + (tl.load(lane_ptr.to(tl.pointer_type(tl.uint64)) + part, mask=wanted, other=0),)
    else:
        for element in tl.static_range(LANE_RUN):
            run = run + (tl.load(lane_ptr + element, mask=wanted & (element < left), other=0),)
    return run


@triton.jit
def values_of_unit(x, values, G: tl.constexpr):
    """Return `values` and those of the lanes of units."""
    LANES: tl.constexpr = G.lanes
    heads = value_lanes(x, G) if G.head_bytes == 2 else heads_of(x, G)
    for lane in tl.static_range(LANES):
        values = values + (((heads >> (lane * G.word_bits)) & (G.value_count - 1)).to(tl.int32),)
    return values


@triton.jit
def values_of_run(run, FULL: tl.constexpr, G: tl.constexpr):
    """Return the values of the four elements of a run as int32."""
    values = ()
    PARTS: tl.constexpr = len(run)
    for part in tl.static_range(PARTS):
        x = run[part]
        if not FULL:
            values = values + ((order_bits(x, G) >> G.value_shift).to(tl.int32),)
        elif x.dtype == tl.uint64 and G.word_bits < 64:
            values = values_of_unit(x.to(tl.uint32), values, G)
            values = values_of_unit((x >> 32).to(tl.uint32), values, G)
        else:
            values = values_of_unit(x, values, G)
    return values


@triton.jit
def encode_step(states, entry, active, G: tl.constexpr):
    """Code one symbol a lane; returns the states, and the words that leave with whether they do."""
    low = entry.to(tl.uint32)
    frequency = low >> FREQUENCY_AT
    full = active & (states >= (frequency << (31 - G.prob_bits)))
    word = states.to(tl.uint16)
    states = tl.where(full, states >> 16, states)
    quotient = tl.umulhi(states, (entry >> 32).to(tl.uint32)) >> ((low >> SHIFT_AT) & 15)
    coded = states + quotient * ((1 << G.prob_bits) - frequency) + (low & BIAS_MASK)
    return tl.where(active, coded, states), word, full


@triton.jit
def store_words(row_ptr, words, word, full):
    """Store the words that leave in one step after the `words` of each stream; return their number."""
    bit = (1 << tl.arange(0, NUM_LANES)).to(tl.uint32)[:, None]
    ballot = tl.reduce(tl.where(full, bit, 0), 0, either)
    place = words[None, :] + popcount32(ballot[None, :] & (bit - 1))
    tl.store(row_ptr + place, word, mask=full)
    return words + popcount32(ballot)


@triton.jit
def encode_streams(words_ptr, table_ptr, spill_ptr, base, numel, FULL: tl.constexpr, G: tl.constexpr):
    """Code all streams of a tile; returns states, words of each stream, and the escapes of each lane.

    The escapes are their number and a mask of the parts of the stream in which they are.
    """
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    STREAM: tl.constexpr = 1 << G.log2_stream
    stream = tl.arange(0, S)
    lane_run = tl.arange(0, NUM_LANES) * LANE_RUN
    start = (stream * STREAM)[None, :] + lane_run[:, None]
    row_ptr = spill_ptr + (stream * G.spill_words)[None, :]
    length = tl.minimum(tl.maximum(numel - stream * STREAM, 0), STREAM)
    left = length[None, :] - lane_run[:, None]
    states = tl.full([NUM_LANES, S], STATE_MIN, tl.uint32)
    words = tl.zeros([S], tl.int32)
    counts = tl.zeros([NUM_LANES, S], tl.uint32)
    parts = tl.zeros([NUM_LANES, S], tl.uint64)
    LOG2_PART: tl.constexpr = max(G.log2_stream - 6, 7)
    group = base & 0
    end = tl.minimum(base * 0 + numel, STREAM)
    run = load_run(words_ptr + start, left, group < end, FULL, G)
    ahead = group + GROUP_ELEMS
    later = load_run(words_ptr + ahead + start, left - GROUP_ELEMS, ahead < end, FULL, G)
    while group < end:
        # What the next steps need is loaded while these wait for one another.
        values = values_of_run(run, FULL, G)
        entries = ()
        for turn in tl.static_range(LANE_RUN):
            entries = entries + (tl.load(table_ptr + symbols_of(values[turn], base, G)),)
        run = later
        ahead += GROUP_ELEMS
        later = load_run(words_ptr + ahead + start, left - 2 * GROUP_ELEMS, ahead < end, FULL, G)
        leaving = ()
        marked = tl.zeros([NUM_LANES, S], tl.uint32)
        for turn in tl.static_range(LANE_RUN):
            active = tl.full([NUM_LANES, S], True, tl.int1) if FULL else turn < left
            mark = entries[turn].to(tl.uint32) & ESCAPE_MARK
            mark = mark if FULL else tl.where(active, mark, 0)
            marked |= mark
            counts += mark
            states, word, full = encode_step(states, entries[turn], active, G)
            leaving = leaving + ((word, full),)
        for turn in tl.static_range(LANE_RUN):
            words = store_words(row_ptr, words, leaving[turn][0], leaving[turn][1])
        parts |= (marked != 0).to(tl.uint64) << (group >> LOG2_PART).to(tl.uint64)
        group += GROUP_ELEMS
        left -= GROUP_ELEMS
    # Whole units of 8 bytes are moved, and a body is the same bytes every time.
    pad = (stream * G.spill_words + words)[:, None] + tl.arange(0, WIDE_WORDS)[None, :]
    tl.store(spill_ptr + pad, (pad * 0).to(tl.uint16))
    return states, words, ((counts // ESCAPE_MARK).to(tl.int32), parts)


@triton.jit
def table_bytes_of(num_present, num_large):
    """Return the bytes of a table of so many frequencies, of which so many are large."""
    return (BITMAP_BYTES + (num_present + 1) // 2 * 2 + 2 * num_large + 7) // 8 * 8


@triton.jit
def counts_bytes_of(num_streams):
    """Return the bytes of the word counts of so many streams."""
    return (num_streams + 1) // 2 * 8


@triton.jit
def padded_words(words):
    """Return the words that a stream of so many fills, in wholes of 8 bytes."""
    return (words + (WIDE_WORDS - 1)) // WIDE_WORDS * WIDE_WORDS


@triton.jit
def store_table(coded_ptr, frequency):
    """Store bitmap and frequency lists of a tile; returns their bytes."""
    present = frequency > 0
    large = frequency >= LARGE
    bit = tl.arange(0, 8)[None, :]
    octets = tl.sum(tl.reshape(present.to(tl.int32), [BITMAP_BYTES, 8]) << bit, 1)
    tl.store(coded_ptr + tl.arange(0, BITMAP_BYTES), octets.to(tl.uint8))
    list_ptr = coded_ptr + BITMAP_BYTES
    num_present = tl.sum(present.to(tl.int32), 0)
    num_large = tl.sum(large.to(tl.int32), 0)
    rank = tl.cumsum(present.to(tl.int32), 0) - 1
    tl.store(list_ptr + rank, tl.minimum(frequency, LARGE).to(tl.uint8), mask=present)
    tl.store(list_ptr + num_present, (num_present & 0).to(tl.uint8), mask=num_present % 2 == 1)
    large_ptr = (list_ptr + (num_present + 1) // 2 * 2).to(tl.pointer_type(tl.uint16))
    rank = tl.cumsum(large.to(tl.int32), 0) - 1
    tl.store(large_ptr + rank, frequency.to(tl.uint16), mask=large)
    table_bytes = table_bytes_of(num_present, num_large)
    pad = (num_present + 1) // 2 + num_large + tl.arange(0, WIDE_WORDS)
    pad_ptr = list_ptr.to(tl.pointer_type(tl.uint16)) + pad
    tl.store(pad_ptr, pad.to(tl.uint16) * 0, mask=pad * 2 < table_bytes - BITMAP_BYTES)
    return table_bytes


@triton.jit
def store_streams(coded_ptr, spill_ptr, states, words, numel, G: tl.constexpr):
    """Store word counts, states and words of all streams; returns their end."""
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    stream = tl.arange(0, S)
    num_streams = (numel + ((1 << G.log2_stream) - 1)) >> G.log2_stream
    counts_ptr = coded_ptr.to(tl.pointer_type(tl.uint32))
    tl.store(counts_ptr + stream, words.to(tl.uint32), mask=stream < num_streams)
    tl.store(counts_ptr + num_streams, (num_streams & 0).to(tl.uint32), mask=num_streams % 2 == 1)
    states_ptr = (coded_ptr + counts_bytes_of(num_streams)).to(tl.pointer_type(tl.uint32))
    place = (stream * NUM_LANES)[None, :] + tl.arange(0, NUM_LANES)[:, None]
    tl.store(states_ptr + place, states, mask=(stream < num_streams)[None, :])
    target_ptr = (states_ptr + num_streams * NUM_LANES).to(tl.pointer_type(tl.uint64))
    wide = padded_words(words) // WIDE_WORDS
    before = (tl.cumsum(wide, 0) - wide)[:, None]
    source_ptr = spill_ptr.to(tl.pointer_type(tl.uint64)) + (stream * (G.spill_words // WIDE_WORDS))[:, None]
    most = tl.max(wide, 0)
    start = numel & 0
    while start < most:
        word = start + tl.arange(0, MOVED_WIDE)[None, :]
        inside = word < wide[:, None]
        moved = tl.load(source_ptr + word, mask=inside, other=0)
        tl.store(target_ptr + before + word, moved, mask=inside)
        start += MOVED_WIDE
    return (target_ptr + tl.sum(wide, 0)).to(tl.pointer_type(tl.uint8))


@triton.jit
def store_escapes(list_ptr, words_ptr, table_ptr, base, escapes, size, G: tl.constexpr):
    """Store positions and values of the escapes, stream by stream, lane by lane.

    In each step every lane takes its next part of the stream in which there are any. `escapes` are
    their number in each lane and the parts; `size` are numel and num_escapes.
    """
    counts, parts = escapes
    numel, num_escapes = size
    S: tl.constexpr = G.tile_elems >> G.log2_stream
    VALUE: tl.constexpr = tl.uint16 if G.value_bytes == 2 else tl.uint8
    PART_ELEMS: tl.constexpr = max((1 << G.log2_stream) // PARTS.value, GROUP_ELEMS.value)
    places_ptr = list_ptr.to(tl.pointer_type(tl.uint16))
    values_ptr = (list_ptr + 2 * num_escapes).to(tl.pointer_type(VALUE))
    lane_start = (tl.arange(0, S) << G.log2_stream)[None, :] + (tl.arange(0, NUM_LANES) * LANE_RUN)[:, None]
    of_stream = tl.sum(counts, 0)
    rank = tl.cumsum(counts, 0) - counts + (tl.cumsum(of_stream, 0) - of_stream)[None, :]
    left = tl.max(tl.max(parts != 0, 0).to(tl.int32), 0)
    while left != 0:
        some = parts != 0
        part_start = lane_start + lowest_bit64(parts) * PART_ELEMS
        for group in tl.static_range(0, PART_ELEMS, GROUP_ELEMS):
            for turn in tl.static_range(LANE_RUN):
                index = part_start + (group + turn)
                words = tl.load(words_ptr + index, mask=some & (index < numel), other=0)
                values = (order_bits(words, G) >> G.value_shift).to(tl.int32)
                entry = tl.load(table_ptr + symbols_of(values, base, G), mask=some & (index < numel), other=0)
                escaped = (entry & ESCAPE_MARK) != 0
                tl.store(places_ptr + rank, index.to(tl.uint16), mask=escaped)
                tl.store(values_ptr + rank, values.to(VALUE), mask=escaped)
                rank += escaped.to(tl.int32)
        parts &= parts - 1
        left = tl.max(tl.max(parts != 0, 0).to(tl.int32), 0)
