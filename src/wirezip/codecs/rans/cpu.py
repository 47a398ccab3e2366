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
from wirezip.codecs.rans.cpu_table import read_table, table_bytes, write_table
from wirezip.codecs.rans.tables import (
    ALL_ONES,
    ESCAPE,
    GROUP_ELEMS,
    LANE_RUN,
    NUM_LANES,
    NUM_SYMBOLS,
    SAMPLED_FROM_ELEMS,
    WIDE_SPAN,
    WIDE_WORDS,
)
from wirezip.codecs.tiles import cpu as common
from wirezip.codecs.tiles import cpu_fields, layout
from wirezip.codecs.tiles.cpu import aligned, jit, num_columns
from wirezip.codecs.tiles.cpu_body import geometry_of
from wirezip.codecs.tiles.layout import CONSTANT_BLOCK_BYTES, REMAINDER_BIT, ROWS, STORED, Sections, TileLayout
from wirezip.errors import CorruptFrameError


class Scratch(NamedTuple):
    """Room for one tile.

    Heads, symbols, remainder fields; lane states, words and their numbers by stream; escape positions;
    decoded symbols; frequencies and the encoder's and decoder's tables.
    """

    heads: np.ndarray
    symbols: np.ndarray
    fields: np.ndarray
    states: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    escapes: np.ndarray
    decoded: np.ndarray
    frequencies: np.ndarray
    encoder: np.ndarray
    decoder: np.ndarray


class Coding(NamedTuple):
    """The rANS parameters of a body."""

    prob_bits: int
    sample_step: int
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
        words=np.zeros(tiles.tile_elems + GROUP_ELEMS + WIDE_WORDS * streams, np.uint16),
        counts=np.empty(streams, np.uint32),
        escapes=np.empty(tiles.tile_elems, np.uint16),
        # One-byte heads are their own symbols, and are decoded in place.
        decoded=heads if heads.itemsize == 1 else np.empty(tiles.tile_elems, np.uint8),
        frequencies=np.empty(NUM_SYMBOLS + 1, np.int64),
        encoder=np.empty((NUM_SYMBOLS + 1) * ROW, np.uint64),
        decoder=np.empty(1 << tables.MAX_PROB_BITS, np.uint32),
    )


@jit
def is_sampled(i, n, coding):
    """Return whether element `i` of a tile of `n` counts for its table."""
    return n < SAMPLED_FROM_ELEMS or i // GROUP_ELEMS % coding.sample_step == 0


@jit
def to_symbols(heads, geometry, coding, symbols):
    """Write the symbols of the heads, `ESCAPE` for those without one; returns the base."""
    n, base = len(heads), 0
    if geometry.value_bits == 8:
        for i in range(n):
            symbols[i] = heads[i]
        return base
    all_ones = (1 << geometry.value_bits) - 1
    for i in range(n):
        value = int(heads[i] >> geometry.remainder_bits)
        if is_sampled(i, n, coding) and value != all_ones:
            base = max(base, value - WIDE_SPAN + 1)
    for i in range(n):
        value = int(heads[i] >> geometry.remainder_bits)
        symbol = value - base + 1 if base <= value < base + WIDE_SPAN else ESCAPE
        symbols[i] = 0 if value == 0 else (ALL_ONES if value == all_ones else symbol)
    return base


@jit
def build_table(n, coding, scratch):
    """Fill the frequencies from the sample, as the reference does; returns how many symbols have one."""
    symbols, frequencies, prob_bits = scratch.symbols, scratch.frequencies, coding.prob_bits
    counts = np.zeros((4, NUM_SYMBOLS + 1), np.int64)
    # Four rows, because consecutive increments of one counter would wait for each other.
    for first in range(0, n, GROUP_ELEMS):
        if is_sampled(first, n, coding):
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
    return present


@jit
def turn_of(i, stream_elems):
    """Return a number by which elements of a tile ascend stream by stream, lane by lane, then in order."""
    within = i % stream_elems
    lane = within // LANE_RUN % NUM_LANES
    return i - within + lane * (stream_elems // NUM_LANES) + within // GROUP_ELEMS * LANE_RUN + within % LANE_RUN


@jit
def mark_escapes(n, coding, scratch):
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
    listed = scratch.escapes[:count]
    order = np.empty(count, np.int64)
    for k in range(count):
        order[k] = turn_of(int(listed[k]), coding.stream_elems)
    common.copy(listed, listed[np.argsort(order)])
    return count


@jit
def encode_streams(n, coding, scratch):
    """Encode all streams of a tile; returns the bytes of table, word counts, states and words."""
    fill_encoder(scratch.frequencies, coding.prob_bits, scratch.encoder)
    end, stream = np.int64(0), 0
    for start in range(0, n, coding.stream_elems):
        part = scratch.symbols[start : min(n, start + coding.stream_elems)]
        first = end
        end = np.int64(encode_stream(part, scratch.encoder, scratch.states[stream], scratch.words, end))
        scratch.counts[stream] = end - first
        while (end - first) % WIDE_WORDS:
            scratch.words[end] = 0
            end += 1
        stream += 1
    return table_bytes(scratch.frequencies) + (stream + 1) // 2 * 8 + stream * 4 * NUM_LANES + end * 2


@jit
def write_streams(n, coding, scratch, symbols):
    """Write table, word counts, states and words to the start of `symbols`; returns where they end."""
    end = write_table(scratch.frequencies, symbols)
    streams = (n + coding.stream_elems - 1) // coding.stream_elems
    counts = symbols[end : end + (streams + 1) // 2 * 8].view(np.uint32)
    end += 4 * len(counts)
    counts[len(counts) - 1] = 0
    num_words = 0
    for stream in range(streams):
        counts[stream] = scratch.counts[stream]
        num_words += (int(scratch.counts[stream]) + WIDE_WORDS - 1) // WIDE_WORDS * WIDE_WORDS
        states = symbols[end : end + 4 * NUM_LANES].view(np.uint32)
        for lane in range(NUM_LANES):
            states[lane] = scratch.states[stream, lane]
        end += 4 * NUM_LANES
    words = symbols[end : end + 2 * num_words].view(np.uint16)
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
        width, base = coding.prob_bits, to_symbols(heads, geometry, coding, scratch.symbols)
        # A decoder's ranks of symbols are bytes, and the escape has one: with all symbols a tile is stored.
        coded = n * heads.itemsize
        if build_table(n, coding, scratch) < NUM_SYMBOLS:
            count = mark_escapes(n, coding, scratch)
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
def encode_all(words, masks, geometry, coding, scratch, entries, records):
    """Encode all tiles; returns the bytes used of the section."""
    end = 0
    for tile in range(len(entries)):
        part = words[tile * geometry.tile_elems : (tile + 1) * geometry.tile_elems]
        if geometry.slot_bytes:
            end = tile * geometry.slot_bytes
        entry = entries[tile]
        entry.offset, entry.reserved = end, 0
        mask = common.constant_mask(part, masks, geometry.remainder_bits)
        end = common.split_residue(part, masks, mask, records, end)
        common.split_heads(part, masks, scratch.heads)
        ordered = common.order_bits(part[0], masks)
        end += encode_symbols(ordered, len(part), mask, geometry, coding, scratch, entry, records[end:])
    return len(records) if geometry.slot_bytes else end


@jit
def read_streams(n, prob_bits, stream_elems, scratch, symbols):
    """Decode the streams at the start of `symbols`; returns where they end, or -1 if corrupt."""
    end = read_table(prob_bits, scratch.frequencies, symbols)
    streams = (n + stream_elems - 1) // stream_elems
    counts_bytes = (streams + 1) // 2 * 8
    if end < 0 or end + counts_bytes + 4 * streams * NUM_LANES > len(symbols):
        return -1
    fill_decoder(scratch.frequencies, prob_bits, scratch.decoder)
    counts = symbols[end : end + counts_bytes].view(np.uint32)
    end += counts_bytes
    numbers = symbols[end : end + 4 * streams * NUM_LANES].view(np.uint32)
    end += 4 * len(numbers)
    states, words = np.empty(NUM_LANES, np.uint32), scratch.words
    for stream in range(streams):
        count, first = int(counts[stream]), stream * NUM_LANES
        if count > stream_elems or end + 2 * count > len(symbols):
            return -1
        # Copied to where words that a corrupt stream asks for beyond its own may be read.
        common.copy(words[GROUP_ELEMS:], symbols[end : end + 2 * count].view(np.uint16))
        common.copy(states, numbers[first : first + NUM_LANES])
        part = scratch.decoded[stream * stream_elems : min(n, (stream + 1) * stream_elems)]
        if not decode_stream(part, scratch.decoder, prob_bits, states, words, GROUP_ELEMS + count):
            return -1
        end += 2 * ((count + WIDE_WORDS - 1) // WIDE_WORDS * WIDE_WORDS)
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
        turn = turn_of(int(positions[k]), stream_elems)
        if positions[k] >= n or turn <= last:
            return False
        last = turn
        heads[positions[k]] = values[k]
    return True


@jit
def decode_all(words, masks, geometry, stream_elems, scratch, entries, records):
    """Decode all tiles; returns the first that is corrupt, or -1."""
    no_block = np.zeros(CONSTANT_BLOCK_BYTES, np.uint8)
    for tile in range(len(entries)):
        part = words[tile * geometry.tile_elems : (tile + 1) * geometry.tile_elems]
        entry, n = entries[tile], len(part)
        heads, mask, block = scratch.heads[:n], int(entry.constant_planes), no_block
        residue = records[int(entry.offset) :]
        start = common.residue_bytes(part, mask)
        if mask:
            block = residue[start : start + CONSTANT_BLOCK_BYTES]
            start += CONSTANT_BLOCK_BYTES
        if entry.width == STORED:
            common.read_stored(residue[start:], heads)
        else:
            fields_start = start
            has_fields = geometry.remainder_bits > 0 and not mask >> REMAINDER_BIT & 1
            if has_fields:
                start += geometry.remainder_bits * num_columns(n)
            if entry.width == 0:
                heads[:] = entry.base
            elif not read_coded(n, geometry, stream_elems, scratch, entry, residue[start:]):
                return tile
            if has_fields:
                fields = scratch.fields[: ROWS * num_columns(n)]
                cpu_fields.read_remainder(heads, geometry.remainder_bits, fields, residue, fields_start)
            elif geometry.remainder_bits:
                cpu_fields.set_remainder(heads, geometry.remainder_bits, block[REMAINDER_BIT])
        common.join_words(part, masks, heads, (mask, block), residue)
    return -1


def encode_tiles(words: np.ndarray, tiles: TileLayout, sections: Sections) -> int:
    """Encode all tiles; returns the bytes used of the section."""
    parts = (sections.entries, sections.records)
    masks, scratch = common.masks_of(tiles.layout), make_scratch(tiles)
    coding = Coding(tables.prob_bits(tiles.layout), tables.sample_step(tiles.layout), 1 << tiles.log2_stream)
    end: int = encode_all(words, masks, geometry_of(tiles), coding, scratch, *parts)
    return end


def decode_tiles(tiles: TileLayout, sections: Sections, words: np.ndarray) -> None:
    """Decode all tiles, whose entries have been checked, into `words`."""
    parts = (sections.entries, sections.records)
    masks, scratch = common.masks_of(tiles.layout), make_scratch(tiles)
    tile = decode_all(words, masks, geometry_of(tiles), 1 << tiles.log2_stream, scratch, *parts)
    if tile >= 0:
        raise CorruptFrameError(f"rans: the table or a stream of tile {tile} is corrupt")
