"""Names of codecs and where they live; a codec's module is imported when it is first asked for."""

import dataclasses
import importlib
from typing import Any

from wirezip.codecs.base import Codec
from wirezip.errors import CodecUnavailableError, SettingsError, UnknownCodecError

REGISTRY: dict[str, str] = {
    "raw": "wirezip.codecs.raw.codec:Raw",
    "window": "wirezip.codecs.window.codec:Window",
    "rans": "wirezip.codecs.rans.codec:Rans",
    "zstd": "wirezip.codecs.general.codec:Zstd",
    "lz4": "wirezip.codecs.general.codec:Lz4",
    "blosc": "wirezip.codecs.general.codec:Blosc",
    "pcodec": "wirezip.codecs.general.pcodec:Pcodec",
}

# Extras of the distribution that bring what a codec needs.
EXTRAS = {"zstd": "hpc", "lz4": "hpc", "blosc": "hpc", "pcodec": "hpc"}


def names() -> list[str]:
    """Return the names of all known codecs, available here or not."""
    return list(REGISTRY)


def codec_class(name: str) -> type[Codec]:
    """Return the class of a codec.

    Args:
        name: One of `names()`.

    Raises:
        UnknownCodecError: No codec has that name.
        CodecUnavailableError: A library it needs is missing.
    """
    if name not in REGISTRY:
        raise UnknownCodecError(f"unknown codec {name!r}; known: {', '.join(REGISTRY)}")
    module, _, attribute = REGISTRY[name].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    # A library may also break while it is imported, over the version of another one.
    except Exception as missing:
        hint = f"; pip install 'wirezip[{EXTRAS[name]}]' brings it" if name in EXTRAS else ""
        raise CodecUnavailableError(f"codec {name} is not available here: {missing}{hint}") from missing


def get(name: str, **options: Any) -> Codec:
    """Return a codec object.

    Args:
        name: One of `names()`.
        **options: The codec's own options, by keyword.

    Raises:
        UnknownCodecError: No codec has that name.
        CodecUnavailableError: A library it needs is missing.
        SettingsError: An option is unknown or its value is not legal.
    """
    cls = codec_class(name)
    known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            listed = ", ".join(known) or "none"
            raise SettingsError(f"codec {name} has no option {option!r}; its options: {listed}")
    return cls(**options)


def unavailable_reason(name: str) -> str | None:
    """Return why a codec cannot run here, or None when it can."""
    try:
        get(name)
    except CodecUnavailableError as reason:
        return str(reason)
    return None
