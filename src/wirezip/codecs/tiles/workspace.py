"""Memory that the kernels need beside input and output, kept for each device and stream.

A workspace is reused by every later call on the same stream, where calls follow one another anyway;
it grows to the largest asked for, up to `settings.workspace_bytes`. A call that needs more, or that is
recorded into a CUDA graph, gets memory of its own.
"""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from wirezip import settings


@dataclass
class _Entry:
    """The workspace of one stream; the lock is held from the first launch that uses it to the last."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    memory: torch.Tensor | None = None


_entries: dict[tuple[torch.device, int], _Entry] = {}
_guard = threading.Lock()


def stream_of(device: torch.device) -> int:
    """Return the handle of the current stream of a device; 0 on a CPU."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def is_capturing(device: torch.device) -> bool:
    """Return whether the current stream of a device records a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@contextlib.contextmanager
def borrowed(device: torch.device, num_bytes: int) -> Iterator[torch.Tensor]:
    """Lend a workspace for the launches of one call on the current stream.

    Args:
        device: Device of the tensors.
        num_bytes: Bytes needed.

    Yields:
        A uint8 tensor of at least `num_bytes` bytes on `device`, its contents undefined.
    """
    if is_capturing(device) or num_bytes > settings.read().workspace_bytes:
        yield torch.empty(num_bytes, dtype=torch.uint8, device=device)
        return
    with _guard:
        entry = _entries.setdefault((device, stream_of(device)), _Entry())
    with entry.lock:
        if entry.memory is None or entry.memory.numel() < num_bytes:
            # Twice what is asked for, so that a slowly growing series does not allocate each time.
            entry.memory = torch.empty(2 * num_bytes, dtype=torch.uint8, device=device)
        yield entry.memory


def held() -> dict[tuple[torch.device, int], int]:
    """Return the bytes of the workspaces kept, by device and stream."""
    with _guard:
        return {key: entry.memory.numel() for key, entry in _entries.items() if entry.memory is not None}


def release() -> None:
    """Free all workspaces; later calls take new ones."""
    with _guard:
        _entries.clear()
