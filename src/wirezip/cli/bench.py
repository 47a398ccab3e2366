"""`wirezip bench`: hands its arguments to the benchmark's own commands, imported only then."""

import typer

# Everything, --help included, belongs to the benchmark's parser.
CONTEXT_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


def bench(context: typer.Context) -> None:
    """Measure codecs, transfers and collectives on this machine."""
    from wirezip.bench.cli import app

    code = typer.main.get_command(app).main(context.args, prog_name="wirezip bench", standalone_mode=False)
    raise typer.Exit(code if isinstance(code, int) else 0)
