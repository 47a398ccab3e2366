"""Tables and streams of the `rans` kernels, decoding. Arguments are named in `wirezip.codecs.rans.kernels`."""

import triton
import triton.language as tl

from wirezip.codecs.rans.kernels_encode import (
    ALL_ONES,
    BITMAP_BYTES,
    FIELD,
    GROUP_ELEMS,
    LANE_RUN,
    NUM_LANES,
    NUM_SYMBOLS,
    STATE_MIN,
)
from wirezip.codecs.tiles.kernels import (
    field_of,
    load_planes,
    load_residue,
    order_bits,
    restore_bits,
)

MAX_SLOTS = tl.constexpr(1 << 12)


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
    illegal = (absent != 0) | (num_present == 0) | (tl.sum(frequency, 0) >= (1 << prob_bits))
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
    if G.value_bytes > 1:
        above = tl.where(symbols == ALL_ONES, G.value_count - 1, symbols + base - 1)
        symbols = tl.where(symbols == 0, 0, above)
    return symbols


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
    numel, _ = size
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
    """Replace the values of the escapes; returns whether they are not at ascending places in the tile."""
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
        descends = (escape > 0) & (escape < num_escapes) & (index <= before)
        wrong |= tl.max(((index >= numel) | descends).to(tl.int32), 0)
        ordered = order_bits(tl.load(words_ptr + index, mask=inside, other=0), G) & ((1 << G.value_shift) - 1)
        ordered |= value.to(words_ptr.dtype.element_ty) << G.value_shift
        tl.store(words_ptr + index, restore_bits(ordered, G), mask=inside)
        start += NUM_SYMBOLS
    return wrong != 0
