"""Where everything lies in the body of a tiled codec.

A body is a header, a directory with one entry per tile, the residue section and the symbol section.
Every tile is found through its directory entry alone, so tiles decode in any order, and a body whose
tiles sit in fixed slots (`slotted`) decodes as one whose tiles are contiguous (`packed`). The residue
section needs nothing of the symbols, so an encoder can complete it first and a sender let it leave early.

Source: UCCL-Zip, sections 3.2.3 (split-send) and 3.3.1 (localized tables). Normative text:
docs/format.md, "Tiled bodies".
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
# log2_tile, log2_stream, placement, reserved, reserved, num_tiles, residue_bytes, symbol_bytes
_HEADER = struct.Struct("<BBBBIQQQ")
HEADER_BYTES = _HEADER.size

ENTRY = np.dtype(
    [
        ("residue_offset", "<u8"),
        ("symbol_offset", "<u8"),
        ("num_escapes", "<u4"),
        ("base", "<u2"),
        ("width", "u1"),
        ("constant_planes", "u1"),
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
    def residue_slot_bytes(self) -> int:
        """Residue bytes of a full tile with no constant plane."""
        return self.layout.residue_planes * aligned(self.tile_elems)

    @property
    def symbol_slot_bytes(self) -> int:
        """Most symbol bytes of a tile."""
        return CONSTANT_BLOCK_BYTES + aligned(self.tile_elems * self.layout.head_bytes)

    @property
    def sections_offset(self) -> int:
        """Where the residue section starts in the body."""
        return HEADER_BYTES + aligned(self.num_tiles * ENTRY.itemsize)

    @property
    def max_residue_bytes(self) -> int:
        """Most bytes of the residue section."""
        if self.placement == "slotted":
            return self.num_tiles * self.residue_slot_bytes
        whole, rest = divmod(self.numel, self.tile_elems)
        return whole * self.residue_slot_bytes + self.layout.residue_planes * aligned(rest)

    @property
    def max_symbol_bytes(self) -> int:
        """Most bytes of the symbol section."""
        if self.placement == "slotted":
            return self.num_tiles * self.symbol_slot_bytes
        whole, rest = divmod(self.numel, self.tile_elems)
        partial = CONSTANT_BLOCK_BYTES + aligned(rest * self.layout.head_bytes) if rest else 0
        return whole * self.symbol_slot_bytes + partial

    @property
    def max_body_bytes(self) -> int:
        """Most bytes of the body."""
        return self.sections_offset + self.max_residue_bytes + self.max_symbol_bytes

    def pack_header(self, residue_bytes: int, symbol_bytes: int) -> bytes:
        """Return the header of a body with sections of these sizes."""
        placement = PLACEMENTS.index(self.placement)
        sizes = (self.num_tiles, residue_bytes, symbol_bytes)
        return _HEADER.pack(self.log2_tile, self.log2_stream, placement, 0, 0, *sizes)


@dataclass(frozen=True)
class Sections:
    """The parts of a body, as views of it: `entries` of dtype `ENTRY`, the others uint8."""

    entries: np.ndarray
    residue: np.ndarray
    symbols: np.ndarray


def check_log2(name: str, value: int, least: int, most: int) -> None:
    """Raise SettingsError unless `2**least <= value <= 2**most` is a power of two."""
    if not isinstance(value, int) or value & (value - 1) or not 1 << least <= value <= 1 << most:
        raise SettingsError(f"{name}={value!r}: expected a power of two from {1 << least} to {1 << most}")


def read_header(
    header: np.ndarray, body_bytes: int, layout: FloatFormat, remainder_bits: int, numel: int
) -> tuple[TileLayout, tuple[int, int]]:
    """Read the header of a body and return its geometry and the bytes of its two sections.

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
    log2_tile, log2_stream, placement, zero, zeros, num_tiles, residue_bytes, symbol_bytes = _HEADER.unpack(
        header[:HEADER_BYTES].tobytes()
    )
    if not MIN_LOG2_TILE <= log2_tile <= MAX_LOG2_TILE or log2_stream > log2_tile or placement > 1 or zero or zeros:
        raise CorruptFrameError(f"tiled body: tile 2**{log2_tile}, stream 2**{log2_stream}, placement {placement}")
    tiles = TileLayout(layout, remainder_bits, numel, log2_tile, log2_stream, PLACEMENTS[placement])
    if num_tiles != tiles.num_tiles:
        raise CorruptFrameError(f"tiled body: {num_tiles} tiles declared, {numel} elements make {tiles.num_tiles}")
    start = tiles.sections_offset
    if start + residue_bytes + symbol_bytes != body_bytes or residue_bytes % ALIGNMENT:
        raise CorruptFrameError(
            f"tiled body: sections of {residue_bytes} and {symbol_bytes} bytes after {start} do not make {body_bytes}"
        )
    return tiles, (residue_bytes, symbol_bytes)


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
    tiles, (residue_bytes, _) = read_header(body[:HEADER_BYTES], len(body), layout, remainder_bits, numel)
    start = tiles.sections_offset
    entries = body[HEADER_BYTES : HEADER_BYTES + tiles.num_tiles * ENTRY.itemsize].view(ENTRY)
    return tiles, Sections(entries, body[start : start + residue_bytes], body[start + residue_bytes :])


def tile_numels(tiles: TileLayout) -> np.ndarray:
    """Return the elements of each tile, as int64."""
    numels = np.full(tiles.num_tiles, tiles.tile_elems, np.int64)
    if tiles.num_tiles:
        numels[-1] = tiles.numel - (tiles.num_tiles - 1) * tiles.tile_elems
    return numels


def check_entries(tiles: TileLayout, sections: Sections, symbol_bytes: np.ndarray) -> None:
    """Check that every tile lies inside its sections.

    Args:
        tiles: Geometry of the body.
        sections: Its parts.
        symbol_bytes: Symbol bytes each tile is known to read, as int64.

    Raises:
        CorruptFrameError: An entry points outside its section, or off the alignment.
    """
    entries = sections.entries
    stored = tiles.layout.residue_planes - constant_byte_planes(tiles, entries)
    plane = aligned(tile_numels(tiles))
    for field, sizes, section in (
        ("residue_offset", stored * plane, sections.residue),
        ("symbol_offset", symbol_bytes, sections.symbols),
    ):
        offsets = entries[field]
        # Compared by subtraction, because an offset near 2**64 would wrap in a sum.
        room = np.uint64(len(section))
        wrong = (sizes.astype(np.uint64) > room) | (offsets > room - np.minimum(room, sizes.astype(np.uint64)))
        wrong |= offsets % ALIGNMENT != 0
        if wrong.any():
            tile = int(wrong.argmax())
            raise CorruptFrameError(
                f"tiled body: tile {tile} has {field} {offsets[tile]} and {sizes[tile]} bytes in a section of {room}"
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
