"""Constants and sizes of the `rans` codec, shared by its implementations.

A tile's symbols are cut into streams; a stream is coded by 32 interleaved lanes, each a rANS state.
Four consecutive elements belong to one lane, so that a GPU lane reads and writes them as one word.

Source: Duda, arXiv:1311.2540 (rANS); UCCL-Zip, section 3.3.1. Normative text: docs/format.md, "rans".
"""

from wirezip.codecs.tiles.layout import TileLayout
from wirezip.floats import FloatFormat

NUM_LANES = 32
LANE_RUN = 4
GROUP_ELEMS = NUM_LANES * LANE_RUN
# A state lies in [STATE_MIN, STATE_MIN << WORD_BITS); 16-bit words leave and enter it.
STATE_MIN = 1 << 15
WORD_BITS = 16

NUM_SYMBOLS = 256
# Index after the symbols: an element whose symbol the table lacks, listed beside the streams.
ESCAPE = NUM_SYMBOLS
BITMAP_BYTES = NUM_SYMBOLS // 8
MIN_PROB_BITS, MAX_PROB_BITS = 9, 12

# Tiles of this many elements or more build their table from every fourth group of 128.
SAMPLED_FROM_ELEMS = 1 << 14
SAMPLE_STEP = 4
# Of values wider than a byte, zero is symbol 0 and all ones (infinities and NaN) symbol 255; the
# symbols between stand for the 254 values up to the largest other one sampled.
WIDE_SPAN = NUM_SYMBOLS - 2
ALL_ONES = NUM_SYMBOLS - 1


def remainder_bits(layout: FloatFormat) -> int:
    """Return the head bits that are not coded: the whole head is, where it is one byte."""
    return layout.remainder_bits if layout.head_bytes > 1 else 0


def prob_bits(layout: FloatFormat) -> int:
    """Return the resolution of the probabilities: 12 bits where mantissa bits widen the alphabet."""
    return 12 if layout.exponent_bits < 8 else 11


def num_streams(tiles: TileLayout, numel: int) -> int:
    """Return the streams of a tile of `numel` elements."""
    return -(-numel // (1 << tiles.log2_stream))


def frequency_bytes(num_present: int) -> int:
    """Return the bytes of the frequency list of `num_present` symbols, padded to four."""
    return -(-num_present // 2) * 4
