"""Set up before anything of wirezip is imported."""

import hashlib
import os
import tempfile
from pathlib import Path

# Numba does not see that a function it calls from another file has changed, so its cache is kept
# by the contents of all files.
_SOURCES = sorted((Path(__file__).parent.parent / "src" / "wirezip").rglob("*.py"))
_KEY = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"wirezip-numba-{os.getuid()}-{_KEY}"))
