"""The main job end to end, tiny, and the commands around it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from wirezip.bench import codec_bench, quick, runner
from wirezip.bench.cli import app
from wirezip.bench.outputs import check_target, results_folder
from wirezip.errors import CodecError, FileError, InputError

TINY = ["--codec", "raw,zstd", "--bytes", "16K", "-n", "6", "-w", "1"]


def invoke(*words):
    return CliRunner().invoke(app, words)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    parent = tmp_path_factory.mktemp("quick")
    outcome = invoke("quick", *TINY, "--out", str(parent / "results"))
    assert outcome.exit_code == 0, outcome.output
    (folder,) = (parent / "results").iterdir()
    return outcome.output, folder


def test_quick_writes_its_three_files(quick_run):
    _, folder = quick_run
    assert sorted(file.name for file in folder.iterdir()) == ["bandwidth.png", "environment.json", "rows.json"]
    assert (folder / "bandwidth.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    environment = json.loads((folder / "environment.json").read_text())
    assert {"wirezip", "python", "packages", "cpu", "cores_logical", "load_average", "settings", "plan"} <= set(
        environment
    )


def test_quick_measures_every_case_over_both_links(quick_run):
    rows = json.loads((quick_run[1] / "rows.json").read_text())
    cases = {(op, name) for op, data, _ in quick.CASES for name in data}
    for emulated, codecs in ((False, ["none", "raw", "zstd"]), (True, ["raw", "zstd"])):
        for op, data in cases:
            found = [
                row["codec"]
                for row in rows
                if (row["op"], row["data"], row["link"]["emulated"]) == (op, data, emulated)
            ]
            assert found == codecs
    assert all(row["verified"] and (row["error"]["exact"] or row["codec"] == "none") for row in rows)


def test_quick_prints_plain_tables_and_a_summary(quick_run):
    output, folder = quick_run
    assert "\x1b[" not in output
    assert "Bare loopback, 2 ranks over gloo" in output
    assert "Emulated 1 Gbit/s link (paced in software)" in output
    assert "On the bare loopback" in output
    assert "On the emulated 1 Gbit/s link" in output
    assert folder.name in output
    assert "…" not in output
    table = [line for line in output.splitlines() if line.startswith((" op", " p2p", " all_"))]
    assert len(table) == 2 * (1 + 6)
    assert max(len(line.rstrip()) for line in output.splitlines() if folder.name not in line) <= 100


@pytest.mark.parametrize("op", ["p2p", "all_gather", "all_reduce"])
def test_json_and_csv_of_the_operations(op, tmp_path):
    csv = tmp_path / "rows.csv"
    words = [op, "-b", "4K", "-e", "8K", "-f", "2", "-n", "2", "-w", "0", "-c", "1", "--codec", "zstd"]
    outcome = invoke(*words, "--json", "-", "--csv", str(csv))
    assert outcome.exit_code == 0, outcome.output
    rows = json.loads(outcome.stdout)
    assert [row["codec"] for row in rows] == ["none", "raw", "zstd"] * 2
    assert {row["op"] for row in rows} == {op}
    # Two samples support no interval and no percentile.
    assert rows[0]["time_us"]["ci95"] is None
    assert rows[0]["time_us"]["p95"] is None
    assert len(csv.read_text().splitlines()) == 7


def test_json_of_codec(tmp_path):
    target = tmp_path / "rows.json"
    outcome = invoke("codec", "--bytes", "8K", "-n", "6", "--codec", "zstd", "--json", str(target))
    assert outcome.exit_code == 0, outcome.output
    assert [(row["codec"], row["op"]) for row in json.loads(target.read_text())][2:] == [
        ("zstd", "encode"),
        ("zstd", "decode"),
    ]
    assert "zstd" in outcome.output


def test_four_ranks_and_two_for_p2p(tmp_path):
    folder = quick.run(quick.Plan(["raw"], ["loopback"], 3, "4K", 2, 1, 1.0, tmp_path))
    rows = json.loads((folder / "rows.json").read_text())
    assert {(row["op"], row["world_size"]) for row in rows} == {("p2p", 2), ("all_gather", 3), ("all_reduce", 3)}


def test_errors_reach_the_caller_as_ours():
    outcome = invoke("p2p", "--data", "nothing")
    assert isinstance(outcome.exception, InputError)
    assert isinstance(invoke("p2p", "--device", "cuda").exception, InputError)
    assert isinstance(invoke("codec", "--bytes", "1M", "-b", "1M").exception, InputError)
    assert isinstance(invoke("codec", "--codec", "nope").exception, CodecError)
    assert isinstance(invoke("codec", "-n", "0").exception, InputError)


def test_command_prints_one_line_and_fails():
    command = [sys.executable, "-m", "wirezip", "bench", "quick", "--link", "carrier-pigeon"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr == (
        "wirezip: error: unknown link 'carrier-pigeon'; "
        "known: loopback, emulated:RATE with a rate such as 1Gbit or 250Mbit\n"
    )


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(FileError, match="cannot make"):
        quick.run(quick.Plan(["raw"], ["loopback"], 2, "4K", 2, 1, 1.0, blocked))


@pytest.mark.parametrize("words", [["p2p"], ["codec"]])
def test_targets_are_checked_before_measuring(words, tmp_path, monkeypatch):
    def measured(*_, **__):
        raise AssertionError("measured first")

    monkeypatch.setattr(runner, "run", measured)
    monkeypatch.setattr(codec_bench, "run", measured)
    for target in (tmp_path / "none" / "rows", tmp_path):
        for option in ("--json", "--csv"):
            error = invoke(*words, option, str(target)).exception
            assert isinstance(error, FileError)
            assert str(target) in str(error)
    for target in ("-", str(tmp_path / "rows")):
        outcome = invoke(*words, "--json", target, "--csv", target)
        assert outcome.exit_code == 2
        assert "cannot both go to" in outcome.output


def test_checking_a_target_leaves_it_as_it_was(tmp_path):
    check_target(str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").write_text("kept")
    check_target(str(tmp_path / "old"))
    assert (tmp_path / "old").read_text() == "kept"


@pytest.mark.parametrize("command", ["quick", "codec", "p2p", "all_gather", "all_reduce"])
def test_short_help_lists_what_fits_the_command(command):
    outcome = invoke(command, "-h")
    assert outcome.exit_code == 0
    assert outcome.output == invoke(command, "--help").output
    assert ("--strategy" in outcome.output) == (command == "p2p")
    assert ("--algorithm" in outcome.output) == command.startswith("all_")


def test_results_of_one_second_do_not_overwrite_each_other(tmp_path):
    assert len({results_folder(tmp_path) for _ in range(3)}) == 3


def test_help_starts_no_torch():
    code = "import sys; from wirezip.bench import cli; print('matplotlib' in sys.modules, 'numba' in sys.modules)"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == ["False", "False"]
