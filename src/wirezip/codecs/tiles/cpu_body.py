"""Geometry of a body as the compiled loops over its tiles take it."""

from typing import NamedTuple

from wirezip.codecs.tiles.layout import TileLayout


class Geometry(NamedTuple):
    """What the compiled loops know of a body; the slots are 0 where tiles are packed."""

    tile_elems: int
    value_bits: int
    remainder_bits: int
    residue_slot_bytes: int
    symbol_slot_bytes: int


def geometry_of(tiles: TileLayout) -> Geometry:
    """Return the geometry of a body for the compiled loops."""
    slotted = tiles.placement == "slotted"
    return Geometry(
        tiles.tile_elems,
        tiles.value_bits,
        tiles.remainder_bits,
        tiles.residue_slot_bytes if slotted else 0,
        tiles.symbol_slot_bytes if slotted else 0,
    )
