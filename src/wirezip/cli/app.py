"""The commands and their options. What they need is imported when they run, so that `--help` is quick."""

from typing import Annotated

import typer

from wirezip import settings
from wirezip.cli import bench, files, info
from wirezip.version import __version__

app = typer.Typer(
    name="wirezip",
    help="Compressed communication for PyTorch and MPI, and the benchmark that tells whether it pays.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (files.compress, files.decompress, files.inspect, info.codecs, info.doctor):
    app.command()(command)
app.command(context_settings=bench.CONTEXT_SETTINGS, add_help_option=False)(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wirezip {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere on the line.")
    ] = False,
) -> None:
    """Compressed communication for PyTorch and MPI, and the benchmark that tells whether it pays."""
    # doctor is what one runs to find out about a wrong setting, so it must start with one.
    if context.invoked_subcommand != "doctor":
        settings.read()
