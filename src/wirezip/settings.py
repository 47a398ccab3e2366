"""The only reader of wirezip's environment variables.

Every variable starts with `WIREZIP_`; a name with that prefix that is not listed in `VARIABLES` is
refused, because a misspelt setting that is silently ignored costs its owner a day.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wirezip.errors import SettingsError

PREFIX = "WIREZIP_"
IMPLEMENTATIONS = ("auto", "reference", "cpu", "triton")
OWN_GROUP_TIMEOUT_S = 300.0
SWITCH = {"1": True, "on": True, "true": True, "0": False, "off": False, "false": False}


@dataclass(frozen=True)
class Settings:
    """Settings of one process.

    Attributes:
        implementation: Which implementation of the lossless codecs runs: `auto` takes Numba for
            CPU tensors and Triton for GPU tensors.
        message_checksum: Whether messages between ranks carry a checksum of the original data.
        workspace_bytes: Most memory that a GPU stream keeps for the kernels between calls; a call that needs
            more takes it for itself.
        timeout_s: Longest wait for a peer, in seconds; None leaves it to the process group's own timeout.
    """

    implementation: str = "auto"
    message_checksum: bool = False
    workspace_bytes: int = 64 << 20
    timeout_s: float | None = None

    @property
    def own_group_timeout_s(self) -> float:
        """Timeout of the groups that wirezip itself starts: the one set, else `OWN_GROUP_TIMEOUT_S`."""
        return OWN_GROUP_TIMEOUT_S if self.timeout_s is None else self.timeout_s


def _implementation(text: str) -> str:
    if text not in IMPLEMENTATIONS:
        raise ValueError(f"one of {', '.join(IMPLEMENTATIONS)}")
    return text


def _switch(text: str) -> bool:
    if text.lower() not in SWITCH:
        raise ValueError(f"one of {', '.join(SWITCH)}")
    return SWITCH[text.lower()]


def _positive_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError("a positive number of seconds")
    return seconds


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("a number of bytes")
    return int(text)


# Each parser raises ValueError with the legal values as its text.
VARIABLES: dict[str, Callable[[str], object]] = {
    "IMPLEMENTATION": _implementation,
    "MESSAGE_CHECKSUM": _switch,
    "WORKSPACE_BYTES": _bytes,
    "TIMEOUT_S": _positive_seconds,
}


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment.

    Args:
        environ: Variables to read; the process environment when None.

    Raises:
        SettingsError: A `WIREZIP_` variable is unknown or its value is not legal.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, object] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX):
            continue
        parse = VARIABLES.get(name.removeprefix(PREFIX))
        if parse is None:
            known = ", ".join(PREFIX + key for key in VARIABLES)
            raise SettingsError(f"unknown environment variable {name}; known: {known}")
        try:
            values[name.removeprefix(PREFIX).lower()] = parse(text)
        except ValueError as legal:
            raise SettingsError(f"{name}={text!r}: expected {legal}") from None
    return Settings(**values)  # type: ignore[arg-type]
