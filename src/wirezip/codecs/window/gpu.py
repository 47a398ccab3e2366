"""The host side of the `window` kernels: launches on the current stream, nothing waits."""

import functools

import torch

from wirezip.codecs.tiles import launch
from wirezip.codecs.tiles.layout import TileLayout, aligned
from wirezip.codecs.window import kernels, kernels_decode

# Bytes of a tile that a thread holds: 8 rows of 16 bytes, the widest loads. With 64 it took 254 us
# for 256 MiB of bf16 on an H200, with 128 it took 230.
THREAD_BYTES = 128
# One-byte words are so many columns a thread that their escapes would not fit a mask.
NARROW_THREAD_BYTES = 64
MAX_WARPS = 16
CHOOSE_WARPS = 4
CHOICE_BYTES = 4
STATE_BYTES = 8


def warps_of(tiles: TileLayout) -> int:
    """Return the warps of a program."""
    thread_bytes = NARROW_THREAD_BYTES if tiles.layout.word_bytes == 1 else THREAD_BYTES
    return max(1, min(MAX_WARPS, tiles.tile_elems * tiles.layout.word_bytes // (32 * thread_bytes)))


@functools.lru_cache(maxsize=512)
def geometry_of(tiles: TileLayout, variant: launch.Variant) -> launch.Geometry:
    """Return what the kernels are compiled for."""
    return launch.geometry_of(tiles, 32 * warps_of(tiles), variant)


def encode_workspace_bytes(tiles: TileLayout, num_tiles: int, num_segments: int) -> int:
    """Return the bytes that encoding needs: the state of all tiles and the choices for all segments.

    Args:
        tiles: Geometry of the body, or of any body of a batch.
        num_tiles: Tiles of all tensors.
        num_segments: Segments of all tensors.
    """
    return aligned(STATE_BYTES * num_tiles) + CHOICE_BYTES * num_segments


def decode_workspace_bytes(tiles: TileLayout, num_tiles: int) -> int:
    """Return the bytes that decoding needs; see `encode_workspace_bytes`."""
    return 0


def encode(job: launch.Job, workspace: torch.Tensor) -> None:
    """Launch the encoding of one tensor or a batch.

    1. Choose width and base of every segment, and clear the state.
    2. Code every tile, find its place and store it there; the last one stores the header.

    Args:
        job: What to encode.
        workspace: `encode_workspace_bytes` bytes.
    """
    state_bytes = aligned(STATE_BYTES * job.num_tiles)
    state = workspace[:state_bytes].view(torch.int64)
    choice = workspace[state_bytes : state_bytes + CHOICE_BYTES * job.num_segments].view(torch.int32)
    geometry = geometry_of(job.tiles, job.variant)
    kernels.choose_kernel[(job.num_segments,)](
        job.words, job.table, state, choice, job.numel, G=geometry, num_warps=CHOOSE_WARPS
    )
    kernels.encode_kernel[(job.num_tiles,)](
        job.words, job.bodies, job.table, state, choice, job.numel, G=geometry, num_warps=warps_of(job.tiles)
    )


def decode(job: launch.Job, error: torch.Tensor, workspace: torch.Tensor) -> None:
    """Launch the decoding of one tensor or a batch.

    Args:
        job: What to decode.
        error: int64, for each tensor the cell for its first corrupt tile.
        workspace: `decode_workspace_bytes` bytes.
    """
    geometry = geometry_of(job.tiles, job.variant)
    kernels_decode.decode_kernel[(job.num_tiles,)](
        job.words, job.bodies, job.table, error, job.numel, job.body_bytes, G=geometry, num_warps=warps_of(job.tiles)
    )
