"""Waves that threads share: of tiles that wait for one another, those that no longer do.

    for t: for i: ...           ->          for w: parallel t in range(max(0, ...), ...): ...       # i = w - behind * t

Tile `i` of row `t` waits for those before it in its own row, and in the rows before for those up to `i + behind - 1`. So rows that are each
`behind` tiles behind the one before run at once (Lamport, "The parallel execution of DO loops", 1974).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tensorlang.errors import ScheduleError
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.loops.thread_loop import AWAKE


def seconds_in_waves(seconds: float, rows: int, tiles: int, behind: int, threads: int, fork: float) -> float:
    """What so many `rows` of `tiles` take on all threads that take so many seconds on one; a wave takes a fork of so many seconds."""
    sizes = list(_waves(rows, tiles, behind))
    return seconds * sum(-(-size // threads) for size in sizes) / (rows * tiles) + len(sizes) * AWAKE * fork


def _waves(rows: int, tiles: int, behind: int) -> Iterator[int]:
    """The tiles of each wave."""
    for wave in range(tiles + behind * (rows - 1)):
        first = max(0, -(-(wave - tiles + 1) // behind))
        yield min(rows - 1, wave // behind) + 1 - first


def share_in_waves(s: Schedule, rows: str, tiles: str, behind: int) -> None:
    """Let threads share what is left of the loop `rows` in each wave of `tiles`, the loop inside it; nothing where that is refused."""
    with suppress(ScheduleError), s.together():
        s.skew(tiles, rows, behind)
        s.reorder(f"{tiles}_s", rows)
        s.parallel(rows)
