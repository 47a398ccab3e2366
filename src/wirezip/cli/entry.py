"""Where the command line starts, and where every failure becomes one line and an exit code."""

import os
import signal
import sys
from collections.abc import Sequence

import typer

from wirezip.cli.app import app
from wirezip.cli.table import printable
from wirezip.errors import WirezipError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

# The root of the parser's own exceptions, by way of the one that typer exports: releases differ in
# whether they carry their own copy of click.
_PARSER_FAILURE: type[Exception] = typer.BadParameter.__mro__[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The arguments; those of the process when None.

    Returns:
        The exit code: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted.

    Raises:
        Exception: Whatever went wrong, when `--debug` is among the arguments.
    """
    debug, rest = _take_debug(list(sys.argv[1:] if arguments is None else arguments))
    _prepare_streams()
    try:
        code = typer.main.get_command(app).main(rest, prog_name="wirezip", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        _discard_stdout()
        return EXIT_FAILURE
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as failure:
        if debug:
            raise
        return _report(failure)


def _report(failure: Exception) -> int:
    if isinstance(failure, _PARSER_FAILURE):
        text: str = failure.format_message()  # type: ignore[attr-defined]
        context = getattr(failure, "ctx", None)
        command = context.command_path if context else "wirezip"
        # A group called without a command has its help as the failure's text, or nothing when it has
        # already shown it.
        if not text or text.startswith("Usage:"):
            print(text, file=sys.stderr)
        else:
            _print_error(f"{text.rstrip('.')} (see {command} --help)")
        return EXIT_USAGE
    if isinstance(failure, WirezipError | OSError):
        _print_error(str(failure))
    else:
        _print_error(f"unexpected {type(failure).__name__}: {failure} (--debug shows where)")
    return EXIT_FAILURE


def _print_error(text: str) -> None:
    # One line, whatever a file name or a library's message holds.
    print(f"wirezip: error: {printable(' '.join(text.split()))}", file=sys.stderr)


def _take_debug(arguments: list[str]) -> tuple[bool, list[str]]:
    # Taken out here because it is accepted before and after the command; what follows `--` belongs
    # to another program.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [argument for argument in arguments[:end] if argument != "--debug"]
    return len(own) < end, own + arguments[end:]


def _prepare_streams() -> None:
    # Tensor and file names may hold characters that the terminal's encoding lacks.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    # Otherwise the interpreter flushes into the closed pipe once more as it exits, and complains.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
