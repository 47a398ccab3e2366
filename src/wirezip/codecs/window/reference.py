"""The `window` codec in NumPy: the specification that the other implementations equal byte for byte.

Each tile has a window of `2**width - 1` consecutive exponents; an exponent in it is coded as its
distance from `base` in `width` bits, any other as the all-ones code and a raw exponent in the
escape list.

Source: docs/format.md, "window".
"""

import numpy as np

from wirezip.codecs.tiles import reference as common
from wirezip.codecs.tiles.layout import ROWS, STORED, Sections, TileLayout, num_columns
from wirezip.errors import CorruptFrameError

MAX_WIDTH = 4
# One column in eight is sampled, and at least 16, to choose window and width.
SAMPLE_STEP = 8
MIN_SAMPLE_COLUMNS = 16


def column_order(numel: int) -> np.ndarray:
    """Return the element indices column by column, the order of the escape list."""
    order = np.arange(ROWS * num_columns(numel)).reshape(ROWS, -1).T.reshape(-1)
    return order[order < numel]


def choose_window(values: np.ndarray, tiles: TileLayout) -> tuple[int, int]:
    """Return the width and base that code a sample of the tile in the fewest bits.

    The sample is the first eighth of the columns. `STORED` wins ties, then the smaller width, then
    the lower base.
    """
    columns = num_columns(len(values))
    sampled = np.arange(len(values)) % columns < max(MIN_SAMPLE_COLUMNS, columns // SAMPLE_STEP)
    counts = np.bincount(values[sampled].astype(np.int64), minlength=2**tiles.value_bits)
    total = int(counts.sum())
    best_bits, best_width, best_base = tiles.value_bits * total, STORED, 0
    for width in range(1, MAX_WIDTH + 1):
        size = 2**width - 1
        for base in range(2**tiles.value_bits - size + 1):
            escaped = total - int(counts[base : base + size].sum())
            bits = width * total + 8 * tiles.value_bytes * escaped
            if bits < best_bits:
                best_bits, best_width, best_base = bits, width, base
    return best_width, best_base


def encode_tile(ordered: np.ndarray, tiles: TileLayout) -> common.Tile:
    """Encode the ordered words of one tile."""
    tile = common.split_residue(ordered, tiles)
    values = ordered >> common.value_shift(tiles)
    if (values == values[0]).all():
        tile.width, tile.base = 0, int(values[0])
        return common.finish(tile, ordered, tiles, coded=b"")
    tile.width, tile.base = choose_window(values, tiles)
    if tile.width == STORED:
        return common.finish(tile, ordered, tiles, coded=None)
    escape = 2**tile.width - 1
    outside = (values < tile.base) | (values >= tile.base + escape)
    codes = np.where(outside, escape, values - np.uint64(tile.base))
    order = column_order(len(values))
    escaped = values[order][outside[order]].astype(f"<u{tiles.value_bytes}")
    tile.num_escapes = len(escaped)
    coded = common.pack_fields(codes, tile.width) + escaped.tobytes()
    return common.finish(tile, ordered, tiles, coded)


def decode_tile(entry: np.void, residue: np.ndarray, symbols: np.ndarray, tiles: TileLayout, numel: int) -> np.ndarray:
    """Decode one tile whose entry has been checked; returns its ordered words."""
    ordered, symbols = common.join_residue(entry, residue, symbols, tiles, numel)
    width, base = int(entry["width"]), int(entry["base"])
    if width == STORED:
        return ordered
    values = np.full(numel, base, np.uint64)
    if width:
        taken = common.fields_bytes(width, numel)
        codes = common.unpack_fields(symbols[:taken].tobytes(), width, numel)
        values += codes
        order = column_order(numel)
        escaped = order[codes[order] == 2**width - 1]
        listed = symbols[taken : taken + int(entry["num_escapes"]) * tiles.value_bytes].view(f"<u{tiles.value_bytes}")
        if len(escaped) != len(listed):
            raise CorruptFrameError(f"window: {len(escaped)} escape codes, {len(listed)} escapes listed")
        values[escaped] = listed
    return ordered | values << common.value_shift(tiles)


def encode_tiles(words: np.ndarray, tiles: TileLayout, sections: Sections) -> tuple[int, int]:
    """Encode all tiles; returns the bytes used of the residue and symbol sections."""
    return common.encode_tiles(words, tiles, sections, encode_tile)


def decode_tiles(tiles: TileLayout, sections: Sections, words: np.ndarray) -> None:
    """Decode all tiles, whose entries have been checked, into `words`."""
    common.decode_tiles(tiles, sections, words, decode_tile)
