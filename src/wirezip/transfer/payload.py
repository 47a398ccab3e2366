"""Elements to the body of a message and back: the codec's part of a transfer."""

from dataclasses import dataclass

import torch

from wirezip.checksum import checksum as checksum_of
from wirezip.codecs.base import Codec
from wirezip.codecs.framed import flat_view
from wirezip.codecs.registry import get
from wirezip.errors import ChecksumError, CorruptFrameError, InputError, UnsupportedDtypeError
from wirezip.floats import FLOAT_FORMATS, WIRE_IDS
from wirezip.transfer.message import MessageHeader


@dataclass(frozen=True)
class Payload:
    """The body of a message, ready to leave.

    Attributes:
        body: The bytes, a contiguous 1-D uint8 tensor.
        served: Codec that made them.
        numel: Elements they hold.
        checksum: Checksum of the original bytes, or None.
    """

    body: torch.Tensor
    served: str
    numel: int
    checksum: int | None = None


EMPTY = Payload(torch.empty(0, dtype=torch.uint8), "raw", 0)


def check_tensor(tensor: torch.Tensor, what: str) -> None:
    """Refuse a tensor that cannot travel.

    Args:
        tensor: The tensor.
        what: Rank, operation and role, for the text of the error.

    Raises:
        InputError: The tensor is not a dense CPU tensor.
        UnsupportedDtypeError: The dtype has no number on the wire.
    """
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise InputError(f"{what}: expected a dense tensor, got layout {tensor.layout}, dtype {tensor.dtype}")
    if tensor.device.type != "cpu":
        raise InputError(f"{what}: only CPU tensors travel as yet, got one on {tensor.device}")
    if tensor.dtype not in WIRE_IDS:
        raise UnsupportedDtypeError(f"{what}: {tensor.dtype} cannot travel")


def check_writable(tensor: torch.Tensor, what: str) -> None:
    """Refuse a tensor that cannot travel or whose elements share memory.

    Args:
        tensor: The tensor to be written.
        what: Rank, operation and role, for the text of the error.

    Strides that interleave, which no slice, transpose or reshape has, are refused although the elements
    may be distinct.

    Raises:
        InputError: The tensor is not a dense CPU tensor of distinct elements.
        UnsupportedDtypeError: The dtype has no number on the wire.
    """
    check_tensor(tensor, what)
    if tensor.numel() and not _has_distinct_elements(tensor):
        raise InputError(
            f"{what}: cannot write to a tensor whose elements share memory, as those of an expanded one do; "
            f"got shape {tuple(tensor.shape)} with strides {tensor.stride()}"
        )


def _has_distinct_elements(tensor: torch.Tensor) -> bool:
    """Return whether each stride steps over all that the smaller ones reach."""
    reach = 0
    dims = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted((stride, size) for stride, size in dims if size > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def check_codec(codec: Codec, dtype: torch.dtype, what: str) -> None:
    """Refuse a codec that does not take a float dtype, before any rank waits for this one.

    Args:
        codec: The codec asked for.
        dtype: Dtype of the tensor.
        what: Rank and operation, for the text of the error.

    Raises:
        UnsupportedDtypeError: It is a float dtype that the codec does not take.
    """
    if dtype in FLOAT_FORMATS and not codec.supports(dtype):
        raise UnsupportedDtypeError(f"{what}: codec {codec.name} does not take {dtype}")


def flat_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in logical order as a contiguous 1-D tensor, without a copy if they are so already."""
    return flat_view(tensor.detach().resolve_conj().resolve_neg().contiguous())


def flat_target(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous 1-D tensor to receive into: the tensor's own memory where its layout allows.

    `write_through` puts the elements in place afterwards.
    """
    plain = tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()
    return flat_view(tensor) if plain else torch.empty(tensor.numel(), dtype=tensor.dtype)


def write_through(values: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copy what `flat_target` gave into the tensor, unless it is the tensor's own memory."""
    if tensor.numel() and values.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(values.view(tensor.shape))


def encode_raw(values: torch.Tensor, *, checksum: bool) -> Payload:
    """Return the bytes of the elements themselves, not a copy.

    Args:
        values: Contiguous 1-D tensor.
        checksum: Whether the message carries a checksum.
    """
    return Payload(values.view(torch.uint8), "raw", values.numel(), checksum_of(values) if checksum else None)


def encode(values: torch.Tensor, codec: Codec, *, checksum: bool) -> Payload:
    """Encode elements, or take them as they are where that is the rule.

    They travel raw when there are none, when the codec is for floats and these are not, and when a
    lossless codec does not make them smaller.

    Args:
        values: Contiguous 1-D tensor.
        codec: The codec asked for.
        checksum: Whether the message carries a checksum; never for a lossy codec.

    Raises:
        UnsupportedDtypeError: The elements are floats that `check_codec` would have refused.
    """
    is_for_others = values.dtype not in FLOAT_FORMATS and not codec.supports(values.dtype)
    if codec.name == "raw" or values.numel() == 0 or is_for_others:
        return encode_raw(values, checksum=checksum)
    body = codec.encode(values)
    if codec.lossless and body.numel() >= values.numel() * values.itemsize:
        return encode_raw(values, checksum=checksum)
    total = checksum_of(values) if checksum and codec.lossless else None
    return Payload(body, codec.name, values.numel(), total)


def check_plausible(header: MessageHeader, codec: Codec) -> None:
    """Refuse a body that cannot hold what its header says, before memory is taken for it.

    Args:
        header: The header, whose call agrees with the receiver's.
        codec: The codec the receiver asked for.

    Raises:
        CorruptFrameError: The codec is another, or no body of that size holds that many elements.
    """
    least = most = header.original_bytes
    if header.served == codec.name != "raw" and header.numel:
        least = codec.min_encoded_bytes(header.numel, header.call.dtype)
        most = codec.max_encoded_bytes(header.numel, header.call.dtype)
    elif header.served != "raw":
        raise CorruptFrameError(f"{header.numel} elements served by {header.served}; {codec.name} was asked for")
    if not least <= header.body_bytes <= most:
        raise CorruptFrameError(
            f"a {header.served} body of {header.numel} elements of {header.call.dtype} has {least} to {most} bytes, "
            f"the header declares {header.body_bytes}"
        )


def decode(header: MessageHeader, body: torch.Tensor, out: torch.Tensor, codec: Codec) -> None:
    """Decode a body and check it against the header's checksum.

    Args:
        header: Header of the message, found plausible.
        body: The body; the memory of `out` itself if it was received there.
        out: Contiguous 1-D tensor of the header's dtype and element count.
        codec: The codec the receiver asked for.

    Raises:
        FrameError: The body is corrupt, or the checksum does not match.
    """
    if header.numel and body.data_ptr() != out.data_ptr():
        (get("raw") if header.served == "raw" else codec).decode(body, out)
    if header.checksum is not None and (found := checksum_of(out)) != header.checksum:
        raise ChecksumError(f"decoded data have checksum {found:#018x}, the original had {header.checksum:#018x}")
