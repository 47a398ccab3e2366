"""The host side of the `window` kernels."""

import torch

from wirezip.codecs.tiles import launch
from wirezip.codecs.tiles.layout import ROWS, TileLayout
from wirezip.codecs.window import kernels


def geometry_of(tiles: TileLayout) -> launch.Geometry:
    """Return what the kernels are compiled for."""
    return launch.geometry_of(tiles)


def warps_of(tiles: TileLayout) -> int:
    """Return the warps of a program in which a thread holds four columns of every row."""
    return max(1, min(16, tiles.tile_elems // ROWS // (32 * 4)))


def encode_body(values: torch.Tensor, tiles: TileLayout, body: torch.Tensor) -> int:
    """Encode a tensor into a body; returns its bytes. See `launch.encode_body`."""
    geometry = geometry_of(tiles)

    def encode(words: torch.Tensor, target: torch.Tensor, state: torch.Tensor) -> None:
        sizes = (tiles.numel, tiles.num_tiles, tiles.max_residue_bytes)
        kernels.encode_kernel[(tiles.num_tiles,)](words, target, state, *sizes, G=geometry, num_warps=warps_of(tiles))

    return launch.encode_body(encode, values, tiles, body, geometry)


def decode_body(tiles: TileLayout, section_bytes: tuple[int, int], body: torch.Tensor, out: torch.Tensor) -> None:
    """Decode a body whose header has been read. See `launch.decode_body`."""
    geometry = geometry_of(tiles)

    def decode(words: torch.Tensor, source: torch.Tensor, error: torch.Tensor) -> None:
        sizes = (tiles.numel, tiles.num_tiles, section_bytes)
        kernels.decode_kernel[(tiles.num_tiles,)](words, source, error, *sizes, G=geometry, num_warps=warps_of(tiles))

    launch.decode_body(decode, "window", tiles, body, out)
