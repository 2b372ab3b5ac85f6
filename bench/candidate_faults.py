"""Candidates that misbehave in every known way: each is a recorded status with a reason, and the search goes on to a valid winner."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.kills import ROOT
from tensorlang.autotune.jobs.plan import TaskPlan
from tensorlang.autotune.jobs.session import Session
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.settings import Settings
from tensorlang.autotune.task import Task
from tensorlang.codegen.target import target
from tensorlang.language.definitions import compute, placeholder
from tensorlang.schedules.spaces.space import Choice, Space

STAND_INS: Final = ROOT / "tests" / "autotune"
TIMEOUT_S: Final = 3.0
SLOW_S: Final = 0.02
FAST_S: Final = 0.001
"""Seconds that the candidates take which do not misbehave: so far apart that no other work hides which is faster."""

EXPECTED: Final = {
    ("compile", "segv"): "compile_crash",
    ("compile", "abort"): "compile_crash",
    ("compile", "exit"): "compile_crash",
    ("compile", "raise"): "compile_error",
    ("compile", "hang"): "compile_timeout",
    ("compile", "kill"): "killed",
    ("compile", "oom"): "oom",
    ("run", "segv"): "crash",
    ("run", "abort"): "crash",
    ("run", "illegal"): "crash",
    ("run", "exit"): "crash",
    ("run", "raise"): "crash",
    ("run", "garbage"): "ok",
    ("run", "hang"): "run_timeout",
    ("run", "kill"): "killed",
    ("run", "oom"): "oom",
    ("run", "nothing"): "wrong_result",
    ("run", "wrong"): "wrong_result",
    ("run", "input"): "wrong_result",
    ("run", "outside"): "wrong_result",
}
"""Where a candidate misbehaves, how, and the status that is to be recorded. `garbage` is written to descriptors that are not ours."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a fault: the status and reason in the log, whether a valid winner was found beside it, and the seconds it took."""

    where: str
    how: str
    status: str
    why: str
    won: bool
    seconds: float

    @property
    def kept(self) -> bool:
        """Is it as expected, and said why?"""
        return self.won and self.status == EXPECTED[self.where, self.how] and (self.status == "ok" or bool(self.why))


def inject(where: str, how: str, workers: int = 1) -> Found:
    """One search of three points: the default, one that misbehaves, and a faster one."""
    x = placeholder((100,), name="x")
    default: dict[str, Any] = {"sleep": SLOW_S, where: None}
    space = Space((Choice("sleep", (SLOW_S, FAST_S)), Choice(where, (None, how))))
    plan = TaskPlan("stand-in", space, default, ({"sleep": SLOW_S, where: how}, {"sleep": FAST_S, where: None}))
    quick = Policy(sample_s=1e-4, least=3, most=5, rounds=6, processes=1)
    wanted = Settings(
        trials=3, timeout=TIMEOUT_S, policy=quick, builder="stand_ins:build", path=(str(STAND_INS),), strategy="random", workers=workers
    )  # fmt: skip
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder) / "faults.jsonl")
        result = Session(Task.of(compute((100,), lambda i: x[i] * 2, name="y"), "twice"), plan, target(), wanted, log).run()
        trial = next(trial for trial in log if trial.config[where] == how)
    won = result.best.config == {"sleep": FAST_S, where: None}
    return Found(where, how, trial.status, trial.why, won, time.monotonic() - start)


def campaign() -> list[Found]:
    """Every fault once."""
    return [inject(where, how) for where, how in EXPECTED]
