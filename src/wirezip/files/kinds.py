"""The kinds of input file, told apart by the extension."""

from collections.abc import Callable

import torch

from wirezip.errors import InputError
from wirezip.files.layout import Layout, Span
from wirezip.files.npy import npy_layout
from wirezip.files.safetensors import safetensors_layout
from wirezip.files.source import Source
from wirezip.floats import dtype_name

PARSERS: dict[str, Callable[[Source], Layout]] = {".safetensors": safetensors_layout, ".npy": npy_layout}


def raw_layout(source: Source, dtype: torch.dtype) -> Layout:
    """Return the layout of a file that is nothing but elements of one dtype.

    Args:
        source: The open file.
        dtype: The dtype; bytes at the end that are no whole element become the trailer.
    """
    numel, rest = divmod(source.num_bytes, dtype.itemsize)
    span = Span("", dtype_name(dtype), dtype, (numel,), source.num_bytes - rest)
    return Layout("raw", 0, (span,), rest)


def read_layout(source: Source, dtype: torch.dtype | None) -> Layout:
    """Read the layout of an input file of any kind.

    Args:
        source: The open file; `.safetensors` and `.npy` say their kind, all others are raw.
        dtype: Dtype of a raw file; None for the others, which say it themselves.

    Raises:
        InputError: The dtype is missing, or given for a file that declares its own.
        FileError: The file is not a sound file of its kind.
    """
    parse = PARSERS.get(source.path.suffix.lower())
    if parse is None:
        if dtype is None:
            known = ", ".join(PARSERS)
            raise InputError(f"{source.path}: not {known}, so it is raw binary: say its dtype (--dtype)")
        return raw_layout(source, dtype)
    if dtype is not None:
        raise InputError(f"{source.path}: a {source.path.suffix} file declares its own dtypes: leave out --dtype")
    return parse(source)
