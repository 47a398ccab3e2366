"""The doctor's report: facts in sections, and problems with their remedies."""

import os
from dataclasses import asdict, dataclass

import torch

from wirezip import settings
from wirezip.codecs.framed import resolve_codec
from wirezip.doctor.catalogue import list_codecs
from wirezip.doctor.machine import communication_facts, device_facts, machine_facts
from wirezip.doctor.packages import Package, find_packages
from wirezip.errors import SettingsError, WirezipError
from wirezip.version import __version__


@dataclass(frozen=True)
class Problem:
    """Something that keeps wirezip from working as it should.

    Attributes:
        what: What is wrong.
        remedy: What to do about it.
    """

    what: str
    remedy: str


@dataclass(frozen=True)
class Report:
    """What `wirezip doctor` tells.

    Attributes:
        sections: Facts by section and name.
        problems: What is wrong; a missing GPU or optional package is no problem.
    """

    sections: dict[str, dict[str, object]]
    problems: tuple[Problem, ...]


def examine() -> Report:
    """Examine this machine and installation; whatever is broken becomes a problem, not an exception."""
    packages = find_packages()
    problems = [
        Problem(f"{package.name} {package.version or ''} cannot be used: {package.failure}", package.remedy)
        for package in packages
        if package.failure is not None
    ]
    in_force = settings.Settings()
    try:
        in_force = settings.read()
    except SettingsError as reason:
        problems.append(Problem(str(reason), "correct or unset the variable; the values shown are the defaults"))
    problems += _implementation_problems(in_force, packages)
    sections: dict[str, dict[str, object]] = {"wirezip": {"version": __version__}}
    for title, find in (("machine", machine_facts), ("devices", device_facts), ("communication", communication_facts)):
        # A broken driver or library must not keep the rest of the report from being seen.
        try:
            sections[title] = find()
        except Exception as reason:
            sections[title] = {}
            problems.append(Problem(f"{title}: {type(reason).__name__}: {reason}", "check driver and installation"))
    sections["packages"] = {package.name: package.summary for package in packages}
    sections["settings"] = dict(asdict(in_force))
    if in_force.timeout_s is None:
        sections["settings"]["timeout_s"] = "that of the process group"
    sections["environment"] = {name: os.environ[name] for name in os.environ if name.startswith(settings.PREFIX)}
    sections["used"] = _used_facts(in_force)
    sections["codecs"] = {entry.name: "available" if entry.available else entry.reason for entry in list_codecs()}
    return Report(sections, tuple(problems))


def _used_facts(in_force: settings.Settings) -> dict[str, object]:
    own = in_force.implementation
    on_gpu = "triton" if own == "auto" else own
    return {
        "auto_codec_floats": _auto_codec(torch.float32),
        "auto_codec_others": _auto_codec(torch.int32),
        "cpu_tensors": "cpu" if own == "auto" else own,
        "gpu_tensors": on_gpu if torch.cuda.is_available() else "no GPU here",
    }


def _auto_codec(dtype: torch.dtype) -> str:
    try:
        return resolve_codec("auto", dtype).name
    except WirezipError as reason:
        return f"none: {reason}"


def _implementation_problems(in_force: settings.Settings, packages: list[Package]) -> list[Problem]:
    usable = {package.name for package in packages if package.version is not None and package.failure is None}
    if in_force.implementation == "triton" and "triton" not in usable:
        return [Problem("WIREZIP_IMPLEMENTATION=triton, but triton is not usable", "install triton, or unset it")]
    return []
