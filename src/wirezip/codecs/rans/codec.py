"""The `rans` codec: interleaved rANS over the exponents, a table for every tile, for slow links."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirezip.codecs.rans import tables
from wirezip.codecs.tiles.codec import TiledCodec
from wirezip.codecs.tiles.layout import (
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    STORED,
    Sections,
    TileLayout,
    check_entries,
    check_log2,
    num_columns,
    tile_numels,
)
from wirezip.errors import CorruptFrameError
from wirezip.floats import FloatFormat

MIN_LOG2_STREAM = 10


@dataclass(frozen=True)
class Rans(TiledCodec):
    """Exponents entropy-coded against the frequencies of their own tile.

    Attributes:
        stream_elems: Elements coded by one set of 32 lanes, a power of two; fewer means more
            streams at once and 128 bytes more for each.

    Source: UCCL-Zip, section 3.3.1 (localized frequency tables); docs/format.md, "rans".
    """

    name: ClassVar[str] = "rans"
    tile_elems: int = 1 << 16
    stream_elems: int = 1 << 14

    def __post_init__(self) -> None:
        super().__post_init__()
        check_log2("stream_elems", self.stream_elems, MIN_LOG2_STREAM, self.tile_elems.bit_length() - 1)

    @property
    def log2_stream(self) -> int:
        """log2 of the elements in a stream."""
        return self.stream_elems.bit_length() - 1

    def remainder_bits(self, layout: FloatFormat) -> int:
        """Return the head bits that are not coded."""
        return tables.remainder_bits(layout)

    def check(self, tiles: TileLayout, sections: Sections) -> None:
        """Check the entries of all tiles, and the sizes known before decoding; see `TiledCodec.check`."""
        entries = sections.entries
        width, base = entries["width"].astype(np.int64), entries["base"].astype(np.int64)
        escapes, stored = entries["num_escapes"].astype(np.int64), width == STORED
        numels = tile_numels(tiles)
        constant = width == 0
        coded = (width >= tables.MIN_PROB_BITS) & (width <= tables.MAX_PROB_BITS)
        wrong = ~(stored | constant | coded) | (escapes > np.where(coded, numels, 0))
        wrong |= base >= 1 << tiles.value_bits
        mask = entries["constant_planes"].astype(np.int64)
        fixed_remainder = mask >> REMAINDER_BIT & 1
        wrong |= stored & (fixed_remainder > 0)
        if wrong.any() or tiles.log2_stream < MIN_LOG2_STREAM:
            tile = int(wrong.argmax())
            raise CorruptFrameError(
                f"rans: stream 2**{tiles.log2_stream}, or entry of tile {tile}, is not legal: {entries[tile]}"
            )
        remainder = np.where(fixed_remainder > 0, 0, tiles.remainder_bits) * num_columns(numels)
        streams = -(-numels >> tiles.log2_stream)
        least = tables.BITMAP_BYTES + streams * 4 * (1 + tables.NUM_LANES) + escapes * (2 + tiles.value_bytes)
        block = np.where(mask > 0, CONSTANT_BLOCK_BYTES, 0)
        heads = numels * tiles.layout.head_bytes
        check_entries(tiles, sections, block + np.where(stored, heads, remainder + np.where(coded, least, 0)))
