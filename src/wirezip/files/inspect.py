"""What a container holds, from its index and the headers of its frames; nothing is decoded."""

from dataclasses import dataclass
from pathlib import Path

from wirezip.errors import CorruptFrameError, FrameError, TruncatedFrameError
from wirezip.files.container import MAX_SEGMENT_BYTES, VERSION, Index, Stored, is_frame, read_index
from wirezip.files.source import Source, open_source
from wirezip.floats import dtype_name
from wirezip.frame import MAX_HEADER_BYTES, FrameHeader, unpack_header


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a container.

    Attributes:
        name: The tensor's name; empty in files that hold one tensor without a name.
        dtype: Dtype as the original file names it.
        shape: Shape as the original file gives it.
        codecs: Codecs of its frames, each once; empty for an empty tensor.
        num_frames: Number of its frames.
        original_bytes: Bytes of the tensor in the original file.
        encoded_bytes: Bytes of its frames.
        checksum: Whether every frame carries a checksum.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    codecs: tuple[str, ...]
    num_frames: int
    original_bytes: int
    encoded_bytes: int
    checksum: bool

    @property
    def ratio(self) -> float | None:
        """encoded_bytes / original_bytes; None for an empty tensor."""
        return self.encoded_bytes / self.original_bytes if self.original_bytes else None


@dataclass(frozen=True)
class FileInfo:
    """A container.

    Attributes:
        kind: Kind of the original file: `safetensors`, `npy` or `raw`; `frame` for a single frame.
        version: Version of the format.
        original_bytes: Bytes of the original file.
        encoded_bytes: Bytes of the container.
        header_bytes: Bytes of the original file's header, kept as they are.
        trailer_bytes: Bytes after the last tensor of the original file, kept as they are.
        tensors: The tensors, in the order of their bytes.
    """

    kind: str
    version: int
    original_bytes: int
    encoded_bytes: int
    header_bytes: int
    trailer_bytes: int
    tensors: tuple[TensorInfo, ...]

    @property
    def ratio(self) -> float | None:
        """encoded_bytes / original_bytes; None for an empty file."""
        return self.encoded_bytes / self.original_bytes if self.original_bytes else None


def inspect_file(path: str | Path) -> FileInfo:
    """Describe a container, or a single frame saved to a file, without decoding it.

    Args:
        path: The container or frame.

    Returns:
        What it holds; a single frame is of the kind `frame`, and the version is the frame's.

    Raises:
        FileError: The file cannot be read.
        FrameError: It is not a whole and sound container or frame.
    """
    with open_source(Path(path)) as source:
        if is_frame(source):
            return _describe_frame(source)
        return describe(source, read_index(source))


def describe(source: Source, index: Index) -> FileInfo:
    """Describe an open container.

    Args:
        source: The open container.
        index: Its index.

    Raises:
        FrameError: A frame's header is corrupt or contradicts the index.
    """
    offset = index.frames_offset
    tensors = []
    for stored in index.tensors:
        tensors.append(_describe_tensor(source, offset, stored))
        offset += sum(stored.frame_sizes)
    return FileInfo(
        kind=index.kind,
        version=VERSION,
        original_bytes=index.original_bytes,
        encoded_bytes=source.num_bytes,
        header_bytes=index.header.num_bytes,
        trailer_bytes=index.trailer.num_bytes,
        tensors=tuple(tensors),
    )


def frame_headers(source: Source, offset: int, stored: Stored) -> list[FrameHeader]:
    """Read the headers of a tensor's frames and check them against the index.

    Args:
        source: The open container.
        offset: Position of the tensor's first frame.
        stored: The tensor's entry in the index.

    Raises:
        FrameError: A header is corrupt, or contradicts the index or the format's limits.
    """
    headers = []
    for number, frame_bytes in enumerate(stored.frame_sizes):
        where = f"{source.path}: {stored}, frame {number}"
        try:
            header = unpack_header(source.read(offset, min(MAX_HEADER_BYTES, frame_bytes)))
        except FrameError as reason:
            raise type(reason)(f"{where}: {reason}") from reason
        if header.frame_bytes != frame_bytes:
            raise CorruptFrameError(f"{where}: declares {header.frame_bytes} bytes, the index {frame_bytes}")
        if header.original_bytes > MAX_SEGMENT_BYTES or header.body_bytes > header.original_bytes:
            raise CorruptFrameError(
                f"{where}: {header.body_bytes} bytes for {header.original_bytes} original ones; "
                f"a frame shrinks its data and holds at most {MAX_SEGMENT_BYTES}"
            )
        headers.append(header)
        offset += frame_bytes
    total = sum(header.original_bytes for header in headers)
    if total != stored.original_bytes:
        raise CorruptFrameError(f"{source.path}: {stored} has {stored.original_bytes} bytes, its frames hold {total}")
    return headers


def _describe_frame(source: Source) -> FileInfo:
    header = unpack_header(source.read(0, min(MAX_HEADER_BYTES, source.num_bytes)))
    if source.num_bytes < header.frame_bytes:
        raise TruncatedFrameError(f"{source.path}: declares {header.frame_bytes} bytes, has {source.num_bytes}")
    if source.num_bytes > header.frame_bytes:
        raise CorruptFrameError(f"{source.path}: declares {header.frame_bytes} bytes, has {source.num_bytes}")
    tensor = TensorInfo(
        name="",
        dtype=dtype_name(header.dtype),
        shape=header.shape,
        codecs=(header.codec,),
        num_frames=1,
        original_bytes=header.original_bytes,
        encoded_bytes=header.frame_bytes,
        checksum=header.checksum is not None,
    )
    return FileInfo("frame", header.version, header.original_bytes, header.frame_bytes, 0, 0, (tensor,))


def _describe_tensor(source: Source, offset: int, stored: Stored) -> TensorInfo:
    headers = frame_headers(source, offset, stored)
    return TensorInfo(
        name=stored.name,
        dtype=stored.dtype_label,
        shape=stored.shape,
        codecs=tuple(dict.fromkeys(header.codec for header in headers)),
        num_frames=len(headers),
        original_bytes=stored.original_bytes,
        encoded_bytes=sum(stored.frame_sizes),
        checksum=all(header.checksum is not None for header in headers),
    )
