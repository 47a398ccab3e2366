"""Facts about the host, its devices and the means of communication."""

import contextlib
import os
import platform
import shutil
import sys
from pathlib import Path

import torch


def machine_facts() -> dict[str, object]:
    """Return operating system, processor, cores and memory."""
    facts: dict[str, object] = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "num_cores": os.cpu_count(),
        "num_usable_cores": len(_affinity()),
    }
    try:
        import psutil

        memory = psutil.virtual_memory()
        facts |= {"memory_bytes": memory.total, "free_memory_bytes": memory.available}
    except ImportError:
        facts["memory_bytes"] = "unknown: psutil is not installed"
    return facts | {"python": platform.python_version(), "interpreter": sys.executable}


def device_facts() -> dict[str, object]:
    """Return the GPUs, which of them reach each other's memory, and the driver."""
    if not torch.cuda.is_available():
        build = torch.version.cuda or torch.version.hip
        reason = f"torch is built for {build} and finds none" if build else "torch is built without GPU support"
        return {"num_gpus": 0, "reason": reason}
    facts: dict[str, object] = {"num_gpus": torch.cuda.device_count()}
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        facts[f"cuda:{index}"] = (
            f"{device.name}, {device.total_memory / 1e9:.0f} GB, compute capability {device.major}.{device.minor}"
        )
    facts["peer_access"] = _peer_access()
    facts |= _driver_facts()
    return facts


def communication_facts() -> dict[str, object]:
    """Return which backends of torch.distributed and which MPI there are."""
    import torch.distributed as dist

    if not dist.is_available():
        return {"torch_distributed": "not in this build of torch"}
    facts: dict[str, object] = {
        "gloo": _yes(dist.is_gloo_available()),
        "nccl": _yes(dist.is_nccl_available()),
        "mpi": _yes(dist.is_mpi_available()),
        "mpirun": shutil.which("mpirun") or "not found",
    }
    if dist.is_nccl_available() and torch.cuda.is_available():
        with contextlib.suppress(Exception):
            facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return facts


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _affinity() -> set[int]:
    # Not on every system; containers often allow fewer cores than the machine has.
    affinity = getattr(os, "sched_getaffinity", None)
    return affinity(0) if affinity else set(range(os.cpu_count() or 1))


def _peer_access() -> str:
    count = torch.cuda.device_count()
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    if not pairs:
        return "one GPU only"
    blocked = [f"{a}-{b}" for a, b in pairs if not torch.cuda.can_device_access_peer(a, b)]
    return f"not between {', '.join(blocked)}" if blocked else "between all pairs"


def _driver_facts() -> dict[str, object]:
    try:
        import pynvml
    except ImportError:
        return {"driver": "unknown: nvidia-ml-py is not installed"}
    try:
        pynvml.nvmlInit()
        try:
            return {"driver": str(pynvml.nvmlSystemGetDriverVersion())}
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as reason:
        return {"driver": f"unknown: {reason}"}


def _yes(available: bool) -> str:
    return "yes" if available else "no"
