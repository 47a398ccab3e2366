"""`wirezip codecs` and `wirezip doctor`."""

import dataclasses
import json
import textwrap
from typing import Annotated

import typer

from wirezip.cli.table import bytes_text, printable, table

# What keeps the table within 100 columns.
_OPTIONS_WIDTH = 34

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def codecs(*, as_json: Json = False) -> None:
    """List the codecs: what is available here, and why not, for the rest."""
    from wirezip.doctor import list_codecs

    entries = list_codecs()
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(entry) for entry in entries], indent=2))
        return
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        if entry.available:
            options = " ".join(f"{name}={value}" for name, value in entry.options.items()) or "-"
            first, *more = textwrap.wrap(options, _OPTIONS_WIDTH, break_long_words=False, break_on_hyphens=False)
            lossless = "yes" if entry.lossless else "no"
            implementations = " ".join(entry.implementations) or "-"
            rows.append((entry.name, lossless, _dtypes_text(entry.dtypes), implementations, first))
            rows += [("", "", "", "", line) for line in more]
    typer.echo(table(("codec", "lossless", "dtypes", "implementations", "options"), rows))
    typer.echo("\n--json lists the types.")
    missing = [entry for entry in entries if not entry.available]
    if missing:
        typer.echo("\nnot available here:")
        for entry in missing:
            typer.echo(f"  {entry.name}: {printable(entry.reason or '')}")


def doctor(*, as_json: Json = False) -> None:
    """Show machine, devices, versions and settings, what will be used, and what is wrong."""
    from wirezip.doctor import examine

    report = examine()
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(report), indent=2, default=str))
    else:
        for title, facts in report.sections.items():
            typer.echo(f"{title}{'' if facts else ': none'}")
            for name, value in facts.items():
                typer.echo(f"  {name:<24} {_value_text(name, value)}")
        for problem in report.problems:
            typer.echo(f"\nproblem: {printable(problem.what)}\n remedy: {printable(problem.remedy)}")
        typer.echo("" if report.problems else "\nno problems found")
    if report.problems:
        raise typer.Exit(1)


def _value_text(name: str, value: object) -> str:
    return bytes_text(value) if name.endswith("_bytes") and isinstance(value, int) else printable(str(value))


def _dtypes_text(dtypes: tuple[str, ...]) -> str:
    from wirezip.floats import FLOAT_FORMATS, dtype_name

    # Names would take more room than the table has; --json lists them.
    kind = "float types" if set(dtypes) <= set(map(dtype_name, FLOAT_FORMATS)) else "types"
    return f"{len(dtypes)} {kind}"
