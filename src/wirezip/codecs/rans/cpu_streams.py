"""One rANS stream in Numba: 32 interleaved lanes, coded without a branch that depends on the data.

Whether a state gives up or takes a word is a select; a branch there would be mispredicted about once
in four symbols. The encoder's `table` has one row of five numbers for every symbol: the state at which
a word leaves, reciprocal and shift that divide by the frequency, first slot, and slots less
frequency.
"""

import numpy as np

from wirezip.codecs.rans import cpu_simd
from wirezip.codecs.rans.tables import GROUP_ELEMS, LANE_RUN, NUM_LANES, NUM_SYMBOLS, STATE_MIN
from wirezip.codecs.tiles.cpu import inlined, jit

LIMIT, RECIPROCAL, SHIFT, START, REST = range(5)
# Rows are padded to a power of two, so that their place is found by a shift.
ROW = 8


@jit
def fill_encoder(frequencies, prob_bits, table):
    """Fill the encoder's table; rows of symbols without a frequency are left as they are."""
    start = 0
    for symbol in range(NUM_SYMBOLS + 1):
        frequency = frequencies[symbol]
        if frequency:
            row, bits = symbol * ROW, 0
            while (1 << bits) < frequency:
                bits += 1
            # Rounded-up reciprocal: exact for any 31-bit dividend, as bits is ceil(log2(frequency)).
            table[row + LIMIT] = np.uint64(frequency) << np.uint64(31 - prob_bits)
            table[row + RECIPROCAL] = ((np.uint64(1) << np.uint64(31 + bits)) + frequency - 1) // np.uint64(frequency)
            table[row + SHIFT] = 31 + bits
            table[row + START] = start
            table[row + REST] = (1 << prob_bits) - frequency
            start += frequency


@inlined
def encode_step(state, symbol, table, words, end):
    """Return the next state of a lane and the end of the words, which may have grown by one."""
    row = symbol * np.uint64(ROW)
    words[end] = np.uint16(state)
    full = np.uint64(state >= table[row + np.uint64(LIMIT)])
    state = state >> (full << np.uint64(4))
    quotient = (state * table[row + np.uint64(RECIPROCAL)]) >> table[row + np.uint64(SHIFT)]
    return state + table[row + np.uint64(START)] + quotient * table[row + np.uint64(REST)], end + full


@jit
def encode_stream(symbols, table, states, words, end):
    """Encode a stream and append its words at `end`; returns where they end.

    `words` needs room for one word more than the stream has elements.
    """
    states[:] = STATE_MIN
    n = np.uint64(len(symbols))
    whole = n // np.uint64(GROUP_ELEMS) * np.uint64(GROUP_ELEMS)
    end = np.uint64(end)
    for first in range(np.uint64(0), whole, np.uint64(GROUP_ELEMS)):
        for turn in range(np.uint64(LANE_RUN)):
            for lane in range(np.uint64(NUM_LANES)):
                symbol = np.uint64(symbols[first + np.uint64(LANE_RUN) * lane + turn])
                states[lane], end = encode_step(states[lane], symbol, table, words, end)
    for turn in range(np.uint64(LANE_RUN)):
        for lane in range(np.uint64(NUM_LANES)):
            i = whole + np.uint64(LANE_RUN) * lane + turn
            if i < n:
                states[lane], end = encode_step(states[lane], np.uint64(symbols[i]), table, words, end)
    return int(end)


@jit
def fill_decoder(frequencies, prob_bits, slots):
    """Fill the decoder's table: for each slot symbol, frequency and distance from the first."""
    slot = 0
    for symbol in range(NUM_SYMBOLS + 1):
        frequency = frequencies[symbol]
        # The escape has no byte of its own: its elements are patched afterwards.
        packed = np.uint64(symbol & 0xFF) | np.uint64(frequency) << np.uint64(8)
        for distance in range(frequency):
            slots[slot] = packed | np.uint64(distance) << np.uint64(20)
            slot += 1


@inlined
def decode_step(state, slots, prob_bits, words, end):
    """Return the symbol, the next state of a lane and the end of the words left."""
    packed = np.uint64(slots[state & ((np.uint64(1) << prob_bits) - np.uint64(1))])
    frequency = (packed >> np.uint64(8)) & np.uint64(0xFFF)
    state = frequency * (state >> prob_bits) + (packed >> np.uint64(20))
    refilled = state << np.uint64(16) | np.uint64(words[end - np.uint64(1)])
    empty = state < np.uint64(STATE_MIN)
    return np.uint8(packed), refilled if empty else state, end - np.uint64(empty)


@jit
def _decode_group(symbols, states, slots, words, end, prob_bits):
    """Decode a whole group; see `cpu_simd.decode_group`."""
    for turn in range(np.uint64(LANE_RUN)):
        for back in range(np.uint64(NUM_LANES)):
            lane = np.uint64(NUM_LANES - 1) - back
            i = np.uint64(LANE_RUN) * lane + np.uint64(LANE_RUN - 1) - turn
            symbols[i], state, end = decode_step(np.uint64(states[lane]), slots, prob_bits, words, end)
            states[lane] = state
    return end


decode_group = cpu_simd.decode_group if cpu_simd.is_available() else _decode_group


@jit
def decode_stream(symbols, slots, prob_bits, states, words, end):
    """Decode a stream from the words between `GROUP_ELEMS` and `end`, in reverse; False if it is corrupt.

    The words before those may be read, and mean nothing: a corrupt stream takes them before its end
    is noticed.
    """
    n, bits, left = len(symbols), np.uint64(prob_bits), np.uint64(end)
    whole = n // GROUP_ELEMS * GROUP_ELEMS
    for back in range(GROUP_ELEMS):
        lane = NUM_LANES - 1 - back % NUM_LANES
        i = whole + LANE_RUN * lane + LANE_RUN - 1 - back // NUM_LANES
        if i < n:
            symbols[i], state, left = decode_step(np.uint64(states[lane]), slots, bits, words, left)
            states[lane] = state
    first = whole
    while first > 0 and left >= GROUP_ELEMS:
        first -= GROUP_ELEMS
        left = decode_group(symbols[first : first + GROUP_ELEMS], states, slots, words, left, bits)
    for lane in range(NUM_LANES):
        if states[lane] != STATE_MIN:
            return False
    return first == 0 and left == GROUP_ELEMS
