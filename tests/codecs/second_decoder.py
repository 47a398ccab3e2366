"""A second decoder of wirezip frames, written from docs/format.md alone in plain Python.

It shares nothing with the package, so that frames which both read alike show the page to be complete.
It is slow and meant for small frames.
"""

import math
import struct
import zlib
from typing import NamedTuple

MASK_64 = 2**64 - 1
LANES = 32
LOWEST_STATE = 2**15
ESCAPE = 256
STORED = 255
CONSTANT_REMAINDER = 1 << 7

Slot = tuple[int, int, int]  # symbol, its frequency, its start

FLOAT_8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
DTYPES = (
    {1: ("bfloat16", 2), 2: ("float16", 2), 3: ("float32", 4), 4: ("float64", 8)}
    | {number: (name, 1) for number, name in enumerate(FLOAT_8, 5)}
    | {16: ("uint8", 1), 17: ("int8", 1), 18: ("uint16", 2), 19: ("int16", 2), 20: ("uint32", 4), 21: ("int32", 4)}
    | {22: ("uint64", 8), 23: ("int64", 8), 24: ("bool", 1), 25: ("complex64", 8), 26: ("complex128", 16)}
    | {27: ("float8_e8m0fnu", 1), 28: ("complex32", 4)}
)


class Layout(NamedTuple):
    """How words are split, and the elements of a stream (0 for `window`)."""

    exponent_bits: int
    mantissa_bits: int
    planes: int
    head_bytes: int
    remainder_bits: int
    stream_elements: int = 0

    @property
    def value_bits(self) -> int:
        """Bits of the coded part of a head."""
        return 8 * self.head_bytes - self.remainder_bits


LAYOUTS = {1: Layout(8, 7, 1, 1, 0), 2: Layout(5, 10, 1, 1, 3), 3: Layout(8, 23, 3, 1, 0), 4: Layout(11, 52, 6, 2, 5)}
LAYOUTS |= {5: Layout(4, 3, 0, 1, 4), 6: Layout(5, 2, 0, 1, 3), 7: Layout(4, 3, 0, 1, 4), 8: Layout(5, 2, 0, 1, 3)}


class Entry(NamedTuple):
    """Directory entry of a tile."""

    offset: int
    num_escapes: int
    base: int
    width: int
    constant_planes: int
    reserved: int


class Reader:
    """Reads the section from an offset on and refuses to leave it."""

    def __init__(self, data: bytes, offset: int):
        self.data, self.position = data, offset
        self.take(0)

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        start, self.position = self.position, self.position + size
        _require(self.position <= len(self.data), "a tile leaves the section")
        return self.data[start : self.position]

    def integers(self, count: int, size: int) -> list[int]:
        """Return the next `count` integers of `size` bytes."""
        return _integers(self.take(count * size), size)


def decode(frame: bytes) -> tuple[str, tuple[int, ...], bytes]:
    """Return dtype name, shape and original bytes of a frame.

    Raises:
        ValueError: The frame breaks a rule of docs/format.md.
    """
    _require(len(frame) >= 48, "the frame is shorter than a header")
    _require(frame[:4] == b"WZIP", "no wirezip magic")
    fields = struct.unpack_from("<HBB16sQQHHI", frame, 4)
    version, number, ndim, codec, body_bytes, checksum, flags, reserved, header_check = fields
    _require(version == 1, f"version {version} is not known")
    _require(ndim <= 64, f"{ndim} dimensions are too many")
    header_bytes = _align(48 + 8 * ndim)
    _require(len(frame) == header_bytes + body_bytes, "the frame is shorter or longer than header and body")
    _require(zlib.crc32(frame[:44] + bytes(4) + frame[48:header_bytes]) == header_check, "header_check does not match")
    _require(number in DTYPES, f"dtype number {number} is not known")
    _require(flags <= 1 and reserved == 0, "unknown flags or reserved bits are set")
    name, element_bytes = DTYPES[number]
    shape = struct.unpack_from(f"<{ndim}Q", frame, 48)
    _require(math.prod(d for d in shape if d) * element_bytes < 2**63, "the shape is too large")
    body, elements = frame[header_bytes:], math.prod(shape)
    if elements == 0 or codec.rstrip(b"\0") == b"raw":
        _require(len(body) == elements * element_bytes, "an empty or raw body has not the size of the original")
        original = body
    else:
        original = _decode_tiles(body, codec.rstrip(b"\0"), number, elements)
    _require(not flags or _checksum(original) == checksum, "the checksum does not match")
    return name, shape, original


def _decode_tiles(body: bytes, codec: bytes, number: int, elements: int) -> bytes:
    """Return the original bytes of a body of codec `window` or `rans`."""
    _require(codec in (b"window", b"rans"), f"codec {codec!r} is not known")
    _require(number in LAYOUTS, "the codec does not take the dtype")
    _require(len(body) >= 32 + 16 * math.ceil(elements / 65536), "the body is too small for the elements")
    fields = struct.unpack_from("<BBB5sQQQ", body)
    log2_tile, log2_stream, placement, reserved, num_tiles, section_bytes, last = fields
    _require(10 <= log2_tile <= 16 and log2_stream <= log2_tile, "log2_tile or log2_stream is out of range")
    _require(placement <= 1 and not any(reserved) and last == 0, "placement or reserved bytes are out of range")
    layout = LAYOUTS[number]
    if codec == b"rans":
        _require(log2_stream >= 10, "log2_stream is out of range")
        layout = layout._replace(remainder_bits=5 if number == 4 else 0, stream_elements=2**log2_stream)
    tile_elements = 2**log2_tile
    _require(num_tiles == math.ceil(elements / tile_elements), "num_tiles does not fit the elements")
    start = 32 + 16 * num_tiles
    _require(start + section_bytes == len(body), "the section does not make up the body")
    original = bytearray()
    for tile in range(num_tiles):
        entry = Entry(*struct.unpack_from("<QHHBBH", body, 32 + 16 * tile))
        count = min(tile_elements, elements - tile * tile_elements)
        _check_entry(entry, layout, count)
        original += _decode_tile(entry, layout, Reader(body[start:], entry.offset), count)
    return bytes(original)


def _check_entry(entry: Entry, layout: Layout, count: int) -> None:
    """Refuse an entry that no tile of this layout and size can have."""
    existing = (1 << layout.planes) - 1 | (CONSTANT_REMAINDER if layout.remainder_bits else 0)
    _require(entry.constant_planes & ~existing == 0, "constant_planes names planes that do not exist")
    _require(entry.offset % 16 == 0 and entry.reserved == 0, "an offset is no multiple of 16, or reserved bits are set")
    _require(entry.base < 1 << layout.value_bits, "base is too large")
    _require(entry.num_escapes <= (0 if entry.width in (0, STORED) else count), "there are too many escapes")
    if entry.width == STORED:
        _require(not entry.constant_planes & CONSTANT_REMAINDER, "a stored tile has a constant remainder")
        _require(entry.base == 0 or layout.stream_elements > 0, "a stored tile has a base")


def _decode_tile(entry: Entry, layout: Layout, tail: Reader, count: int) -> bytes:
    """Return the original bytes of a tile."""
    varying = [plane for plane in range(layout.planes) if not entry.constant_planes >> plane & 1]
    residue = {plane: tail.take(_align(count)) for plane in varying}
    constants = tail.take(16) if entry.constant_planes else bytes(16)
    ordered = [0] * count
    for plane in range(layout.planes):
        column = residue.get(plane, constants[plane : plane + 1] * count)
        ordered = [word | byte << 8 * plane for word, byte in zip(ordered, column[:count], strict=True)]
    if entry.width == STORED:
        heads = tail.integers(count, layout.head_bytes)
    else:
        heads = _decode_heads(entry, layout, tail, count, constants[7])
    return b"".join(_word(head << 8 * layout.planes | low, layout) for head, low in zip(heads, ordered, strict=True))


def _decode_heads(entry: Entry, layout: Layout, tail: Reader, count: int, constant_remainder: int) -> list[int]:
    """Return the heads of a tile that is not stored."""
    bits = layout.remainder_bits
    remainders = [constant_remainder & (1 << bits) - 1] * count
    if bits and not entry.constant_planes & CONSTANT_REMAINDER:
        remainders = _bit_fields(tail, bits, count)
    if entry.width == 0:
        values = [entry.base] * count
    elif layout.stream_elements:
        values = _rans_values(entry, layout, tail, count)
    else:
        values = _window_values(entry, layout, tail, count)
    mask = (1 << layout.value_bits) - 1
    return [(value & mask) << bits | remainder for value, remainder in zip(values, remainders, strict=True)]


def _bit_fields(tail: Reader, bits: int, count: int) -> list[int]:
    """Return `count` fields of `bits` bits each."""
    columns = _align(math.ceil(count / 8))
    planes = [tail.take(columns) for _ in range(bits)]
    packed = [sum(planes[j][column] << 8 * j for j in range(bits)) for column in range(columns)]
    return [packed[i % columns] >> i // columns * bits & (1 << bits) - 1 for i in range(count)]


def _window_values(entry: Entry, layout: Layout, tail: Reader, count: int) -> list[int]:
    """Return the values of a `window` tile."""
    _require(1 <= entry.width <= 4, "width is out of range")
    escape = 2**entry.width - 1
    _require(entry.base + escape - 1 < 1 << layout.value_bits, "base is too large")
    codes = _bit_fields(tail, entry.width, count)
    columns = _align(math.ceil(count / 8))
    escaped = sorted((i for i in range(count) if codes[i] == escape), key=lambda i: (i % columns, i))
    _require(len(escaped) == entry.num_escapes, "escape codes and num_escapes disagree")
    values = [entry.base + code for code in codes]
    for i, value in zip(escaped, tail.integers(len(escaped), layout.head_bytes), strict=True):
        values[i] = value
    return values


def _rans_values(entry: Entry, layout: Layout, tail: Reader, count: int) -> list[int]:
    """Return the values of a `rans` tile."""
    _require(9 <= entry.width <= 12, "width is out of range")
    slots = _rans_slots(tail, entry.width)
    num_streams = math.ceil(count / layout.stream_elements)
    word_counts = tail.integers(math.ceil(num_streams / 2) * 2, 4)
    states = tail.integers(LANES * num_streams, 4)
    values = []
    for stream in range(num_streams):
        words = tail.integers(word_counts[stream], 2)
        tail.take(-2 * word_counts[stream] % 8)
        lanes = states[LANES * stream : LANES * (stream + 1)]
        values += _rans_symbols(lanes, words, min(layout.stream_elements, count - len(values)), slots, entry.width)
    if layout.head_bytes == 2:
        all_ones = 2**layout.value_bits - 1
        spans = {0: 0, ESCAPE: 0, 255: all_ones}
        values = [spans.get(symbol, symbol - 1 + entry.base) for symbol in values]
    positions = tail.integers(entry.num_escapes, 2)
    turns = [_turn(position, layout.stream_elements) for position in positions]
    _require(sorted(set(turns)) == turns, "the positions of the escapes are out of order")
    for position, value in zip(positions, tail.integers(entry.num_escapes, layout.head_bytes), strict=True):
        _require(position < count, "the position of an escape is too large")
        values[position] = value
    return values


def _turn(position: int, stream_elements: int) -> tuple[int, int, int]:
    """Return by what the positions of escapes are sorted: stream, lane, place in the stream."""
    stream, place = divmod(position, stream_elements)
    return stream, place % 128 // 4, place


def _rans_slots(tail: Reader, width: int) -> list[Slot]:
    """Read the table and return what each slot stands for."""
    present = int.from_bytes(tail.take(32), "little")
    listed = [symbol for symbol in range(ESCAPE) if present >> symbol & 1]
    frequencies = list(tail.take(len(listed)))
    tail.take(len(listed) % 2)
    large = [place for place, frequency in enumerate(frequencies) if frequency == 255]
    for place, frequency in zip(large, tail.integers(len(large), 2), strict=True):
        _require(frequency >= 255, "a frequency is small but listed as large")
        frequencies[place] = frequency
    tail.take(-(math.ceil(len(listed) / 2) * 2 + 2 * len(large)) % 8)
    left = 2**width - sum(frequencies)
    _require(0 < len(listed) < ESCAPE, "no symbol has a frequency, or all have")
    _require(all(frequencies) and left > 0, "frequencies are not positive or leave the escape no slot")
    slots = []
    for symbol, frequency in zip([*listed, ESCAPE], [*frequencies, left], strict=True):
        slots += [(symbol, frequency, len(slots))] * frequency
    return slots


def _rans_symbols(lanes: list[int], words: list[int], count: int, slots: list[Slot], width: int) -> list[int]:
    """Return the symbols of a stream from the final states of its lanes and its words, and use up both."""
    symbols = [0] * count
    for step in reversed(range(4 * math.ceil(count / 128))):
        for lane in reversed(range(LANES)):
            element = 128 * (step // 4) + 4 * lane + step % 4
            if element < count:
                slot = lanes[lane] % 2**width
                symbols[element], frequency, start = slots[slot]
                lanes[lane] = frequency * (lanes[lane] >> width) + slot - start
                if lanes[lane] < LOWEST_STATE:
                    _require(len(words) > 0, "a stream takes more words than it has")
                    lanes[lane] = lanes[lane] << 16 | words.pop()
    _require(not words and all(state == LOWEST_STATE for state in lanes), "a stream does not end as it began")
    return symbols


def _word(ordered: int, layout: Layout) -> bytes:
    """Return the bytes of the element with an ordered form."""
    above, mantissa = divmod(ordered, 1 << layout.mantissa_bits)
    exponent, sign = divmod(above, 2)
    word = (sign << layout.exponent_bits | exponent) << layout.mantissa_bits | mantissa
    return word.to_bytes(layout.planes + layout.head_bytes, "little")


def _checksum(original: bytes) -> int:
    """Return the checksum of the original bytes."""
    total = 0
    for i, word in enumerate(_integers(original + bytes(-len(original) % 4), 4)):
        z = (i + 1) * 0x9E3779B97F4A7C15 & MASK_64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK_64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK_64
        product = word * 0xFF51AFD7ED558CCD & MASK_64
        total += (product ^ product >> 32) * (z ^ z >> 31 | 1)
    return total & MASK_64


def _integers(data: bytes, size: int) -> list[int]:
    """Return the integers of `size` bytes that make up the data."""
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def _align(size: int) -> int:
    """Round up to a multiple of 16."""
    return -(-size // 16) * 16


def _require(condition: bool, text: str) -> None:
    """Raise ValueError with the text where a condition does not hold."""
    if not condition:
        raise ValueError(text)
