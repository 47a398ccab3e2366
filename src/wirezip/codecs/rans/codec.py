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
TILE_ELEMS = 1 << 16


@dataclass(frozen=True)
class Rans(TiledCodec):
    """Exponents entropy-coded against the frequencies of their own tile.

    Attributes:
        stream_elems: Elements coded by one set of 32 lanes, a power of two; fewer means more
            streams at once and 128 bytes more for each. None takes the default for the dtype, or the
            tile where that is smaller.

    Source: UCCL-Zip, section 3.3.1 (localized frequency tables); docs/format.md, "rans".
    """

    name: ClassVar[str] = "rans"
    stream_elems: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stream_elems is not None:
            most = (self.tile_elems or TILE_ELEMS).bit_length() - 1
            check_log2("stream_elems", self.stream_elems, MIN_LOG2_STREAM, most)

    def default_tile_elems(self, layout: FloatFormat) -> int:
        """Return the most elements that a tile can have: a table costs the least there."""
        return TILE_ELEMS

    def log2_stream(self, layout: FloatFormat, log2_tile: int) -> int:
        """Return log2 of the elements in a stream."""
        return min(log2_tile, (self.stream_elems or tables.stream_elems(layout)).bit_length() - 1)

    def check_geometry(self, tiles: TileLayout) -> None:
        """Raise CorruptFrameError where streams are too short."""
        if tiles.log2_stream < MIN_LOG2_STREAM:
            raise CorruptFrameError(f"rans: streams of 2**{tiles.log2_stream} elements")

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
        self.check_geometry(tiles)
        if wrong.any():
            tile = int(wrong.argmax())
            raise CorruptFrameError(f"rans: entry of tile {tile} is not legal: {entries[tile]}")
        remainder = np.where(fixed_remainder > 0, 0, tiles.remainder_bits) * num_columns(numels)
        streams = -(-numels >> tiles.log2_stream)
        least = tables.table_bytes(1, 0) + -(-streams // 2) * 8 + streams * 4 * tables.NUM_LANES
        least += escapes * (2 + tiles.value_bytes)
        block = np.where(mask > 0, CONSTANT_BLOCK_BYTES, 0)
        heads = numels * tiles.layout.head_bytes
        check_entries(tiles, sections, block + np.where(stored, heads, remainder + np.where(coded, least, 0)))
