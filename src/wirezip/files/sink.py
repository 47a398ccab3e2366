"""Writing a file so that its final name holds either the whole result or what it held before."""

import contextlib
import io
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from wirezip.errors import FileError, InputError
from wirezip.files.source import Source


@dataclass(frozen=True)
class Sink:
    """An output file in the making.

    Attributes:
        path: The final path, for messages.
        file: The unbuffered temporary file.
    """

    path: Path
    file: io.FileIO

    def write(self, data: bytes | torch.Tensor) -> int:
        """Append bytes, or the bytes of a contiguous 1-D CPU tensor.

        Returns:
            The number of bytes.

        Raises:
            FileError: They cannot be written.
        """
        view = data.view(torch.uint8).numpy().data if isinstance(data, torch.Tensor) else memoryview(data)
        written = 0
        try:
            while written < len(view):
                written += self.file.write(view[written:])
        except OSError as reason:
            raise _cannot_write(self.path, reason) from reason
        return written


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a path that may not be written to.

    Args:
        path: The final path.
        force: Whether a file that exists may be replaced.

    Raises:
        FileError: The path exists and `force` is off, or it is no regular file.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as reason:
        raise _cannot_write(path, reason) from reason
    if not stat.S_ISREG(mode):
        raise FileError(f"cannot write {path}: it exists and is not a regular file")
    if not force:
        raise FileError(f"cannot write {path}: it exists; force=True replaces it")


def check_distinct(source: Source, path: Path) -> None:
    """Refuse to write to the file that is being read, under whatever name.

    Args:
        source: The open input file.
        path: The final path of the output.

    Raises:
        InputError: Both are the same file.
    """
    try:
        same = os.path.samestat(os.fstat(source.file.fileno()), os.stat(path))
    except (OSError, ValueError):
        # What is wrong with the output path is for check_target to say.
        return
    if same:
        raise InputError(f"input and output are the same file: {source.path}")


def copy_range(source: Source, offset: int, num_bytes: int, sink: Sink) -> int:
    """Copy a range of the input as it is.

    Args:
        source: The open input file.
        offset: Where the range begins.
        num_bytes: Its bytes.
        sink: The output.

    Returns:
        The CRC-32 of the range.
    """
    total = 0
    for piece in source.chunks(offset, num_bytes):
        total = zlib.crc32(piece, total)
        sink.write(piece)
    return total


@contextmanager
def replacing(path: Path, source: Source, *, force: bool) -> Iterator[Sink]:
    """Write a file under a temporary name in the same directory and rename it once it is whole.

    On any failure, an interrupt included, the temporary file is removed and the final name is left
    as it was. A symbolic link keeps pointing where it did: its target is replaced. The file has the
    permissions of the one it replaces, or else at most those of the input.

    Args:
        path: The final path.
        source: The open input file.
        force: Whether a file that exists may be replaced.

    Yields:
        The output.

    Raises:
        FileError: The file cannot be created, written or renamed, or it exists and `force` is off.
    """
    check_target(path, force=force)
    final = Path(os.path.realpath(path))
    # The name itself may be as long as the file system allows, so it is not part of the temporary one.
    temporary = final.with_name(f".wirezip-{secrets.token_hex(8)}.partial")
    try:
        file = io.FileIO(temporary, "x")
    except OSError as reason:
        raise _cannot_write(path, reason) from reason
    try:
        with file:
            _keep_mode(path, file, final, source)
            yield Sink(path, file)
            _finish(path, file)
        check_target(path, force=force)
        _rename(path, temporary, final)
    except BaseException:
        # The failure that brought us here is the one to tell, not a second one on the way out.
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _keep_mode(path: Path, file: io.FileIO, final: Path, source: Source) -> None:
    try:
        if final.exists():
            mode = os.stat(final).st_mode
        else:
            # A private input does not get a public output; the umask has had its say already.
            mode = os.fstat(file.fileno()).st_mode & os.fstat(source.file.fileno()).st_mode
        os.fchmod(file.fileno(), stat.S_IMODE(mode))
    except OSError as reason:
        raise _cannot_write(path, reason) from reason


def _finish(path: Path, file: io.FileIO) -> None:
    try:
        os.fsync(file.fileno())
    except OSError as reason:
        raise _cannot_write(path, reason) from reason


def _rename(path: Path, temporary: Path, final: Path) -> None:
    try:
        os.replace(temporary, final)
    except OSError as reason:
        raise _cannot_write(path, reason) from reason


def _cannot_write(path: Path, reason: Exception) -> FileError:
    return FileError(f"cannot write {path}: {getattr(reason, 'strerror', None) or reason}")
