"""A container back to the file it was made from, one frame in memory at a time."""

from pathlib import Path

import torch

from wirezip.codecs.framed import check_plausible, decode_into
from wirezip.errors import CorruptFrameError, FrameError
from wirezip.files.container import PREAMBLE_BYTES, Piece, Stored, read_index
from wirezip.files.inspect import FileInfo, describe, frame_headers
from wirezip.files.sink import Sink, check_distinct, check_target, copy_range, replacing
from wirezip.files.source import Source, open_source
from wirezip.frame import FrameHeader


def decompress_file(source_path: str | Path, target_path: str | Path, *, force: bool = False) -> FileInfo:
    """Restore the file a container was made from, bit for bit.

    1. Check index and frame headers, so that most damage is found before anything is written.
    2. Decode frame after frame, checking each against its checksum.
    3. Rename the result to its final name once all of it is on the disk.

    Args:
        source_path: A container.
        target_path: The file to write.
        force: Whether a target that exists may be replaced.

    Returns:
        What the container holds.

    Raises:
        FileError: A file cannot be read or written.
        FrameError: The source is not a whole and sound container.
        InputError: Both paths are the same file.
    """
    target = Path(target_path)
    with open_source(Path(source_path)) as source:
        check_distinct(source, target)
        check_target(target, force=force)
        index = read_index(source)
        info = describe(source, index)
        with replacing(target, source, force=force) as sink:
            _restore_piece(source, PREAMBLE_BYTES, index.header, "header", sink)
            offset = index.frames_offset
            for stored in index.tensors:
                _restore_tensor(source, offset, stored, sink)
                offset += sum(stored.frame_sizes)
            _restore_piece(source, index.trailer_offset, index.trailer, "trailer", sink)
    return info


def _restore_tensor(source: Source, offset: int, stored: Stored, sink: Sink) -> None:
    for number, header in enumerate(frame_headers(source, offset, stored)):
        try:
            sink.write(_decode(source, offset, header))
        except FrameError as reason:
            where = f"{source.path}: {stored}, frame {number}"
            raise type(reason)(f"{where}: {reason}") from reason
        offset += header.frame_bytes


def _decode(source: Source, offset: int, header: FrameHeader) -> torch.Tensor:
    check_plausible(header)
    body = source.read_tensor(offset + header.header_bytes, header.body_bytes)
    values = torch.empty(header.numel, dtype=header.dtype)
    decode_into(header, body, values)
    return values


def _restore_piece(source: Source, offset: int, piece: Piece, part: str, sink: Sink) -> None:
    found = copy_range(source, offset, piece.num_bytes, sink)
    if found != piece.crc32:
        raise CorruptFrameError(f"{source.path}: the original file's {part} does not match its check")
