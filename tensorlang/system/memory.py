"""How much memory this process may use: the least of all that bound it, each by name.

A machine's memory is seldom what a job gets: batch systems and containers bound it by control groups, one inside the other and of two
versions, by environment variables that say what was asked for, and by limits of the process. Who takes more than any of them allows is
killed, not told, so what a task takes is compared with the least of them before it is taken.

Sources: cgroups(7), the kernel's admin-guide/cgroup-v1/memory and cgroup-v2, proc(5), getrlimit(2), sbatch(1).
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path("/")
_ENDLESS: Final = 1 << 60
"""A control group of version 1 without a limit says a number as large as this."""
_SLURM: Final = {"SLURM_MEM_PER_NODE": None, "SLURM_MEM_PER_CPU": "SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_GPU": "SLURM_GPUS_ON_NODE"}
"""What was asked for, and of how many."""


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """What bounds memory: its name, the bytes that it allows in all, and those of them that nobody has taken."""

    what: str
    size: int
    free: int


def memory(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> int:
    """Bytes of memory that this process may use; 0 if unknown."""
    return min((bound.size for bound in memory_bounds(root, environ)), default=0)


def tightest(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> MemoryBound | None:
    """The bound that leaves the fewest bytes free; None if none is known."""
    return min(memory_bounds(root, environ), key=lambda bound: bound.free, default=None)


def memory_bounds(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> tuple[MemoryBound, ...]:
    """Everything that bounds the memory of this process; `root` is the folder in which `proc` and `sys` stand."""
    return (*_physical(root), *_groups(root), *_slurm(root, environ), *_process(root))


def _physical(root: Path) -> Iterator[MemoryBound]:
    told = _table(root / "proc/meminfo", ":")
    size = told.get("MemTotal", 0) << 10
    if not size:
        with contextlib.suppress(OSError, ValueError):
            size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size:
        yield MemoryBound("the memory of this machine", size, min(told.get("MemAvailable", size >> 10) << 10, size))


def _groups(root: Path) -> Iterator[MemoryBound]:
    """The control groups that this process is in, from the innermost outwards."""
    for mount, top, unified in _mounts(root):
        path = _group_of(root, unified)
        if path is None:
            continue
        try:
            inside = PurePosixPath(path).relative_to(top)
        except ValueError:  # a container that sees another part of the tree than it is named in
            inside = PurePosixPath()
        folder = root / mount.lstrip("/")
        for group in (inside, *inside.parents):
            yield from _group(folder / group, f"the control group {PurePosixPath('/') / group}", unified=unified)


def _group(folder: Path, what: str, *, unified: bool) -> Iterator[MemoryBound]:
    names = ("memory.max", "memory.high") if unified else ("memory.limit_in_bytes",)
    sizes = [size for name in names if (size := _number(folder / name)) is not None and size < _ENDLESS]
    if sizes:
        used = _number(folder / ("memory.current" if unified else "memory.usage_in_bytes")) or 0
        told = _table(folder / "memory.stat", " ")
        cached = told.get("inactive_file" if unified else "total_inactive_file", 0)  # given back when it is needed
        yield MemoryBound(what, min(sizes), max(min(sizes) - max(used - cached, 0), 0))


def _mounts(root: Path) -> Iterator[tuple[str, str, bool]]:
    """Where the trees that bound memory are mounted, from which of their folders on, and whether they are of version 2."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" or (kind[0] == "cgroup" and "memory" in kind[-1].split(",")):
            yield fields[4], fields[3], kind[0] == "cgroup2"


def _group_of(root: Path, unified: bool) -> str | None:
    """The path of this process's control group in the tree of version 2, or in that of version 1 which bounds memory."""
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (not controllers) if unified else ("memory" in controllers.split(",")):
            return path
    return None


def _slurm(root: Path, environ: Mapping[str, str]) -> Iterator[MemoryBound]:
    """What a Slurm job was promised on this node, in megabytes; 0 stands for all of it."""
    used = _table(root / "proc/self/status", ":").get("VmRSS", 0) << 10
    for name, count in _SLURM.items():
        with contextlib.suppress(KeyError, ValueError):
            size = int(environ[name]) * (1 if count is None else int(environ[count])) << 20
            if size > 0:
                yield MemoryBound(f"{name} of the Slurm job", size, max(size - used, 0))


def _process(root: Path) -> Iterator[MemoryBound]:
    """The limits of this process, which those that it starts have too, each for itself."""
    told = _table(root / "proc/self/status", ":")
    for what, number, used in (
        ("the limit of address space (ulimit -v)", resource.RLIMIT_AS, "VmSize"),
        ("the limit of data (ulimit -d)", resource.RLIMIT_DATA, "VmData"),
    ):
        size, _ = resource.getrlimit(number)
        if 0 <= size < _ENDLESS:
            yield MemoryBound(what, size, max(size - (told.get(used, 0) << 10), 0))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """The number in a file; None if there is none, as where no limit reads "max"."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _table(path: Path, separator: str) -> dict[str, int]:
    """The whole numbers of a file with a name and a number on each line."""
    found = {}
    for line in _lines(path):
        name, _, rest = line.partition(separator)
        number = rest.split()[:1]
        if number and number[0].isdigit():
            found[name] = int(number[0])
    return found
