"""Launches of the Triton kernels of the tiled codecs, on GPU tensors or, interpreted, on CPU tensors."""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton

from wirezip.codecs.tiles import kernels_place
from wirezip.codecs.tiles.layout import ALIGNMENT, HEADER_BYTES, ROWS, TileLayout
from wirezip.errors import CodecUnavailableError, CorruptFrameError

WORD_DTYPES = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32, 64: torch.uint64}
NO_ERROR = 2**63 - 1
# Programs of `close_kernel`: it mostly has nothing to do, and otherwise only copies.
CLOSE_PROGRAMS = 256
CLOSE_WARPS = 8


class Geometry(NamedTuple):
    """What a kernel is compiled for; see `TileLayout` and `FloatFormat` for the names.

    `columns` are those of a full tile, `value_bins` the least power of two of bins for a histogram of
    values that a GPU block can fill, `header_word` the first eight bytes of the header.
    """

    mantissa_bits: int
    residue_planes: int
    head_bytes: int
    remainder_bits: int
    value_bits: int
    value_bytes: int
    value_count: int
    value_bins: int
    value_shift: int
    tile_elems: int
    columns: int
    log2_stream: int
    prob_bits: int
    scratch_bytes: int
    slotted: int
    residue_slot_bytes: int
    symbol_slot_bytes: int
    header_word: int


def geometry_of(tiles: TileLayout, prob_bits: int = 0, scratch_bytes: int = 0) -> Geometry:
    """Return what the kernels must know of a body.

    Args:
        tiles: Geometry of the body.
        prob_bits: Resolution of the probabilities, for codecs that have them.
        scratch_bytes: Scratch memory of a program.
    """
    layout = tiles.layout
    return Geometry(
        mantissa_bits=layout.mantissa_bits,
        residue_planes=layout.residue_planes,
        head_bytes=layout.head_bytes,
        remainder_bits=tiles.remainder_bits,
        value_bits=tiles.value_bits,
        value_bytes=tiles.value_bytes,
        value_count=1 << tiles.value_bits,
        value_bins=max(256, 1 << tiles.value_bits),
        value_shift=8 * layout.residue_planes + tiles.remainder_bits,
        tile_elems=tiles.tile_elems,
        columns=tiles.tile_elems // ROWS,
        log2_stream=tiles.log2_stream,
        prob_bits=prob_bits,
        scratch_bytes=scratch_bytes,
        slotted=int(tiles.placement == "slotted"),
        residue_slot_bytes=tiles.residue_slot_bytes,
        symbol_slot_bytes=tiles.symbol_slot_bytes,
        header_word=int.from_bytes(tiles.pack_header(0, 0)[:8], "little"),
    )


def as_unsigned(values: torch.Tensor) -> torch.Tensor:
    """Return the bit patterns of a float tensor, as a view."""
    return values.view(WORD_DTYPES[8 * values.itemsize])


def check_device(values: torch.Tensor) -> None:
    """Raise CodecUnavailableError unless the kernels can run on the tensor's device."""
    interpreted = not isinstance(kernels_place.close_kernel, triton.JITFunction)
    if interpreted != (values.device.type == "cpu"):
        how = "interpreted" if interpreted else "compiled"
        raise CodecUnavailableError(
            f"the Triton kernels are {how} in this process and cannot take a tensor on {values.device}: "
            "they are interpreted, for CPU tensors, where TRITON_INTERPRET=1 was set before they were imported"
        )


def aligned_body(body: torch.Tensor) -> torch.Tensor:
    """Return a body that starts on the alignment: itself, or a copy."""
    return body if body.data_ptr() % ALIGNMENT == 0 else body.clone()


def encode_body(
    launch: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any],
    values: torch.Tensor,
    tiles: TileLayout,
    body: torch.Tensor,
    geometry: Geometry,
) -> int:
    """Encode a tensor.

    1. Launch the codec's kernel: every tile finds its place among the others and is stored there.
    2. Launch `close_kernel`: header, and the symbol section moved up where planes were constant.
    3. Read the sizes from the header, the only wait for the device.

    Args:
        launch: Launches the codec's kernel, given words, body and state.
        values: Contiguous 1-D tensor.
        tiles: Geometry of the body.
        body: At least `tiles.max_body_bytes` bytes on the same device.
        geometry: Facts the kernels are compiled for.

    Returns:
        Bytes of the body.

    Raises:
        CodecUnavailableError: The kernels cannot run on this device in this process.
    """
    check_device(values)
    target = body
    if body.data_ptr() % ALIGNMENT:
        target = torch.empty(tiles.max_body_bytes, dtype=torch.uint8, device=values.device)
    if geometry.slotted:
        # Bytes between slots mean nothing, but a body must be the same bytes every time.
        target[tiles.sections_offset : tiles.max_body_bytes].zero_()
    state = torch.zeros(kernels_place.STATE_HEAD.value + 2 * tiles.num_tiles, dtype=torch.int64, device=values.device)
    moved = torch.zeros(
        tiles.max_symbol_bytes // kernels_place.CHUNK_BYTES.value + 1, dtype=torch.int32, device=values.device
    )
    with torch.cuda.device_of(values):
        launch(as_unsigned(values), target, state)
        programs = 1 if geometry.slotted else min(moved.numel(), CLOSE_PROGRAMS)
        kernels_place.close_kernel[(programs,)](
            target, state, moved, tiles.num_tiles, tiles.max_residue_bytes, G=geometry, num_warps=CLOSE_WARPS
        )
    section_bytes = struct.unpack("<QQ", target[16:HEADER_BYTES].cpu().numpy().tobytes())
    end = tiles.sections_offset + sum(section_bytes)
    if target is not body:
        body[:end] = target[:end]
    return end


def decode_body(
    launch: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any],
    name: str,
    tiles: TileLayout,
    body: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Decode a body whose header has been read; entries are checked by the kernel.

    Args:
        launch: Launches the codec's kernel, given words, body, and the cell for the first corrupt tile.
        name: The codec's name.
        tiles: Geometry of the body.
        body: The body.
        out: Contiguous 1-D tensor to fill.

    Raises:
        CodecUnavailableError: The kernels cannot run on this device in this process.
        CorruptFrameError: A tile cannot be decoded; the first is named.
    """
    check_device(out)
    error = torch.full((1,), NO_ERROR, dtype=torch.int64, device=out.device)
    with torch.cuda.device_of(out):
        launch(as_unsigned(out), aligned_body(body), error)
    tile = int(error.item())
    if tile != NO_ERROR:
        raise CorruptFrameError(f"{name}: tile {tile} of {tiles.num_tiles} is corrupt: its entry, or what it points to")
