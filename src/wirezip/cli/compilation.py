"""Says so when a codec is compiled, which happens once for every dtype on a machine and takes a while."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NOTICE = "wirezip: compiling a codec, once for each dtype on this machine; this can take half a minute"


@contextmanager
def announced_compilation() -> Iterator[None]:
    """Print one line on stderr if Numba has to compile inside the block."""
    from numba.core import event

    class _FirstCompilation(event.Listener):
        announced = False

        def on_start(self, event: object) -> None:
            if not self.announced:
                self.announced = True
                print(_NOTICE, file=sys.stderr, flush=True)

        def on_end(self, event: object) -> None:
            pass

    listener = _FirstCompilation()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
