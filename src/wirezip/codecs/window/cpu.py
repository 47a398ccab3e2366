"""The `window` codec in Numba; equal to `reference.py` byte for byte."""

from typing import NamedTuple

import numpy as np

from wirezip.codecs.tiles import cpu as common
from wirezip.codecs.tiles import cpu_fields, layout
from wirezip.codecs.tiles.cpu import aligned, jit, num_columns
from wirezip.codecs.tiles.cpu_body import geometry_of
from wirezip.codecs.tiles.layout import CONSTANT_BLOCK_BYTES, REMAINDER_BIT, ROWS, STORED, Sections, TileLayout
from wirezip.codecs.window.reference import MAX_WIDTH, SAMPLE_STEP, SAMPLED_COLUMNS, SEGMENT_TILES
from wirezip.errors import CorruptFrameError


@jit
def count_sample(words, masks, counts):
    """Add the sampled values of a tile to four interleaved rows of `counts`; returns how many."""
    exponent, mantissa = masks
    shift = 0
    while (1 << shift) <= mantissa:
        shift += 1
    columns, n = num_columns(len(words)), len(words)
    span = max(1, columns // SAMPLE_STEP) * SAMPLED_COLUMNS
    total = 0
    # Four rows, because consecutive increments of one counter would wait for each other.
    for row in range(ROWS):
        start = row * (columns // 128 * SAMPLED_COLUMNS + span)
        for k in range(span):
            i = row * columns + (start + k) % columns
            if i < n:
                counts[k & 3, int(np.uint64(words[i] & exponent) >> np.uint64(shift))] += 1
                total += 1
    return total


@jit
def choose_window(words, masks, geometry, counts):
    """Return width and base of a segment as the reference chooses them, or `STORED` and 0."""
    counts[:] = 0
    total = 0
    for first in range(0, len(words), geometry.tile_elems):
        total += count_sample(words[first : first + geometry.tile_elems], masks, counts)
    value_bits = geometry.value_bits
    lowest, highest = -1, 0
    for value in range(1 << value_bits):
        counts[0, value] += counts[1, value] + counts[2, value] + counts[3, value]
        if counts[0, value]:
            highest = value
            if lowest < 0:
                lowest = value
    escape_bits = 8 * ((value_bits + 7) // 8)
    best_bits, best_width, best_base = value_bits * total, STORED, 0
    for width in range(1, MAX_WIDTH + 1):
        size = (1 << width) - 1
        # A window that covers nothing of the sample cannot be the first of the best.
        base = max(0, lowest - size + 1)
        covered = counts[0, base : base + size].sum()
        while True:
            bits = width * total + escape_bits * (total - covered)
            if bits < best_bits:
                best_bits, best_width, best_base = bits, width, base
            if base >= highest or base + size >= 1 << value_bits:
                break
            covered += counts[0, base + size] - counts[0, base]
            base += 1
    return best_width, best_base


@jit
def write_codes(values, base, width, codes):
    """Write the code of each value; zero where there is no element."""
    escape = values.dtype.type((1 << width) - 1)
    lowest = values.dtype.type(base)
    for i in range(len(values)):
        # A value below the base wraps to a large distance, and so escapes too.
        codes[i] = min(values.dtype.type(values[i] - lowest), escape)
    codes[len(values) :] = 0


@jit
def find_escapes(codes, width, marks):
    """Write for each column the rows that hold an escape code as bits; returns the escapes."""
    escape = np.uint8((1 << width) - 1)
    columns = len(marks)
    count = 0
    for column in range(columns):
        mark = np.uint8(0)
        for row in range(ROWS):
            mark |= np.uint8((codes[row * columns + column] == escape) << row)
        marks[column] = mark
    for i in range(len(codes)):
        count += codes[i] == escape
    return count


@jit
def write_escapes(values, marks, out):
    """Write the values marked, column by column."""
    columns = len(marks)
    end = 0
    for column in range(columns):
        if marks[column]:
            for row in range(ROWS):
                if marks[column] >> row & 1:
                    out[end] = values[row * columns + column]
                    end += 1


@jit
def read_escapes(values, marks, listed):
    """Put the escapes listed where they are marked, column by column."""
    columns = len(marks)
    end = 0
    for column in range(columns):
        if marks[column]:
            for row in range(ROWS):
                if marks[column] >> row & 1:
                    values[row * columns + column] = listed[end]
                    end += 1


class Scratch(NamedTuple):
    """Room for one tile: heads, values, codes or remainders, escape marks, value counts."""

    heads: np.ndarray
    values: np.ndarray
    fields: np.ndarray
    marks: np.ndarray
    counts: np.ndarray


def make_scratch(tiles: TileLayout) -> Scratch:
    """Return scratch for the tiles of a body."""
    kind = np.dtype(f"u{tiles.layout.head_bytes}")
    columns = layout.num_columns(tiles.tile_elems)
    return Scratch(
        heads=np.empty(ROWS * columns, kind),
        values=np.empty(ROWS * columns, kind),
        fields=np.empty(ROWS * columns, np.uint8),
        marks=np.empty(columns, np.uint8),
        counts=np.empty((4, 1 << tiles.value_bits), np.int32),
    )


@jit
def choose_code(n, geometry, choice, scratch):
    """Make codes and escape marks of a tile whose heads are in `scratch`, with the choice of its segment.

    Returns:
        Width, base and number of escapes.
    """
    values = scratch.values[:n]
    for i in range(n):
        values[i] = scratch.heads[i] >> geometry.remainder_bits
    if not common.varying_bits(values):
        return 0, int(values[0]), 0
    width, base = choice
    if width == STORED:
        return STORED, 0, 0
    columns = num_columns(n)
    fields = scratch.fields[: ROWS * columns]
    write_codes(values, base, width, fields)
    return width, base, find_escapes(fields, width, scratch.marks[:columns])


@jit
def symbol_bytes(n, mask, geometry, width, num_escapes):
    """Return the symbol bytes of a tile, padding included."""
    head_bytes = (geometry.value_bits + 7) // 8
    if width == STORED:
        return aligned((CONSTANT_BLOCK_BYTES if mask & ~(1 << REMAINDER_BIT) else 0) + n * head_bytes)
    bits = width + (0 if mask >> REMAINDER_BIT & 1 else geometry.remainder_bits)
    block = CONSTANT_BLOCK_BYTES if mask else 0
    return aligned(block + bits * num_columns(n) + num_escapes * head_bytes)


@jit
def write_coded(n, choice, geometry, scratch, symbols):
    """Write what follows the constant block in a coded tile; returns where it ends, padding included."""
    width, num_escapes, has_fields = choice
    columns = num_columns(n)
    fields = scratch.fields[: ROWS * columns]
    end = geometry.remainder_bits * columns if has_fields else 0
    if width:
        # The codes go first, because the remainder then takes their room in the scratch.
        end = cpu_fields.pack_fields(fields, width, symbols, end)
        listed = symbols[end : end + num_escapes * scratch.values.itemsize].view(scratch.values.dtype)
        write_escapes(scratch.values, scratch.marks[:columns], listed)
        end += num_escapes * scratch.values.itemsize
    if has_fields:
        cpu_fields.write_remainder(scratch.heads[:n], geometry.remainder_bits, fields, symbols, 0)
    padded = aligned(end)
    symbols[end:padded] = 0
    return padded


@jit
def encode_symbols(ordered, n, mask, geometry, choice, scratch, entry, symbols):
    """Code or store the symbols of a tile whose heads are in `scratch`; returns where they end."""
    width, base, num_escapes = choose_code(n, geometry, choice, scratch)
    stored_bytes = symbol_bytes(n, mask, geometry, STORED, 0)
    if width == STORED or symbol_bytes(n, mask, geometry, width, num_escapes) >= stored_bytes:
        entry.num_escapes, entry.base, entry.width = 0, 0, STORED
        entry.constant_planes = mask & ~(1 << REMAINDER_BIT)
        return common.write_stored(ordered, scratch.heads[:n], entry.constant_planes, symbols)
    entry.num_escapes, entry.base, entry.width, entry.constant_planes = num_escapes, base, width, mask
    start = common.write_constants(ordered, mask, geometry.remainder_bits, symbols)
    has_fields = geometry.remainder_bits > 0 and not mask >> REMAINDER_BIT & 1
    return start + write_coded(n, (width, num_escapes, has_fields), geometry, scratch, symbols[start:])


@jit
def encode_all(words, masks, geometry, scratch, entries, records):
    """Encode all tiles; returns the bytes used of the section."""
    end, choice = 0, (STORED, 0)
    for tile in range(len(entries)):
        first = tile * geometry.tile_elems
        if tile % SEGMENT_TILES == 0:
            segment = words[first : first + SEGMENT_TILES * geometry.tile_elems]
            choice = choose_window(segment, masks, geometry, scratch.counts)
        part = words[first : first + geometry.tile_elems]
        if geometry.slot_bytes:
            end = tile * geometry.slot_bytes
        entry = entries[tile]
        entry.offset, entry.reserved = end, 0
        mask = common.constant_mask(part, masks, geometry.remainder_bits)
        end = common.split_residue(part, masks, mask, records, end)
        common.split_heads(part, masks, scratch.heads)
        ordered = common.order_bits(part[0], masks)
        end += encode_symbols(ordered, len(part), mask, geometry, choice, scratch, entry, records[end:])
    return len(records) if geometry.slot_bytes else end


@jit
def read_coded(n, geometry, scratch, entry, symbols):
    """Read the values of a coded tile into the heads of `scratch`; False if it is corrupt."""
    columns = num_columns(n)
    values, fields = scratch.heads[: ROWS * columns], scratch.fields[: ROWS * columns]
    has_fields = geometry.remainder_bits > 0 and not entry.constant_planes >> REMAINDER_BIT & 1
    base, width = values.dtype.type(entry.base), int(entry.width)
    if width:
        start = geometry.remainder_bits * columns if has_fields else 0
        end = cpu_fields.unpack_fields(symbols, start, width, fields)
        # Bits of places that hold no element mean nothing.
        fields[n:] = 0
        marks = scratch.marks[:columns]
        if find_escapes(fields, width, marks) != entry.num_escapes:
            return False
        for i in range(len(values)):
            values[i] = values.dtype.type(fields[i] + base)
        listed = symbols[end : end + entry.num_escapes * values.itemsize].view(values.dtype)
        read_escapes(values, marks, listed)
    else:
        values[:] = base
    if has_fields:
        cpu_fields.read_remainder(values[:n], geometry.remainder_bits, fields, symbols, 0)
    return True


@jit
def decode_all(words, masks, geometry, scratch, entries, records):
    """Decode all tiles; returns the first that is corrupt, or -1."""
    no_block = np.zeros(CONSTANT_BLOCK_BYTES, np.uint8)
    for tile in range(len(entries)):
        part = words[tile * geometry.tile_elems : (tile + 1) * geometry.tile_elems]
        entry, n = entries[tile], len(part)
        mask, block = int(entry.constant_planes), no_block
        residue = records[int(entry.offset) :]
        start = common.residue_bytes(part, mask)
        if mask:
            block = residue[start : start + CONSTANT_BLOCK_BYTES]
            start += CONSTANT_BLOCK_BYTES
        if entry.width == STORED:
            common.read_stored(residue[start:], scratch.heads[:n])
        elif not read_coded(n, geometry, scratch, entry, residue[start:]):
            return tile
        elif mask >> REMAINDER_BIT & 1:
            cpu_fields.set_remainder(scratch.heads[:n], geometry.remainder_bits, block[REMAINDER_BIT])
        common.join_words(part, masks, scratch.heads[:n], (mask, block), residue)
    return -1


def encode_tiles(words: np.ndarray, tiles: TileLayout, sections: Sections) -> int:
    """Encode all tiles; returns the bytes used of the section."""
    parts = (sections.entries, sections.records)
    end: int = encode_all(words, common.masks_of(tiles.layout), geometry_of(tiles), make_scratch(tiles), *parts)
    return end


def decode_tiles(tiles: TileLayout, sections: Sections, words: np.ndarray) -> None:
    """Decode all tiles, whose entries have been checked, into `words`."""
    parts = (sections.entries, sections.records)
    tile = decode_all(words, common.masks_of(tiles.layout), geometry_of(tiles), make_scratch(tiles), *parts)
    if tile >= 0:
        raise CorruptFrameError(f"window: tile {tile} has another number of escape codes than of escapes")
