"""Make `.venv` with everything that the tests and benchmarks need; does nothing if it is up to date.

Where the Python that runs this has PyTorch 2.9 or newer, the environment sees that one and installs
none; elsewhere it gets the versions in constraints-torch.txt, CPU builds if the package index that
pip is set up for has them. Standard library only. `PIP_ARGS` is passed on to pip.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "wirezip-set-up"
INPUTS = [ROOT / "pyproject.toml", ROOT / "constraints.txt", ROOT / "constraints-torch.txt", Path(__file__)]
EXTRAS = "hpc,peers,dev"
COMPILED = ROOT / "src" / "wirezip" / "codecs"
COMPILED_STAMP = ENVIRONMENT / "wirezip-compiled"


def has_torch() -> bool:
    """Return whether this Python has a PyTorch that wirezip can use."""
    probe = "import torch, sys; sys.exit(tuple(int(p) for p in torch.__version__.split('.')[:2]) < (2, 9))"
    return subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL, check=False).returncode == 0


def wanted() -> str:
    """Return what the environment is made of, as a digest."""
    parts = [path.read_bytes() for path in INPUTS] + [sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def drop_stale_code() -> None:
    """Remove Numba's cached code if a source it came from has changed.

    Numba looks at the file of each function alone, and would go on using a function compiled with
    the old version of another file that it calls into.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(COMPILED.rglob("*.py")))).hexdigest()
    if COMPILED_STAMP.is_file() and COMPILED_STAMP.read_text() == digest:
        return
    for path in COMPILED.rglob("__pycache__/*.nb[ci]"):
        path.unlink(missing_ok=True)
    COMPILED_STAMP.write_text(digest)


def main() -> int:
    """Set up the environment; returns the exit code."""
    if sys.version_info < (3, 10):
        print(f"wirezip needs Python 3.10 or newer; {sys.executable} is {sys.version.split()[0]}", file=sys.stderr)
        return 1
    digest = wanted()
    if STAMP.is_file() and STAMP.read_text() == digest:
        drop_stale_code()
        return 0
    keep = has_torch()
    print(f"setting up {ENVIRONMENT.name} ({'with the PyTorch installed here' if keep else 'with its own PyTorch'})")
    venv.EnvBuilder(clear=True, with_pip=True, system_site_packages=keep).create(ENVIRONMENT)
    python = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--constraint", "constraints.txt", *([] if keep else ["--constraint", "constraints-torch.txt"])]
    command += [*shlex.split(os.environ.get("PIP_ARGS", "")), "--editable", f".[{EXTRAS}]"]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code == 0:
        STAMP.write_text(digest)
        drop_stale_code()
    return code


if __name__ == "__main__":
    sys.exit(main())
