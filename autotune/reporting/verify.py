"""`autotune verify`: does what a log says still hold, here and now?

The best record of each study is rebuilt from its own definition and directives in a fresh process, compared with the reference, and timed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.autotune.log.index import dims_of
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.reporting.report import Tuned
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.reference import worker_task
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate
from tensorlang.autotune.workers.runner import Runner
from tensorlang.codegen.target import target
from tensorlang.errors import TensorlangError
from tensorlang.serialization.rebuild import rebuild
from tensorlang.system.memory import memory


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a study's best record holds, why not, and its time now and then in seconds."""

    holds: bool
    why: str = ""
    now: float | None = None
    then: float | None = None


def verify(tuned: Tuned) -> Verification:
    """Rebuild, check and time the best record of a study."""
    best = tuned.best
    if best is None or best.schedule is None:
        return Verification(holds=False, why="there is no valid schedule to verify")
    machine = target()
    if best.target.get("cpu") != machine.cpu or not machine.isa.issuperset(best.target.get("features", [])):
        return Verification(holds=False, why=f"it was measured on {best.target.get('cpu')}; this machine is {machine.cpu}")
    try:
        task = Task.of(rebuild(best.task.get("definition")), str(best.task.get("op")), dims_of(best))
        if task.fingerprint != best.task.get("fingerprint"):
            return Verification(holds=False, why="the definition is not the one that its fingerprint names")
        with Runner(worker_task(task, machine, best.threads, Policy(cache=best.cache)), Limits(memory=memory())) as runner:
            outcome = runner.trial(Candidate(schedule=best.schedule))
    except TensorlangError as error:
        return Verification(holds=False, why=str(error).splitlines()[0])
    if outcome.status != "ok":
        return Verification(holds=False, why=outcome.why, then=tuned.time)
    return Verification(holds=True, now=outcome.facts.time, then=tuned.time)
