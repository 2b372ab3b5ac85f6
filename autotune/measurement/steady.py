"""A measurement beside which the machine was as fast as it can be, or the least slow of a few.

The sentinel runs before and after. Where it is slow, what was measured in between is too, by an amount that nobody knows (a kernel slows
down in its own proportion), so it is measured again after a moment: before it ranks among others, and before it draws more of the budget.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from tensorlang.autotune.measurement.measure import Measurement
from tensorlang.autotune.measurement.quality import Quality, worst
from tensorlang.autotune.measurement.sentinel import SLOW, usual_best

AGAIN: Final = 2
"""How often a measurement beside a slow machine is repeated."""
MOMENT_S: Final = 0.05
REMEMBERED: Final = 256
"""Times of the sentinel that its usual one is taken of."""


@dataclass(slots=True)
class Steady:
    """Measures beside a sentinel, of whose usual time (`slowness.usual_best`) it learns."""

    sentinel: Callable[[], float]
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.perf_counter
    seen: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    told: float | None = None

    def __call__(self, attempt: Callable[[], Measurement], seconds: float) -> tuple[Measurement, float]:
        """The measurement, marked where the machine was slow beside all attempts, and the sentinel's time.

        There are no more attempts than fit into `seconds`.
        """
        start, tried = self.clock(), list[tuple[float, Measurement]]()
        while True:
            before = self.sentinel()
            result = attempt()
            beside = max(before, after := self.sentinel())
            self.seen += (before, after)
            tried.append((beside, result))
            another = (self.clock() - start) * (1 + 1 / len(tried))
            if not self.slow(beside) or len(tried) > AGAIN or another > seconds:
                break
            self.wait(MOMENT_S)
        beside, result = min(tried, key=lambda one: one[0])
        quality = worst([result.quality, Quality.DRIFTED if self.slow(beside) else None])
        return replace(result, quality=quality or result.quality), beside

    def learn(self, usual: float | None) -> None:
        """The sentinel's usual time, as somebody knows it who saw more of this machine; None where nobody does."""
        self.told = usual

    def slow(self, seconds: float) -> bool:
        """Is the sentinel's time that of a slow machine?"""
        known = [usual for usual in (self.told, usual_best(self.seen) if self.seen else None) if usual is not None]
        return bool(known) and seconds > (1 + SLOW) * min(known)
