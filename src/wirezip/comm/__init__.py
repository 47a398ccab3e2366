"""Communicators: octets between the ranks of a group, whatever carries them. They know no codecs."""

from wirezip.comm.base import Communicator, Pending

__all__ = ["Communicator", "Pending"]
