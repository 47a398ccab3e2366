"""The environment a result was measured in."""

import dataclasses
import hashlib
import importlib.metadata
import importlib.resources
import os
import platform
import sys
from pathlib import Path
from typing import Any

from wirezip import settings
from wirezip.version import __version__

_PACKAGES = ("torch", "triton", "numpy", "numba", "numcodecs", "pcodec", "zipnn", "safetensors", "matplotlib")
_VARIABLES = ("GLOO_", "OMP_", "NUMBA_", "WIREZIP_")


def describe() -> dict[str, Any]:
    """Return versions, processor, memory, load and settings as plain JSON values."""
    import psutil

    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "wirezip": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "cpu": _cpu_name(),
        "cores_logical": psutil.cpu_count(),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_usable": affinity,
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": load_average(),
        "num_gpus": _num_gpus(),
        "settings": dataclasses.asdict(settings.read()),
        "variables": {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)},
        "data_sha256": _data_sha256(),
    }


def load_average() -> list[float]:
    """Return the load averages over 1, 5 and 15 minutes."""
    return list(os.getloadavg())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _num_gpus() -> int:
    import torch

    # Counts devices without starting a context on any.
    return torch.cuda.device_count()


def _data_sha256() -> str:
    data = importlib.resources.files("wirezip.bench") / "data" / "tensors.safetensors"
    return hashlib.sha256(data.read_bytes()).hexdigest()
