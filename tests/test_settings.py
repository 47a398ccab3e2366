"""Environment variables: read in one place, checked, unknown ones refused."""

import pytest
import torch

import wirezip
from wirezip import settings
from wirezip.errors import SettingsError


def test_defaults():
    assert settings.read({}) == settings.Settings("auto", False, 64 << 20, None)
    assert settings.read({}).own_group_timeout_s == settings.OWN_GROUP_TIMEOUT_S
    assert settings.read({"WIREZIP_TIMEOUT_S": "7"}).own_group_timeout_s == 7.0
    assert settings.read({"PATH": "/bin", "WIREZIPPER": "1", "XWIREZIP_TIMEOUT_S": "x"}) == settings.Settings()


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        *[("IMPLEMENTATION", text, "implementation", text) for text in settings.IMPLEMENTATIONS],
        *[("MESSAGE_CHECKSUM", text, "message_checksum", True) for text in ("1", "on", "true", "TRUE", "On")],
        *[("MESSAGE_CHECKSUM", text, "message_checksum", False) for text in ("0", "off", "false")],
        ("TIMEOUT_S", "2.5", "timeout_s", 2.5),
        ("TIMEOUT_S", "1e3", "timeout_s", 1000.0),
    ],
)
def test_values(name, text, field, value):
    assert getattr(settings.read({f"WIREZIP_{name}": text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "legal"),
    [
        ("IMPLEMENTATION", "gpu", "one of auto, reference, cpu, triton"),
        ("IMPLEMENTATION", "", "one of auto, reference, cpu, triton"),
        ("IMPLEMENTATION", "CPU", "one of auto, reference, cpu, triton"),
        ("MESSAGE_CHECKSUM", "yes", "one of 1, on, true, 0, off, false"),
        ("MESSAGE_CHECKSUM", "", "one of 1, on, true, 0, off, false"),
        *[("TIMEOUT_S", text, "a positive number of seconds") for text in ("", "0", "-1", "nan", "inf", "5s")],
    ],
)
def test_illegal_values(name, text, legal):
    with pytest.raises(SettingsError, match=f"^WIREZIP_{name}={text!r}: expected {legal}$"):
        settings.read({f"WIREZIP_{name}": text})


@pytest.mark.parametrize("name", ["WIREZIP_", "WIREZIP_TIMEOUT", "WIREZIP_timeout_s", "WIREZIP_IMPLEMENTATION_"])
def test_unknown_names(name):
    known = "WIREZIP_IMPLEMENTATION, WIREZIP_MESSAGE_CHECKSUM, WIREZIP_WORKSPACE_BYTES, WIREZIP_TIMEOUT_S"
    with pytest.raises(SettingsError, match=f"^unknown environment variable {name}; known: {known}$"):
        settings.read({name: "1"})


def test_every_variable_is_a_setting():
    assert {name.lower() for name in settings.VARIABLES} == set(settings.Settings.__dataclass_fields__)


def test_environment_is_read_when_it_is_used(monkeypatch):
    values = torch.randn(2000)
    frames = []
    for implementation in ("reference", "cpu"):
        monkeypatch.setenv("WIREZIP_IMPLEMENTATION", implementation)
        assert settings.read().implementation == implementation
        frames.append(wirezip.compress(values, "window").tolist())
    assert frames[0] == frames[1]
    monkeypatch.setenv("WIREZIP_IMPLEMENTATON", "cpu")
    with pytest.raises(SettingsError, match="unknown environment variable WIREZIP_IMPLEMENTATON"):
        wirezip.compress(values, "window")
