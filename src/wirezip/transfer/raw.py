"""Strategy `raw`: the elements as they are, under the header. The control for every other strategy."""

import torch

from wirezip.codecs.base import Codec
from wirezip.codecs.framed import resolve_codec
from wirezip.codecs.registry import get
from wirezip.errors import InputError
from wirezip.transfer.channel import Endpoint, Outgoing, post, receive, uses_checksum
from wirezip.transfer.message import Call, MessageHeader
from wirezip.transfer.payload import encode_raw


def resolve(codec: str | Codec, dtype: torch.dtype) -> Codec:
    """Return codec `raw`, which is what `auto` means here, and refuse every other; see `Strategy.resolve`."""
    chosen = get("raw") if codec == "auto" else resolve_codec(codec, dtype)
    if chosen.name != "raw":
        raise InputError(f"strategy raw sends tensors as they are; it has no use for codec {chosen.name}")
    return chosen


def send(endpoint: Endpoint, call: Call, values: torch.Tensor, codec: Codec) -> tuple[Outgoing, str]:
    """Post the elements; see `Strategy.send`."""
    return post(endpoint, call, encode_raw(values, checksum=uses_checksum(endpoint.comm))), "raw"


def recv(endpoint: Endpoint, call: Call, out: torch.Tensor, codec: Codec) -> MessageHeader:
    """Receive the elements; see `Strategy.recv`."""
    return receive(endpoint, call, out, codec)
