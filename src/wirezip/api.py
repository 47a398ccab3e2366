"""`compress`, `decompress` and `inspect`: tensors to frames and back."""

from dataclasses import dataclass

import torch

from wirezip.codecs import Codec
from wirezip.codecs.framed import check_plausible, decode_into, encode_frame, flat_view, resolve_codec
from wirezip.errors import InputError
from wirezip.frame import split


@dataclass(frozen=True)
class FrameInfo:
    """What `inspect` tells of a frame.

    Attributes:
        codec: Codec that made the body; `raw` when the data did not shrink.
        dtype: Dtype of the original tensor.
        shape: Shape of the original tensor.
        numel: Elements of the original tensor.
        version: Format version.
        original_bytes: Bytes of the original tensor.
        encoded_bytes: Bytes of the whole frame.
        ratio: encoded_bytes / original_bytes; infinite for an empty tensor.
        checksum: Checksum of the original bytes, or None.
    """

    codec: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    numel: int
    version: int
    original_bytes: int
    encoded_bytes: int
    ratio: float
    checksum: int | None


def compress(tensor: torch.Tensor, codec: str | Codec = "auto", *, checksum: bool = True) -> torch.Tensor:
    """Compress a tensor into a self-describing frame.

    The frame records dtype, shape and codec. Data that do not shrink are stored as they are, so a
    frame never exceeds the original by more than its header.

    Args:
        tensor: Tensor of any shape and layout; its values are not changed.
        codec: A codec name, `auto`, or a codec object. `auto` takes `rans` for float dtypes and
            `raw` for all others.
        checksum: Whether the frame carries a checksum of the original bytes.

    Returns:
        A 1-D uint8 tensor on the device of `tensor`.

    Raises:
        UnknownCodecError: No codec has that name.
        UnsupportedDtypeError: The codec named does not take the tensor's dtype.
        InputError: `tensor` is no tensor, or is sparse or nested, or has no data.

    Source:
        UCCL-Zip, section 2.1 (exponents coded, sign and mantissa as they are).
    """
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"compress takes a torch tensor, got {type(tensor).__name__}; torch.from_numpy makes one")
    return encode_frame(tensor, resolve_codec(codec, tensor.dtype), checksum=checksum).clone()


def decompress(frame: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Restore the tensor of a frame.

    Args:
        frame: Frame made by `compress`, as a contiguous 1-D uint8 tensor.
        out: Contiguous tensor of the original dtype and shape to write to; allocated when None.
            Its contents are undefined after an error.

    Returns:
        The tensor, bit for bit as it was when the codec is lossless, on the device of `frame`.

    Raises:
        FrameError: The bytes are not a whole and sound frame; the subclass says how.
        InputError: `out` does not fit the frame.
    """
    header, body = split(frame)
    if out is None:
        check_plausible(header)
        try:
            out = torch.empty(header.shape, dtype=header.dtype, device=frame.device)
        except RuntimeError as failure:
            raise InputError(f"no memory for the {header.original_bytes} bytes that the frame claims") from failure
    elif out.dtype != header.dtype or tuple(out.shape) != header.shape or not out.is_contiguous():
        raise InputError(
            f"the frame holds {header.dtype} {header.shape}; out is {out.dtype} {tuple(out.shape)}"
            f"{'' if out.is_contiguous() else ', not contiguous'}"
        )
    elif out.device != frame.device:
        raise InputError(f"the frame is on {frame.device} and out on {out.device}")
    elif out.is_conj() or out.is_neg():
        raise InputError("out is a lazily conjugated or negated view, which cannot be written to")
    decode_into(header, body, flat_view(out))
    return out


def inspect(frame: torch.Tensor) -> FrameInfo:
    """Describe a frame without decoding it.

    Args:
        frame: Frame made by `compress`.

    Raises:
        FrameError: The bytes are not a whole frame.
    """
    header, _ = split(frame)
    return FrameInfo(
        codec=header.codec,
        dtype=header.dtype,
        shape=header.shape,
        numel=header.numel,
        version=header.version,
        original_bytes=header.original_bytes,
        encoded_bytes=header.frame_bytes,
        ratio=header.frame_bytes / header.original_bytes if header.numel else float("inf"),
        checksum=header.checksum,
    )
