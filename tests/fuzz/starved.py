"""Does a process hang, or does it wait for a processor that others use?

What a case may take is counted in seconds of its own: where there is more work than processors, the clock on the wall tells nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

STATE, PARENT, TIMES = 0, 1, slice(11, 15)
"""Fields of `/proc/<pid>/stat` behind the name: the state, the parent, and the ticks of the process and of children that have ended."""
TICKS: Final = os.sysconf("SC_CLK_TCK")
READY: Final = ("R", "D")
"""States of a thread that runs, waits for a processor, or for a page."""


def seconds(process: int) -> float:
    """Seconds that a process, and those that it has started, have run."""
    return sum(sum(map(int, _fields(path)[TIMES])) for path in processes(process)) / TICKS


def starved(process: int) -> bool:
    """Has a thread of a process, or of one that it has started, something to do?"""
    threads = (thread for path in processes(process) for thread in _listed(path / "task"))
    return any(_fields(thread)[STATE : STATE + 1] in ([state] for state in READY) for thread in threads)


def processes(process: int) -> Iterator[Path]:
    """A process and those that it has started, whichever session they are in."""
    children: dict[str, list[Path]] = {}
    for path in _listed(Path("/proc")):
        if path.name.isdigit() and (fields := _fields(path)):
            children.setdefault(fields[PARENT], []).append(path)
    waiting = [Path("/proc") / str(process)]
    while waiting:
        path = waiting.pop()
        yield path
        waiting.extend(children.get(path.name, []))


def _listed(folder: Path) -> list[Path]:
    """What is in a folder; nothing where the process has ended."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _fields(process: Path) -> list[str]:
    """What the kernel tells of a process or thread, behind its name; nothing where it has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
