"""Many tensors of one dtype in one launch: their facts travel to the device as one table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from wirezip.codecs.tiles import launch
from wirezip.codecs.tiles.device import check_decode, room
from wirezip.codecs.tiles.kernels_place import JOB_WORDS, SECTION_WORD
from wirezip.codecs.tiles.layout import TileLayout, aligned
from wirezip.codecs.tiles.pending import Decoding, started, take_cells
from wirezip.errors import InputError, UnsupportedDtypeError

if TYPE_CHECKING:
    from wirezip.codecs.tiles.codec import TiledCodec


@dataclass
class BatchEncoding:
    """The bodies of a batch that are being made; nothing has waited for the device.

    Attributes:
        buffers: For each tensor a uint8 buffer of worst-case size, parts of one allocation; the body is
            at its start, once the device has made it.
        tiles: Geometries of the bodies.
    """

    buffers: list[torch.Tensor]
    tiles: list[TileLayout]
    _arena: torch.Tensor
    _sizes_at: torch.Tensor
    _stream: torch.cuda.Stream | None = None

    def section_bytes(self) -> torch.Tensor:
        """Return the bytes of every body less `section_offset` of its geometry, as int64 on the device."""
        with torch.cuda.stream(self._stream):
            return self._arena.view(torch.int64)[self._sizes_at]

    def wait(self) -> list[torch.Tensor]:
        """Return the bodies, views of the buffers; waits for the device."""
        sizes = self.section_bytes().tolist()
        return [
            buffer[: tiles.section_offset + size]
            for buffer, tiles, size in zip(self.buffers, self.tiles, sizes, strict=True)
        ]


def check_batch(codec: "TiledCodec", values: Sequence[torch.Tensor]) -> None:
    """Raise InputError or UnsupportedDtypeError unless the tensors make up a batch."""
    if not values:
        raise InputError(f"codec {codec.name}: a batch has at least one tensor")
    first = values[0]
    if not codec.supports(first.dtype):
        raise UnsupportedDtypeError(f"codec {codec.name} does not take {first.dtype}")
    for number, tensor in enumerate(values):
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise InputError(
                f"codec {codec.name}: tensor {number} of a batch is {tensor.dtype} on {tensor.device}, "
                f"the first is {first.dtype} on {first.device}"
            )
        if tensor.dim() != 1 or not tensor.is_contiguous() or tensor.numel() == 0:
            raise InputError(
                f"codec {codec.name}: tensor {number} of a batch has shape {tuple(tensor.shape)} with strides "
                f"{tensor.stride()}; expected a contiguous 1-D tensor of at least one element"
            )
    launch.check_device(first)


def job_of(
    tiles: list[TileLayout],
    words: Sequence[torch.Tensor],
    bodies: Sequence[torch.Tensor],
    body_base: torch.Tensor,
) -> launch.Job:
    """Return the job of a batch; its table is on the way to the device.

    Args:
        tiles: Geometries of the bodies.
        words: Contiguous tensors of the words, aligned.
        bodies: The bodies or room for them, aligned.
        body_base: Aligned tensor that the places of bodies are relative to.
    """
    device = words[0].device
    num_tiles = np.array([each.num_tiles for each in tiles], np.int64)
    segments = -(-num_tiles // launch.SEGMENT_TILES)
    table = np.empty((len(tiles), JOB_WORDS.value), np.int64)
    table[:, 0] = np.array([each.data_ptr() for each in words], np.int64) - words[0].data_ptr()
    table[:, 1] = np.array([each.data_ptr() for each in bodies], np.int64) - body_base.data_ptr()
    table[:, 2] = [each.numel for each in tiles]
    table[:, 3] = [each.numel() for each in bodies]
    table[:, 4] = np.cumsum(num_tiles) - num_tiles
    table[:, 5] = np.cumsum(segments) - segments
    host = torch.from_numpy(table)
    on_device = host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
    variant = launch.Variant(words_aligned=True, batch=True, slack=True)
    base = launch.as_unsigned(words[0])
    totals = (int(num_tiles.sum()), int(segments.sum()))
    return launch.Job(tiles[0], variant, base, body_base, on_device, len(tiles), 0, *totals)


def encode_batch(codec: "TiledCodec", values: Sequence[torch.Tensor]) -> BatchEncoding:
    """Launch the encoding of a batch; see `TiledCodec.encode_batch`."""
    check_batch(codec, values)
    device, dtype = values[0].device, values[0].dtype
    with torch.cuda.device_of(values[0]):
        tensors = [each if launch.is_aligned(each) else each.clone() for each in values]
        tiles = [codec.geometry(each.numel(), dtype) for each in tensors]
        sizes = np.array([aligned(each.max_body_bytes) for each in tiles], np.int64)
        starts = np.cumsum(sizes) - sizes
        make = torch.zeros if codec.placement == "slotted" else torch.empty
        arena = make(int(sizes.sum()), dtype=torch.uint8, device=device)
        buffers = list(arena.split(sizes.tolist()))
        job = job_of(tiles, tensors, buffers, arena)
        sizes_at = torch.from_numpy(starts // 8 + SECTION_WORD.value).to(device, non_blocking=True)
        host = codec.kernels_module()
        needed = host.encode_workspace_bytes(tiles[0], job.num_tiles, job.num_segments)
        with room(codec.name, device, needed, None) as memory:
            host.encode(job, memory)
    return BatchEncoding(buffers, tiles, arena, sizes_at, started(device)[0])


def decode_batch(codec: "TiledCodec", bodies: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> Decoding:
    """Launch the decoding of a batch; see `TiledCodec.decode_batch`."""
    check_batch(codec, outs)
    if len(bodies) != len(outs):
        raise InputError(f"codec {codec.name}: {len(bodies)} bodies for {len(outs)} tensors")
    for number, (body, out) in enumerate(zip(bodies, outs, strict=True)):
        check_decode(codec, body, out)
        if not launch.is_aligned(out):
            raise InputError(f"codec {codec.name}: tensor {number} of a batch does not start on a multiple of 16 bytes")
    device = outs[0].device
    stream, recorded = started(device)
    with torch.cuda.device_of(outs[0]):
        tiles = [codec.geometry(each.numel(), each.dtype) for each in outs]
        sources = [each if launch.is_aligned(each) else each.clone() for each in bodies]
        job = job_of(tiles, outs, sources, sources[0])
        decoding = Decoding(codec.name, take_cells(device, len(outs)), stream, recorded, sources)
        host = codec.kernels_module()
        with room(codec.name, device, host.decode_workspace_bytes(tiles[0], job.num_tiles), None) as memory:
            host.decode(job, decoding.cells, memory)
    return decoding
