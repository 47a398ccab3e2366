"""Codecs by name: `names`, `get`, and the contract `Codec`."""

from wirezip.codecs.base import Codec
from wirezip.codecs.registry import get, names, unavailable_reason

__all__ = ["Codec", "get", "names", "unavailable_reason"]
