"""The codecs as a table: availability, dtypes, implementations and options."""

import dataclasses
import importlib.util
from dataclasses import dataclass

from wirezip import codecs
from wirezip.codecs.registry import codec_class
from wirezip.errors import WirezipError
from wirezip.floats import WIRE_IDS, dtype_name

# The fixed file names of a codec's folder, and the implementation each holds.
IMPLEMENTATION_FILES = {"reference": "reference", "cpu": "cpu", "kernels": "triton"}


@dataclass(frozen=True)
class CodecEntry:
    """One codec.

    Attributes:
        name: Its name.
        available: Whether it can run here.
        reason: Why it cannot; None when it can.
        lossless: Whether it restores every bit; None when it is not available.
        dtypes: Dtypes it takes.
        implementations: Its implementations; empty when it has none of its own to choose from.
        options: Its options and their defaults.
    """

    name: str
    available: bool
    reason: str | None = None
    lossless: bool | None = None
    dtypes: tuple[str, ...] = ()
    implementations: tuple[str, ...] = ()
    options: dict[str, object] = dataclasses.field(default_factory=dict)


def list_codecs() -> list[CodecEntry]:
    """Return all known codecs, available here or not, in the order of the registry."""
    return [_entry(name) for name in codecs.names()]


def _entry(name: str) -> CodecEntry:
    # A library that is installed but broken fails with exceptions of many types, not only ImportError.
    try:
        codec = codecs.get(name)
    except Exception as reason:
        told = str(reason) if isinstance(reason, WirezipError) else f"{type(reason).__name__}: {reason}"
        return CodecEntry(name, available=False, reason=told)
    options: dict[str, object] = {}
    if dataclasses.is_dataclass(codec):
        options = {field.name: getattr(codec, field.name) for field in dataclasses.fields(codec)}
    return CodecEntry(
        name,
        available=True,
        lossless=codec.lossless,
        dtypes=tuple(dtype_name(dtype) for dtype in WIRE_IDS if codec.supports(dtype)),
        implementations=_implementations(codec_class(name).__module__),
        options=options,
    )


def _implementations(module: str) -> tuple[str, ...]:
    folder = module.rpartition(".")[0]
    return tuple(
        implementation
        for file, implementation in IMPLEMENTATION_FILES.items()
        if importlib.util.find_spec(f"{folder}.{file}") is not None
    )
