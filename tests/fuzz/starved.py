"""Does a process hang, or does it wait for a processor that others use?

What a case may take is counted in seconds of its own: where there is more work than processors, the clock on the wall tells nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

STATE, SESSION, TIMES = 0, 3, slice(11, 15)
"""Fields of `/proc/<pid>/stat` behind the name: the state, the session, and the ticks of the process and of children that have ended."""
TICKS: Final = os.sysconf("SC_CLK_TCK")
READY: Final = ("R", "D")
"""States of a thread that runs, waits for a processor, or for a page."""


def seconds(session: int) -> float:
    """Seconds that the processes of a session have run, with their children that have ended."""
    return sum(sum(map(int, fields[TIMES])) for fields in map(_fields, processes(session))) / TICKS


def starved(session: int) -> bool:
    """Has a thread of a session something to do?"""
    threads = (thread for process in processes(session) for thread in _listed(process / "task"))
    return any(_fields(thread)[STATE : STATE + 1] in ([state] for state in READY) for thread in threads)


def processes(session: int) -> Iterator[Path]:
    """The processes of a session."""
    numbers = (path for path in _listed(Path("/proc")) if path.name.isdigit())
    return (path for path in numbers if _fields(path)[SESSION : SESSION + 1] == [str(session)])


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
