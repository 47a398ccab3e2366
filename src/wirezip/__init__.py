"""wirezip: compressed communication for PyTorch and MPI, and the benchmark that tells whether it pays.

Importing this package starts nothing: no threads, no GPU context, no compiler.
"""

from wirezip import codecs, errors
from wirezip.api import FrameInfo, compress, decompress, inspect
from wirezip.version import __version__

__all__ = ["FrameInfo", "__version__", "codecs", "compress", "decompress", "errors", "inspect"]
