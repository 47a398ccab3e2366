"""Bit fields in Numba: the remainder of a head and the codes of `window`.

Elements are dealt row by row over 8 rows of `num_columns` columns; see docs/format.md, "Bit fields".
"""

import numpy as np

from wirezip.codecs.tiles.cpu import inlined, jit
from wirezip.codecs.tiles.layout import ROWS


@inlined
def _pack_plane(fields, width, plane):
    columns = len(plane)
    for column in range(columns):
        packed = np.uint32(0)
        for row in range(ROWS):
            packed |= np.uint32(fields[row * columns + column] & ((1 << width) - 1)) << np.uint32(width * row)
        plane[column] = packed


@inlined
def _unpack_plane(plane, width, fields):
    columns = len(plane)
    for row in range(ROWS):
        for column in range(columns):
            field = (plane[column] >> (width * row)) & ((1 << width) - 1)
            fields[row * columns + column] = np.uint8(fields[row * columns + column] << width) | np.uint8(field)


@inlined
def _drop_bits(fields, width):
    for i in range(len(fields)):
        fields[i] >>= np.uint8(width)


@jit
def pack_fields(fields, num_bits, symbols, start):
    """Pack the low `num_bits` of each field at `start`; returns where they end.

    `fields` has 8 rows of `num_columns` columns, zero where there is no element; it is destroyed.
    """
    columns = len(fields) // ROWS
    if num_bits & 4:
        end = start + 4 * columns
        _pack_plane(fields, 4, symbols[start:end].view(np.uint32))
        _drop_bits(fields, 4)
        start = end
    if num_bits & 2:
        end = start + 2 * columns
        _pack_plane(fields, 2, symbols[start:end].view(np.uint16))
        _drop_bits(fields, 2)
        start = end
    if num_bits & 1:
        end = start + columns
        _pack_plane(fields, 1, symbols[start:end])
        start = end
    return start


@jit
def unpack_fields(symbols, start, num_bits, fields):
    """Undo `pack_fields` into `fields`; returns where the packed bytes end.

    Planes are taken from the high bits down, so that every shift is a constant.
    """
    columns = len(fields) // ROWS
    end = start + num_bits * columns
    stop = end
    fields[:] = 0
    if num_bits & 1:
        _unpack_plane(symbols[stop - columns : stop], 1, fields)
        stop -= columns
    if num_bits & 2:
        _unpack_plane(symbols[stop - 2 * columns : stop].view(np.uint16), 2, fields)
        stop -= 2 * columns
    if num_bits & 4:
        _unpack_plane(symbols[stop - 4 * columns : stop].view(np.uint32), 4, fields)
    return end


@jit
def write_remainder(heads, remainder_bits, fields, symbols, start):
    """Pack the remainder bits of the heads at `start`; returns where they end."""
    mask = (1 << remainder_bits) - 1
    fields[len(heads) :] = 0
    for i in range(len(heads)):
        fields[i] = heads[i] & mask
    return pack_fields(fields, remainder_bits, symbols, start)


@jit
def read_remainder(heads, remainder_bits, fields, symbols, start):
    """Put packed remainder bits below the values in `heads`; returns where they end."""
    end = unpack_fields(symbols, start, remainder_bits, fields)
    for i in range(len(heads)):
        heads[i] = heads[i] << remainder_bits | fields[i]
    return end


@jit
def set_remainder(heads, remainder_bits, remainder):
    """Put one remainder, of which the low bits count, below all the values in `heads`."""
    low = remainder & ((1 << remainder_bits) - 1)
    for i in range(len(heads)):
        heads[i] = heads[i] << remainder_bits | low
