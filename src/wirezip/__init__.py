"""wirezip: compressed communication for PyTorch, and the benchmark that tells whether it pays.

Importing this package starts nothing: no threads, no GPU context, no compiler, not even torch, which
is loaded when one of the names below is first used.
"""

import importlib
from typing import TYPE_CHECKING

from wirezip.version import __version__

if TYPE_CHECKING:
    from wirezip import codecs, errors
    from wirezip.api import FrameInfo, compress, decompress, inspect

__all__ = ["FrameInfo", "__version__", "codecs", "compress", "decompress", "errors", "inspect"]


def __getattr__(name: str) -> object:
    if name in ("codecs", "errors"):
        return importlib.import_module(f"wirezip.{name}")
    if name in __all__:
        return getattr(importlib.import_module("wirezip.api"), name)
    raise AttributeError(f"module 'wirezip' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
