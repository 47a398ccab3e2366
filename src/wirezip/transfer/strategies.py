"""Strategies by name: how one message gets from rank to rank."""

from dataclasses import dataclass
from typing import Protocol

import torch

from wirezip.codecs.base import Codec
from wirezip.codecs.framed import resolve_codec
from wirezip.errors import InputError
from wirezip.transfer import encode_send, raw
from wirezip.transfer.channel import Endpoint, Outgoing
from wirezip.transfer.message import Call, MessageHeader


class Resolve(Protocol):
    """Say which codec a name or object means under the strategy."""

    def __call__(self, codec: str | Codec, dtype: torch.dtype) -> Codec:
        """Return the codec for elements of `dtype`, or raise `InputError` or `CodecError`."""


class Send(Protocol):
    """Post a message; return it with the codec that served it."""

    def __call__(self, endpoint: Endpoint, call: Call, values: torch.Tensor, codec: Codec) -> tuple[Outgoing, str]:
        """Post `values`, a contiguous 1-D tensor that is not changed until the message has left."""


class Recv(Protocol):
    """Receive a message into contiguous memory; return its header."""

    def __call__(self, endpoint: Endpoint, call: Call, out: torch.Tensor, codec: Codec) -> MessageHeader:
        """Fill `out`, a contiguous 1-D tensor."""


@dataclass(frozen=True)
class Strategy:
    """A strategy: the codecs it takes, and its two sides.

    Attributes:
        resolve: Which codec is meant.
        send: The sender's side.
        recv: The receiver's side.
    """

    resolve: Resolve
    send: Send
    recv: Recv


STRATEGIES: dict[str, Strategy] = {
    "raw": Strategy(raw.resolve, raw.send, raw.recv),
    "encode_send": Strategy(resolve_codec, encode_send.send, encode_send.recv),
}


def get_strategy(name: str) -> Strategy:
    """Return a strategy.

    Args:
        name: A key of `STRATEGIES`.

    Raises:
        InputError: There is none of that name.
    """
    if name not in STRATEGIES:
        raise InputError(f"unknown strategy {name!r}; known: {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
