"""Links to measure over: the bare loopback, or the loopback held to the pace of a slower link."""

import re
from typing import TYPE_CHECKING

from wirezip.bench.bandwidth import gbit_to_gbps
from wirezip.bench.rows import LinkInfo
from wirezip.errors import InputError

if TYPE_CHECKING:
    from wirezip.comm import Communicator

LOOPBACK = "loopback"
_RATE = re.compile(r"emulated:(\d+(?:\.\d+)?)(Gbit|Mbit)", re.IGNORECASE)
_GBIT = {"gbit": 1.0, "mbit": 1e-3}


def parse_link(text: str) -> LinkInfo:
    """Return the link of a name.

    Args:
        text: `loopback`, or `emulated:` with a rate such as `emulated:1Gbit` or `emulated:250Mbit`.

    Raises:
        InputError: The text is neither.
    """
    if text == LOOPBACK:
        return LinkInfo(text, emulated=False, rate_gbit_s=None)
    match = _RATE.fullmatch(text)
    rate_gbit = float(match[1]) * _GBIT[match[2].lower()] if match else 0.0
    if rate_gbit <= 0:
        raise InputError(
            f"unknown link {text!r}; known: {LOOPBACK}, emulated:RATE with a rate such as 1Gbit or 250Mbit"
        )
    return LinkInfo(text, emulated=True, rate_gbit_s=rate_gbit)


def communicator(link: LinkInfo) -> "Communicator":
    """Return a communicator over the default group that keeps the link's pace.

    Args:
        link: The link.
    """
    from wirezip.comm.paced import PacedCommunicator
    from wirezip.comm.torchdist import TorchCommunicator

    inner = TorchCommunicator()
    if link.rate_gbit_s is None:
        return inner
    return PacedCommunicator(inner, gbit_to_gbps(link.rate_gbit_s))
