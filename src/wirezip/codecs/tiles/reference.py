"""What the reference implementations of the tiled codecs share, in NumPy: the specification.

Source: docs/format.md, "Tiled bodies".
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wirezip.codecs.tiles.layout import (
    CONSTANT_BLOCK_BYTES,
    REMAINDER_BIT,
    ROWS,
    STORED,
    Sections,
    TileLayout,
    aligned,
    num_columns,
)
from wirezip.floats import FloatFormat


@dataclass
class Tile:
    """One encoded tile before it is placed."""

    residue: bytes
    symbols: bytes
    num_escapes: int = 0
    base: int = 0
    width: int = STORED
    constant_planes: int = 0


def order_bits(words: np.ndarray, layout: FloatFormat) -> np.ndarray:
    """Return the words with their fields reordered to exponent, sign, mantissa; as uint64."""
    wide = words.astype(np.uint64)
    mantissa_bits = np.uint64(layout.mantissa_bits)
    mantissa = wide & np.uint64(2**layout.mantissa_bits - 1)
    exponent = (wide >> mantissa_bits) & np.uint64(2**layout.exponent_bits - 1)
    sign = wide >> np.uint64(layout.word_bits - 1)
    return exponent << (mantissa_bits + np.uint64(1)) | sign << mantissa_bits | mantissa


def restore_bits(ordered: np.ndarray, layout: FloatFormat) -> np.ndarray:
    """Undo `order_bits`; the result has the word's own unsigned dtype."""
    mantissa_bits = np.uint64(layout.mantissa_bits)
    mantissa = ordered & np.uint64(2**layout.mantissa_bits - 1)
    sign = (ordered >> mantissa_bits) & np.uint64(1)
    exponent = (ordered >> (mantissa_bits + np.uint64(1))) & np.uint64(2**layout.exponent_bits - 1)
    words = sign << np.uint64(layout.word_bits - 1) | exponent << mantissa_bits | mantissa
    return words.astype(f"u{layout.word_bytes}")


def fields_bytes(num_bits: int, numel: int) -> int:
    """Return the bytes that fields of `num_bits` of `numel` elements take."""
    return num_bits * num_columns(numel)


def pack_fields(values: np.ndarray, num_bits: int) -> bytes:
    """Pack the low `num_bits` of each value.

    Elements are dealt row by row over 8 rows of `num_columns` columns, the missing ones zero. The 8
    fields of a column make one integer, the first row lowest; byte j of all columns makes plane j.
    """
    grid = np.zeros((ROWS, num_columns(len(values))), np.uint64)
    grid.reshape(-1)[: len(values)] = values
    columns = np.zeros(grid.shape[1], np.uint64)
    for row in range(ROWS):
        columns |= (grid[row] & np.uint64(2**num_bits - 1)) << np.uint64(num_bits * row)
    return b"".join((columns >> np.uint64(8 * plane)).astype(np.uint8).tobytes() for plane in range(num_bits))


def unpack_fields(packed: bytes, num_bits: int, numel: int) -> np.ndarray:
    """Undo `pack_fields`, as uint64."""
    planes = np.frombuffer(packed, np.uint8).reshape(num_bits, num_columns(numel)).astype(np.uint64)
    columns = np.zeros(num_columns(numel), np.uint64)
    for plane in range(num_bits):
        columns |= planes[plane] << np.uint64(8 * plane)
    grid = np.stack([(columns >> np.uint64(num_bits * row)) & np.uint64(2**num_bits - 1) for row in range(ROWS)])
    return grid.reshape(-1)[:numel]


def pad(octets: bytes) -> bytes:
    """Return `octets` with zeros up to the alignment."""
    return octets.ljust(aligned(len(octets)), b"\0")


def split_residue(ordered: np.ndarray, tiles: TileLayout) -> Tile:
    """Return a tile holding the residue planes, its constant planes found, and no symbols."""
    varying = int(np.bitwise_or.reduce(ordered ^ ordered[0]))
    tile = Tile(residue=b"", symbols=b"")
    for plane in range(tiles.layout.residue_planes):
        octets = (ordered >> np.uint64(8 * plane)).astype(np.uint8)
        if (varying >> 8 * plane) & 0xFF:
            tile.residue += pad(octets.tobytes())
        else:
            tile.constant_planes |= 1 << plane
    remainder = (varying >> 8 * tiles.layout.residue_planes) & (2**tiles.remainder_bits - 1)
    if tiles.remainder_bits and not remainder:
        tile.constant_planes |= 1 << REMAINDER_BIT
    return tile


def constant_block(ordered: np.ndarray, tiles: TileLayout, constant_planes: int) -> bytes:
    """Return the values of the constant planes: byte p is that of plane p, byte 7 the remainder's."""
    if not constant_planes:
        return b""
    first = int(ordered[0])
    block = bytearray(CONSTANT_BLOCK_BYTES)
    for plane in range(tiles.layout.residue_planes):
        if constant_planes >> plane & 1:
            block[plane] = first >> 8 * plane & 0xFF
    if constant_planes >> REMAINDER_BIT & 1:
        block[REMAINDER_BIT] = (first >> 8 * tiles.layout.residue_planes) & (2**tiles.remainder_bits - 1)
    return bytes(block)


def heads(ordered: np.ndarray, tiles: TileLayout) -> np.ndarray:
    """Return the heads: what lies above the residue planes."""
    return ordered >> np.uint64(8 * tiles.layout.residue_planes)


def finish(tile: Tile, ordered: np.ndarray, tiles: TileLayout, coded: bytes | None) -> Tile:
    """Complete a tile with its coded symbols, or store its heads if that is not larger.

    Args:
        tile: Tile from `split_residue`, its `width`, `base` and `num_escapes` set if coded.
        ordered: Ordered words of the tile.
        tiles: Geometry of the body.
        coded: What follows the constant block and the remainder fields; None to store.
    """
    head = heads(ordered, tiles)
    stored_planes = tile.constant_planes & ~(1 << REMAINDER_BIT)
    stored = pad(constant_block(ordered, tiles, stored_planes) + head.astype(f"<u{tiles.layout.head_bytes}").tobytes())
    if coded is not None:
        symbols = constant_block(ordered, tiles, tile.constant_planes)
        if tiles.remainder_bits and not tile.constant_planes >> REMAINDER_BIT & 1:
            symbols += pack_fields(head & np.uint64(2**tiles.remainder_bits - 1), tiles.remainder_bits)
        tile.symbols = pad(symbols + coded)
        if len(tile.symbols) < len(stored):
            return tile
    return Tile(tile.residue, stored, width=STORED, constant_planes=stored_planes)


def join_residue(entry: np.void, records: np.ndarray, tiles: TileLayout, numel: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the residue planes, the remainder and, of a stored tile, the heads.

    Returns:
        The ordered words with what was read, and the symbols that were not read.
    """
    mask = int(entry["constant_planes"])
    residue = records[int(entry["offset"]) :]
    varying = sum(not mask >> plane & 1 for plane in range(tiles.layout.residue_planes))
    symbols = residue[varying * aligned(numel) :]
    ordered = np.zeros(numel, np.uint64)
    block = symbols[:CONSTANT_BLOCK_BYTES]
    if mask:
        symbols = symbols[CONSTANT_BLOCK_BYTES:]
    start = 0
    for plane in range(tiles.layout.residue_planes):
        if mask >> plane & 1:
            octets = np.full(numel, block[plane], np.uint64)
        else:
            octets = residue[start : start + numel].astype(np.uint64)
            start += aligned(numel)
        ordered |= octets << np.uint64(8 * plane)
    low_bits = np.uint64(8 * tiles.layout.residue_planes)
    if entry["width"] == STORED:
        head_bytes = tiles.layout.head_bytes
        head = symbols[: numel * head_bytes].view(f"<u{head_bytes}").astype(np.uint64)
        return ordered | head << low_bits, symbols
    if tiles.remainder_bits:
        if mask >> REMAINDER_BIT & 1:
            remainder = np.full(numel, block[REMAINDER_BIT], np.uint64) & np.uint64(2**tiles.remainder_bits - 1)
        else:
            taken = fields_bytes(tiles.remainder_bits, numel)
            remainder = unpack_fields(symbols[:taken].tobytes(), tiles.remainder_bits, numel)
            symbols = symbols[taken:]
        ordered |= remainder << low_bits
    return ordered, symbols


def value_shift(tiles: TileLayout) -> np.uint64:
    """Return the bits below the coded value in a ordered word."""
    return np.uint64(8 * tiles.layout.residue_planes + tiles.remainder_bits)


def encode_tiles(
    words: np.ndarray, tiles: TileLayout, sections: Sections, encode_tile: Callable[[np.ndarray, TileLayout, int], Tile]
) -> int:
    """Encode all tiles one after another and place them.

    Args:
        words: Words of the tensor.
        tiles: Geometry of the body.
        sections: Its parts, to be filled.
        encode_tile: Encodes the ordered words of a tile, given its number.

    Returns:
        Bytes used of the section.
    """
    end = 0
    for index in range(tiles.num_tiles):
        first = index * tiles.tile_elems
        tile = encode_tile(order_bits(words[first : first + tiles.tile_elems], tiles.layout), tiles, index)
        record = np.frombuffer(tile.residue + tile.symbols, np.uint8)
        if tiles.placement == "slotted":
            end = index * tiles.slot_bytes
        sections.entries[index] = (end, tile.num_escapes, tile.base, tile.width, tile.constant_planes, 0)
        sections.records[end : end + len(record)] = record
        end += len(record)
    return tiles.max_section_bytes if tiles.placement == "slotted" else end


def decode_tiles(
    tiles: TileLayout,
    sections: Sections,
    words: np.ndarray,
    decode_tile: Callable[[np.void, np.ndarray, TileLayout, int], np.ndarray],
) -> None:
    """Decode all tiles, whose entries have been checked, into `words`."""
    for index in range(tiles.num_tiles):
        target = words[index * tiles.tile_elems :][: tiles.tile_elems]
        ordered = decode_tile(sections.entries[index], sections.records, tiles, len(target))
        target[:] = restore_bits(ordered, tiles.layout)
