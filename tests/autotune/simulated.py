"""Stand-ins on a clock of their own: a call takes the seconds that its configuration says, however busy the machine is."""

from collections.abc import Callable
from typing import Any

from tensorlang.autotune.measurement import timer
from tensorlang.autotune.workers.protocol import Candidate, WorkerTask
from tests.autotune import stand_ins

save = stand_ins.save


class Clock:
    """Nanoseconds that calls have taken in this process, and their own."""

    now = 0


class Kernel(stand_ins.Kernel):
    def bind(self, x: Any, *, out: Any) -> Callable[[], object]:
        call = super().bind(x, out=out)

        def timed() -> None:
            call()
            Clock.now += round(1e9 * self.config.get("takes", 1e-5))

        return timed


def warm(task: WorkerTask) -> None:
    """Have this process, which serves one task only, measure by the clock of the stand-ins."""
    stand_ins.warm(task)
    setattr(timer, "timer_of", lambda threads: timer.ThreadTimer(lambda: Clock.now, lambda: Clock.now))  # noqa: B010


def build(task: WorkerTask, candidate: Candidate, tell: Callable[[str], None]) -> Kernel:
    return Kernel(stand_ins.build(task, candidate, tell).config)


def load(task: WorkerTask, data: bytes) -> Kernel:
    return Kernel(stand_ins.load(task, data).config)
