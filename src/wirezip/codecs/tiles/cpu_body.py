"""Geometry of a body as the compiled loops over its tiles take it."""

from typing import NamedTuple

from wirezip.codecs.tiles.layout import TileLayout


class Geometry(NamedTuple):
    """What the compiled loops know of a body; the slot is 0 where tiles are packed."""

    tile_elems: int
    value_bits: int
    remainder_bits: int
    slot_bytes: int


def geometry_of(tiles: TileLayout) -> Geometry:
    """Return the geometry of a body for the compiled loops."""
    return Geometry(
        tiles.tile_elems,
        tiles.value_bits,
        tiles.remainder_bits,
        tiles.slot_bytes if tiles.placement == "slotted" else 0,
    )
