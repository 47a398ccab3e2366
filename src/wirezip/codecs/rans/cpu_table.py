"""The table of a `rans` tile in Numba: its size, and its bytes to and from frequencies."""

import numpy as np

from wirezip.codecs.rans.tables import BITMAP_BYTES, ESCAPE, LARGE, NUM_SYMBOLS
from wirezip.codecs.tiles.cpu import jit


@jit
def table_bytes(frequencies):
    """Return the bytes of the table of the frequencies."""
    present = large = 0
    for symbol in range(NUM_SYMBOLS):
        present += frequencies[symbol] > 0
        large += frequencies[symbol] >= LARGE
    return (BITMAP_BYTES + (present + 1) // 2 * 2 + 2 * large + 7) // 8 * 8


@jit
def write_table(frequencies, symbols):
    """Write the table to the start of `symbols`; returns where it ends."""
    end = table_bytes(frequencies)
    symbols[:end] = 0
    present = 0
    for symbol in range(NUM_SYMBOLS):
        if frequencies[symbol]:
            symbols[symbol // 8] |= np.uint8(1 << symbol % 8)
            symbols[BITMAP_BYTES + present] = min(frequencies[symbol], LARGE)
            present += 1
    wide = symbols[BITMAP_BYTES + (present + 1) // 2 * 2 : end].view(np.uint16)
    large = 0
    for symbol in range(NUM_SYMBOLS):
        if frequencies[symbol] >= LARGE:
            wide[large] = frequencies[symbol]
            large += 1
    return end


@jit
def read_table(prob_bits, frequencies, symbols):
    """Read the frequencies at the start of `symbols`; returns where they end, or -1 if corrupt."""
    present = 0
    for symbol in range(NUM_SYMBOLS):
        present += symbols[symbol // 8] >> symbol % 8 & 1
    start = BITMAP_BYTES + (present + 1) // 2 * 2
    if start > len(symbols) or present == 0 or present == NUM_SYMBOLS:
        return -1
    large = 0
    for k in range(present):
        large += symbols[BITMAP_BYTES + k] == LARGE
    end = (start + 2 * large + 7) // 8 * 8
    if end > len(symbols):
        return -1
    wide, k, left = symbols[start:end].view(np.uint16), 0, 1 << prob_bits
    large = 0
    for symbol in range(NUM_SYMBOLS):
        frequencies[symbol] = 0
        if symbols[symbol // 8] >> symbol % 8 & 1:
            frequency = int(symbols[BITMAP_BYTES + k])
            k += 1
            if frequency == LARGE:
                frequency = int(wide[large])
                large += 1
                if frequency < LARGE:
                    return -1
            frequencies[symbol] = frequency
            left -= frequency
            if frequency == 0 or left < 1:
                return -1
    frequencies[ESCAPE] = left
    return end
