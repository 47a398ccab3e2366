"""Which of the packages that wirezip uses are installed, and whether those it cannot do without import."""

import importlib
import importlib.metadata
from dataclasses import dataclass

# Distribution name to import name; wirezip's codecs need these.
REQUIRED = {"torch": "torch", "numpy": "numpy", "numba": "numba"}
# Distribution name to what it is for. Only looked up, because importing them all takes seconds.
OPTIONAL = {
    "triton": "codecs on GPUs",
    "safetensors": "benchmark data",
    "numcodecs": "codecs zstd, lz4, blosc",
    "pcodec": "codec pcodec",
    "zfpy": "codec zfp",
    "zipnn": "comparison",
    "mpi4py": "MPI",
    "nvidia-ml-py": "GPU driver and sensors",
    "psutil": "memory and load",
    "matplotlib": "plots",
}


@dataclass(frozen=True)
class Package:
    """One package.

    Attributes:
        name: Its name as a distribution.
        version: Its version; None when it is not installed.
        purpose: What it is for.
        failure: Why it cannot be used although it is needed, or None.
    """

    name: str
    version: str | None
    purpose: str
    failure: str | None = None

    @property
    def summary(self) -> str:
        """The package in one line."""
        if self.version is None:
            return f"not installed ({self.purpose})"
        return self.version if self.failure is None else f"{self.version}, cannot be imported"

    @property
    def remedy(self) -> str:
        """What makes the package usable."""
        return f"pip install --upgrade --force-reinstall {self.name}"


def find_packages() -> list[Package]:
    """Return all packages that wirezip may use, the required ones first."""
    needed = [_required(name, module) for name, module in REQUIRED.items()]
    return needed + [Package(name, _version(name), purpose) for name, purpose in OPTIONAL.items()]


def _required(name: str, module: str) -> Package:
    # A broken binary package fails with exceptions of many types; doctor is there to tell of them.
    try:
        importlib.import_module(module)
    except Exception as reason:
        return Package(name, _version(name), "required", f"{type(reason).__name__}: {reason}")
    return Package(name, _version(name), "required")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
