"""Words, residue planes and heads of one tile in Numba, shared by the tiled codecs.

Shifts are constants and types narrow wherever speed counts, because LLVM turns such loops into
full-width vector code and does a shift by a run-time amount in 64-bit lanes. `words` are the bit
patterns of the tile; `masks` are those of its dtype, from `masks_of`. No loop here checks bounds:
the directory has been checked before.
"""

import numba
import numpy as np
from numba.extending import overload

from wirezip.codecs.tiles.layout import ALIGNMENT, CONSTANT_BLOCK_BYTES, REMAINDER_BIT, ROWS
from wirezip.floats import FloatFormat

jit = numba.njit(nogil=True, cache=True, error_model="numpy")
inlined = numba.njit(inline="always", error_model="numpy")


def masks_of(layout: FloatFormat) -> tuple[np.unsignedinteger, np.unsignedinteger]:
    """Return the masks of the exponent and of the mantissa in a word, in the word's own type."""
    kind = getattr(np, f"uint{layout.word_bits}")
    mantissa = (1 << layout.mantissa_bits) - 1
    return kind(((1 << layout.exponent_bits) - 1) << layout.mantissa_bits), kind(mantissa)


def order_bits(word, masks):
    """Return a word with its fields reordered to exponent, sign, mantissa."""
    raise NotImplementedError("compiled code only")


def restore_bits(ordered, masks):
    """Undo `order_bits`."""
    raise NotImplementedError("compiled code only")


def head_shift(word):
    """Return the bits of residue planes below the head, a constant of the word's type."""
    raise NotImplementedError("compiled code only")


@overload(order_bits, inline="always")
def _order_bits(word, masks):
    kind, top = getattr(np, f"uint{word.bitwidth}"), word.bitwidth - 1

    def order(word, masks):
        exponent, mantissa = masks
        # Zero minus the sign bit selects the sign's new place without a shift by a run-time amount.
        sign = kind(kind(0) - kind(word >> top)) & kind(mantissa + 1)
        return kind(kind((word & exponent) << 1) | kind(word & mantissa) | sign)

    return order


@overload(restore_bits, inline="always")
def _restore_bits(ordered, masks):
    kind, top = getattr(np, f"uint{ordered.bitwidth}"), ordered.bitwidth - 1

    def restore(ordered, masks):
        exponent, mantissa = masks
        sign = kind(kind((ordered & kind(mantissa + 1)) != 0) << top)
        return kind(kind((ordered >> 1) & exponent) | kind(ordered & mantissa) | sign)

    return restore


@overload(head_shift, inline="always")
def _head_shift(word):
    shift = {8: 0, 16: 8, 32: 24, 64: 48}[word.bitwidth]
    return lambda word: shift


@inlined
def aligned(num_bytes):
    """Return `num_bytes` rounded up to the section alignment."""
    return (num_bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@inlined
def num_columns(numel):
    """Return the columns that `numel` elements fill when dealt over the rows."""
    return aligned((numel + ROWS - 1) // ROWS)


@jit
def copy(out, values):
    """Copy `values` to the start of `out`; compiled slice assignment is several times slower."""
    for i in range(len(values)):
        out[i] = values[i]


@jit
def varying_bits(words):
    """Return the bits that are not the same in all words, in the word's type."""
    first = words[0]
    varying = words.dtype.type(0)
    for i in range(len(words)):
        varying |= words[i] ^ first
    # The loop variable has been widened; the result must have the word's width to be reordered.
    return words.dtype.type(varying)


@jit
def split_heads(words, masks, heads):
    """Write the heads."""
    for i in range(len(words)):
        heads[i] = order_bits(words[i], masks) >> head_shift(words[i])


@inlined
def _split_bytes(words, masks, shift, out):
    for i in range(len(words)):
        out[i] = np.uint8(order_bits(words[i], masks) >> shift)


def split_plane(words, masks, plane, out):
    """Write one residue byte plane."""
    raise NotImplementedError("compiled code only")


@overload(split_plane)
def _split_plane(words, masks, plane, out):
    def split_1(words, masks, plane, out):
        _split_bytes(words, masks, 0, out)

    def split_3(words, masks, plane, out):
        if plane == 0:
            _split_bytes(words, masks, 0, out)
        elif plane == 1:
            _split_bytes(words, masks, 8, out)
        else:
            _split_bytes(words, masks, 16, out)

    def split_6(words, masks, plane, out):
        # In 64-bit lanes a shift by a run-time amount costs no width.
        _split_bytes(words, masks, 8 * plane, out)

    return {8: split_1, 16: split_1, 32: split_3, 64: split_6}[words.dtype.bitwidth]


@inlined
def _join_bytes(words, shift, octets):
    for i in range(len(words)):
        words[i] |= words.dtype.type(octets[i]) << shift


def join_plane(words, plane, octets):
    """Put one residue byte plane into ordered words."""
    raise NotImplementedError("compiled code only")


@overload(join_plane)
def _join_plane(words, plane, octets):
    def join_1(words, plane, octets):
        _join_bytes(words, 0, octets)

    def join_3(words, plane, octets):
        if plane == 0:
            _join_bytes(words, 0, octets)
        elif plane == 1:
            _join_bytes(words, 8, octets)
        else:
            _join_bytes(words, 16, octets)

    def join_6(words, plane, octets):
        _join_bytes(words, 8 * plane, octets)

    return {8: join_1, 16: join_1, 32: join_3, 64: join_6}[words.dtype.bitwidth]


@jit
def split_residue(words, masks, mask, residue, start):
    """Write the residue planes not in `mask` from `start`, zero-padded; returns where they end."""
    n, room = len(words), aligned(len(words))
    for plane in range(head_shift(words[0]) // 8):
        if not mask >> plane & 1:
            split_plane(words, masks, plane, residue[start : start + n])
            residue[start + n : start + room] = 0
            start += room
    return start


@jit
def residue_bytes(words, mask):
    """Return the bytes of the residue planes not in `mask`."""
    planes = 0
    for plane in range(head_shift(words[0]) // 8):
        planes += 1 - (mask >> plane & 1)
    return planes * aligned(len(words))


@jit
def constant_mask(words, masks, remainder_bits):
    """Return the `constant_planes` of a tile's entry, as it is when the tile is coded."""
    varying = np.uint64(order_bits(varying_bits(words), masks))
    shift, mask = head_shift(words[0]), 0
    for plane in range(shift // 8):
        if not varying >> np.uint64(8 * plane) & np.uint64(0xFF):
            mask |= 1 << plane
    if remainder_bits and not varying >> np.uint64(shift) & np.uint64((1 << remainder_bits) - 1):
        mask |= 1 << REMAINDER_BIT
    return mask


@jit
def write_constants(ordered, mask, remainder_bits, symbols):
    """Write the constant block, if any plane is constant, from any ordered word; returns its end."""
    if mask == 0:
        return 0
    symbols[:CONSTANT_BLOCK_BYTES] = 0
    shift, first = head_shift(ordered), np.uint64(ordered)
    for plane in range(shift // 8):
        if mask >> plane & 1:
            symbols[plane] = np.uint8(first >> np.uint64(8 * plane))
    if mask >> REMAINDER_BIT & 1:
        symbols[REMAINDER_BIT] = np.uint8(first >> np.uint64(shift) & np.uint64((1 << remainder_bits) - 1))
    return CONSTANT_BLOCK_BYTES


@jit
def write_stored(ordered, heads, mask, symbols):
    """Write the symbols of a stored tile; returns where they end, padding included."""
    start = write_constants(ordered, mask, 0, symbols)
    octets = heads.view(np.uint8)
    end = start + len(octets)
    copy(symbols[start:end], octets)
    padded = aligned(end)
    symbols[end:padded] = 0
    return padded


@jit
def read_stored(symbols, heads):
    """Read the heads of a stored tile."""
    octets = heads.view(np.uint8)
    copy(octets, symbols[: len(octets)])


@jit
def join_words(words, masks, heads, planes, residue):
    """Put heads and residue planes together as the original words.

    `planes` is the mask of constant planes and the block with their values.
    """
    mask, block = planes
    n, room, start = len(words), aligned(len(words)), 0
    for i in range(n):
        words[i] = words.dtype.type(heads[i]) << head_shift(words[0])
    for plane in range(head_shift(words[0]) // 8):
        if mask >> plane & 1:
            constant = words.dtype.type(np.uint64(block[plane]) << np.uint64(8 * plane))
            for i in range(n):
                words[i] |= constant
        else:
            join_plane(words, plane, residue[start : start + n])
            start += room
    for i in range(n):
        words[i] = restore_bits(words[i], masks)
