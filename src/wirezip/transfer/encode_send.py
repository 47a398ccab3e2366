"""Strategy `encode_send`: encode the whole tensor, then send it; receive the whole, then decode."""

import torch

from wirezip.codecs.base import Codec
from wirezip.transfer.channel import Endpoint, Outgoing, post, receive, uses_checksum
from wirezip.transfer.message import Call, MessageHeader
from wirezip.transfer.payload import encode


def send(endpoint: Endpoint, call: Call, values: torch.Tensor, codec: Codec) -> tuple[Outgoing, str]:
    """Encode the elements and post them; see `Strategy.send`."""
    message = encode(values, codec, checksum=uses_checksum(endpoint.comm))
    return post(endpoint, call, message), message.served


def recv(endpoint: Endpoint, call: Call, out: torch.Tensor, codec: Codec) -> MessageHeader:
    """Receive the body and decode it; see `Strategy.recv`."""
    return receive(endpoint, call, out, codec)
