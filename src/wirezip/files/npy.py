"""The layout of an npy file, from its header alone.

NumPy's own readers are not used because they cover format 3.0 only through private names and give
no access to the header's bytes.
"""

import ast
from typing import Any

import numpy as np
import torch

from wirezip.errors import FileError
from wirezip.files.layout import Layout, Span, span_bytes
from wirezip.files.source import Source

MAGIC = b"\x93NUMPY"
# The header is Python source; its parser is not made for input of any size.
MAX_HEADER_BYTES = 1 << 16

TORCH_DTYPES: dict[str, torch.dtype] = {
    "|b1": torch.bool,
    "|u1": torch.uint8,
    "|i1": torch.int8,
    "<u2": torch.uint16,
    "<i2": torch.int16,
    "<u4": torch.uint32,
    "<i4": torch.int32,
    "<u8": torch.uint64,
    "<i8": torch.int64,
    "<f2": torch.float16,
    "<f4": torch.float32,
    "<f8": torch.float64,
    "<c8": torch.complex64,
    "<c16": torch.complex128,
}


def npy_layout(source: Source) -> Layout:
    """Read the layout of an npy file.

    Elements are taken in the order they have in the file, whichever order the header declares.
    Big-endian, structured and text dtypes travel as bytes. What follows the array is kept.

    Args:
        source: The open file.

    Raises:
        FileError: The file is not a whole and sound npy file, or it holds Python objects.
    """
    header_bytes, fields = _read_header(source)
    descr, shape = fields["descr"], fields["shape"]
    dtype = _numpy_dtype(source, descr)
    if not isinstance(shape, tuple) or not all(type(dim) is int and 0 <= dim < 2**63 for dim in shape):
        raise FileError(f"{source.path}: expected a tuple of sizes as npy shape, got {shape!r}")
    num_bytes = span_bytes(shape, dtype.itemsize * 8, str(source.path))
    rest = source.num_bytes - header_bytes - num_bytes
    if rest < 0:
        raise FileError(
            f"{source.path}: cut short: {dtype} {list(shape)} takes {num_bytes} bytes after the header, "
            f"the file has {source.num_bytes - header_bytes}"
        )
    carrier = TORCH_DTYPES.get(dtype.str, torch.uint8) if dtype.names is None else torch.uint8
    label = dtype.str if isinstance(descr, str) else str(descr)
    return Layout("npy", header_bytes, (Span("", label, carrier, shape, num_bytes),), rest)


def _read_header(source: Source) -> tuple[int, dict[str, Any]]:
    prefix = source.read(0, min(12, source.num_bytes))
    if prefix[:6] != MAGIC or len(prefix) < 12:
        raise FileError(f"{source.path}: not an npy file: it begins with {prefix[:6]!r}")
    major, minor = prefix[6], prefix[7]
    if major not in (1, 2, 3) or minor != 0:
        raise FileError(f"{source.path}: npy format {major}.{minor} is not known; 1.0, 2.0 and 3.0 are")
    start, length = (10, prefix[8:10]) if major == 1 else (12, prefix[8:12])
    size = int.from_bytes(length, "little")
    if size > min(MAX_HEADER_BYTES, source.num_bytes - start):
        raise FileError(f"{source.path}: the npy header declares {size} bytes; the file has {source.num_bytes}")
    try:
        fields = ast.literal_eval(source.read(start, size).decode("utf-8" if major == 3 else "latin1"))
        complete = set(fields) == {"descr", "fortran_order", "shape"}
    # literal_eval documents these for input that is no literal or too deeply nested.
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as reason:
        raise FileError(f"{source.path}: the npy header cannot be parsed: {reason}") from reason
    if not complete or not isinstance(fields, dict):
        raise FileError(f"{source.path}: expected descr, fortran_order and shape in the npy header")
    return start + size, fields


def _numpy_dtype(source: Source, descr: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(descr)  # type: ignore[no-untyped-call]
    # NumPy's parser lets through whatever the malformed description provokes.
    except Exception as reason:
        raise FileError(f"{source.path}: the npy header has the dtype {descr!r}: {reason}") from reason
    if dtype.hasobject:
        raise FileError(f"{source.path}: arrays of Python objects are pickles, which wirezip does not read")
    return dtype
