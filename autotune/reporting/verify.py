"""`autotune verify`: does what a log says still hold, here and now?

The best record of each study is rebuilt from its own definition and directives in a fresh process, compared with the reference, and timed.

Two days are compared, so the tolerance is that of two days: `TOLERANCE`, or three standard deviations of the samples of both if that is
more. Where both days timed the fixed piece of work (the sentinel), what the machine itself gained or lost is taken out first. A time
that is too long is measured again, in turns with another schedule of the same program that the log timed beside it: a neighbour on the same
core slows code by how it uses the core, which no fixed work shows, and both alike. The least of `ATTEMPTS` counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import truediv
from statistics import median
from typing import Final

from tensorlang.autotune.log.fixed_operands import constants_of
from tensorlang.autotune.log.index import dims_of
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import FinalistRecord
from tensorlang.autotune.measurement.interval import deviation
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.reporting.analysis import number
from tensorlang.autotune.reporting.report import Tuned
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.reference import worker_task
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate, Facts
from tensorlang.autotune.workers.runner import Runner
from tensorlang.codegen.target import target
from tensorlang.errors import TensorlangError
from tensorlang.serialization.rebuild import rebuild
from tensorlang.system.memory import memory

TOLERANCE: Final = 0.1
"""By how much two days may differ, as a share of the time in the log."""
ATTEMPTS: Final = 3
PLAUSIBLE: Final = 4.0
"""How many times as fast, or as slow, a machine may be as on another day: beyond that, what was measured beside the code was disturbed, as
by a machine that stood still for a second, and the times themselves are compared."""


class Verdict(StrEnum):
    """What came of a record: its time holds, it was beaten or missed by more than the tolerance, it does not run, it is of another CPU."""

    HOLDS = "holds"
    FASTER = "faster"
    SLOWER = "slower"
    FAILS = "does not hold"
    SKIPPED = "skipped"

    @property
    def good(self) -> bool:
        """Is there nothing to complain of?"""
        return self not in (Verdict.SLOWER, Verdict.FAILS)


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on a study's best record, why; its time now and then in seconds, and by how much they may differ, as a share."""

    verdict: Verdict
    why: str = ""
    now: float | None = None
    then: float | None = None
    tolerance: float | None = None

    @property
    def holds(self) -> bool:
        """Is there nothing to complain of?"""
        return self.verdict.good


def verify(tuned: Tuned) -> Verification:
    """Rebuild, check and time the best record of a study."""
    best = tuned.best
    if best is None or best.schedule is None:
        return Verification(Verdict.FAILS, "there is no valid schedule to verify")
    machine = target()
    if best.target.get("cpu") != machine.cpu or not machine.isa.issuperset(best.target.get("features", [])):
        return Verification(Verdict.SKIPPED, f"it was measured on {best.target.get('cpu')}; this machine is {machine.cpu}")
    try:
        task = Task.of(rebuild(best.task.get("definition")), str(best.task.get("op")), dims_of(best), constants=constants_of(best.task))
        if task.fingerprint != best.task.get("fingerprint"):
            return Verification(Verdict.FAILS, "the definition is not the one that its fingerprint names")
        with Runner(worker_task(task, machine, best.threads, Policy(cache=best.cache)), Limits(memory=memory())) as runner:
            return _measured(runner, tuned, best)
    except TensorlangError as error:
        return Verification(Verdict.FAILS, str(error).splitlines()[0])


def _measured(runner: Runner, tuned: Tuned, best: Trial) -> Verification:
    found: list[Verification] = []
    other = _beside(tuned, best)
    while len(found) < ATTEMPTS and (not found or found[-1].verdict is Verdict.SLOWER):
        found.append(_in_turns(runner, tuned, *other) if found and other is not None else _alone(runner, tuned, best))
    return found[-1] if found[-1].verdict is not Verdict.SLOWER else min(found, key=lambda one: one.now or math.inf)


def _alone(runner: Runner, tuned: Tuned, best: Trial) -> Verification:
    outcome = runner.trial(Candidate(schedule=best.schedule))
    if outcome.status != "ok" or outcome.facts.time is None or tuned.time is None:
        return Verification(Verdict.FAILS, outcome.why, then=tuned.time)
    return judged(outcome.facts, tuned.time, _samples(tuned, best), number(best.fields.get("sentinel")))


def _in_turns(runner: Runner, tuned: Tuned, best: FinalistRecord, other: FinalistRecord) -> Verification:
    outcome = runner.paired([Candidate(schedule=each.schedule) for each in (best, other)])
    if outcome.status != "ok":
        return Verification(Verdict.FAILS, outcome.why, then=tuned.time)
    return compared(outcome.rows[0], outcome.rows[1], best, other)


def _beside(tuned: Tuned, best: Trial) -> tuple[FinalistRecord, FinalistRecord] | None:
    """The winner and another schedule in the final measurement, the default if that is another; None where there were no two."""
    final = tuned.final
    won = None if final is None else final.finalist(best.id)
    if final is None or won is None or not won.schedule:
        return None
    pairs = [(won, each) for each in final.finalists if each is not won and each.schedule and len(each.samples) == len(won.samples)]
    return min(pairs, key=lambda pair: pair[1].id != final.default, default=None)


def judged(now: Facts, then: float, samples: Sequence[float], sentinel: float | None) -> Verification:
    """A measurement beside the time in a log, its samples there, and the seconds that the fixed piece of work took beside them."""
    assert now.time is not None
    machine = now.sentinel / sentinel if now.sentinel and sentinel else 1.0
    spread = math.hypot(*(deviation(own) / median(own) for own in (now.samples, samples) if own))
    return _verdict(now.time, then, now.time / then / machine, spread)


def compared(now: Facts, beside: Facts, won: FinalistRecord, other: FinalistRecord) -> Verification:
    """A measurement in turns with another schedule, beside the same in a log: what both alike gained or lost is the machine's."""
    pairs = (now.samples, beside.samples), (won.samples, other.samples)
    leads = [list(map(truediv, *pair)) for pair in pairs]
    lead, former = map(median, leads)
    then = won.least or min(won.samples)
    assert now.time is not None
    return _verdict(now.time, then, lead / former, math.hypot(*(deviation(each) / median(each) for each in leads)))


def _verdict(now: float, then: float, ratio: float, spread: float) -> Verification:
    """A time beside that of another day, where `ratio` of both is the code's own, and samples scatter by this share."""
    tolerance = max(TOLERANCE, 3 * spread)
    machine = now / then / ratio
    if not 1 / PLAUSIBLE < machine < PLAUSIBLE:
        ratio, machine = now / then, 1.0
    verdict = Verdict.SLOWER if ratio > 1 + tolerance else Verdict.FASTER if ratio < 1 / (1 + tolerance) else Verdict.HOLDS
    about = "" if abs(machine - 1) < TOLERANCE / 2 else f"the machine itself takes {machine:.2f} times as long as then"
    return Verification(verdict, about, now, then, tolerance)


def _samples(tuned: Tuned, best: Trial) -> Sequence[float]:
    """The samples behind the time in the log."""
    finalist = None if tuned.final is None else tuned.final.finalist(best.id)
    return best.samples if finalist is None else finalist.samples
