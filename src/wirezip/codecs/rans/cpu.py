"""The `rans` codec in Numba; equal to `reference.py` byte for byte."""

from typing import NamedTuple

import numpy as np

from wirezip.codecs.rans import tables
from wirezip.codecs.rans.cpu_streams import (
    ROW,
    decode_stream,
    encode_stream,
    fill_decoder,
    fill_encoder,
)
from wirezip.codecs.rans.tables import (
    ALL_ONES,
    BITMAP_BYTES,
    ESCAPE,
    GROUP_ELEMS,
    NUM_LANES,
    NUM_SYMBOLS,
    SAMPLE_STEP,
    SAMPLED_FROM_ELEMS,
    WIDE_SPAN,
)
from wirezip.codecs.tiles import cpu as common
from wirezip.codecs.tiles import cpu_fields, layout
from wirezip.codecs.tiles.cpu import aligned, jit, num_columns
from wirezip.codecs.tiles.cpu_body import geometry_of
from wirezip.codecs.tiles.layout import CONSTANT_BLOCK_BYTES, REMAINDER_BIT, ROWS, STORED, Sections, TileLayout
from wirezip.errors import CorruptFrameError


class Scratch(NamedTuple):
    """Room for one tile.

    Heads, symbols, remainder fields; lane states, words and their ends by stream; escape positions;
    decoded symbols; frequencies and the encoder's and decoder's tables.
    """

    heads: np.ndarray
    symbols: np.ndarray
    fields: np.ndarray
    states: np.ndarray
    words: np.ndarray
    ends: np.ndarray
    escapes: np.ndarray
    decoded: np.ndarray
    frequencies: np.ndarray
    encoder: np.ndarray
    decoder: np.ndarray


class Coding(NamedTuple):
    """The rANS parameters of a body."""

    prob_bits: int
    stream_elems: int


def make_scratch(tiles: TileLayout) -> Scratch:
    """Return scratch for the tiles of a body."""
    streams = tables.num_streams(tiles, tiles.tile_elems)
    heads = np.empty(tiles.tile_elems, f"u{tiles.layout.head_bytes}")
    return Scratch(
        heads=heads,
        symbols=np.empty(tiles.tile_elems, np.uint16),
        fields=np.empty(ROWS * layout.num_columns(tiles.tile_elems), np.uint8),
        states=np.empty((streams, NUM_LANES), np.uint64),
        words=np.zeros(tiles.tile_elems + GROUP_ELEMS, np.uint16),
        ends=np.empty(streams, np.uint32),
        escapes=np.empty(tiles.tile_elems, np.uint16),
        # One-byte heads are their own symbols, and are decoded in place.
        decoded=heads if heads.itemsize == 1 else np.empty(tiles.tile_elems, np.uint8),
        frequencies=np.empty(NUM_SYMBOLS + 1, np.int64),
        encoder=np.empty((NUM_SYMBOLS + 1) * ROW, np.uint64),
        decoder=np.empty(1 << tables.MAX_PROB_BITS, np.uint32),
    )


@jit
def is_sampled(i, n):
    """Return whether element `i` of a tile of `n` counts for its table."""
    return n < SAMPLED_FROM_ELEMS or i // GROUP_ELEMS % SAMPLE_STEP == 0


@jit
def to_symbols(heads, geometry, symbols):
    """Write the symbols of the heads, `ESCAPE` for those without one; returns the base."""
    n, base = len(heads), 0
    if geometry.value_bits == 8:
        for i in range(n):
            symbols[i] = heads[i]
        return base
    all_ones = (1 << geometry.value_bits) - 1
    for i in range(n):
        value = int(heads[i] >> geometry.remainder_bits)
        if is_sampled(i, n) and value != all_ones:
            base = max(base, value - WIDE_SPAN + 1)
    for i in range(n):
        value = int(heads[i] >> geometry.remainder_bits)
        symbol = value - base + 1 if base <= value < base + WIDE_SPAN else ESCAPE
        symbols[i] = 0 if value == 0 else (ALL_ONES if value == all_ones else symbol)
    return base


@jit
def build_table(n, prob_bits, scratch):
    """Fill the frequencies from the sample, as the reference does."""
    symbols, frequencies = scratch.symbols, scratch.frequencies
    counts = np.zeros((4, NUM_SYMBOLS + 1), np.int64)
    # Four rows, because consecutive increments of one counter would wait for each other.
    for first in range(0, n, GROUP_ELEMS):
        if is_sampled(first, n):
            for i in range(first, min(first + GROUP_ELEMS, n)):
                counts[i & 3, symbols[i]] += 1
    total, present, commonest = 0, 0, 0
    for symbol in range(NUM_SYMBOLS):
        counts[0, symbol] += counts[1, symbol] + counts[2, symbol] + counts[3, symbol]
        total += counts[0, symbol]
        present += counts[0, symbol] > 0
        if counts[0, symbol] > counts[0, commonest]:
            commonest = symbol
    shared = (1 << prob_bits) - present - 1
    left = (1 << prob_bits) - 1
    for symbol in range(NUM_SYMBOLS):
        count = counts[0, symbol]
        frequencies[symbol] = 1 + count * shared // total if count else 0
        left -= frequencies[symbol]
    frequencies[commonest] += left
    frequencies[ESCAPE] = 1


@jit
def mark_escapes(n, scratch):
    """Make elements without a frequency escapes, and list their positions; returns how many."""
    symbols, frequencies = scratch.symbols, scratch.frequencies
    absent = np.ones(NUM_SYMBOLS + 1, np.uint8)
    for symbol in range(NUM_SYMBOLS):
        absent[symbol] = frequencies[symbol] == 0
    count = 0
    for i in range(n):
        if absent[symbols[i]]:
            symbols[i] = ESCAPE
            scratch.escapes[count] = i
            count += 1
    return count


@jit
def encode_streams(n, coding, scratch):
    """Encode all streams of a tile; returns the bytes of table, word counts, states and words."""
    fill_encoder(scratch.frequencies, coding.prob_bits, scratch.encoder)
    end, stream = 0, 0
    for start in range(0, n, coding.stream_elems):
        part = scratch.symbols[start : min(n, start + coding.stream_elems)]
        end = encode_stream(part, scratch.encoder, scratch.states[stream], scratch.words, end)
        scratch.ends[stream] = end
        stream += 1
    present = 0
    for symbol in range(NUM_SYMBOLS):
        present += scratch.frequencies[symbol] > 0
    return BITMAP_BYTES + (present + 1) // 2 * 4 + stream * 4 * (1 + NUM_LANES) + end * 2


@jit
def write_streams(n, coding, scratch, symbols):
    """Write table, word counts, states and words to the start of `symbols`; returns where they end."""
    symbols[:BITMAP_BYTES] = 0
    listed, present = symbols[BITMAP_BYTES:].view(np.uint16), 0
    for symbol in range(NUM_SYMBOLS):
        if scratch.frequencies[symbol]:
            symbols[symbol // 8] |= np.uint8(1 << symbol % 8)
            listed[present] = scratch.frequencies[symbol]
            present += 1
    if present % 2:
        listed[present] = 0
    end = BITMAP_BYTES + (present + 1) // 2 * 4
    streams = (n + coding.stream_elems - 1) // coding.stream_elems
    numbers = symbols[end : end + 4 * streams * (1 + NUM_LANES)].view(np.uint32)
    before = np.uint32(0)
    for stream in range(streams):
        numbers[stream] = scratch.ends[stream] - before
        before = scratch.ends[stream]
        for lane in range(NUM_LANES):
            numbers[streams + stream * NUM_LANES + lane] = scratch.states[stream, lane]
    end += 4 * len(numbers)
    words = symbols[end : end + 2 * int(before)].view(np.uint16)
    common.copy(words, scratch.words[: len(words)])
    return end + 2 * len(words)


@jit
def write_escapes(count, heads, geometry, escapes, symbols):
    """Write positions and values of the escapes to the start of `symbols`; returns where they end."""
    positions = symbols[: 2 * count].view(np.uint16)
    values = symbols[2 * count : (2 + heads.itemsize) * count].view(heads.dtype)
    for k in range(count):
        positions[k] = escapes[k]
        values[k] = heads[escapes[k]] >> geometry.remainder_bits
    return (2 + heads.itemsize) * count


@jit
def encode_symbols(ordered, n, mask, geometry, coding, scratch, entry, symbols):
    """Code or store the symbols of a tile whose heads are in `scratch`; returns where they end."""
    heads, width, base, count = scratch.heads[:n], 0, 0, 0
    has_fields = geometry.remainder_bits > 0 and not mask >> REMAINDER_BIT & 1
    fields = scratch.fields[: ROWS * num_columns(n)]
    fixed = (CONSTANT_BLOCK_BYTES if mask else 0) + (geometry.remainder_bits * num_columns(n) if has_fields else 0)
    if common.varying_bits(heads) >> geometry.remainder_bits:
        width, base = coding.prob_bits, to_symbols(heads, geometry, scratch.symbols)
        build_table(n, coding.prob_bits, scratch)
        count = mark_escapes(n, scratch)
        coded = encode_streams(n, coding, scratch) + (2 + heads.itemsize) * count
    else:
        base, coded = int(heads[0] >> geometry.remainder_bits), 0
    stored = aligned((CONSTANT_BLOCK_BYTES if mask & ~(1 << REMAINDER_BIT) else 0) + n * heads.itemsize)
    if aligned(fixed + coded) >= stored:
        entry.num_escapes, entry.base, entry.width = 0, 0, STORED
        entry.constant_planes = mask & ~(1 << REMAINDER_BIT)
        return common.write_stored(ordered, heads, entry.constant_planes, symbols)
    entry.num_escapes, entry.base, entry.width, entry.constant_planes = count, base, width, mask
    end = common.write_constants(ordered, mask, geometry.remainder_bits, symbols)
    if has_fields:
        end = cpu_fields.write_remainder(heads, geometry.remainder_bits, fields, symbols, end)
    if width:
        end += write_streams(n, coding, scratch, symbols[end:])
        end += write_escapes(count, heads, geometry, scratch.escapes, symbols[end:])
    padded = aligned(end)
    symbols[end:padded] = 0
    return padded


@jit
def encode_all(words, masks, geometry, coding, scratch, entries, residue, symbols):
    """Encode all tiles; returns the bytes used of the residue and symbol sections."""
    residue_end = symbol_end = 0
    for tile in range(len(entries)):
        part = words[tile * geometry.tile_elems : (tile + 1) * geometry.tile_elems]
        if geometry.symbol_slot_bytes:
            residue_end, symbol_end = tile * geometry.residue_slot_bytes, tile * geometry.symbol_slot_bytes
        entry = entries[tile]
        entry.residue_offset, entry.symbol_offset = residue_end, symbol_end
        mask = common.constant_mask(part, masks, geometry.remainder_bits)
        residue_end = common.split_residue(part, masks, mask, residue, residue_end)
        common.split_heads(part, masks, scratch.heads)
        ordered = common.order_bits(part[0], masks)
        symbol_end += encode_symbols(ordered, len(part), mask, geometry, coding, scratch, entry, symbols[symbol_end:])
    if geometry.symbol_slot_bytes:
        return len(residue), len(symbols)
    return residue_end, symbol_end


@jit
def read_table(prob_bits, scratch, symbols):
    """Read the frequencies at the start of `symbols`; returns where they end, or -1 if corrupt."""
    present = 0
    for symbol in range(NUM_SYMBOLS):
        present += symbols[symbol // 8] >> symbol % 8 & 1
    end = BITMAP_BYTES + (present + 1) // 2 * 4
    if end > len(symbols) or present == 0:
        return -1
    listed, k, left = symbols[BITMAP_BYTES:end].view(np.uint16), 0, 1 << prob_bits
    for symbol in range(NUM_SYMBOLS):
        scratch.frequencies[symbol] = 0
        if symbols[symbol // 8] >> symbol % 8 & 1:
            scratch.frequencies[symbol] = listed[k]
            left -= int(listed[k])
            k += 1
            if scratch.frequencies[symbol] == 0 or left < 1:
                return -1
    scratch.frequencies[ESCAPE] = left
    return end


@jit
def read_streams(n, prob_bits, stream_elems, scratch, symbols):
    """Decode the streams at the start of `symbols`; returns where they end, or -1 if corrupt."""
    end = read_table(prob_bits, scratch, symbols)
    streams = (n + stream_elems - 1) // stream_elems
    if end < 0 or end + 4 * streams * (1 + NUM_LANES) > len(symbols):
        return -1
    fill_decoder(scratch.frequencies, prob_bits, scratch.decoder)
    numbers = symbols[end : end + 4 * streams * (1 + NUM_LANES)].view(np.uint32)
    end += 4 * len(numbers)
    states, words = np.empty(NUM_LANES, np.uint32), scratch.words
    for stream in range(streams):
        count, first = int(numbers[stream]), streams + stream * NUM_LANES
        if count > stream_elems or end + 2 * count > len(symbols):
            return -1
        # Copied to where words that a corrupt stream asks for beyond its own may be read.
        common.copy(words[GROUP_ELEMS:], symbols[end : end + 2 * count].view(np.uint16))
        common.copy(states, numbers[first : first + NUM_LANES])
        part = scratch.decoded[stream * stream_elems : min(n, (stream + 1) * stream_elems)]
        if not decode_stream(part, scratch.decoder, prob_bits, states, words, GROUP_ELEMS + count):
            return -1
        end += 2 * count
    return end


@jit
def read_coded(n, geometry, stream_elems, scratch, entry, symbols):
    """Read the values of a coded tile into the heads of `scratch`; False if it is corrupt."""
    heads, base, count = scratch.heads[:n], int(entry.base), int(entry.num_escapes)
    end = read_streams(n, int(entry.width), stream_elems, scratch, symbols)
    if end < 0 or end + (2 + heads.itemsize) * count > len(symbols):
        return False
    # One-byte values have been decoded in place.
    if geometry.value_bits != 8:
        for i in range(n):
            symbol = int(scratch.decoded[i])
            value = (1 << geometry.value_bits) - 1 if symbol == ALL_ONES else symbol + base - 1
            heads[i] = value if symbol else 0
    positions = symbols[end : end + 2 * count].view(np.uint16)
    values = symbols[end + 2 * count : end + (2 + heads.itemsize) * count].view(heads.dtype)
    last = -1
    for k in range(count):
        if not last < positions[k] < n:
            return False
        last = int(positions[k])
        heads[positions[k]] = values[k]
    return True


@jit
def decode_all(words, masks, geometry, stream_elems, scratch, entries, residue, symbols):
    """Decode all tiles; returns the first that is corrupt, or -1."""
    no_block = np.zeros(CONSTANT_BLOCK_BYTES, np.uint8)
    for tile in range(len(entries)):
        part = words[tile * geometry.tile_elems : (tile + 1) * geometry.tile_elems]
        entry, n = entries[tile], len(part)
        heads, mask, start, block = scratch.heads[:n], int(entry.constant_planes), int(entry.symbol_offset), no_block
        if mask:
            block = symbols[start : start + CONSTANT_BLOCK_BYTES]
            start += CONSTANT_BLOCK_BYTES
        if entry.width == STORED:
            common.read_stored(symbols[start:], heads)
        else:
            fields_start = start
            has_fields = geometry.remainder_bits > 0 and not mask >> REMAINDER_BIT & 1
            if has_fields:
                start += geometry.remainder_bits * num_columns(n)
            if entry.width == 0:
                heads[:] = entry.base
            elif not read_coded(n, geometry, stream_elems, scratch, entry, symbols[start:]):
                return tile
            if has_fields:
                fields = scratch.fields[: ROWS * num_columns(n)]
                cpu_fields.read_remainder(heads, geometry.remainder_bits, fields, symbols, fields_start)
            elif geometry.remainder_bits:
                cpu_fields.set_remainder(heads, geometry.remainder_bits, block[REMAINDER_BIT])
        common.join_words(part, masks, heads, (mask, block), residue[int(entry.residue_offset) :])
    return -1


def encode_tiles(words: np.ndarray, tiles: TileLayout, sections: Sections) -> tuple[int, int]:
    """Encode all tiles; returns the bytes used of the residue and symbol sections."""
    parts = (sections.entries, sections.residue, sections.symbols)
    masks, scratch = common.masks_of(tiles.layout), make_scratch(tiles)
    coding = Coding(tables.prob_bits(tiles.layout), 1 << tiles.log2_stream)
    residue_bytes, symbol_bytes = encode_all(words, masks, geometry_of(tiles), coding, scratch, *parts)
    return residue_bytes, symbol_bytes


def decode_tiles(tiles: TileLayout, sections: Sections, words: np.ndarray) -> None:
    """Decode all tiles, whose entries have been checked, into `words`."""
    parts = (sections.entries, sections.residue, sections.symbols)
    masks, scratch = common.masks_of(tiles.layout), make_scratch(tiles)
    tile = decode_all(words, masks, geometry_of(tiles), 1 << tiles.log2_stream, scratch, *parts)
    if tile >= 0:
        raise CorruptFrameError(f"rans: the table or a stream of tile {tile} is corrupt")
