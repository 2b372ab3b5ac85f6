"""A span of work by the clock, and whether anything else had its cores meanwhile.

Work on one thread was interrupted where it took longer by the clock than by the thread's own processor time (`CLOCK_THREAD_CPUTIME_ID`):
the difference was spent waiting for the core, or in interrupts. It was not where the thread only waited of its own accord, which the
system's count of voluntary and involuntary switches tells; its own time is then no measure of the work.

Of several threads no such difference can be taken, since they also wait for one another. Linux tells for each how long it stood ready
to run with no core to run on (the second number of `/proc/self/task/*/schedstat`); elsewhere the involuntary switches of the whole process
have to do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

Call = Callable[[], object]
Clock = Callable[[], int]

TOLERANCE: Final = 0.01
"""The share of a span that may be lost unnoticed: interrupts of the clock take less."""
RESOLUTION_NS: Final = 2_000
"""What reading the two clocks one after the other may take."""
WAKING: Final = 0.05
"""The share of a span that a thread of several may stand ready before it runs: waking it takes some microseconds."""

_TASKS: Final = Path("/proc/self/task")


class Elapsed(NamedTuple):
    """Seconds of a span of work: by the clock; of the thread's own, None where that cannot be told; did nothing interrupt it?"""

    wall: float
    own: float | None
    undisturbed: bool

    @property
    def seconds(self) -> float:
        """By the clock where nothing interrupted, else the thread's own if they are known."""
        return self.wall if self.undisturbed or self.own is None else self.own


class Timer(Protocol):
    """Times spans of calls."""

    def __call__(self, call: Call, number: int) -> Elapsed:
        """Call so many times."""
        ...

    def now(self) -> float:
        """Seconds by the clock."""
        ...

    def rest(self) -> None:
        """Let others run first, so that the next span begins with a whole share of the core."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadTimer:
    """Work on the calling thread alone. `wall` and `own` are clocks of nanoseconds; `switches` counts voluntary and involuntary ones."""

    wall: Clock = time.perf_counter_ns
    own: Clock = time.thread_time_ns
    switches: Callable[[], tuple[int, int]] | None = None

    def __call__(self, call: Call, number: int) -> Elapsed:
        """Call so many times."""
        calls = range(number)
        before = None if self.switches is None else self.switches()
        busy = self.own()
        start = self.wall()
        for _ in calls:
            call()
        wall = self.wall() - start
        own = self.own() - busy
        lost = wall - own > max(TOLERANCE * wall, RESOLUTION_NS)
        slept = False
        if lost and before is not None and self.switches is not None:
            after = self.switches()
            slept = after[0] > before[0]
            lost = not (slept and after[1] == before[1])
        return Elapsed(wall * 1e-9, None if slept else min(own, wall) * 1e-9, not lost)

    def now(self) -> float:
        """Seconds by the clock."""
        return self.wall() * 1e-9

    def rest(self) -> None:
        """Let others run first."""
        _give_way()


class TeamTimer:
    """Work on all threads of the process."""

    def __call__(self, call: Call, number: int) -> Elapsed:
        """Call so many times."""
        calls = range(number)
        before, switched = _waited(), _involuntary()
        start = time.perf_counter_ns()
        for _ in calls:
            call()
        wall = time.perf_counter_ns() - start
        after = _waited()
        if after:
            longest = max(waited - before.get(task, 0) for task, waited in after.items())
            quiet = longest <= max(WAKING * wall, 10 * RESOLUTION_NS)
        else:
            quiet = _involuntary() == switched
        return Elapsed(wall * 1e-9, None, quiet)

    def now(self) -> float:
        """Seconds by the clock."""
        return time.perf_counter()

    def rest(self) -> None:
        """Let others run first."""
        _give_way()


def timer_of(threads: int) -> Timer:
    """The timer for kernels that run on so many threads."""
    return ThreadTimer(switches=_own_switches()) if threads == 1 else TeamTimer()


def _own_switches() -> Callable[[], tuple[int, int]] | None:
    """A call that counts the voluntary and involuntary switches of the calling thread; None where the system does not tell."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return None
    if not hasattr(resource, "RUSAGE_THREAD"):
        return None

    def counts() -> tuple[int, int]:
        usage = resource.getrusage(resource.RUSAGE_THREAD)
        return usage.ru_nvcsw, usage.ru_nivcsw

    return counts


def _involuntary() -> int:
    """The involuntary switches of all threads of this process; 0 where the system does not tell."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _waited() -> dict[str, int]:
    """Nanoseconds that each thread of this process stood ready without a core so far; empty where the system does not tell."""
    found = {}
    try:
        for task in _TASKS.iterdir():
            found[task.name] = int((task / "schedstat").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):  # it ended meanwhile, or there is no such file
        pass
    return found


def _give_way() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()
