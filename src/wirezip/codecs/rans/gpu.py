"""The host side of the `rans` kernels."""

import torch

from wirezip.codecs.rans import kernels, tables
from wirezip.codecs.tiles import launch
from wirezip.codecs.tiles.layout import TileLayout, aligned

# Programs of a launch on each multiprocessor, and on a CPU, where they run one after another.
PROGRAMS_PER_PROCESSOR = 8
INTERPRETED_PROGRAMS = 2


def geometry_of(tiles: TileLayout) -> launch.Geometry:
    """Return what the kernels are compiled for: a program's scratch memory holds a table and the words of a tile."""
    spill_bytes = aligned(2 * tiles.tile_elems)
    scratch_bytes = max(kernels.TABLE_BYTES.value + spill_bytes, kernels.DECODER_BYTES.value)
    return launch.geometry_of(tiles, tables.prob_bits(tiles.layout), scratch_bytes)


def warps_of(tiles: TileLayout) -> int:
    """Return the warps of a program: one for each stream, up to 16."""
    return min(16, tiles.tile_elems >> tiles.log2_stream)


def scratch_of(tiles: TileLayout, geometry: launch.Geometry, device: torch.device) -> tuple[torch.Tensor, int]:
    """Return scratch memory and the number of programs it serves."""
    most = INTERPRETED_PROGRAMS
    if device.type != "cpu":
        most = PROGRAMS_PER_PROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
    programs = min(most, tiles.num_tiles)
    return torch.empty(programs * geometry.scratch_bytes, dtype=torch.uint8, device=device), programs


def encode_body(values: torch.Tensor, tiles: TileLayout, body: torch.Tensor) -> int:
    """Encode a tensor into a body; returns its bytes. See `launch.encode_body`."""
    geometry = geometry_of(tiles)
    scratch, programs = scratch_of(tiles, geometry, values.device)

    def encode(words: torch.Tensor, target: torch.Tensor, state: torch.Tensor) -> None:
        sizes = (tiles.numel, tiles.num_tiles, tiles.max_residue_bytes)
        kernels.encode_kernel[(programs,)](words, target, state, scratch, *sizes, G=geometry, num_warps=warps_of(tiles))

    return launch.encode_body(encode, values, tiles, body, geometry)


def decode_body(tiles: TileLayout, section_bytes: tuple[int, int], body: torch.Tensor, out: torch.Tensor) -> None:
    """Decode a body whose header has been read. See `launch.decode_body`."""
    geometry = geometry_of(tiles)
    scratch, programs = scratch_of(tiles, geometry, out.device)

    def decode(words: torch.Tensor, source: torch.Tensor, error: torch.Tensor) -> None:
        sizes = (tiles.numel, tiles.num_tiles, section_bytes)
        kernels.decode_kernel[(programs,)](words, source, error, scratch, *sizes, G=geometry, num_warps=warps_of(tiles))

    launch.decode_body(decode, "rans", tiles, body, out)
