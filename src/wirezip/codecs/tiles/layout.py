"""Where everything lies in the body of a tiled codec.

A body is a header, a directory with one entry for each tile, and the section that holds the tiles'
records: residue planes, then symbols. Every tile is found through its directory entry alone, so tiles
decode in any order, and a body whose tiles sit in fixed slots (`slotted`) decodes as one whose tiles
are contiguous (`packed`).

Source: UCCL-Zip, section 3.3.1 (localized tables). Normative text: docs/format.md, "Tiled bodies".
"""

import struct
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from wirezip.errors import CorruptFrameError, SettingsError
from wirezip.floats import FloatFormat

ALIGNMENT = 16
# Elements of a tile are dealt over 8 rows; a bit field of one column then fills whole bytes.
ROWS = 8
PLACEMENTS = ("packed", "slotted")
STORED = 255
CONSTANT_BLOCK_BYTES = 16
# Bit of `constant_planes` that says the remainder field is constant; bits 0 to 5 are byte planes.
REMAINDER_BIT = 7

MIN_LOG2_TILE, MAX_LOG2_TILE = 10, 16
# log2_tile, log2_stream, placement, reserved, reserved, num_tiles, section_bytes, reserved
_HEADER = struct.Struct("<BBBBIQQQ")
HEADER_BYTES = _HEADER.size

ENTRY = np.dtype(
    [
        ("offset", "<u8"),
        ("num_escapes", "<u2"),
        ("base", "<u2"),
        ("width", "u1"),
        ("constant_planes", "u1"),
        ("reserved", "<u2"),
    ]
)


N = TypeVar("N", int, np.ndarray)


def aligned(num_bytes: N) -> N:
    """Return `num_bytes` rounded up to the section alignment."""
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT


def num_columns(numel: N) -> N:
    """Return the columns that `numel` elements fill when dealt over `ROWS` rows."""
    return aligned(-(-numel // ROWS))


@dataclass(frozen=True)
class TileLayout:
    """The geometry of one body.

    Attributes:
        layout: Where the bits of the dtype lie.
        remainder_bits: Bits of the head below the value that is coded; they travel as bit fields.
        numel: Elements of the tensor.
        log2_tile: log2 of the elements in a full tile.
        log2_stream: log2 of the elements in a full entropy-coded stream; 0 where there are none.
        placement: `packed` or `slotted`.
    """

    layout: FloatFormat
    remainder_bits: int
    numel: int
    log2_tile: int
    log2_stream: int = 0
    placement: str = "packed"

    @property
    def tile_elems(self) -> int:
        """Elements of a full tile."""
        return 1 << self.log2_tile

    @property
    def num_tiles(self) -> int:
        """Tiles of the tensor; the last may be partial."""
        return -(-self.numel // self.tile_elems)

    @property
    def value_bits(self) -> int:
        """Bits of the value that is coded: the head less its remainder."""
        return 8 * self.layout.head_bytes - self.remainder_bits

    @property
    def value_bytes(self) -> int:
        """Bytes of one value in an escape list."""
        return -(-self.value_bits // 8)

    @property
    def slot_bytes(self) -> int:
        """Most bytes of the record of a full tile."""
        return self.record_bytes(self.tile_elems)

    def record_bytes(self, numel: int) -> int:
        """Return the most bytes that the record of a tile of `numel` elements takes."""
        heads = aligned(numel * self.layout.head_bytes)
        return self.layout.residue_planes * aligned(numel) + CONSTANT_BLOCK_BYTES + heads

    @property
    def section_offset(self) -> int:
        """Where the section starts in the body."""
        return HEADER_BYTES + self.num_tiles * ENTRY.itemsize

    @property
    def max_section_bytes(self) -> int:
        """Most bytes of the section."""
        if self.placement == "slotted":
            return self.num_tiles * self.slot_bytes
        whole, rest = divmod(self.numel, self.tile_elems)
        return whole * self.slot_bytes + (self.record_bytes(rest) if rest else 0)

    @property
    def max_body_bytes(self) -> int:
        """Most bytes of the body."""
        return self.section_offset + self.max_section_bytes

    def pack_header(self, section_bytes: int) -> bytes:
        """Return the header of a body with a section of this size."""
        placement = PLACEMENTS.index(self.placement)
        return _HEADER.pack(self.log2_tile, self.log2_stream, placement, 0, 0, self.num_tiles, section_bytes, 0)


@dataclass(frozen=True)
class Sections:
    """The parts of a body, as views of it: `entries` of dtype `ENTRY`, `records` uint8."""

    entries: np.ndarray
    records: np.ndarray


def check_log2(name: str, value: int, least: int, most: int) -> None:
    """Raise SettingsError unless `2**least <= value <= 2**most` is a power of two."""
    if not isinstance(value, int) or value & (value - 1) or not 1 << least <= value <= 1 << most:
        raise SettingsError(f"{name}={value!r}: expected a power of two from {1 << least} to {1 << most}")


def read_header(
    header: np.ndarray, body_bytes: int, layout: FloatFormat, remainder_bits: int, numel: int
) -> TileLayout:
    """Read the header of a body and return its geometry.

    Args:
        header: The first `HEADER_BYTES` bytes of the body, uint8; fewer where the body is shorter.
        body_bytes: Bytes of the whole body.
        layout: Format of the dtype expected.
        remainder_bits: Remainder bits the codec uses for this dtype.
        numel: Elements expected.

    Raises:
        CorruptFrameError: The header is not legal, or does not fit the body or `numel`.
    """
    if len(header) < HEADER_BYTES:
        raise CorruptFrameError(f"a tiled body has at least {HEADER_BYTES} bytes, got {len(header)}")
    log2_tile, log2_stream, placement, zero, zeros, num_tiles, section_bytes, last = _HEADER.unpack(
        header[:HEADER_BYTES].tobytes()
    )
    wrong = log2_stream > log2_tile or placement > 1 or zero or zeros or last
    if wrong or not MIN_LOG2_TILE <= log2_tile <= MAX_LOG2_TILE:
        raise CorruptFrameError(f"tiled body: tile 2**{log2_tile}, stream 2**{log2_stream}, placement {placement}")
    tiles = TileLayout(layout, remainder_bits, numel, log2_tile, log2_stream, PLACEMENTS[placement])
    if num_tiles != tiles.num_tiles:
        raise CorruptFrameError(f"tiled body: {num_tiles} tiles declared, {numel} elements make {tiles.num_tiles}")
    if tiles.section_offset + section_bytes != body_bytes:
        raise CorruptFrameError(
            f"tiled body: a section of {section_bytes} bytes after {tiles.section_offset} does not make {body_bytes}"
        )
    return tiles


def open_body(body: np.ndarray, layout: FloatFormat, remainder_bits: int, numel: int) -> tuple[TileLayout, Sections]:
    """Read the header of a body and return its geometry and sections.

    Args:
        body: The body, uint8.
        layout: Format of the dtype expected.
        remainder_bits: Remainder bits the codec uses for this dtype.
        numel: Elements expected.

    Raises:
        CorruptFrameError: The header is not legal, or does not fit the body or `numel`.
    """
    tiles = read_header(body[:HEADER_BYTES], len(body), layout, remainder_bits, numel)
    return tiles, Sections(body[HEADER_BYTES : tiles.section_offset].view(ENTRY), body[tiles.section_offset :])


def tile_numels(tiles: TileLayout) -> np.ndarray:
    """Return the elements of each tile, as int64."""
    numels = np.full(tiles.num_tiles, tiles.tile_elems, np.int64)
    if tiles.num_tiles:
        numels[-1] = tiles.numel - (tiles.num_tiles - 1) * tiles.tile_elems
    return numels


def residue_bytes(tiles: TileLayout, entries: np.ndarray) -> np.ndarray:
    """Return the residue bytes of each tile, as int64.

    Raises:
        CorruptFrameError: An entry names a plane that the dtype does not have.
    """
    varying = tiles.layout.residue_planes - constant_byte_planes(tiles, entries)
    return varying * aligned(tile_numels(tiles))


def check_entries(tiles: TileLayout, sections: Sections, symbol_bytes: np.ndarray) -> None:
    """Check that every tile lies inside the section.

    Args:
        tiles: Geometry of the body.
        sections: Its parts.
        symbol_bytes: Symbol bytes each tile is known to read, as int64.

    Raises:
        CorruptFrameError: An entry points outside the section, or off the alignment, or is not legal.
    """
    entries = sections.entries
    sizes = (residue_bytes(tiles, entries) + symbol_bytes).astype(np.uint64)
    offsets = entries["offset"]
    # Compared by subtraction, because an offset near 2**64 would wrap in a sum.
    room = np.uint64(len(sections.records))
    wrong = (sizes > room) | (offsets > room - np.minimum(room, sizes))
    wrong |= (offsets % ALIGNMENT != 0) | (entries["reserved"] != 0)
    if wrong.any():
        tile = int(wrong.argmax())
        raise CorruptFrameError(
            f"tiled body: tile {tile} has {sizes[tile]} bytes in a section of {room}, entry {entries[tile]}"
        )


def constant_byte_planes(tiles: TileLayout, entries: np.ndarray) -> np.ndarray:
    """Return how many byte planes of each tile are constant, as int64.

    Raises:
        CorruptFrameError: An entry names a plane that the dtype does not have.
    """
    masks = entries["constant_planes"].astype(np.int64)
    legal = (1 << tiles.layout.residue_planes) - 1
    if tiles.remainder_bits:
        legal |= 1 << REMAINDER_BIT
    if (masks & ~legal).any():
        raise CorruptFrameError(f"tiled body: constant planes {masks.max():#x} of a dtype with mask {legal:#x}")
    return (
        np.array([(masks >> plane) & 1 for plane in range(tiles.layout.residue_planes)], np.int64)
        .reshape(-1, len(masks))
        .sum(axis=0)
    )
