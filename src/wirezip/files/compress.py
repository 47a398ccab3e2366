"""A file to a container, one segment of one tensor in memory at a time."""

import functools
from collections.abc import Callable
from pathlib import Path

import torch

from wirezip.codecs import Codec, get
from wirezip.codecs.framed import encode_frame, resolve_codec
from wirezip.errors import InputError
from wirezip.files.container import SEGMENT_BYTES, Index, Piece, Stored, preamble
from wirezip.files.inspect import FileInfo, inspect_file
from wirezip.files.kinds import read_layout
from wirezip.files.layout import Layout, Span
from wirezip.files.sink import Sink, check_distinct, check_target, copy_range, replacing
from wirezip.files.source import Source, open_source

Encode = Callable[[torch.Tensor], torch.Tensor]


def compress_file(
    source_path: str | Path,
    target_path: str | Path,
    *,
    codec: str | Codec = "auto",
    dtype: torch.dtype | None = None,
    checksum: bool = True,
    force: bool = False,
) -> FileInfo:
    """Compress a file so that `decompress_file` restores it bit for bit.

    1. Read the layout of the file from its header.
    2. Encode each tensor, cut into segments of at most 8 MiB, each as one frame.
    3. Rename the result to its final name once all of it is on the disk.

    Args:
        source_path: A safetensors or npy file, by its extension, or raw binary.
        target_path: The container to write.
        codec: A codec name, `auto`, or a codec object. Tensors of a dtype the codec does not take
            are stored by `raw`.
        dtype: Dtype of a raw file; None for the others.
        checksum: Whether each frame carries a checksum of the original bytes.
        force: Whether a target that exists may be replaced.

    Returns:
        What the container holds.

    Raises:
        FileError: A file cannot be read, written or understood.
        InputError: The dtype is missing or not wanted, the codec is lossy, or both paths are the
            same file.
        UnknownCodecError: No codec has that name.
        CodecUnavailableError: A library the codec needs is missing.
    """
    encode = functools.partial(_encode, codec=_lossless(codec), checksum=checksum)
    target = Path(target_path)
    with open_source(Path(source_path)) as source:
        check_distinct(source, target)
        check_target(target, force=force)
        layout = read_layout(source, dtype)
        with replacing(target, source, force=force) as sink:
            _write_container(source, layout, sink, encode)
    return inspect_file(target)


def _lossless(codec: str | Codec) -> str | Codec:
    # Looked up before any file is opened; what `auto` means depends on each tensor.
    chosen = codec if isinstance(codec, Codec) or codec == "auto" else get(codec)
    if isinstance(chosen, Codec) and not chosen.lossless:
        raise InputError(f"codec {chosen.name} is lossy; files are compressed bit for bit")
    return chosen


def _write_container(source: Source, layout: Layout, sink: Sink, encode: Encode) -> None:
    sink.write(preamble())
    offset = layout.header_bytes
    header = Piece(offset, copy_range(source, 0, offset, sink))
    tensors = []
    for span in layout.spans:
        tensors.append(_write_frames(source, offset, span, sink, encode))
        offset += span.num_bytes
    trailer = Piece(layout.trailer_bytes, copy_range(source, offset, layout.trailer_bytes, sink))
    sink.write(Index(layout.kind, header, tuple(tensors), trailer).pack())


def _write_frames(source: Source, offset: int, span: Span, sink: Sink, encode: Encode) -> Stored:
    sizes = []
    for start in range(offset, offset + span.num_bytes, SEGMENT_BYTES):
        num_bytes = min(SEGMENT_BYTES, offset + span.num_bytes - start)
        # The buffers have no name here, so that they are gone before the next ones are taken.
        sizes.append(sink.write(encode(source.read_tensor(start, num_bytes).view(span.carrier))))
    return Stored(span.name, span.dtype_label, span.shape, span.num_bytes, tuple(sizes))


def _encode(values: torch.Tensor, codec: str | Codec, *, checksum: bool) -> torch.Tensor:
    taker = resolve_codec(codec, values.dtype)
    return encode_frame(values, taker if taker.supports(values.dtype) else get("raw"), checksum=checksum)
