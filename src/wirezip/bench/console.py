"""The terminal: tables as wide as they need, and progress that becomes plain lines in a file."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Plain output is as wide as the tables, whatever rich guesses of a pipe.
_PLAIN_WIDTH = 110


def console() -> Console:
    """Return the console that results are printed to."""
    return Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH, color_system=None)


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """Show progress on standard error: a bar on a terminal, lines elsewhere.

    Args:
        total: Steps there are.

    Yields:
        A function to call with what comes next and how many steps are done.
    """
    output = Console(stderr=True)
    if not output.is_terminal:
        yield lambda what, done: print(f"[{done}/{total}] {what}", file=sys.stderr, flush=True)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Without a refresh thread: ranks are forked while this is shown, and a fork may copy a held lock.
    with Progress(*columns, console=output, auto_refresh=False, transient=True) as bar:
        task = bar.add_task("", total=total)

        def show(what: str, done: int) -> None:
            bar.update(task, description=what, completed=done)
            bar.refresh()

        yield show
