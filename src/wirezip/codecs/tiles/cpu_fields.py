"""Bit fields in Numba: the remainder of a head and the codes of `window`.

Elements are dealt row by row over 8 rows of `num_columns` columns; see docs/format.md, "Bit fields".
"""

import numpy as np

from wirezip.codecs.tiles.cpu import inlined, jit
from wirezip.codecs.tiles.layout import ROWS


@inlined
def _pack(fields, width, kind, planes):
    columns = len(fields) // ROWS
    for column in range(columns):
        packed = kind(0)
        for row in range(ROWS):
            packed |= kind(fields[row * columns + column]) << kind(width * row)
        for plane in range(width):
            planes[plane * columns + column] = np.uint8(packed >> kind(8 * plane))


@inlined
def _unpack(planes, width, kind, fields):
    columns = len(fields) // ROWS
    for column in range(columns):
        packed = kind(0)
        for plane in range(width):
            packed |= kind(planes[plane * columns + column]) << kind(8 * plane)
        for row in range(ROWS):
            fields[row * columns + column] = np.uint8((packed >> kind(width * row)) & kind((1 << width) - 1))


@jit
def pack_fields(fields, num_bits, symbols, start):
    """Pack fields of `num_bits` at `start`; returns where they end.

    `fields` has 8 rows of `num_columns` columns, zero where there is no element. The width is a constant
    in every branch, because only then LLVM makes vector code of the loops.
    """
    end = start + num_bits * (len(fields) // ROWS)
    planes = symbols[start:end]
    if num_bits == 1:
        _pack(fields, 1, np.uint8, planes)
    elif num_bits == 2:
        _pack(fields, 2, np.uint16, planes)
    elif num_bits == 3:
        _pack(fields, 3, np.uint32, planes)
    elif num_bits == 4:
        _pack(fields, 4, np.uint32, planes)
    else:
        _pack(fields, 5, np.uint64, planes)
    return end


@jit
def unpack_fields(symbols, start, num_bits, fields):
    """Undo `pack_fields` into `fields`; returns where the packed bytes end."""
    end = start + num_bits * (len(fields) // ROWS)
    planes = symbols[start:end]
    if num_bits == 1:
        _unpack(planes, 1, np.uint8, fields)
    elif num_bits == 2:
        _unpack(planes, 2, np.uint16, fields)
    elif num_bits == 3:
        _unpack(planes, 3, np.uint32, fields)
    elif num_bits == 4:
        _unpack(planes, 4, np.uint32, fields)
    else:
        _unpack(planes, 5, np.uint64, fields)
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
