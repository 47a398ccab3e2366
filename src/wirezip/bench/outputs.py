"""Where results go: JSON and CSV files, or standard output under the name `-`."""

import sys
import time
from pathlib import Path

from wirezip.errors import FileError


def write_text(target: str, text: str) -> None:
    """Write to a file, or to standard output when `target` is `-`.

    Args:
        target: Path, or `-`.
        text: What to write.

    Raises:
        FileError: The file cannot be written.
    """
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as reason:
        raise FileError(f"cannot write {target}: {reason.strerror or reason}") from reason


def check_target(target: str) -> None:
    """Refuse a target that `write_text` could not write, before anything is measured.

    Args:
        target: Path, or `-`.

    Raises:
        FileError: The file cannot be written.
    """
    path = Path(target)
    # To open a pipe and close it would end it for its reader.
    if target == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return
    existed = path.exists()
    try:
        path.open("a").close()
        if not existed:
            path.unlink()
    except OSError as reason:
        raise FileError(f"cannot write {target}: {reason.strerror or reason}") from reason


def results_folder(parent: Path) -> Path:
    """Make a new folder named by the local time and return it.

    Args:
        parent: Folder to make it in; made as well where it is missing.

    Raises:
        FileError: The folder cannot be made.
    """
    stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
    number = 1
    while True:
        folder = parent / (stamp if number == 1 else f"{stamp}_{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError as reason:
            if not folder.is_dir():
                raise FileError(f"cannot make {folder}: {parent} is a file") from reason
            number += 1
        except OSError as reason:
            raise FileError(f"cannot make {folder}: {reason.strerror or reason}") from reason
        else:
            return folder
