"""Reading a regular file by position, with every failure told as one `FileError` that names the file.

Plain reads rather than a memory map: a file that shrinks or a disk that fails under a map kills the
process with a signal, where a read raises; and mapped pages count as resident memory all the same.
"""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from wirezip.errors import FileError

COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Source:
    """An open input file.

    Attributes:
        path: The file's path, for messages.
        num_bytes: Its size when it was opened.
        file: The unbuffered file object.
    """

    path: Path
    num_bytes: int
    file: io.FileIO

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return exactly `num_bytes` bytes from `offset` on.

        Raises:
            FileError: The file ends earlier, or cannot be read.
        """
        self._check_inside(offset, num_bytes)
        buffer = bytearray(num_bytes)
        self._fill(offset, memoryview(buffer))
        return bytes(buffer)

    def read_tensor(self, offset: int, num_bytes: int) -> torch.Tensor:
        """Return exactly `num_bytes` bytes from `offset` on as a new 1-D uint8 tensor.

        Raises:
            FileError: The file ends earlier, or cannot be read.
        """
        self._check_inside(offset, num_bytes)
        octets = torch.empty(num_bytes, dtype=torch.uint8)
        self._fill(offset, octets.numpy().data)
        return octets

    def chunks(self, offset: int, num_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of a range in pieces of at most `COPY_BYTES`."""
        for start in range(offset, offset + num_bytes, COPY_BYTES):
            yield self.read(start, min(COPY_BYTES, offset + num_bytes - start))

    # Checked before memory is taken, so that a size read from a damaged file costs nothing.
    def _check_inside(self, offset: int, num_bytes: int) -> None:
        if offset < 0 or num_bytes < 0 or offset + num_bytes > self.num_bytes:
            raise FileError(
                f"{self.path}: {num_bytes} bytes wanted at offset {offset}, but the file has {self.num_bytes} bytes"
            )

    def _fill(self, offset: int, target: memoryview) -> None:
        filled = 0
        try:
            self.file.seek(offset)
            while filled < len(target):
                step = self.file.readinto(target[filled:])
                if not step:
                    raise FileError(f"{self.path}: ended at byte {offset + filled} while it was being read")
                filled += step
        except FileError:
            raise
        except OSError as reason:
            raise FileError(f"cannot read {self.path}: {reason.strerror}") from reason


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a regular file for reading.

    Args:
        path: The file.

    Yields:
        The open file; closed on leaving.

    Raises:
        FileError: It does not exist, may not be read, or is no regular file.
    """
    try:
        # Looked at before it is opened: opening a named pipe would wait for a writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileError(f"cannot read {path}: not a regular file")
        file = io.FileIO(path, "r")
    except FileError:
        raise
    except (OSError, ValueError) as reason:
        raise FileError(f"cannot read {path}: {getattr(reason, 'strerror', None) or reason}") from reason
    with file:
        yield Source(path, os.fstat(file.fileno()).st_size, file)
