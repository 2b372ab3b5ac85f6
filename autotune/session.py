"""A tuning job: propose, build and measure in the disposable process, write down, tell; then measure the finalists again.

The log is the checkpoint. A job first tells its searcher what the log already has of the same program, target, threads and cache policy,
so a resumed job goes on where it stopped and a finished one measures nothing. While the worker compiles a candidate, the parent computes
the next proposal with that one in flight; a measurement never shares the machine with the search.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensorlang.autotune import host
from tensorlang.autotune.database import Database, study_of
from tensorlang.autotune.finalists import Finalist, contest, nominate, ratio, winner
from tensorlang.autotune.log import Log
from tensorlang.autotune.measure import Policy
from tensorlang.autotune.record import Trial, summary
from tensorlang.autotune.reference import write_reference
from tensorlang.autotune.result import Choice, Result, best_of, failures
from tensorlang.autotune.runner import Limits, Outcome, Runner
from tensorlang.autotune.search import Observation, Proposal, Searcher, searcher
from tensorlang.autotune.settings import BUILDER, Settings, checked, seconds
from tensorlang.autotune.task import Task
from tensorlang.codegen.target import Target, why_foreign
from tensorlang.codegen.target import target as named_target
from tensorlang.codegen.threads import get_threads
from tensorlang.errors import LogError, TuningError
from tensorlang.schedules.space import Config, Space, spelling

SEEDS_FROM_LOG: Final = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What a strategy offers for a task: its space, its default point, and points worth trying first."""

    name: str
    space: Space
    default: Config
    seeds: tuple[Config, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job stands, as its `progress` callback is told after each trial and before the final measurement."""

    done: int
    total: int
    last: Trial | None
    best: Trial | None
    default: Trial | None
    stage: str = "search"


def tune(
    outputs: object,
    trials: int = 64,
    log: str | os.PathLike[str] | Log | None = None,
    seed: int = 0,
    strategy: str = "bayesian",
    *,
    target: str | Target | None = None,
    threads: int | None = None,
    budget: float | str | None = None,
    timeout: float = 30.0,
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
    space: Space | Callable[[Space], Space] | None = None,
    name: str | None = None,
) -> Result:
    """Search for the fastest schedule of a program and return the winner.

    `trials` counts those that the log already has for this program, target and threads (unless `resume=False`). `budget` bounds the
    whole search in seconds (or "30m"), `timeout` the seconds in which a candidate must compile and, again, run. `space` is a space to
    search instead of the strategy's, or a function that edits it, as `lambda space: space.fix("mr", 6)`. `name` is the operator's in the
    log. On Ctrl-C the worker is killed, the log is complete, and `KeyboardInterrupt` propagates.

    Raises `TuningError` for a setting that makes no sense or where no schedule is valid, `LogError` if the log cannot be written.
    """
    return session(
        outputs, log, target=target, space=space, name=name, trials=trials, seed=seed, strategy=strategy,
        budget=seconds(budget), timeout=timeout, resume=resume, threads=threads,
    ).run(progress)  # fmt: skip


def session(
    outputs: object,
    log: str | os.PathLike[str] | Log | None,
    *,
    target: str | Target | None = None,
    space: Space | Callable[[Space], Space] | None = None,
    name: str | None = None,
    threads: int | None = None,
    **settings: Any,
) -> Session:
    """The job that `tune` runs, checked and ready."""
    machine = named_target(target)
    if (why := why_foreign(machine)) is not None:
        raise TuningError(f"cannot tune for {machine.name} here: {why}")
    wanted = checked(Settings(threads=get_threads() if threads is None else threads, **settings))
    task = Task.of(outputs, name)
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415 - tests of the job need no compiler

    strategy = choose(task.outputs, machine, wanted.threads)
    edited = space(strategy.space) if callable(space) else strategy.space if space is None else space
    plan = Plan(strategy.name, edited, strategy.default, tuple(getattr(strategy, "seeds", ())))
    return Session(task, plan, machine, wanted, None if log is None else Log(log) if not isinstance(log, Log) else log)


class Session:
    """One job on one task."""

    def __init__(self, task: Task, plan: Plan, target: Target, settings: Settings, log: Log | None) -> None:
        self.task = task
        self.plan = plan
        self.target = target
        self.settings = settings
        self.log = None if log is None else log.of_task(task.op, task.fingerprint)
        self._library = log  # the whole folder, where it is one
        self.trials: list[Trial] = []
        self.final: dict[str, Any] | None = None
        self._progress: Callable[[Progress], None] | None = None
        self._run = uuid.uuid4().hex
        self._started = time.monotonic()
        self._shared = self._identity()

    def run(self, progress: Callable[[Progress], None] | None = None) -> Result:
        """Search, then measure the finalists again, telling `progress` meanwhile. Raises as `tune` does."""
        self._progress = progress
        self._recall()
        if self._finished():
            return self._result("finished before")
        reason = "failed"
        limits = Limits(compile_s=self.settings.timeout, run_s=self.settings.timeout, memory=host.memory())
        with tempfile.TemporaryDirectory(prefix="tensorlang-") as folder, Runner(limits, path=self.settings.path) as runner:
            runner.prestart()
            self._append({"kind": "run_start", "trials": self.settings.trials, "seed": self.settings.seed, "search": self.settings.strategy,
                          "budget": self.settings.budget, "points": self.plan.space.count.feasible})  # fmt: skip
            try:
                wanted = self.settings
                runner.task = worker_request(self.task, self.target, wanted.threads, wanted.policy, Path(folder), wanted.builder)
                reason = self._search(runner)
                if best_of(self.trials) is not None:
                    self._decide(runner)
            except KeyboardInterrupt:
                reason = "interrupted"
                raise
            finally:
                with contextlib.suppress(LogError):  # a log that failed has been reported
                    self._append({"kind": "run_end", "reason": reason, **self._accounts()})
        return self._result(reason)

    @property
    def default(self) -> Trial | None:
        """The trial of the default schedule, if it is valid."""
        key = spelling(self.plan.default)
        return best_of([trial for trial in self.trials if spelling(trial.config) == key])

    # The search ------------------------------------------------------------------------------------------------------------------

    def _search(self, runner: Runner) -> str:
        """Measure until the trials, the budget or the points are used up; why it ended."""
        search = searcher(self.settings.strategy, self.plan.space, self.plan.default, seed=self.settings.seed, seeds=self._seeds())
        for trial in self.trials:
            search.tell(Observation(trial.config, trial.time, trial.noise))
        loading = threading.Thread(target=search.prepare, daemon=True)
        loading.start()
        upcoming = self._ask(search)
        while upcoming is not None:
            if self.settings.budget is not None and time.monotonic() - self._started > self.settings.budget:
                return "budget"
            proposal, ahead = upcoming, list[Proposal | None]()

            def meanwhile(ahead: list[Proposal | None] = ahead) -> None:
                ahead.append(self._ask(search, after=1))
                if not host.pinned(self.settings.threads):
                    loading.join()  # every core is measured on

            trial = self._measure(runner, proposal, meanwhile)
            search.tell(Observation(trial.config, trial.time, trial.noise))
            upcoming = ahead[0]
        loading.join()
        return "trials" if len(self.trials) >= self.settings.trials else "exhausted"

    def _ask(self, search: Searcher, after: int = 0) -> Proposal | None:
        return search.ask() if len(self.trials) + after < self.settings.trials else None

    def _measure(self, runner: Runner, proposal: Proposal, meanwhile: Callable[[], None]) -> Trial:
        start = time.monotonic()
        best = best_of(self.trials)
        known = None if best is None else best.time
        candidate = {"config": proposal.config, "incumbent": known, "trusted": proposal.source == "default"}
        outcome = runner.trial(candidate, meanwhile, self.settings.timeout if known is None else 5 + 40 * known)
        fields = self._trial(proposal, outcome, time.monotonic() - start)
        self._append(fields)
        trial = Trial.of(fields)
        self.trials.append(trial)
        self._tell("search", trial)
        return trial

    def _trial(self, proposal: Proposal, outcome: Outcome, wall_s: float) -> dict[str, Any]:
        told = outcome.told
        samples = told.get("samples", [])
        error = outcome.error and {name: outcome.error.get(name) for name in ("type", "message", "signal")}
        return {
            "kind": "trial",
            "id": uuid.uuid4().hex,
            "seq": len(self.trials),
            **self._shared,
            "config": proposal.config,
            "schedule": told.get("schedule"),
            "source": proposal.source,
            "prediction": proposal.prediction,
            "status": outcome.status,
            "error": error,
            "samples": samples,
            "number": told.get("number"),
            **summary(samples),
            "censored": bool(told.get("censored", False)),
            "flops": told.get("flops"),
            "bytes": told.get("bytes"),
            "compile_s": round(told.get("compile_s", wall_s if outcome.status.startswith("compile") else 0.0), 6),
            "run_s": round(told.get("run_s", wall_s - told.get("compile_s", 0.0) if outcome.status.endswith("timeout") else 0.0), 6),
            "wall_s": round(wall_s, 6),
            "load": host.load(),
            "run": self._run,
            "time_unix": round(time.time(), 3),
        }

    def _seeds(self) -> Iterator[Config]:
        """The strategy's suggestions, then what the log knows of other shapes of the family."""
        yield from self.plan.seeds
        if self._library is None:
            return
        with contextlib.suppress(LogError):
            near = Database(self._library).near(self.task.family, self.task.extents, self.target, self.settings.threads)
            for _, trial in zip(range(SEEDS_FROM_LOG), near, strict=False):
                if (config := self.plan.space.project(trial.config)) is not None:
                    yield config

    # The end ---------------------------------------------------------------------------------------------------------------------

    def _decide(self, runner: Runner) -> None:
        """Measure the finalists again, choose, and write it down."""
        self._tell("final", None)
        former = None if self.final is None else str(self.final.get("winner"))
        finalists, failed = contest(runner, nominate(self.trials, self.default, former))
        if not finalists:
            (trial, outcome), *_ = failed
            why = f"{outcome.status}: {(outcome.error or {}).get('message')}"
            raise TuningError(f"no finalist could be verified again; {trial.config}: {why}")
        best = winner(finalists, self.default, former)
        base = next((finalist for finalist in finalists if finalist.trial is self.default), None)
        self.final = {
            "kind": "final",
            "id": uuid.uuid4().hex,
            **self._shared,
            "trials": len(self.trials),
            "finalists": [finalist.to_json() for finalist in finalists],
            "failed": [{"id": trial.id, "status": outcome.status} for trial, outcome in failed],
            "winner": best.trial.id,
            "time": best.time,
            "default": base and base.trial.id,
            **_compared(base, best),
            "run": self._run,
            "time_unix": round(time.time(), 3),
        }
        self._append(self.final)

    def _result(self, reason: str) -> Result:
        by_id = {trial.id: trial for trial in self.trials}
        rows = {} if self.final is None else {row["id"]: row for row in self.final["finalists"]}
        if self.final is None:
            raise TuningError(self._no_winner())
        choices = {
            key: Choice(row["min"], row["config"], row["schedule"], by_id[key], self.task.outputs)
            for key, row in rows.items()
            if key in by_id
        }
        return Result(
            self.task, self.target, self.settings.threads, choices[self.final["winner"]], choices.get(self.final["default"] or ""),
            self.final["speedup"], tuple(self.trials), reason,
        )  # fmt: skip

    def _no_winner(self) -> str:
        if not self.trials:
            return f"{self.task.op}: nothing was measured; the budget of {self.settings.budget} s ended before the first trial"
        counts = ", ".join(f"{count} {status}" for status, count in failures(self.trials).items())
        first = next((trial for trial in self.trials if trial.error is not None), self.trials[0])
        why = f"{first.config}: {first.why}"
        return f"{self.task.op}: no schedule is valid after {len(self.trials)} trials ({counts}); the first failure: {why}"

    # The log ---------------------------------------------------------------------------------------------------------------------

    def _recall(self) -> None:
        """What the log has of this study: trials, and the last final measurement."""
        if self.log is None or not self.settings.resume:
            return
        wanted = self.settings
        study = (self.task.fingerprint, self._shared["target"]["fingerprint"], wanted.threads, wanted.policy.cache)
        for record in self.log.records("trial", "final"):
            if isinstance(record, Trial):
                if study_of(record) == study and record.status != "infra":
                    self.trials.append(record)
            elif record.get("winner") in {trial.id for trial in self.trials}:
                self.final = record

    def _finished(self) -> bool:
        """Did a final measurement with this software follow as many trials as are wanted, or all that there are?"""
        if self.final is None or self.final["trials"] != len(self.trials) or self.final["software"] != self._shared["software"]:
            return False
        return len(self.trials) >= min(self.settings.trials, self.plan.space.count.feasible)

    def _append(self, fields: dict[str, Any]) -> None:
        if self.log is not None:
            own = {"id": uuid.uuid4().hex, "run": self._run, "time_unix": round(time.time(), 3), **self._shared}
            self.log.append({**own, **fields})

    def _identity(self) -> dict[str, Any]:
        return {
            "task": self.task.to_json(),
            "strategy": {"name": self.plan.name, "space": self.plan.space.fingerprint},
            "target": host.target_fields(self.target),
            "threads": self.settings.threads,
            "cache": self.settings.policy.cache,
            "policy": self.settings.policy.to_json(),
            "machine": host.machine(),
            "software": host.software(),
        }

    def _accounts(self) -> dict[str, Any]:
        """Where the time of this run went."""
        own = [trial for trial in self.trials if trial.fields.get("run") == self._run]
        wall = sum(trial.wall_s for trial in own)
        busy = sum(trial.compile_s + trial.run_s for trial in own)
        overhead = round(1 - busy / wall, 4) if wall else None
        return {"wall_s": round(time.monotonic() - self._started, 3), "measured": len(own), "overhead": overhead}

    def _tell(self, stage: str, last: Trial | None) -> None:
        if self._progress is not None:
            self._progress(Progress(len(self.trials), self.settings.trials, last, best_of(self.trials), self.default, stage))


def worker_request(task: Task, target: Target, threads: int, policy: Policy, folder: Path, builder: str = BUILDER) -> dict[str, Any]:
    """What a worker is told of a task; the reference results are computed now and kept in `folder`."""
    return {
        **write_reference(task, folder, seed=0).to_json(),
        "definition": task.definition,
        "fingerprint": task.fingerprint,
        "inputs": [spec.to_json() for spec in task.inputs],
        "outputs": [spec.to_json() for spec in task.results],
        "reduction": task.reduction,
        "seed": 0,
        "target": target.name,
        "threads": threads,
        "cores": host.pinned(threads),
        "policy": policy.to_json(),
        "builder": builder,
    }


def _compared(base: Finalist | None, best: Finalist) -> dict[str, float | None]:
    if base is None:
        return {"default_time": None, "speedup": None, "speedup_error": None}
    middle, error = ratio(base, best)
    return {"default_time": base.time, "speedup": middle, "speedup_error": error}
