"""What an encoding or decoding gives back while the device still works on it."""

import threading
from dataclasses import dataclass, field

import torch

from wirezip.codecs.tiles import workspace
from wirezip.codecs.tiles.kernels_place import HEADER_ERROR, SECTION_WORD
from wirezip.codecs.tiles.layout import TileLayout
from wirezip.errors import CorruptFrameError

NO_ERROR = 2**63 - 1
CELLS = 1024

_cells: dict[torch.device, list[torch.Tensor]] = {}
_guard = threading.Lock()


def take_cells(device: torch.device, count: int) -> torch.Tensor:
    """Return int64 cells that hold `NO_ERROR`; kernels write to them only if something is corrupt.

    Args:
        device: Device of the kernels.
        count: How many.
    """
    if count != 1:
        return torch.full((count,), NO_ERROR, dtype=torch.int64, device=device)
    with _guard:
        free = _cells.setdefault(device, [])
        if not free:
            free.extend(torch.full((CELLS,), NO_ERROR, dtype=torch.int64, device=device).split(1))
            if device.type == "cuda":
                # Other streams take cells too, and would not wait for them to be filled.
                torch.cuda.current_stream(device).synchronize()
        return free.pop()


def give_back(cells: torch.Tensor) -> None:
    """Take back a cell that holds `NO_ERROR`."""
    if cells.numel() == 1:
        with _guard:
            _cells.setdefault(cells.device, []).append(cells)


def current_stream(device: torch.device) -> torch.cuda.Stream | None:
    """Return the current stream of a device, None on a CPU."""
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


@dataclass
class Encoding:
    """A body that is being made; nothing has waited for the device.

    Attributes:
        buffer: uint8, worst-case size; the body is at its start, once the device has made it.
        tiles: Geometry of the body.
    """

    buffer: torch.Tensor
    tiles: TileLayout
    _stream: torch.cuda.Stream | None = None
    _host: torch.Tensor | None = None
    _event: torch.cuda.Event | None = None

    def section_bytes(self) -> torch.Tensor:
        """Return the bytes of the body less `tiles.section_offset`, as int64 on the device, in the body itself."""
        start = 8 * SECTION_WORD.value
        return self.buffer[start : start + 8].view(torch.int64)

    def request(self) -> None:
        """Copy the body's size to the host, in order on the stream, without waiting."""
        if self._host is None:
            pinned = self.buffer.device.type == "cuda"
            self._host = torch.empty(1, dtype=torch.int64, pin_memory=pinned)
            with torch.cuda.stream(self._stream):
                self._host.copy_(self.section_bytes(), non_blocking=True)
                if self._stream is not None:
                    self._event = self._stream.record_event()

    def num_bytes(self) -> int:
        """Return the bytes of the body; waits for the device."""
        self.request()
        if self._event is not None:
            self._event.synchronize()
        assert self._host is not None
        return self.tiles.section_offset + int(self._host)

    def wait(self) -> torch.Tensor:
        """Return the body, a view of the buffer; waits for the device."""
        return self.buffer[: self.num_bytes()]


@dataclass
class Decoding:
    """A tensor, or a batch of them, that is being filled; nothing has waited for the device.

    Attributes:
        name: The codec's name.
        cells: int64 for each tensor, `NO_ERROR`, `HEADER_ERROR` or the lowest number of a corrupt tile.
    """

    name: str
    cells: torch.Tensor
    _stream: torch.cuda.Stream | None = None
    _recorded: bool = False
    _kept: list[torch.Tensor] = field(default_factory=list)
    _done: bool = False

    def failures(self) -> list[int]:
        """Return what the cells hold, and reset them; waits for the device."""
        with torch.cuda.stream(self._stream):
            found: list[int] = self.cells.tolist()
            if any(cell != NO_ERROR for cell in found):
                self.cells.fill_(NO_ERROR)
            elif not self._recorded and not self._done:
                self._done = True
                give_back(self.cells)
        self._kept.clear()
        return found

    def wait(self) -> None:
        """Wait for the device.

        Raises:
            CorruptFrameError: A header or tile cannot be decoded; the first tensor and tile are named.
        """
        if self._done:
            return
        for number, tile in enumerate(self.failures()):
            if tile != NO_ERROR:
                which = f"tensor {number}: " if self.cells.numel() > 1 else ""
                what = "its header is not what" if tile == HEADER_ERROR.value else f"tile {tile} is not what"
                raise CorruptFrameError(f"{self.name}: {which}the body is corrupt: {what} the geometry asks for")


def started(device: torch.device) -> tuple[torch.cuda.Stream | None, bool]:
    """Return the current stream of a device, and whether it records a CUDA graph."""
    return current_stream(device), workspace.is_capturing(device)
