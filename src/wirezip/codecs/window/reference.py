"""The `window` codec in NumPy: the specification that the other implementations equal byte for byte.

The tiles of a segment share a window of `2**width - 1` consecutive exponents; an exponent in it is coded as its
distance from `base` in `width` bits, any other as the all-ones code and a raw exponent in the
escape list.

Source: docs/format.md, "window".
"""

import numpy as np

from wirezip.codecs.tiles import reference as common
from wirezip.codecs.tiles.layout import ROWS, STORED, Sections, TileLayout, num_columns
from wirezip.errors import CorruptFrameError

MAX_WIDTH = 4
# Tiles that share width and window, unless they are constant or stored.
SEGMENT_TILES = 8
# Of every 1024 columns 16 are sampled in each row, and at least 16, from another column on.
SAMPLE_STEP = 1024
SAMPLED_COLUMNS = 16


def column_order(numel: int) -> np.ndarray:
    """Return the element indices column by column, the order of the escape list."""
    order = np.arange(ROWS * num_columns(numel)).reshape(ROWS, -1).T.reshape(-1)
    return order[order < numel]


def is_sampled(numel: int) -> np.ndarray:
    """Return which elements of a tile of `numel` elements belong to the sample."""
    columns = num_columns(numel)
    span = max(1, columns // SAMPLE_STEP) * SAMPLED_COLUMNS
    row, column = np.divmod(np.arange(numel), columns)
    start = row * (columns // 128 * SAMPLED_COLUMNS + span)
    return (column - start) % columns < span


def choose_window(samples: np.ndarray, tiles: TileLayout) -> tuple[int, int]:
    """Return the width and base that code the sample of a segment in the fewest bits.

    `STORED` wins ties, then the smaller width, then the lower base.
    """
    counts = np.bincount(samples.astype(np.int64), minlength=2**tiles.value_bits)
    total = len(samples)
    best_bits, best_width, best_base = tiles.value_bits * total, STORED, 0
    for width in range(1, MAX_WIDTH + 1):
        size = 2**width - 1
        for base in range(2**tiles.value_bits - size + 1):
            escaped = total - int(counts[base : base + size].sum())
            bits = width * total + 8 * tiles.value_bytes * escaped
            if bits < best_bits:
                best_bits, best_width, best_base = bits, width, base
    return best_width, best_base


def choose_windows(words: np.ndarray, tiles: TileLayout) -> list[tuple[int, int]]:
    """Return width and base of every segment of tiles."""
    choices = []
    length = tiles.tile_elems
    for first in range(0, len(words), SEGMENT_TILES * length):
        segment = words[first : first + SEGMENT_TILES * length]
        values = common.order_bits(segment, tiles.layout) >> common.value_shift(tiles)
        parts = [values[start : start + length] for start in range(0, len(values), length)]
        choices.append(choose_window(np.concatenate([part[is_sampled(len(part))] for part in parts]), tiles))
    return choices


def encode_tile(ordered: np.ndarray, tiles: TileLayout, choice: tuple[int, int]) -> common.Tile:
    """Encode the ordered words of one tile with the width and base of its segment."""
    tile = common.split_residue(ordered, tiles)
    values = ordered >> common.value_shift(tiles)
    if (values == values[0]).all():
        tile.width, tile.base = 0, int(values[0])
        return common.finish(tile, ordered, tiles, coded=b"")
    tile.width, tile.base = choice
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


def decode_tile(entry: np.void, records: np.ndarray, tiles: TileLayout, numel: int) -> np.ndarray:
    """Decode one tile whose entry has been checked; returns its ordered words."""
    ordered, symbols = common.join_residue(entry, records, tiles, numel)
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


def encode_tiles(words: np.ndarray, tiles: TileLayout, sections: Sections) -> int:
    """Encode all tiles; returns the bytes used of the section."""
    choices = choose_windows(words, tiles)

    def encode(ordered: np.ndarray, tiles: TileLayout, index: int) -> common.Tile:
        return encode_tile(ordered, tiles, choices[index // SEGMENT_TILES])

    return common.encode_tiles(words, tiles, sections, encode)


def decode_tiles(tiles: TileLayout, sections: Sections, words: np.ndarray) -> None:
    """Decode all tiles, whose entries have been checked, into `words`."""
    common.decode_tiles(tiles, sections, words, decode_tile)
