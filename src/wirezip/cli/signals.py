"""A polite kill or a closed terminal unwinds the stack as an interrupt does, so that no temporary file is left."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# SIGHUP: the terminal was closed, or the connection to it lost.
_SIGNALS = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Raise SystemExit on these signals while the context is open; only the main thread can ask for that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal that is ignored, as under nohup, stays ignored.
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in taken:
            # None: a handler that was not set from Python and cannot be put back.
            signal.signal(number, before[number] if before[number] is not None else signal.SIG_DFL)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
