"""Strategy `raw`: the elements as they are, under the header. The control for every other strategy."""

import torch

from wirezip.codecs.base import Codec
from wirezip.errors import InputError
from wirezip.transfer.channel import Endpoint, Outgoing, post, receive, uses_checksum
from wirezip.transfer.message import Call, MessageHeader
from wirezip.transfer.payload import encode_raw


def _refuse_codec(codec: Codec) -> None:
    if codec.name != "raw":
        raise InputError(f"strategy raw sends tensors as they are; it has no use for codec {codec.name}")


def send(endpoint: Endpoint, call: Call, values: torch.Tensor, codec: Codec) -> tuple[Outgoing, str]:
    """Post the elements; see `Strategy.send`."""
    _refuse_codec(codec)
    return post(endpoint, call, encode_raw(values, checksum=uses_checksum(endpoint.comm))), "raw"


def recv(endpoint: Endpoint, call: Call, out: torch.Tensor, codec: Codec) -> MessageHeader:
    """Receive the elements; see `Strategy.recv`."""
    _refuse_codec(codec)
    return receive(endpoint, call, out, codec)
