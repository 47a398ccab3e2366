"""The `rans` codec in NumPy: the specification that the other implementations equal byte for byte.

Source: docs/format.md, "rans".
"""

from dataclasses import dataclass

import numpy as np

from wirezip.codecs.rans import tables
from wirezip.codecs.tiles import reference as common
from wirezip.codecs.tiles.layout import STORED, Sections, TileLayout
from wirezip.errors import CorruptFrameError


@dataclass(frozen=True)
class Table:
    """Frequencies of a tile: `frequencies[s]` of symbol s, the last of the escape.

    They sum to `1 << prob_bits`; `starts[s]` is the sum of those before s.
    """

    prob_bits: int
    frequencies: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """Return the first slot of each symbol."""
        return np.cumsum(self.frequencies) - self.frequencies


def sample(values: np.ndarray, tiles: TileLayout) -> np.ndarray:
    """Return the values a table is built from: some of the groups of 128, or all of a small tile."""
    if len(values) < tables.SAMPLED_FROM_ELEMS:
        return values
    return values[np.arange(len(values)) // tables.GROUP_ELEMS % tables.sample_step(tiles.layout) == 0]


def to_symbols(values: np.ndarray, base: int, tiles: TileLayout) -> np.ndarray:
    """Return the symbol of each value, `ESCAPE` where it has none.

    One-byte values are their own symbols. Of wider ones, 0 is symbol 0, all ones is symbol 255, and
    the 254 values from `base` are symbols 1 to 254.
    """
    if tiles.value_bytes == 1:
        return values.astype(np.int64)
    signed = values.astype(np.int64)
    inside = (signed >= base) & (signed < base + tables.WIDE_SPAN)
    symbols = np.where(inside, signed - base + 1, tables.ESCAPE)
    return np.where(signed == 0, 0, np.where(signed == 2**tiles.value_bits - 1, tables.ALL_ONES, symbols))


def to_values(symbols: np.ndarray, base: int, tiles: TileLayout) -> np.ndarray:
    """Undo `to_symbols`; what an escape gives is replaced later."""
    if tiles.value_bytes == 1:
        return symbols.astype(np.uint64)
    values = np.where(symbols == tables.ALL_ONES, 2**tiles.value_bits - 1, symbols + base - 1)
    return np.where(symbols == 0, 0, values).astype(np.uint64)


def choose_base(values: np.ndarray, tiles: TileLayout) -> int:
    """Return the base of the symbols: the span ends at the largest value sampled that is not all ones."""
    if tiles.value_bytes == 1:
        return 0
    sampled = sample(values, tiles)
    largest = int(np.where(sampled == 2**tiles.value_bits - 1, 0, sampled).max())
    return max(0, largest - tables.WIDE_SPAN + 1)


def build_table(sampled: np.ndarray, prob_bits: int) -> Table:
    """Build the table of a tile from the symbols of its sample.

    1. Every symbol sampled gets one slot, and the escape one.
    2. The remaining slots are shared in proportion to the counts, rounded down.
    3. What rounding left goes to the commonest symbol, the lowest of equals.
    """
    counts = np.bincount(sampled[sampled != tables.ESCAPE], minlength=tables.NUM_SYMBOLS)
    present = counts > 0
    shared = (1 << prob_bits) - int(present.sum()) - 1
    total = max(1, int(counts.sum()))
    frequencies = np.where(present, 1 + counts * shared // total, 0)
    frequencies[int(counts.argmax())] += (1 << prob_bits) - 1 - int(frequencies.sum())
    return Table(prob_bits, np.append(frequencies, 1))


def encode_stream(symbols: np.ndarray, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Encode one stream; returns the lanes' final states and the words in the order they left."""
    states = np.full(tables.NUM_LANES, tables.STATE_MIN, np.uint64)
    words: list[np.ndarray] = []
    for step in range(-(-len(symbols) // tables.GROUP_ELEMS) * tables.LANE_RUN):
        index = step_elements(step)
        active = index < len(symbols)
        symbol = symbols[np.minimum(index, len(symbols) - 1)]
        frequency = table.frequencies[symbol].astype(np.uint64)
        start = table.starts[symbol].astype(np.uint64)
        # A state this large would leave its interval when the symbol is added.
        limit = frequency << np.uint64(31 - table.prob_bits)
        full = active & (states >= limit)
        words.append(states[full].astype("<u2"))
        states = np.where(full, states >> np.uint64(tables.WORD_BITS), states)
        added = ((states // frequency) << np.uint64(table.prob_bits)) + states % frequency + start
        states = np.where(active, added, states)
    return states.astype("<u4"), np.concatenate(words)


def decode_stream(states: np.ndarray, words: np.ndarray, numel: int, table: Table) -> np.ndarray:
    """Decode one stream; steps, and the words of each step, are taken in reverse."""
    slots = np.repeat(np.arange(tables.NUM_SYMBOLS + 1), table.frequencies)
    states = states.astype(np.uint64)
    end = len(words)
    symbols = np.zeros(numel, np.int64)
    for step in reversed(range(-(-numel // tables.GROUP_ELEMS) * tables.LANE_RUN)):
        index = step_elements(step)
        active = index < numel
        slot = states & np.uint64((1 << table.prob_bits) - 1)
        symbol = slots[slot.astype(np.int64)]
        symbols[index[active]] = symbol[active]
        frequency = table.frequencies[symbol].astype(np.uint64)
        taken = frequency * (states >> np.uint64(table.prob_bits)) + slot - table.starts[symbol].astype(np.uint64)
        states = np.where(active, taken, states)
        empty = active & (states < tables.STATE_MIN)
        count = int(empty.sum())
        if count > end:
            raise CorruptFrameError("rans: a stream has fewer words than its states ask for")
        refill = words[end - count : end].astype(np.uint64)
        states[empty] = states[empty] << np.uint64(tables.WORD_BITS) | refill
        end -= count
    if end or (states != tables.STATE_MIN).any():
        raise CorruptFrameError("rans: a stream does not end where it began")
    return symbols


def step_elements(step: int) -> np.ndarray:
    """Return the element that each lane codes in a step: lane l has elements 4l to 4l+3 of a group."""
    group, turn = divmod(step, tables.LANE_RUN)
    return group * tables.GROUP_ELEMS + np.arange(tables.NUM_LANES) * tables.LANE_RUN + turn


def turns(index: np.ndarray, tiles: TileLayout) -> np.ndarray:
    """Return numbers by which elements of a tile ascend stream by stream, lane by lane, then in order."""
    stream, within = np.divmod(index, 1 << tiles.log2_stream)
    group, place = np.divmod(within, tables.GROUP_ELEMS)
    lane, turn = np.divmod(place, tables.LANE_RUN)
    per_lane = (1 << tiles.log2_stream) // tables.NUM_LANES
    return (stream * tables.NUM_LANES + lane) * per_lane + group * tables.LANE_RUN + turn


def encode_tile(ordered: np.ndarray, tiles: TileLayout) -> common.Tile:
    """Encode the ordered words of one tile."""
    tile = common.split_residue(ordered, tiles)
    values = ordered >> common.value_shift(tiles)
    if (values == values[0]).all():
        tile.width, tile.base = 0, int(values[0])
        return common.finish(tile, ordered, tiles, coded=b"")
    tile.width, tile.base = tables.prob_bits(tiles.layout), choose_base(values, tiles)
    symbols = to_symbols(values, tile.base, tiles)
    table = build_table(sample(symbols, tiles), tile.width)
    if (table.frequencies > 0).all():
        # A decoder's ranks of symbols are bytes, and the escape has one.
        return common.finish(tile, ordered, tiles, coded=None)
    symbols[table.frequencies[symbols] == 0] = tables.ESCAPE
    escaped = np.flatnonzero(symbols == tables.ESCAPE)
    escaped = escaped[np.argsort(turns(escaped, tiles))]
    tile.num_escapes = len(escaped)
    coded = encode_streams(symbols, table, tiles)
    coded += escaped.astype("<u2").tobytes() + values[escaped].astype(f"<u{tiles.value_bytes}").tobytes()
    return common.finish(tile, ordered, tiles, coded)


def encode_streams(symbols: np.ndarray, table: Table, tiles: TileLayout) -> bytes:
    """Return table, word counts, states and words of all streams."""
    length = 1 << tiles.log2_stream
    streams = [encode_stream(symbols[first : first + length], table) for first in range(0, len(symbols), length)]
    coded = pack_table(table.frequencies[: tables.NUM_SYMBOLS])
    counts = np.array([len(words) for _, words in streams], "<u4").tobytes()
    coded += counts.ljust(tables.counts_bytes(len(streams)), b"\0")
    coded += b"".join(states.tobytes() for states, _ in streams)
    coded += b"".join(words.tobytes().ljust(2 * tables.padded_words(len(words)), b"\0") for _, words in streams)
    return coded


def pack_table(frequencies: np.ndarray) -> bytes:
    """Return bitmap and frequencies, those that do not fit a byte in a list of their own."""
    present = frequencies > 0
    listed = frequencies[present]
    large = listed[listed >= tables.LARGE]
    packed = np.packbits(present, bitorder="little").tobytes()
    packed += np.minimum(listed, tables.LARGE).astype(np.uint8).tobytes()
    packed = packed.ljust(-(-len(packed) // 2) * 2, b"\0") + large.astype("<u2").tobytes()
    return packed.ljust(tables.table_bytes(len(listed), len(large)), b"\0")


class _Reader:
    """Takes arrays off the front of a tile's symbols, refusing to run past their end."""

    def __init__(self, octets: np.ndarray) -> None:
        self.octets = octets

    def take(self, count: int, dtype: str) -> np.ndarray:
        num_bytes = count * np.dtype(dtype).itemsize
        if num_bytes > len(self.octets):
            raise CorruptFrameError(f"rans: {num_bytes} bytes expected, {len(self.octets)} are left in the section")
        taken, self.octets = self.octets[:num_bytes], self.octets[num_bytes:]
        return taken.view(dtype)


def read_table(reader: _Reader, prob_bits: int) -> Table:
    """Read the table of a tile and check that it fills its slots, the escape's included."""
    present = np.unpackbits(reader.take(tables.BITMAP_BYTES, "u1"), bitorder="little").astype(bool)
    count = int(present.sum())
    listed = reader.take(-(-count // 2) * 2, "u1")[:count].astype(np.int64)
    large = listed == tables.LARGE
    num_large = int(large.sum())
    room = tables.table_bytes(count, num_large) - tables.BITMAP_BYTES - -(-count // 2) * 2
    wide = reader.take(room // 2, "<u2")[:num_large]
    listed[large] = wide
    frequencies = np.zeros(tables.NUM_SYMBOLS + 1, np.int64)
    frequencies[:-1][present] = listed
    frequencies[-1] = (1 << prob_bits) - int(listed.sum())
    wrong = count in (0, tables.NUM_SYMBOLS) or frequencies[-1] < 1
    if wrong or (listed == 0).any() or (wide < tables.LARGE).any():
        raise CorruptFrameError(f"rans: frequencies of {count} symbols sum to {listed.sum()} of {1 << prob_bits}")
    return Table(prob_bits, frequencies)


def decode_tile(entry: np.void, records: np.ndarray, tiles: TileLayout, numel: int) -> np.ndarray:
    """Decode one tile whose entry has been checked; returns its ordered words."""
    ordered, symbols = common.join_residue(entry, records, tiles, numel)
    width, base, num_escapes = int(entry["width"]), int(entry["base"]), int(entry["num_escapes"])
    if width == STORED:
        return ordered
    if width == 0:
        return ordered | np.full(numel, base, np.uint64) << common.value_shift(tiles)
    reader = _Reader(symbols)
    table = read_table(reader, width)
    count = tables.num_streams(tiles, numel)
    num_words = reader.take(tables.counts_bytes(count) // 4, "<u4")
    states = reader.take(count * tables.NUM_LANES, "<u4").reshape(count, tables.NUM_LANES)
    decoded = []
    for stream in range(count):
        length = min(1 << tiles.log2_stream, numel - (stream << tiles.log2_stream))
        words = reader.take(tables.padded_words(int(num_words[stream])), "<u2")[: int(num_words[stream])]
        decoded.append(decode_stream(states[stream], words, length, table))
    values = to_values(np.concatenate(decoded), base, tiles)
    positions = reader.take(num_escapes, "<u2").astype(np.int64)
    escaped = reader.take(num_escapes, f"<u{tiles.value_bytes}")
    if (positions >= numel).any() or (np.diff(turns(positions, tiles)) <= 0).any():
        raise CorruptFrameError(f"rans: escapes are not at elements below {numel}, stream by stream, lane by lane")
    values[positions] = escaped
    return ordered | values << common.value_shift(tiles)


def encode_tiles(words: np.ndarray, tiles: TileLayout, sections: Sections) -> int:
    """Encode all tiles; returns the bytes used of the section."""
    return common.encode_tiles(words, tiles, sections, lambda ordered, tiles, _: encode_tile(ordered, tiles))


def decode_tiles(tiles: TileLayout, sections: Sections, words: np.ndarray) -> None:
    """Decode all tiles, whose entries have been checked, into `words`."""
    common.decode_tiles(tiles, sections, words, decode_tile)
