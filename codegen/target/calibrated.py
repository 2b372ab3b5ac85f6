"""The description of this machine that was measured, where there is one: `autotune calibrate` stores it, "native" is described by it.

    TENSORLANG_MACHINE=machine.json    that file; one that cannot be read, or is for another CPU, is an error
    TENSORLANG_MACHINE=off             none: what ships
    otherwise                          `machines/CPU.json` in the cache folder, if it is there and fits; a broken one is passed over

A description is of one processor: it is for another CPU where its name differs or its caches have other sizes. It is read once in a
process. Named CPUs never have one: what is decided for them is the same on every machine.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tensorlang.codegen.target.caches import host_caches
from tensorlang.errors import BuildError
from tensorlang.system import cache_folder

if TYPE_CHECKING:
    from tensorlang.codegen.target.described import Described
    from tensorlang.codegen.target.description import Target
    from tensorlang.schedules.model.machine import Machine

VARIABLE: Final = "TENSORLANG_MACHINE"
OFF: Final = ("off", "no", "0", "false")

_log: Final = logging.getLogger("tensorlang")
_held: Final[dict[str, tuple[Path, Described] | None]] = {}
"""What was read, by what the variable said: the first answer of a process stays."""


def machine_of(target: Target) -> Machine | None:
    """This machine as it was measured; None for what is not this machine, and where nothing was. Raises `BuildError`, see `in_force`."""
    if not target.name.startswith("native") or target.caches != host_caches():
        return None
    found = in_force()
    return None if found is None else found[1].machine


def in_force() -> tuple[Path, Described] | None:
    """The file that describes this machine, and what it says; None where there is none.

    Raises `BuildError` for a file that `TENSORLANG_MACHINE` names and that is no description of this CPU.
    """
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted not in _held:
        _held.setdefault(wanted, _found(wanted))  # of threads that come at once, the first one's
    return _held[wanted]


def forget() -> None:
    """Read again when next asked."""
    _held.clear()


def place() -> Path:
    """Where the description of this machine is stored: as the variable says, else in the cache folder, by the name of the CPU."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted and wanted.lower() not in OFF:
        return Path(os.path.expanduser(wanted))  # noqa: PTH111 - raises for no user
    return (cache_folder.chosen() or cache_folder.of_user()) / "machines" / f"{_host()[1]}.json"


def _found(wanted: str) -> tuple[Path, Described] | None:
    if wanted.lower() in OFF:
        return None
    path = place()
    if not wanted and not os.path.exists(path):  # noqa: PTH110 - a path that no file can have is none, too
        return None
    from tensorlang.codegen.target import described  # noqa: PLC0415 - few have a file

    try:
        found = described.read(path)
        if reason := why_foreign(found):
            raise BuildError(f"{str(path)!r} {reason}; run `autotune calibrate` here, or unset {VARIABLE}")  # noqa: TRY301 - as any other
    except BuildError as error:
        if wanted:
            raise
        _log.warning("the stored description of this machine is not used: %s", error)
        return None
    return path, found


def why_foreign(described: Described) -> str | None:
    """Why a description is not of this machine; None where it is."""
    (arch, cpu), caches = _host(), host_caches()
    if (described.arch, described.cpu) != (arch, cpu):
        return f"describes {described.cpu} ({described.arch}), and this machine is {cpu} ({arch})"
    sizes = tuple(cache.size for cache in described.machine.caches)
    ours = (caches.l1, caches.l2, caches.l3) if caches.l3 > caches.l2 else (caches.l1, caches.l2)
    return None if sizes == ours else f"describes a {described.cpu} with caches of {sizes} bytes, and those of this machine have {ours}"


def _host() -> tuple[str, str]:
    """The architecture and the CPU of this machine."""
    from tensorlang.codegen.llvm import binding  # noqa: PLC0415 - it loads LLVM

    host = binding.host()
    return host.triple.split("-", 1)[0], host.cpu
