"""One task of a batch, tuned a slice at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tensorlang.autotune.jobs.allocation import Curve
from tensorlang.autotune.jobs.jobfile import Job, TaskSpec
from tensorlang.autotune.jobs.plan import Progress
from tensorlang.autotune.jobs.result import Result, best_of
from tensorlang.autotune.jobs.session import Session
from tensorlang.autotune.jobs.tune import session
from tensorlang.autotune.log.database import Study
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.host import target_fields
from tensorlang.autotune.operators import named_extents
from tensorlang.autotune.workers.footprint import Footprint
from tensorlang.autotune.workers.limited import LimitError
from tensorlang.errors import TensorlangError

Tell = Callable[[Progress], None]


@dataclass(slots=True)
class BatchTask:
    """A task and how far it is: its trials, the result of its final measurement, and why it failed, if it did.

    `lasting`: it failed for want of time or memory, and will again; `suspect`: the job was killed when it began this task;
    `told`: the job's own file has why it failed.
    """

    spec: TaskSpec
    name: str
    outputs: Any
    job: Job
    recalled: list[Trial] = field(default_factory=list)
    result: Result | None = None
    failed: str = ""
    lasting: bool = False
    exhausted: bool = False
    suspect: bool = False
    study: Study | None = None
    told: bool = False
    timeout: float = 30.0
    _session: Session | None = None
    _footprint: Footprint | None = None

    @property
    def title(self) -> str:
        """What is tuned, as its spec says; with the kernel's name where the spec has several."""
        own = self.spec.title.split(" ", 1)
        return " ".join([self.name, *own[1:]])

    @property
    def trials(self) -> list[Trial]:
        """Those of the log, and those measured since."""
        return self.recalled if self._session is None or len(self._session.trials) < len(self.recalled) else self._session.trials

    @property
    def best(self) -> Trial | None:
        """The fastest trial."""
        return best_of(self.trials)

    @property
    def left(self) -> int:
        """Trials that may follow."""
        return 0 if self.failed or self.exhausted else max(self.spec.trials - len(self.trials), 0)

    @property
    def memory(self) -> Footprint | None:
        """What it takes of memory; None for one that could not be defined."""
        if self._footprint is None and self._session is not None:
            ready = self._session
            self._footprint = Footprint.of(ready.task, ready.target, ready.settings.threads)
        return self._footprint

    @property
    def points(self) -> int | None:
        """The feasible points of its space; None for one that could not be defined."""
        return None if self._session is None else self._session.plan.space.count.feasible

    @property
    def begun(self) -> bool:
        """Has it taken its first steps in this run?"""
        return self._session is not None and self._session.opened

    @property
    def open_to_more(self) -> bool:
        """Is there anything left to measure or to decide?"""
        return not self.failed and (self.left > 0 or (self.best is not None and not self.settled))

    @property
    def settled(self) -> bool:
        """Is there nothing to decide: a final measurement followed the last trial, or there is no valid one?"""
        return self.best is None or self.result is not None or (self._session is not None and self._session.decided())

    def curve(self) -> Curve:
        """What the allocation of time needs to know."""
        best = self.best
        scale = best.time if self.job.objective == "latency" and best is not None and best.time else 1.0
        times, walls = [trial.time for trial in self.trials], [trial.wall_s for trial in self.trials]
        return Curve(times, walls, self.left, self.spec.weight * scale)

    def open(self) -> Study:
        """Check that the task can be tuned here; the study in which its trials are. Raises `TensorlangError` where it cannot."""
        spec, job = self.spec, self.job
        wanted: dict[str, Any] = {name: getattr(spec, name) for name in ("strategy", "seed", "timeout", "cache", "target", "constants")}
        wanted |= {"workers": job.workers, "dask": job.dask}
        given = {name: value for name, value in wanted.items() if value is not None}
        given["extents"] = named_extents(spec.operator, spec.shape)
        ready = session(self.outputs, Log(job.log), name=self.name, threads=spec.threads, trials=spec.trials, budget=None, **given)
        self._session, self.timeout = ready, ready.settings.timeout
        if job.dask is None and (need := self.memory) is not None and (why := need.why_too_large()) is not None:
            self.failed = why
        return ready.task.program, target_fields(ready.target)["fingerprint"], ready.settings.threads, ready.settings.policy.cache

    def advance(self, count: int, seconds: float | None, tell: Tell) -> None:
        """Measure `count` more trials, or as many as fit in `seconds`."""
        with self._held() as ready:
            self.exhausted = ready.search(len(self.trials) + count, seconds, tell) in ("exhausted", "finished before")

    def rest(self) -> None:
        """Let the processes go until there is more to measure."""
        with self._held() as ready:
            ready.rest()

    def conclude(self, tell: Tell, seconds: float | None = None) -> None:
        """Measure the finalists again, in about so many seconds, unless that was done since the last trial; the task is then closed."""
        if self.best is not None and self.result is None and not self.failed:
            with self._held() as ready:
                self.result = ready.conclude(tell, seconds)

    def close(self, reason: str) -> None:
        """Nothing runs any more, and the log says why. May be called again."""
        if self._session is not None:
            with self._held() as ready:
                ready.close(reason)

    @contextlib.contextmanager
    def _held(self) -> Iterator[Session]:
        """Whatever goes wrong here is this task's failure: neither it nor a fault of ours costs the others theirs."""
        assert self._session is not None, "opened first"
        try:
            yield self._session
        except TensorlangError as error:
            self.failed = self.failed or str(error).splitlines()[0]
            self.lasting = self.lasting or isinstance(error, LimitError)
        except Exception as error:  # noqa: BLE001 - see above
            self.failed = self.failed or f"{type(error).__name__}: {error}".splitlines()[0]
