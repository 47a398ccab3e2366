"""A polite kill unwinds the stack as an interrupt does, so that no temporary file is left."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def unwinding_on_sigterm() -> Iterator[None]:
    """Raise SystemExit on SIGTERM while the context is open; only the main thread can ask for that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        # None: a handler that was not set from Python and cannot be put back.
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(EXIT_TERMINATED)
