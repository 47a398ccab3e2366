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

# Tiles of this many elements or more build their table from a part of their groups.
SAMPLED_FROM_ELEMS = 1 << 13
# Frequencies from here on are listed apart, in 2 bytes each.
LARGE = 255
# Words of a stream are padded to wholes of 8 bytes.
WIDE_WORDS = 4
# Of values wider than a byte, zero is symbol 0 and all ones (infinities and NaN) symbol 255; the
# symbols between stand for the 254 values up to the largest other one sampled.
WIDE_SPAN = NUM_SYMBOLS - 2
ALL_ONES = NUM_SYMBOLS - 1


def remainder_bits(layout: FloatFormat) -> int:
    """Return the head bits that are not coded: the whole head is, where it is one byte."""
    return layout.remainder_bits if layout.head_bytes > 1 else 0


def has_wide_alphabet(layout: FloatFormat) -> bool:
    """Return whether sign and mantissa bits, which share the head with a short exponent, are coded with it."""
    return layout.head_bytes == 1 and layout.remainder_bits > 0


def prob_bits(layout: FloatFormat) -> int:
    """Return the resolution of the probabilities.

    10 bits cost 0.0001 of the ratio against 11 for exponents alone, and halve the decoder's table.
    """
    return 12 if has_wide_alphabet(layout) else 10


def sample_step(layout: FloatFormat) -> int:
    """Return of how many groups of a large tile one is sampled; a wide alphabet takes more samples."""
    return 2 if has_wide_alphabet(layout) else 8


def stream_elems(layout: FloatFormat) -> int:
    """Return the elements of a stream by default: at most 16 KiB of words, or more where words are narrow.

    The states of 32 lanes cost 128 bytes a stream.
    """
    return {1: 1 << 15, 2: 1 << 14}.get(layout.word_bytes, 1 << 13) if has_wide_alphabet(layout) else 1 << 13


def num_streams(tiles: TileLayout, numel: int) -> int:
    """Return the streams of a tile of `numel` elements."""
    return -(-numel // (1 << tiles.log2_stream))


def table_bytes(num_present: int, num_large: int) -> int:
    """Return the bytes of a table with so many symbols, of which so many frequencies are large."""
    return -(-(BITMAP_BYTES + -(-num_present // 2) * 2 + 2 * num_large) // 8) * 8


def counts_bytes(num_streams: int) -> int:
    """Return the bytes of the word counts of so many streams, padded to 8."""
    return -(-num_streams // 2) * 8


def padded_words(num_words: int) -> int:
    """Return the words that a stream of `num_words` fills."""
    return -(-num_words // WIDE_WORDS) * WIDE_WORDS
