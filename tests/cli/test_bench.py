"""`wirezip bench` hands everything after it to the benchmark's own parser, untouched."""

import sys
from types import ModuleType

import pytest
import typer

from wirezip.cli import main
from wirezip.errors import CodecError


@pytest.fixture
def stand_in(monkeypatch):
    app = typer.Typer(no_args_is_help=True)
    seen = {}

    @app.command()
    def quick() -> None:
        raise CodecError("told\nby the benchmark")

    @app.command()
    def codec(
        low: str = typer.Option("1K", "-b"),
        steps: int = typer.Option(1, "-n"),
        as_json: bool = typer.Option(False, "--json"),
        code: int = 0,
    ) -> None:
        seen.update(low=low, steps=steps, as_json=as_json)
        raise typer.Exit(code)

    module = ModuleType("wirezip.bench.cli")
    module.app = app
    monkeypatch.setitem(sys.modules, "wirezip.bench", ModuleType("wirezip.bench"))
    monkeypatch.setitem(sys.modules, "wirezip.bench.cli", module)
    return seen


def test_options_arrive(stand_in):
    assert main(["bench", "codec", "-b", "8M", "-n5", "--json"]) == 0
    assert stand_in == {"low": "8M", "steps": 5, "as_json": True}


def test_exit_code_comes_back(stand_in):
    assert main(["bench", "codec", "--code", "3"]) == 3


def test_failures_are_told_as_everywhere(stand_in, capsys):
    assert main(["bench", "quick"]) == 1
    assert capsys.readouterr().err == "wirezip: error: told by the benchmark\n"
    assert main(["bench", "codec", "--nope"]) == 2
    assert capsys.readouterr().err.startswith("wirezip: error: No such option: --nope")


def test_help_is_the_benchmarks(stand_in, capsys):
    assert main(["bench", "--help"]) == 0
    assert "quick" in capsys.readouterr().out
    assert main(["bench", "codec", "--help"]) == 0
    assert "-b" in capsys.readouterr().out
    assert main(["bench"]) == 2
    shown = capsys.readouterr()
    assert "quick" in shown.out + shown.err
    assert "error" not in shown.err
