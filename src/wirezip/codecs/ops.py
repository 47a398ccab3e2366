"""The lossless codecs as PyTorch operators, which `torch.compile` keeps in its graphs.

Importing this module registers `torch.ops.wirezip.encode` and `torch.ops.wirezip.decode`. Shapes depend
on element counts alone: a body is returned in a buffer of worst-case size, and what is corrupt as a
tensor, so no operator waits for the device.
"""

import torch

from wirezip.codecs.registry import get
from wirezip.codecs.tiles.codec import TiledCodec
from wirezip.codecs.tiles.layout import HEADER_BYTES
from wirezip.errors import CorruptFrameError, InputError

NO_ERROR = 2**63 - 1


def tiled(name: str) -> TiledCodec:
    """Return a lossless codec of tiles with its default options.

    Args:
        name: `window` or `rans`.

    Raises:
        InputError: The codec is another one.
    """
    codec = get(name)
    if not isinstance(codec, TiledCodec):
        raise InputError(f"codec {name} is not an operator; those that are: window, rans")
    return codec


@torch.library.custom_op("wirezip::encode", mutates_args=())
def encode(values: torch.Tensor, codec: str) -> torch.Tensor:
    """Encode a tensor.

    Args:
        values: Contiguous 1-D tensor of a float dtype, with at least one element.
        codec: `window` or `rans`.

    Returns:
        uint8 buffer of `max_encoded_bytes`, the body at its start; what follows means nothing.

    Raises:
        UnsupportedDtypeError: The codec does not take this dtype.
        InputError: The tensor has the wrong layout, or the codec is another one.
    """
    chosen = tiled(codec)
    if values.device.type != "cpu":
        return chosen.encode_async(values).buffer
    buffer = torch.zeros(chosen.max_encoded_bytes(values.numel(), values.dtype), dtype=torch.uint8)
    chosen.encode(values, buffer)
    return buffer


@encode.register_fake
def _encode_shape(values: torch.Tensor, codec: str) -> torch.Tensor:
    return values.new_empty(tiled(codec).max_encoded_bytes(values.numel(), values.dtype), dtype=torch.uint8)


@torch.library.custom_op("wirezip::decode", mutates_args=())
def decode(body: torch.Tensor, codec: str, numel: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Decode a body.

    Args:
        body: Contiguous 1-D uint8 tensor that `encode` made.
        codec: The codec that made it.
        numel: Elements of the original.
        dtype: Dtype of the original.

    Returns:
        The original as a 1-D tensor, and a status of one int64 for `check`.

    Raises:
        InputError: The body has the wrong layout, or the codec is another one.
    """
    chosen = tiled(codec)
    values = torch.empty(numel, dtype=dtype, device=body.device)
    status = torch.full((1,), NO_ERROR, dtype=torch.int64, device=body.device)
    if body.device.type == "cpu":
        try:
            chosen.decode(used_part(chosen, body, numel, dtype), values)
        except CorruptFrameError:
            status.fill_(-1)
    else:
        chosen.decode_status(body, values, status)
    return values, status


@decode.register_fake
def _decode_shape(body: torch.Tensor, codec: str, numel: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return body.new_empty(numel, dtype=dtype), body.new_empty(1, dtype=torch.int64)


def used_part(codec: TiledCodec, body: torch.Tensor, numel: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the part of a buffer on the CPU that is a body.

    Args:
        codec: The codec that made it.
        body: The buffer.
        numel: Elements of the original.
        dtype: Dtype of the original.
    """
    if body.numel() < HEADER_BYTES:
        return body
    section_bytes = int.from_bytes(body[16:24].numpy().tobytes(), "little")
    return body[: codec.geometry(numel, dtype).section_offset + section_bytes]


def check(status: torch.Tensor) -> None:
    """Wait for a decoding and raise if it failed.

    Args:
        status: The status that `decode` returned.

    Raises:
        CorruptFrameError: The body was corrupt.
    """
    if (tile := int(status.item())) != NO_ERROR:
        raise CorruptFrameError(f"the body is corrupt: {'its header' if tile < 0 else f'tile {tile}'}")
