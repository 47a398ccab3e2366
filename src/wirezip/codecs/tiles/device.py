"""Encoding and decoding by the Triton kernels: launches on the caller's stream, nothing waits.

Every function here checks its arguments before the first launch. Sizes and errors stay on the device
until `wait` is called on what is returned.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from wirezip.codecs.tiles import launch, workspace
from wirezip.codecs.tiles.kernels_place import HEADER_ERROR
from wirezip.codecs.tiles.layout import HEADER_BYTES, TileLayout, read_header
from wirezip.codecs.tiles.pending import NO_ERROR, Decoding, Encoding, started, take_cells
from wirezip.errors import CorruptFrameError, InputError
from wirezip.floats import FLOAT_FORMATS

if TYPE_CHECKING:
    from wirezip.codecs.tiles.codec import TiledCodec


def job_of(tiles: TileLayout, words: torch.Tensor, body: torch.Tensor, body_bytes: int, slack: bool) -> launch.Job:
    """Return the job of one tensor.

    Args:
        tiles: Geometry of the body.
        words: Contiguous 1-D tensor of the words.
        body: The body or room for it, aligned.
        body_bytes: Bytes of it that may be read.
        slack: Whether the body may be shorter than that.
    """
    variant = launch.Variant(words_aligned=launch.is_aligned(words), slack=slack)
    segments = launch.num_segments(tiles.num_tiles)
    return launch.Job(
        tiles, variant, launch.as_unsigned(words), body, None, tiles.numel, body_bytes, tiles.num_tiles, segments
    )


def check_aligned(name: str, body: torch.Tensor) -> None:
    """Raise InputError unless a buffer starts on a multiple of 16 bytes."""
    if not launch.is_aligned(body):
        raise InputError(f"{name}: expected a buffer that starts on a multiple of 16 bytes, got {body.data_ptr():#x}")


def check_workspace(name: str, given: torch.Tensor, device: torch.device, num_bytes: int) -> None:
    """Raise InputError unless a caller's workspace can be used."""
    if given.dtype != torch.uint8 or given.dim() != 1 or not given.is_contiguous() or given.device != device:
        raise InputError(
            f"{name}: expected workspace as a contiguous 1-D uint8 tensor on {device}, "
            f"got {given.dtype} {tuple(given.shape)} on {given.device}"
        )
    if given.numel() < num_bytes:
        raise InputError(f"{name}: workspace holds {given.numel()} bytes, {num_bytes} are needed")
    check_aligned(f"{name}: workspace", given)


@contextlib.contextmanager
def room(name: str, device: torch.device, num_bytes: int, given: torch.Tensor | None) -> Iterator[torch.Tensor]:
    """Lend the caller's workspace, or the one kept for the stream."""
    if given is not None:
        check_workspace(name, given, device, num_bytes)
        yield given[:num_bytes]
        return
    with workspace.borrowed(device, num_bytes) as memory:
        yield memory[:num_bytes]


def encode_async(
    codec: "TiledCodec", values: torch.Tensor, out: torch.Tensor | None, given: torch.Tensor | None
) -> Encoding:
    """Launch the encoding of a tensor.

    Args:
        codec: The codec.
        values: Contiguous 1-D tensor of a supported dtype, with at least one element.
        out: Contiguous 1-D uint8 tensor of `max_encoded_bytes`, aligned; allocated when None.
        given: Workspace; the one kept for the stream when None.

    Raises:
        UnsupportedDtypeError: The codec does not take this dtype.
        InputError: A tensor has the wrong layout, device, size or alignment.
        CodecUnavailableError: The kernels cannot run on this device in this process.
    """
    body = codec.output_for(values, out)
    launch.check_device(values)
    check_aligned(f"{codec.name}: out", body)
    tiles = codec.geometry(values.numel(), values.dtype)
    job = job_of(tiles, values, body, 0, False)
    host = codec.kernels_module()
    if tiles.placement == "slotted":
        # Bytes between slots mean nothing, but a body must be the same bytes every time.
        body[tiles.section_offset : tiles.max_body_bytes].zero_()
    needed = host.encode_workspace_bytes(tiles, job.num_tiles, job.num_segments)
    with torch.cuda.device_of(values), room(codec.name, values.device, needed, given) as memory:
        host.encode(job, memory)
    return Encoding(body, tiles, started(values.device)[0])


def check_decode(codec: "TiledCodec", body: torch.Tensor, out: torch.Tensor) -> None:
    """Raise InputError or CorruptFrameError where a body cannot be decoded into `out`."""
    if out.dtype not in FLOAT_FORMATS:
        raise CorruptFrameError(f"codec {codec.name} does not make bodies of {out.dtype}")
    if out.dim() != 1 or not out.is_contiguous() or out.numel() == 0:
        raise InputError(
            f"codec {codec.name} decodes into a contiguous 1-D tensor of at least one element, "
            f"got shape {tuple(out.shape)} with strides {out.stride()}"
        )
    if body.dtype != torch.uint8 or body.dim() != 1 or not body.is_contiguous() or body.device != out.device:
        raise InputError(
            f"codec {codec.name}: expected a body as a contiguous 1-D uint8 tensor on {out.device}, "
            f"got {body.dtype} {tuple(body.shape)} on {body.device}"
        )
    launch.check_device(out)


def run_decode(codec: "TiledCodec", job: launch.Job, cells: torch.Tensor, given: torch.Tensor | None) -> None:
    """Launch the decoding of a body of a known geometry; `cells` get what is corrupt."""
    host = codec.kernels_module()
    needed = host.decode_workspace_bytes(job.tiles, job.num_tiles)
    with torch.cuda.device_of(job.words), room(codec.name, cells.device, needed, given) as memory:
        host.decode(job, cells, memory)


def launch_decode(codec: "TiledCodec", job: launch.Job, device: torch.device, given: torch.Tensor | None) -> Decoding:
    """Launch the decoding of a body of a known geometry; returns what to wait for."""
    stream, recorded = started(device)
    decoding = Decoding(codec.name, take_cells(device, 1), stream, recorded)
    run_decode(codec, job, decoding.cells, given)
    return decoding


def decode_async(
    codec: "TiledCodec", body: torch.Tensor, out: torch.Tensor, slack: bool, given: torch.Tensor | None
) -> Decoding:
    """Launch the decoding of a body that has the geometry of the codec's own options.

    Args:
        codec: The codec.
        body: Contiguous 1-D uint8 tensor, aligned.
        out: Contiguous 1-D tensor of the original dtype and element count; overwritten.
        slack: Whether other bytes may follow the body.
        given: Workspace; the one kept for the stream when None.

    Raises:
        InputError: A tensor has the wrong layout, device or alignment.
        CodecUnavailableError: The kernels cannot run on this device in this process.
    """
    check_decode(codec, body, out)
    check_aligned(f"{codec.name}: body", body)
    tiles = codec.geometry(out.numel(), out.dtype)
    return launch_decode(codec, job_of(tiles, out, body, body.numel(), slack), out.device, given)


def decode_status(codec: "TiledCodec", body: torch.Tensor, out: torch.Tensor, status: torch.Tensor) -> None:
    """Launch a decoding that reports to a tensor; see `TiledCodec.decode_status`."""
    check_decode(codec, body, out)
    check_aligned(f"{codec.name}: body", body)
    tiles = codec.geometry(out.numel(), out.dtype)
    run_decode(codec, job_of(tiles, out, body, body.numel(), True), status, None)


def decode_any(codec: "TiledCodec", body: torch.Tensor, out: torch.Tensor) -> None:
    """Decode a body of any geometry, and wait for it.

    The geometry of the codec's own options is tried first; the header is read only if it is another.

    Raises:
        InputError: A tensor has the wrong layout or device.
        CorruptFrameError: The body is corrupt.
    """
    check_decode(codec, body, out)
    layout = FLOAT_FORMATS[out.dtype]
    aligned = body if launch.is_aligned(body) else body.clone()
    tiles = codec.geometry(out.numel(), out.dtype)
    job = job_of(tiles, out, aligned, body.numel(), False)
    tile = launch_decode(codec, job, out.device, None).failures()[0]
    if tile == HEADER_ERROR.value:
        header = body[:HEADER_BYTES].cpu().numpy()
        tiles = read_header(header, body.numel(), layout, codec.remainder_bits(layout), out.numel())
        codec.check_geometry(tiles)
        job = job_of(tiles, out, aligned, body.numel(), False)
        tile = launch_decode(codec, job, out.device, None).failures()[0]
    if tile != NO_ERROR:
        raise CorruptFrameError(f"{codec.name}: tile {tile} is corrupt: its entry, or what it points to")


def workspace_bytes(codec: "TiledCodec", numel: int, dtype: torch.dtype) -> int:
    """Return the bytes of workspace that encoding and decoding need for `numel` elements of `dtype`."""
    tiles = codec.geometry(numel, dtype)
    host = codec.kernels_module()
    segments = launch.num_segments(tiles.num_tiles)
    encoding = host.encode_workspace_bytes(tiles, tiles.num_tiles, segments)
    return max(encoding, host.decode_workspace_bytes(tiles, tiles.num_tiles))
