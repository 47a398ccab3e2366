"""Compressed point-to-point transfers: `send` and `recv`, and the strategies they can take."""

from wirezip.transfer.point_to_point import TransferRecord, recv, send
from wirezip.transfer.strategies import STRATEGIES

__all__ = ["STRATEGIES", "TransferRecord", "recv", "send"]
