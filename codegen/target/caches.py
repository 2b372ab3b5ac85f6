"""Sizes of the data caches and the number of cores: of this machine as Linux tells them, or a plain guess for another one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Final

_SYSFS: Final = "/sys/devices/system/cpu/cpu0/cache"
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Caches:
    """Capacities in bytes (a shared level in full), and the cores that may run threads."""

    l1: int
    l2: int
    l3: int
    cores: int


TYPICAL: Final = Caches(l1=32 << 10, l2=1 << 20, l3=16 << 20, cores=8)
"""A machine that we know nothing about."""


@cache
def host_caches(sysfs: str | os.PathLike[str] = _SYSFS) -> Caches:
    """The caches of this machine; what the system does not tell is taken from `TYPICAL`."""
    sizes = {1: TYPICAL.l1, 2: TYPICAL.l2, 3: TYPICAL.l3}
    found = dict(filter(None, map(_size_of_level, _entries(sysfs))))
    if found:
        sizes.update(found)
        if 3 not in found:  # a CPU without a third level: the second is the last
            sizes[3] = sizes[2]
    return Caches(sizes[1], sizes[2], sizes[3], usable_cores())


def _entries(sysfs: str | os.PathLike[str]) -> list[str]:
    """The folders of the caches, in order; read without `pathlib`, which takes five times as long before a first kernel."""
    try:
        return [os.path.join(sysfs, name) for name in sorted(os.listdir(sysfs)) if name.startswith("index")]  # noqa: PTH118, PTH208
    except OSError:
        return []


def _size_of_level(folder: str) -> tuple[int, int] | None:
    """Level and size of one cache, None for an instruction cache or an unreadable entry."""
    try:
        level, kind, size = (_line(f"{folder}/{name}") for name in ("level", "type", "size"))
        return None if kind == "Instruction" else (int(level), int(size.rstrip("KMG")) * _UNITS.get(size[-1], 1))
    except (OSError, ValueError):
        return None


def _line(path: str) -> str:
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.read(handle, 64).decode().strip()
    finally:
        os.close(handle)


def usable_cores() -> int:
    """The size of the affinity mask: what a batch system or a container lets us use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
