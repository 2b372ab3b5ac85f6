"""What is under way on a cluster, and how long it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import NOTHING, Build, Facts, Measure, Paired

Work: TypeAlias = Build | Measure | Paired

QUEUE: Final = 5
"""How many times longer than it may run a call may wait for a worker that others use too."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait before giving up.

    For an answer of the `scheduler`, in a worker's `silence`, beyond a candidate's limits (`slack`), and while `nobody` can measure.
    """

    scheduler: float = 20.0
    silence: float = 30.0
    slack: float = 30.0
    nobody: float = 60.0


@dataclass(slots=True)
class Assignment:
    """A candidate on its way, or the finalists, and what is known so far; `shunned` is the worker that was lost with it."""

    key: str
    work: Work
    facts: Facts = NOTHING
    worker: str = ""
    deadline: float = math.inf
    begun: bool = False
    lost: int = 0
    shunned: str = ""

    @property
    def builds(self) -> bool:
        """Is only compiled?"""
        return isinstance(self.work, Build)

    @property
    def trusted(self) -> bool:
        """Is this the default schedule, which others are compared with?"""
        return not isinstance(self.work, Paired) and self.work.candidate.trusted

    def allowed(self, limits: Limits) -> float:
        """Seconds that the worker may take once it has begun: what its own deadlines add up to, second tries included."""
        match self.work:
            case Build():
                return limits.start_s + 2 * limits.compile_s
            case Measure():
                return limits.start_s + 2 * (limits.compile_s + limits.run_s)
            case Paired(candidates):
                return 3 * (limits.start_s + len(candidates) * (limits.compile_s + limits.run_s))
