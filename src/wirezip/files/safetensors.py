"""The layout of a safetensors file, from its header alone.

A safetensors file is a 64-bit little-endian header size, a JSON header, and the tensors' bytes
without gaps. The header is read here rather than through the safetensors package because the
package gives neither offsets nor the header's own bytes, both needed to restore a file bit for bit.
"""

import json
from typing import Any

import torch

from wirezip.errors import FileError
from wirezip.files.layout import Layout, Span, span_bytes
from wirezip.files.source import Source

# The limit of the format itself.
MAX_HEADER_BYTES = 100_000_000

TORCH_DTYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}
# Known to the format but packed below one byte, so they travel as bytes.
PACKED_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


def safetensors_layout(source: Source) -> Layout:
    """Read the layout of a safetensors file.

    Args:
        source: The open file.

    Raises:
        FileError: The file is not a whole and sound safetensors file.
    """
    if source.num_bytes < 8:
        raise FileError(f"{source.path}: a safetensors file has at least 8 bytes, this one {source.num_bytes}")
    size = int.from_bytes(source.read(0, 8), "little")
    if size > min(MAX_HEADER_BYTES, source.num_bytes - 8):
        raise FileError(
            f"{source.path}: not a safetensors file, or cut short: it declares a header of {size} bytes "
            f"and has {source.num_bytes}"
        )
    entries = _parse_json(source, size)
    entries.pop("__metadata__", None)
    located = sorted((_read_entry(source, name, entry) for name, entry in entries.items()), key=lambda pair: pair[0])
    data_bytes = source.num_bytes - 8 - size
    end = 0
    for (begin, stop), span in located:
        if begin != end:
            raise FileError(f"{source.path}: tensor {span.name!r} begins at byte {begin} of the data, expected {end}")
        end = stop
    if end != data_bytes:
        raise FileError(f"{source.path}: the header describes {end} bytes of tensors, the file has {data_bytes}")
    return Layout("safetensors", 8 + size, tuple(span for _, span in located), 0)


def _parse_json(source: Source, size: int) -> dict[str, Any]:
    try:
        entries = json.loads(source.read(8, size))
    except (ValueError, RecursionError) as reason:
        raise FileError(f"{source.path}: the safetensors header is not JSON: {reason}") from reason
    if not isinstance(entries, dict):
        raise FileError(f"{source.path}: the safetensors header is not a JSON object")
    return entries


def _read_entry(source: Source, name: str, entry: Any) -> tuple[tuple[int, int], Span]:
    where = f"{source.path}: tensor {name!r}"
    try:
        label, dims, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        begin, end = offsets
        numbers = [*dims, begin, end]
    except (KeyError, TypeError, ValueError):
        raise FileError(f"{where}: expected dtype, shape and two data_offsets in the header") from None
    if not isinstance(label, str) or not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise FileError(f"{where}: dtype is a name; shape and data_offsets are integers from 0 to 2**63 - 1")
    shape = tuple(dims)
    carrier = TORCH_DTYPES.get(label, torch.uint8)
    num_bytes = end - begin
    if label in TORCH_DTYPES or label in PACKED_BITS:
        num_bytes = span_bytes(shape, PACKED_BITS.get(label, carrier.itemsize * 8), where)
    # A dtype that is newer than this list is carried by its offsets alone.
    if num_bytes < 0 or end - begin != num_bytes:
        raise FileError(f"{where}: {label} {list(shape)} takes {num_bytes} bytes, data_offsets give {end - begin}")
    return (begin, end), Span(name, label, carrier, shape, num_bytes)
