"""The terminal: tables as wide as they need, and progress that becomes plain lines in a file."""

import contextlib
import sys
import textwrap
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Room for any table, which are as wide as they need and meant to stay within `TEXT_WIDTH`; on a narrower
# terminal whole lines wrap, but no figure is cut.
_LEAST_WIDTH = 160
TEXT_WIDTH = 100


def console() -> Console:
    """Return the console that results are printed to."""
    if not sys.stdout.isatty():
        return Console(width=_LEAST_WIDTH, color_system=None, highlight=False, markup=False)
    return Console(width=max(_LEAST_WIDTH, Console().width), highlight=False, markup=False)


def print_text(text: str, style: str | None = None) -> None:
    """Print a sentence on lines of at most 100 columns.

    Args:
        text: The sentence; leading blanks are kept on all its lines.
        style: Style of rich's.
    """
    indent = " " * (len(text) - len(text.lstrip()))
    lines = textwrap.wrap(text, TEXT_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    for line in lines:
        console().print(line, style=style, soft_wrap=True)


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """Show progress on standard error: a bar on a terminal, lines elsewhere.

    Args:
        total: Steps there are; 0 when that is not known.

    Yields:
        A function to call with what comes next and how many steps are done.
    """
    output = Console(stderr=True)
    if not output.is_terminal:
        yield lambda what, done: print(f"[{done}/{total}] {what}" if total else what, file=sys.stderr, flush=True)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) if total else ()
    # Without a refresh thread: ranks are forked while this is shown, and a fork may copy a held lock.
    with Progress(
        TextColumn("{task.description}"), *columns, console=output, auto_refresh=False, transient=True
    ) as bar:
        task = bar.add_task("", total=total)

        def show(what: str, done: int) -> None:
            bar.update(task, description=what, completed=done)
            bar.refresh()

        yield show
