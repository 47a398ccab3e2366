"""The report on machines that differ from this one: with GPUs, without packages, with broken ones."""

import builtins
import importlib
from types import SimpleNamespace

import pytest
import torch

from wirezip.doctor import examine, list_codecs


@pytest.fixture
def without(monkeypatch):
    """Make imports fail, as on a machine that lacks a package or has a broken one."""

    def hide(name, reason):
        real_import, real_module = builtins.__import__, importlib.import_module

        def fail(wanted, *rest, **named):
            if wanted.partition(".")[0] == name:
                raise reason
            return (real_import if named.pop("by_statement", False) else real_module)(wanted, *rest, **named)

        monkeypatch.setattr(builtins, "__import__", lambda *a, **k: fail(*a, by_statement=True, **k))
        monkeypatch.setattr(importlib, "import_module", fail)

    return hide


def test_without_optional_packages(without):
    without("psutil", ImportError("no psutil"))
    report = examine()
    assert report.problems == ()
    assert "psutil is not installed" in report.sections["machine"]["memory_bytes"]


def test_broken_required_package_is_a_problem_with_a_remedy(without):
    without("numba", RuntimeError("built for another NumPy"))
    report = examine()
    (problem,) = report.problems
    assert "numba" in problem.what
    assert "built for another NumPy" in problem.what
    assert "pip install" in problem.remedy
    assert "cannot be imported" in report.sections["packages"]["numba"]


def test_settings_in_force(monkeypatch):
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "7")
    report = examine()
    assert report.sections["settings"]["timeout_s"] == 7.0
    assert report.sections["environment"] == {"WIREZIP_TIMEOUT_S": "7"}


def test_illegal_setting_is_a_problem(monkeypatch):
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "soon")
    report = examine()
    assert "expected a positive number of seconds" in report.problems[0].what
    assert report.sections["settings"]["timeout_s"] == "that of the process group"


@pytest.fixture
def two_gpus(monkeypatch):
    properties = SimpleNamespace(name="GPU X", total_memory=80 * 10**9, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda a, b: (a, b) == (0, 1))


def test_gpus_and_their_links(two_gpus):
    report = examine()
    devices = report.sections["devices"]
    assert devices["num_gpus"] == 2
    assert devices["cuda:1"] == "GPU X, 80 GB, compute capability 9.0"
    assert devices["peer_access"] == "not between 1-0"
    assert report.sections["used"]["gpu_tensors"] == "triton"


def test_broken_gpu_does_not_hide_the_rest(two_gpus, monkeypatch):
    def broken(_):
        raise RuntimeError("CUDA error: device lost")

    monkeypatch.setattr(torch.cuda, "get_device_properties", broken)
    report = examine()
    assert "device lost" in report.problems[0].what
    assert report.sections["packages"]["torch"] == torch.__version__


def test_codec_list_matches_what_the_codecs_say():
    raw = list_codecs()[0]
    assert (raw.name, raw.available, raw.lossless, raw.implementations, raw.options) == ("raw", True, True, (), {})
    window = next(entry for entry in list_codecs() if entry.name == "window")
    if window.available:
        assert "reference" in window.implementations
        assert "int32" not in window.dtypes
