"""What is under way on a cluster, and how long it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tensorlang.autotune.workers.runner import Limits

Stage = Literal["build", "measure", "paired"]

QUEUE: Final = 5
"""How many times longer than it may run a call may wait for a worker that others use too."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for the scheduler to answer; without a sign of life of a worker; on top of a candidate's limits; with nobody to measure."""

    scheduler: float = 20.0
    silence: float = 30.0
    slack: float = 30.0
    nobody: float = 60.0


@dataclass(slots=True)
class Job:
    """A candidate on its way, or the finalists; `shunned` is the worker that was lost with it."""

    key: str
    order: dict[str, Any]
    stage: Stage = "build"
    kernel: bytes = b""
    told: dict[str, Any] = field(default_factory=dict)
    worker: str = ""
    deadline: float = math.inf
    begun: bool = False
    lost: int = 0
    shunned: str = ""

    @property
    def trusted(self) -> bool:
        """Is this the default schedule, which others are compared with?"""
        return bool(self.order.get("trusted"))

    def allowed(self, limits: Limits) -> float:
        """Seconds that the worker may take once it has begun: what its own deadlines add up to, second tries included."""
        match self.stage:
            case "build":
                return limits.start_s + 2 * limits.compile_s
            case "measure":
                return limits.start_s + 2 * (limits.compile_s + limits.run_s)
            case "paired":
                return 3 * (limits.start_s + len(self.order["candidates"]) * (limits.compile_s + limits.run_s))
