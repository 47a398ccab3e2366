"""Commands in this process: what they print and the code they return."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from wirezip import codecs
from wirezip.cli import main
from wirezip.doctor import list_codecs


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model(tmp_path):
    save_file({"w": torch.zeros(1000, dtype=torch.bfloat16), "i": torch.arange(5)}, tmp_path / "m.safetensors")
    return "m.safetensors"


def failure(capsys, code, *arguments):
    """Run a command that fails and return its one line on stderr."""
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("wirezip: error: ")
    assert err.count("\n") == 1
    return err


def test_files_round_trip(tmp_path, model, capsys):
    assert main(["compress", model, "m.wz", "--codec", "zstd"]) == 0
    assert "2 tensors" in capsys.readouterr().out
    assert main(["inspect", "m.wz"]) == 0
    listing = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in listing[-2:]] == [["i", "I64", "5", "zstd"], ["w", "BF16", "1000", "zstd"]]
    assert main(["decompress", "m.wz", "back.safetensors"]) == 0
    assert (tmp_path / "back.safetensors").read_bytes() == (tmp_path / model).read_bytes()


def test_raw_with_dtype(tmp_path, capsys):
    (tmp_path / "dump").write_bytes(bytes(1001))
    assert main(["compress", "dump", "d.wz", "--dtype", "BF16", "--codec", "pcodec", "--no-checksum", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["trailer_bytes"], told["tensors"][0]["dtype"]) == ("raw", 1, "bfloat16")
    assert told["tensors"][0]["codecs"] == ["pcodec"]
    assert not told["tensors"][0]["checksum"]
    assert main(["inspect", "d.wz", "--json"]) == 0
    inspected = json.loads(capsys.readouterr().out)
    assert inspected == {key: told[key] for key in inspected}
    assert main(["decompress", "d.wz", "back", "--json"]) == 0
    assert (tmp_path / "back").read_bytes() == bytes(1001)


def test_empty_tensor_has_no_ratio(tmp_path, capsys):
    np.save(tmp_path / "e.npy", np.empty(0, np.float32))
    assert main(["compress", "e.npy", "e.wz", "--codec", "raw", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tensors"][0]["ratio"] is None


def test_names_cannot_drive_the_terminal(tmp_path, capsys):
    save_file({"\x1b[31mred\n": torch.zeros(3)}, tmp_path / "m.safetensors")
    main(["compress", "m.safetensors", "m.wz", "--codec", "raw"])
    assert main(["inspect", "m.wz"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[31mred\\n" in out


def test_failures_are_one_line(tmp_path, model, capsys):
    assert "known: raw, " in failure(capsys, 1, "compress", model, "o", "--codec", "nope")
    assert "none.npy: No such file" in failure(capsys, 1, "compress", "none.npy", "o")
    assert "unknown dtype 'f12'" in failure(capsys, 1, "compress", model, "o", "--dtype", "f12")
    assert "not a wirezip container" in failure(capsys, 1, "decompress", model, "o")
    assert "not a wirezip container" in failure(capsys, 1, "inspect", model)
    (tmp_path / "o").write_bytes(b"")
    for command in ("compress", "decompress"):
        assert failure(capsys, 1, command, model, "o").endswith("o: it exists; --force replaces it\n")
    assert "same file" in failure(capsys, 1, "compress", model, model, "--force", "--codec", "raw")


def test_output_cannot_be_standard_output(tmp_path, model, capsys):
    for command in ("compress", "decompress"):
        assert "must be a file, not standard output" in failure(capsys, 2, command, model, "-")
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("command", ["compress", "decompress", "inspect", "codecs", "doctor", "bench"])
def test_short_help(command, capsys):
    assert main([command, "-h"]) == 0
    assert f"Usage: wirezip {command} " in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["compress"], ["compress", "a"], ["nope"], ["--nope"], ["inspect", "a", "b"]])
def test_wrong_usage(capsys, arguments):
    assert "--help" in failure(capsys, 2, *arguments)


def test_debug_raises_wherever_it_stands(model):
    for arguments in (["--debug", "inspect", model], ["inspect", model, "--debug"]):
        with pytest.raises(ValueError, match="not a wirezip container"):
            main(arguments)


def test_fault_of_our_own_is_one_line_too(model, capsys, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("wirezip.files.inspect_file", broken)
    assert "unexpected ZeroDivisionError: two lines" in failure(capsys, 1, "inspect", model)


def test_unknown_variable_is_refused(model, capsys, monkeypatch):
    monkeypatch.setenv("WIREZIP_TYPO", "1")
    assert "WIREZIP_TYPO" in failure(capsys, 1, "inspect", model)
    assert main(["doctor"]) == 1
    assert "problem: unknown environment variable WIREZIP_TYPO" in capsys.readouterr().out


def test_interrupt(model, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("wirezip.files.inspect_file", interrupted)
    assert main(["inspect", model]) == 130
    assert capsys.readouterr().out == ""


def test_codecs(capsys):
    assert main(["codecs", "--json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert list(entries) == codecs.names()
    assert entries["raw"]["lossless"]
    assert "bfloat16" in entries["raw"]["dtypes"]
    if entries["zstd"]["available"]:
        assert entries["zstd"]["options"] == {"level": 1}


def test_codec_table_fits_a_hundred_columns(capsys):
    assert main(["codecs"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    for entry in list_codecs():
        assert all(f"{name}={value}" in out for name, value in entry.options.items())


def test_codecs_that_are_missing_say_why(capsys, monkeypatch):
    monkeypatch.setitem(codecs.registry.REGISTRY, "gone", "wirezip.codecs.gone:Gone")
    monkeypatch.setitem(codecs.registry.REGISTRY, "broken", "wirezip.codecs.raw.codec:Missing")
    assert main(["codecs"]) == 0
    out = capsys.readouterr().out
    assert "gone: codec gone is not available here: No module named 'wirezip.codecs.gone'" in out
    assert "broken: codec broken is not available here: module" in out


def test_doctor(capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    assert {"machine", "devices", "communication", "packages", "settings", "used", "codecs"} <= set(report["sections"])
    assert report["sections"]["packages"]["torch"] == torch.__version__
    assert main(["doctor"]) == 0
    assert "no problems found" in capsys.readouterr().out


def test_help_lists_all_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("compress", "decompress", "inspect", "codecs", "doctor", "bench"):
        assert f"\n  {command} " in out
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err
