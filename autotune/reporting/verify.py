"""`autotune verify`: does what a log says still hold, here and now?

The best record of each study is rebuilt from its own definition and directives in a fresh process, compared with the reference, and timed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.autotune.log.index import dims_of
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.reporting.report import Tuned
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.reference import worker_request
from tensorlang.autotune.workers.runner import Limits, Runner
from tensorlang.codegen.target import target
from tensorlang.errors import TensorlangError
from tensorlang.rebuild import rebuild


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a study's best record holds, why not, and its time now and then in seconds."""

    holds: bool
    why: str = ""
    now: float | None = None
    then: float | None = None


def verify(tuned: Tuned) -> Verdict:
    """Rebuild, check and time the best record of a study."""
    best = tuned.best
    if best is None or best.schedule is None:
        return Verdict(holds=False, why="there is no valid schedule to verify")
    machine = target()
    if best.target.get("cpu") != machine.cpu or not machine.isa.issuperset(best.target.get("features", [])):
        return Verdict(holds=False, why=f"it was measured on {best.target.get('cpu')}; this machine is {machine.cpu}")
    try:
        task = Task.of(rebuild(best.task.get("definition")), str(best.task.get("op")), dims_of(best))
        if task.fingerprint != best.task.get("fingerprint"):
            return Verdict(holds=False, why="the definition is not the one that its fingerprint names")
        with Runner(Limits(memory=host.memory())) as runner:
            runner.task = worker_request(task, machine, best.threads, Policy(cache=best.cache))
            outcome = runner.trial({"schedule": best.schedule})
    except TensorlangError as error:
        return Verdict(holds=False, why=str(error).splitlines()[0])
    if outcome.status != "ok":
        return Verdict(holds=False, why=f"{outcome.status}: {(outcome.error or {}).get('message')}", then=tuned.time)
    return Verdict(holds=True, now=outcome.told["min"], then=tuned.time)
