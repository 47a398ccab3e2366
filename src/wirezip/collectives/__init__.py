"""Collectives over compressed messages, one file each: `all_gather`, `all_reduce`."""

from wirezip.collectives.all_gather import all_gather
from wirezip.collectives.all_reduce import all_reduce
from wirezip.collectives.record import CollectiveRecord

__all__ = ["CollectiveRecord", "all_gather", "all_reduce"]
