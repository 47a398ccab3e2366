"""Every exception that wirezip raises on purpose, as one tree under `WirezipError`.

The second base class, where there is one, lets code that knows nothing of wirezip catch the
failure under its usual Python name.
"""


class WirezipError(Exception):
    """Root of the tree: catch this to catch everything wirezip reports."""


class SettingsError(WirezipError, ValueError):
    """An environment variable or option has an unknown name or an illegal value."""


class CodecError(WirezipError):
    """A codec cannot do what was asked of it."""


class UnknownCodecError(CodecError, LookupError):
    """No codec of that name is registered; the message lists those that are."""


class CodecUnavailableError(CodecError, ImportError):
    """The codec is known, but a library it needs is not installed."""


class UnsupportedDtypeError(CodecError, TypeError):
    """The codec or operation does not take tensors of this dtype."""


class InputError(WirezipError, ValueError):
    """A tensor or argument has the wrong device, layout, size or value."""


class FrameError(WirezipError, ValueError):
    """The bytes given are not a frame that this version can decode."""


class NotAFrameError(FrameError):
    """The bytes do not begin with the frame magic."""


class UnsupportedVersionError(FrameError):
    """The frame was written in a format version that this release does not read."""


class TruncatedFrameError(FrameError):
    """The frame ends before the sizes it declares."""


class CorruptFrameError(FrameError):
    """A field of the frame contradicts another field or the format."""


class ChecksumError(CorruptFrameError):
    """The decoded data differ from what was encoded."""


class FileError(WirezipError, OSError):
    """A file cannot be read, written or understood."""


class CommError(WirezipError, RuntimeError):
    """Communication failed."""


class MismatchError(CommError):
    """Two ranks disagree about a message; the text names both sides."""


class PeerLostError(CommError):
    """A peer left, died or closed the connection in mid-message."""


class CommTimeoutError(CommError, TimeoutError):
    """A peer did not answer within the group's timeout."""
