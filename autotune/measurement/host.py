"""Where a measurement was made: target, machine and software, as records have them."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypeAlias, TypedDict

from tensorlang.system.memory import memory

if TYPE_CHECKING:
    from tensorlang.codegen.target import Target


class Description(TypedDict):
    """Which description of the machine schedules were chosen by: its digest, and whether the machine was measured for it."""

    digest: str
    calibrated: bool


class TargetFields(TypedDict):
    """What code is made for: triple, CPU and instruction set; `fingerprint` names the three.

    `description` is what records have beside: it decides no study, since a schedule is as fast whatever it was chosen by.
    """

    triple: str
    cpu: str
    features: list[str]
    fingerprint: str
    description: NotRequired[Description]


class MachineFields(TypedDict):
    """The computer: its name, processor, usable cores and bytes of memory."""

    host: str
    model: str
    cores: int
    memory: int


Software: TypeAlias = dict[str, str]
"""Versions by name."""


def target_fields(target: Target) -> TargetFields:
    """A target as records have it."""
    import hashlib  # noqa: PLC0415 - as in `_version`

    isa = sorted(target.isa)
    digest = hashlib.sha256("\n".join([target.triple, target.cpu, *isa]).encode()).hexdigest()[:16]
    return {"triple": target.triple, "cpu": target.cpu, "features": isa, "fingerprint": digest}


def described_target(target: Target) -> TargetFields:
    """A target as records of a run have it: with the description by which this process chooses schedules for it."""
    from tensorlang.codegen.target import calibrated, cores  # noqa: PLC0415 - as in `_version`

    measured = calibrated.machine_of(target) is not None
    return {**target_fields(target), "description": {"digest": cores.digest(target.core), "calibrated": measured}}


@cache
def machine() -> MachineFields:
    """What this computer is called and has."""
    return {"host": platform.node(), "model": _model(), "cores": len(cores()), "memory": memory()}


@cache
def software() -> Software:
    """Versions of what shapes the machine code and the times."""
    packages = {name: _version(name) for name in ("tensorlang", "llvmlite", "numpy")}
    return {**packages, "python": platform.python_version(), "kernel": platform.release()}


def load() -> float | None:
    """The number of running processes over the last minute; None where the system does not say."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def pinned(threads: int) -> list[int]:
    """The cores to measure on: the last ones, away from where systems put their own work; none (no pinning) if all are needed."""
    usable = cores()
    return usable[-threads:] if threads < len(usable) else []


def _version(name: str) -> str:
    import importlib.metadata  # noqa: PLC0415 - slow, and workers only need the types of this file

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "uninstalled"


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())
