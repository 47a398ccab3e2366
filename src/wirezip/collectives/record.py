"""What a collective reports of itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CollectiveRecord:
    """What one rank did in a collective.

    Attributes:
        logical_bytes: Bytes of this rank's tensor.
        wire_bytes: Bytes this rank sent, headers included.
        codec: Codec asked for if it served any message of this rank, else `raw`.
        algorithm: Algorithm that served it.
        num_messages: Messages this rank sent.
        num_raw: Those of them that travelled raw.
    """

    logical_bytes: int
    wire_bytes: int
    codec: str
    algorithm: str
    num_messages: int
    num_raw: int
