"""Tensors to frames and back: a codec's body under a frame's header, with the fallback to `raw`."""

import torch

from wirezip.checksum import checksum as checksum_of
from wirezip.codecs.base import Codec
from wirezip.codecs.registry import get
from wirezip.errors import ChecksumError, CorruptFrameError, InputError, UnknownCodecError, UnsupportedDtypeError
from wirezip.floats import FLOAT_FORMATS
from wirezip.frame import FrameHeader, header_bytes


def resolve_codec(codec: str | Codec, dtype: torch.dtype) -> Codec:
    """Return the codec object meant by a name or object.

    Args:
        codec: A name, `auto`, or a codec object. `auto` takes `rans` for the float dtypes, the best
            ratio there is here, and `raw` for all others.
        dtype: Dtype of the tensor, for `auto`.

    Raises:
        UnknownCodecError: No codec has that name.
        CodecUnavailableError: A library it needs is missing.
    """
    if isinstance(codec, Codec):
        return codec
    if codec == "auto":
        return get("rans" if dtype in FLOAT_FORMATS else "raw")
    return get(codec)


def flat_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a contiguous tensor as a 1-D view of stride 1.

    `reshape(-1)` does not promise the stride: a tensor of one element counts as contiguous whatever
    its stride is, and cannot be viewed as bytes unless that is 1.

    Args:
        tensor: A contiguous tensor of any shape.
    """
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def encode_frame(tensor: torch.Tensor, codec: Codec, *, checksum: bool) -> torch.Tensor:
    """Encode a tensor as a frame at the start of a buffer of worst-case size.

    Args:
        tensor: Tensor of any shape and layout.
        codec: The codec; data that do not shrink are stored by `raw` instead.
        checksum: Whether the frame carries a checksum of the original.

    Returns:
        A uint8 view of the used part of the buffer, on the device of `tensor`.

    Raises:
        UnsupportedDtypeError: The codec does not take this dtype.
        InputError: The tensor is sparse or nested, or has no data.
    """
    if not codec.supports(tensor.dtype):
        raise UnsupportedDtypeError(f"codec {codec.name} does not take {tensor.dtype}")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
        kind = "nested" if tensor.is_nested else tensor.layout
        raise InputError(f"expected a dense tensor with data, got a {kind} one on {tensor.device}")
    # A lazily conjugated or negated view does not hold the bits of its values.
    values = flat_view(tensor.resolve_conj().resolve_neg().contiguous())
    shape = tuple(tensor.shape)
    start = header_bytes(len(shape))
    room = max(codec.max_encoded_bytes(values.numel(), values.dtype), values.numel() * values.itemsize)
    frame = torch.empty(start + room, dtype=torch.uint8, device=values.device)
    if values.numel() == 0:
        served, body = get("raw"), frame[:0]
    else:
        served, body = codec, codec.encode(values, frame[start:])
        if body.numel() >= values.numel() * values.itemsize and codec.lossless:
            served = get("raw")
            body = served.encode(values, frame[start:])
    total = checksum_of(values) if checksum and served.lossless else None
    header = FrameHeader(served.name, values.dtype, shape, body.numel(), total)
    frame[:start] = torch.frombuffer(bytearray(header.pack()), dtype=torch.uint8)
    return frame[: header.frame_bytes]


def codec_of(header: FrameHeader) -> Codec:
    """Return the codec that decodes a frame, refusing a name that no codec has and a dtype it does not take."""
    try:
        codec = get(header.codec)
    except UnknownCodecError as unknown:
        raise CorruptFrameError(f"the frame names an {unknown}") from unknown
    if not codec.supports(header.dtype):
        raise CorruptFrameError(f"the frame holds {header.dtype} by codec {header.codec}, which does not take it")
    return codec


def check_plausible(header: FrameHeader) -> None:
    """Refuse a body too small for the elements claimed, before memory is taken for them.

    Args:
        header: Header of the frame.

    Raises:
        CorruptFrameError: No body of that size holds that many elements.
    """
    least = codec_of(header).min_encoded_bytes(header.numel, header.dtype) if header.numel else 0
    if header.body_bytes < least:
        raise CorruptFrameError(
            f"the frame claims {header.numel} elements of {header.dtype} by codec {header.codec}, which take "
            f"at least {least} bytes; its body has {header.body_bytes}"
        )


def decode_into(header: FrameHeader, body: torch.Tensor, out: torch.Tensor) -> None:
    """Decode a body into a contiguous tensor and check it against the header's checksum.

    Args:
        header: Header of the frame that held the body.
        body: The body.
        out: Contiguous 1-D tensor of the header's dtype and element count.

    Raises:
        FrameError: The body is corrupt, or the checksum does not match.
    """
    if header.numel:
        codec_of(header).decode(body, out)
    elif body.numel():
        raise CorruptFrameError(f"an empty tensor has an empty body, got {body.numel()} bytes")
    if header.checksum is not None and (found := checksum_of(out)) != header.checksum:
        raise ChecksumError(
            f"{header.codec} {header.dtype} {header.shape}: decoded data have checksum {found:#018x}, "
            f"the original had {header.checksum:#018x}"
        )
