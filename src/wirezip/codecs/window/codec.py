"""The `window` codec: fixed-width codes against a window of exponents, for fast links."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirezip.codecs.tiles.codec import TiledCodec
from wirezip.codecs.tiles.layout import (
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    STORED,
    Sections,
    TileLayout,
    check_entries,
    num_columns,
    tile_numels,
)
from wirezip.errors import CorruptFrameError
from wirezip.floats import FloatFormat

MAX_WIDTH = 4
TILE_BYTES = 1 << 14


@dataclass(frozen=True)
class Window(TiledCodec):
    """Exponents near the commonest as codes of at most 4 bits, the others as they are.

    Source: docs/format.md, "window".
    """

    name: ClassVar[str] = "window"

    def default_tile_elems(self, layout: FloatFormat) -> int:
        """Return the elements of 16 KiB."""
        return TILE_BYTES // layout.word_bytes

    def remainder_bits(self, layout: FloatFormat) -> int:
        """Return the head bits below the exponent."""
        return layout.remainder_bits

    def check(self, tiles: TileLayout, sections: Sections) -> None:
        """Check widths, bases and sizes of all tiles; see `TiledCodec.check`."""
        entries = sections.entries
        width, base = entries["width"].astype(np.int64), entries["base"].astype(np.int64)
        escapes, stored = entries["num_escapes"].astype(np.int64), width == STORED
        numels = tile_numels(tiles)
        coded = ~stored & (width > 0)
        wrong = ~stored & (width > MAX_WIDTH)
        wrong |= (escapes > np.where(coded, numels, 0)) | (stored & (base > 0))
        codes = np.where(coded, width, 0)
        wrong |= base + np.maximum((1 << codes) - 2, 0) >= 1 << tiles.value_bits
        mask = entries["constant_planes"].astype(np.int64)
        fixed_remainder = mask >> REMAINDER_BIT & 1
        wrong |= (stored | (tiles.remainder_bits == 0)) & (fixed_remainder > 0)
        if wrong.any():
            tile = int(wrong.argmax())
            raise CorruptFrameError(f"window: entry of tile {tile} is not legal: {entries[tile]}")
        columns = num_columns(numels)
        remainder = np.where(fixed_remainder > 0, 0, tiles.remainder_bits)
        fields = (codes + remainder) * columns + escapes * tiles.value_bytes
        heads = numels * tiles.layout.head_bytes
        block = np.where(mask > 0, CONSTANT_BLOCK_BYTES, 0)
        check_entries(tiles, sections, block + np.where(stored, heads, fields))
