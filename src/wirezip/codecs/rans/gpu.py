"""The host side of the `rans` kernels: launches on the current stream, nothing waits."""

import functools

import torch

from wirezip.codecs.rans import kernels, kernels_decode, tables
from wirezip.codecs.tiles import launch
from wirezip.codecs.tiles.layout import ROWS, TileLayout, aligned

# Programs of a launch on each multiprocessor by their warps, and on a CPU, where they run one after
# another. They bound the scratch memory; see `MAX_REGISTERS`.
WARPS_PER_PROCESSOR = {"encode": 32, "decode": 48}
INTERPRETED_PROGRAMS = 2
# The loops over the streams need about 32 registers where only exponents are coded; with 64 and 40 so
# many warps hide each other's waits (256 MiB of bf16 on an H200: encode 550 us, 1286 with 80; decode 339,
# 387 with 48). What is spilled lies outside these loops, but for two words a group of the decoder.
MAX_REGISTERS = {"encode": 64, "decode": 40}
MAX_WARPS = 16
UNITS_PER_THREAD = 4
STATE_BYTES = 8
CLEAR_BLOCK = 1024


def warps_of(tiles: TileLayout) -> int:
    """Return the warps of a program: one for each stream."""
    return min(MAX_WARPS, tiles.tile_elems >> tiles.log2_stream)


def spill_words(tiles: TileLayout) -> int:
    """Return the room for the words of a stream: a symbol adds no more bits than probabilities have."""
    lane_elems = (1 << tiles.log2_stream) // tables.NUM_LANES
    return tables.NUM_LANES * (lane_elems * tables.prob_bits(tiles.layout) // tables.WORD_BITS + tables.WIDE_WORDS)


@functools.lru_cache(maxsize=512)
def geometry_of(tiles: TileLayout, variant: launch.Variant) -> launch.Geometry:
    """Return what the kernels are compiled for."""
    streams = tiles.tile_elems >> tiles.log2_stream
    encoder_bytes = aligned(kernels.TABLE_BYTES.value + 2 * streams * spill_words(tiles))
    threads = 32 * warps_of(tiles)
    columns = tiles.tile_elems // ROWS
    coding = launch.Coding(
        prob_bits=tables.prob_bits(tiles.layout),
        scratch_bytes=max(encoder_bytes, kernels_decode.DECODER_BYTES.value),
        sample_step=tables.sample_step(tiles.layout),
        spill_words=spill_words(tiles),
        units=min(columns // launch.lanes_of(tiles), threads * UNITS_PER_THREAD),
    )
    return launch.geometry_of(tiles, threads, variant, coding)


def num_programs(kind: str, tiles: TileLayout, num_tiles: int) -> int:
    """Return the programs of a launch."""
    processors = launch.num_processors()
    most = processors * (WARPS_PER_PROCESSOR[kind] // warps_of(tiles)) if processors else INTERPRETED_PROGRAMS
    return max(1, min(most, num_tiles))


def scratch_bytes(kind: str, tiles: TileLayout, num_tiles: int) -> int:
    """Return the scratch memory of all programs."""
    return num_programs(kind, tiles, num_tiles) * geometry_of(tiles, launch.Variant()).scratch_bytes


def encode_workspace_bytes(tiles: TileLayout, num_tiles: int, num_segments: int) -> int:
    """Return the bytes that encoding needs: a ticket, the state of all tiles, and scratch memory.

    Args:
        tiles: Geometry of the body, or of any body of a batch.
        num_tiles: Tiles of all tensors.
        num_segments: Segments of all tensors.
    """
    return aligned(STATE_BYTES * (1 + num_tiles)) + scratch_bytes("encode", tiles, num_tiles)


def decode_workspace_bytes(tiles: TileLayout, num_tiles: int) -> int:
    """Return the bytes that decoding needs; see `encode_workspace_bytes`."""
    return scratch_bytes("decode", tiles, num_tiles)


def register_limit(kind: str, tiles: TileLayout) -> int:
    """Return the most registers of a thread, 0 for no limit."""
    narrow = tiles.layout.word_bytes <= 4 and not tables.has_wide_alphabet(tiles.layout)
    return MAX_REGISTERS[kind] if narrow else 0


def options_of(kind: str, tiles: TileLayout) -> dict[str, int]:
    """Return the launch options of a kernel."""
    limit = register_limit(kind, tiles)
    return {"num_warps": warps_of(tiles)} | ({"maxnreg": limit} if limit and launch.takes_register_limit() else {})


def encode(job: launch.Job, workspace: torch.Tensor) -> None:
    """Launch the encoding of one tensor or a batch.

    1. Clear ticket and state.
    2. Code every tile, find its place and store it there; the last one stores the header.

    Args:
        job: What to encode.
        workspace: `encode_workspace_bytes` bytes.
    """
    state_bytes = aligned(STATE_BYTES * (1 + job.num_tiles))
    state, scratch = workspace[:state_bytes].view(torch.int64), workspace[state_bytes:]
    kernels.clear_kernel[(-(-(1 + job.num_tiles) // CLEAR_BLOCK),)](state, job.num_tiles, BLOCK=CLEAR_BLOCK)
    sizes = (job.numel, job.num_tiles)
    kernels.encode_kernel[(num_programs("encode", job.tiles, job.num_tiles),)](
        job.words,
        job.bodies,
        job.table,
        state,
        scratch,
        *sizes,
        G=geometry_of(job.tiles, job.variant),
        **options_of("encode", job.tiles),
    )


def decode(job: launch.Job, error: torch.Tensor, workspace: torch.Tensor) -> None:
    """Launch the decoding of one tensor or a batch.

    Args:
        job: What to decode.
        error: int64, for each tensor the cell for its first corrupt tile.
        workspace: `decode_workspace_bytes` bytes.
    """
    sizes = (job.numel, job.body_bytes, job.num_tiles)
    kernels_decode.decode_kernel[(num_programs("decode", job.tiles, job.num_tiles),)](
        job.words,
        job.bodies,
        job.table,
        error,
        workspace,
        *sizes,
        G=geometry_of(job.tiles, job.variant),
        **options_of("decode", job.tiles),
    )
