"""A tuning job: propose, have built and measured elsewhere, write down, tell; then have the finalists measured again.

The log is the checkpoint. A job first tells its searcher what the log already has of the same program, target, threads and cache policy,
so a resumed job goes on where it stopped and a finished one measures nothing. As many candidates are in flight as the evaluator can use;
the searcher knows those as pending, and each trial's record says how many others were known when it was asked for, so that a run can be
replayed. A job may also be driven in slices (`search`, then `conclude`) by whoever divides time among many.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tensorlang.autotune.jobs.finalists import contest, decision, nominate
from tensorlang.autotune.jobs.ledger import Ledger, slowed, usual_sentinel, why_no_winner
from tensorlang.autotune.jobs.plan import Progress, TaskPlan
from tensorlang.autotune.jobs.recall import Recalled, comparable, recall
from tensorlang.autotune.jobs.result import Result, VerifiedSchedule, best_of
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import FinalRecord, StrategyFields
from tensorlang.autotune.log.writer import WriterLock
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.host import MachineFields
from tensorlang.autotune.search.factory import searcher
from tensorlang.autotune.search.searcher import Observation, Proposal, Searcher
from tensorlang.autotune.settings import Settings
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.points import factors
from tensorlang.autotune.verification.reference import worker_task
from tensorlang.autotune.workers.evaluator import Evaluator
from tensorlang.autotune.workers.footprint import require_memory
from tensorlang.autotune.workers.limited import LimitError
from tensorlang.autotune.workers.local import LocalEvaluator
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate, Outcome, WorkerTask
from tensorlang.codegen.target import Target
from tensorlang.errors import LogError, TuningError
from tensorlang.schedules.spaces.space import Config, spelling
from tensorlang.system.memory import memory

SEEDS_FROM_LOG: Final = 3
CODE: Final = ("tensorlang", "llvmlite", "numpy")
"""Software whose versions make a final measurement out of date."""
LEAST_S: Final = 1.0
"""Allowed for the reference results where hardly any time is left."""
STARTING_S: Final = 1.0
"""Allowed for the start of a process where a budget is divided."""


class Session:
    """One job on one task."""

    def __init__(self, task: Task, plan: TaskPlan, target: Target, settings: Settings, log: Log | None) -> None:
        self.task = task
        self.plan = plan
        self.target = target
        self.settings = settings
        self.log = None if log is None else log.of_task(task.op, task.program)
        self._library = log  # the whole folder, where it is one
        self.trials: list[Trial] = []
        self.final: FinalRecord | None = None
        strategy = StrategyFields(name=plan.name, space=plan.space.fingerprint)
        self._ledger = Ledger(self.log, task, target, settings, strategy)
        self._progress: Callable[[Progress], None] | None = None
        self._model: str | None = None if settings.dask else host.machine()["model"]
        self._recalled = False
        self._memory = Recalled()
        self._reason = "trials"
        self._until: float | None = None
        self._slice: float | None = None
        self._lock = None if self.log is None else WriterLock(self.log.path)
        self._evaluator: Evaluator | None = None
        self._request: WorkerTask | None = None
        self._searcher: Searcher | None = None
        self._loading: threading.Thread | None = None

    def run(self, progress: Callable[[Progress], None] | None = None) -> Result:
        """Search, then measure the finalists again, telling `progress` meanwhile. Raises as `tune` does."""
        budget = self.settings.budget
        self._until = None if budget is None else self._ledger.started + budget
        try:
            self.search(progress=progress)
            return self.conclude(progress)
        except KeyboardInterrupt:
            self.close("interrupted")
            raise
        except BaseException:
            self.close("failed")
            raise

    def search(self, trials: int | None = None, seconds: float | None = None, progress: Callable[[Progress], None] | None = None) -> str:
        """Measure until there are as many trials (default: the settings'), for so many seconds, or until no point is left.

        Returns which it was: "trials", "budget" or "exhausted". May be called again to go on; nothing is decided before `conclude`.
        """
        self._progress = progress
        if self.plan.template is not None:
            self.plan.template.begin()
        self._hold()
        self._recall()
        if self._finished():
            self._reason = "finished before"
        else:
            until = self._slice = None if seconds is None else time.monotonic() + seconds
            self._reason = self._search(self.settings.trials if trials is None else trials, until)
        return self._reason

    def conclude(self, progress: Callable[[Progress], None] | None = None, seconds: float | None = None) -> Result:
        """Measure the finalists again unless that was done, end the run, and return the winner. Raises as `tune` does.

        `seconds` bound it, as far as a few rounds are made in any case.
        """
        self._progress = progress
        self._slice = None if seconds is None else time.monotonic() + seconds
        self._recall()
        if not self._decided() and best_of(self.trials) is not None:
            self._hold()
            self._recall()
            if not self._decided():
                self._decide()
        self.close(self._reason)
        return self._result(self._reason)

    @property
    def left(self) -> float | None:
        """Seconds of the budget that are left; None without one."""
        return None if self.settings.budget is None else self._ledger.started + self.settings.budget - time.monotonic()

    @property
    def opened(self) -> bool:
        """Has it been made ready to measure?"""
        return self._request is not None

    def decided(self) -> bool:
        """Does the log, or this run, have a final measurement since the last trial?"""
        self._recall()
        return self._decided()

    def rest(self) -> None:
        """Let go of the processes; what goes on starts new ones."""
        if self._evaluator is not None:
            self._evaluator.close()
            self._evaluator = None
        if self.plan.template is not None:
            self.plan.template.close()

    def close(self, reason: str) -> None:
        """End the run, saying why; no process is left. May be called twice."""
        self.rest()
        with contextlib.suppress(LogError):  # a log that failed has been reported
            self._ledger.end(reason)
        if self._lock is not None:
            self._lock.__exit__()

    def _opened(self) -> Evaluator:
        """Where candidates are evaluated, ready for them."""
        if self._evaluator is None:
            self._ledger.start(self.plan.points)
            wanted = self.settings
            if wanted.dask is None:
                require_memory(self.task, self.target, wanted.threads)
            if self._request is None:
                self._request = self._asked()
            limits = Limits(compile_s=wanted.timeout, run_s=wanted.timeout, memory=memory())
            if wanted.dask is None:
                self._evaluator = LocalEvaluator(limits, builders=wanted.workers, path=wanted.path)
            else:
                from tensorlang.autotune.cluster import ClusterEvaluator  # noqa: PLC0415 - an extra

                self._evaluator = ClusterEvaluator(wanted.dask, limits, host.target_fields(self.target), path=wanted.path)
            tried = [trial for trial in self.trials if spelling(trial.config) == spelling(self.plan.default)]
            ours = self.plan.template is not None and self.plan.template.makes(self.plan.default)  # which workers cannot make
            default = None if ours or (tried and best_of(tried) is None) else self.plan.default
            self._evaluator.open(msgspec.structs.replace(self._request, default=default))
            self._meet(self._evaluator.machine)
        return self._evaluator

    def _asked(self) -> WorkerTask:
        """What workers are told of the task. Raises `TuningError` where the reference results cannot be had within the limits."""
        wanted, until = self.settings, self._end
        limit_s = wanted.timeout if until is None else min(wanted.timeout, max(until - time.monotonic(), LEAST_S))
        knobs = factors(self.plan.space.knobs)
        try:
            return worker_task(
                self.task, self.target, wanted.threads, wanted.policy, wanted.builder, limit_s=limit_s, factors=sorted(knobs)
            )
        except LimitError as error:
            if limit_s < wanted.timeout:  # the budget is to blame, and the next run may have more
                raise TuningError(f"{self.task.op}: the budget ended before the reference results were there ({error})") from None
            raise

    @property
    def _end(self) -> float | None:
        """When the time of this run, or of this slice of it, is over."""
        return min((at for at in (self._until, self._slice) if at is not None), default=None)

    def _meet(self, machine: MachineFields | None) -> None:
        """Once it is known which machine measures, leave out what the log has of other models."""
        if self._model is None and machine is not None:
            self._model = machine["model"]
            self.trials = [trial for trial in self.trials if comparable(trial, self._model)]
            if self.final is not None and self.final.winner not in {trial.id for trial in self.trials}:
                self.final = None

    @property
    def default(self) -> Trial | None:
        """The trial of the default schedule, if it is valid."""
        key = spelling(self.plan.default)
        return best_of([trial for trial in self.trials if spelling(trial.config) == key])

    # The search ------------------------------------------------------------------------------------------------------------------

    def _search(self, wanted: int, until: float | None) -> str:
        """Measure until the trials, the time or the points are used up; why it ended."""
        if self.settings.dask is not None:
            self._opened()  # the machine decides which trials of the log count
        search, flying, exhausted = self._ready(), dict[str, tuple[Proposal, dict[str, int]]](), False
        former = 0.0
        try:
            while True:
                late = min((at for at in (until, self._spare()) if at is not None), default=None)
                while not exhausted and len(self.trials) + len(flying) < wanted and not (late is not None and time.monotonic() >= late):
                    evaluator = self._opened()
                    if len(flying) >= evaluator.capacity:
                        break
                    order = {"asked": len(self.trials) + len(flying), "known": len(self.trials)}
                    if (proposal := search.ask()) is None:
                        exhausted = True
                        break
                    former = former or time.monotonic()
                    candidate = self._candidate(proposal)
                    if isinstance(candidate, Outcome):
                        now = time.monotonic()
                        self._take(search, proposal, candidate, now - former, order)
                        former = now
                        continue
                    flying[key := spelling(proposal.config)] = proposal, order
                    evaluator.submit(key, candidate)
                    self._prepared(search, wanted, now=False)
                if not flying:
                    return "trials" if len(self.trials) >= wanted else "exhausted" if exhausted else "budget"
                self._prepared(search, wanted, now=True)
                answer = self._opened().next(late)
                if answer is None:
                    return "budget"
                key, outcome = answer
                now = time.monotonic()
                proposal, order = flying.pop(key)
                self._take(search, proposal, outcome, now - former, order)
                former = now
        finally:
            for proposal, _ in flying.values():
                search.forget(proposal.config)
            if flying:
                self.rest()

    def _take(self, search: Searcher, proposal: Proposal, outcome: Outcome, wall_s: float, order: dict[str, int]) -> None:
        """Write down what came of a proposal, and tell those who wait for it."""
        trial = self._ledger.trial(len(self.trials), proposal, outcome, wall_s, order)
        self.trials.append(trial)
        search.tell(_observed(trial))
        self._tell("search", trial)

    def _ready(self) -> Searcher:
        """The searcher, told what the log has."""
        if self._searcher is None:
            wanted = self.settings
            self._searcher = searcher(
                wanted.strategy, self.plan.space, self.plan.default, seed=wanted.seed, seeds=self._seeds(), costs=self.plan.costs
            )
            for trial in self.trials:
                self._searcher.tell(_observed(trial))
        return self._searcher

    def _prepared(self, search: Searcher, trials: int, *, now: bool) -> None:
        """Load what the search needs beside the first build; where every core is measured on, before anything is measured."""
        if self._loading is None:
            self._loading = threading.Thread(target=search.prepare, args=(max(trials, self.settings.trials),), daemon=True)
            self._loading.start()
        if now and self._loading.is_alive() and not host.pinned(self.settings.threads):
            self._loading.join()

    def _candidate(self, proposal: Proposal) -> Candidate | Outcome:
        """What workers are to build; the outcome, where a template has no schedule for the point."""
        best = best_of(self.trials)
        incumbent = None if best is None else best.time
        if self.plan.template is not None and self.plan.template.makes(proposal.config):
            return self.plan.template.candidate(proposal.config, incumbent)
        return Candidate(proposal.config, incumbent=incumbent, trusted=proposal.source == "default")

    def _spare(self) -> float | None:
        """When the search must end for the final measurement to fit into the budget."""
        if self._until is None:
            return None
        finalists = nominate(self.trials, self.default, None) if self.trials else []
        building = sum(trial.compile_s for trial in finalists)
        running = sum(trial.run_s for trial in finalists)
        final = STARTING_S + building + self.settings.policy.processes * (STARTING_S + running)
        return self._until - min(final, (self.settings.budget or 0.0) / 2)

    def _seeds(self) -> Iterator[Config]:
        """The strategy's suggestions, then what the log knows of other shapes of the family."""
        yield from self.plan.seeds
        if self._library is None or self.plan.template is not None:
            return
        with contextlib.suppress(LogError):
            near = Database(self._library).near(self.task.family, self.task.extents, self.target, self.settings.threads)
            for _, trial in zip(range(SEEDS_FROM_LOG), near, strict=False):
                if (config := self.plan.space.project(trial.config)) is not None:
                    yield config

    # The end ---------------------------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        """Measure the finalists again, choose, and write it down."""
        self._tell("final", None)
        former = None if self.final is None else self.final.winner
        rivals = [] if self._memory.rival is None else [self._memory.rival]
        found = contest(self._opened(), [*nominate(self.trials, self.default, former), *rivals], self._end)
        if not found.finalists:
            (trial, outcome), *_ = found.failed
            raise TuningError(f"no finalist could be verified again; {trial.config}: {outcome.why}")
        verdict = decision(found, len(self.trials), self.default, former, usual_sentinel(self.trials))
        self.final = self._ledger.final(verdict, found.where)

    def _result(self, reason: str) -> Result:
        final = self.final
        if final is None:
            raise TuningError(why_no_winner(self.task.op, self.trials, self.settings.budget))
        by_id = {trial.id: trial for trial in (*self._memory.others, *self.trials)}
        choices = {
            row.id: VerifiedSchedule(min(row.samples), row.config, row.schedule, by_id[row.id], self.task.outputs)
            for row in final.finalists
            if row.id in by_id
        }
        return Result(
            self.task, self.target, self.settings.threads, choices[final.winner], choices.get(final.default or ""),
            final.speedup, tuple(self.trials), reason, final.speedup_interval, slowed(self.trials), final.verdict,
        )  # fmt: skip

    # The log ---------------------------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Be the only writer of the log; what was read before is read again. Raises `LogBusyError`."""
        if self._lock is not None and not self._lock.entered:
            self._lock.__enter__()
            if self._recalled and not self._ledger.trials:
                self._recalled, self.trials, self.final = False, [], None

    def _recall(self) -> None:
        """What the log has of this study, once: trials, and the last final measurement."""
        if self.log is None or not self.settings.resume or self._recalled:
            return
        self._recalled = True
        wanted = self.settings
        study = (self.task.program, self._ledger.study.target["fingerprint"], wanted.threads, wanted.policy.cache)
        self._memory = recall(self.log, study, self.task.dims, self.plan, self._model)
        self.trials, self.final = list(self._memory.trials), self._memory.final

    def _finished(self) -> bool:
        """Did a final measurement follow as many trials as are wanted, or all that there are?"""
        return self._decided() and len(self.trials) >= min(self.settings.trials, self.plan.points)

    def _decided(self) -> bool:
        """Did a final measurement with this software follow the last trial?"""
        if self.final is None or self.final.trials != len(self.trials):
            return False
        return all(self.final.software.get(name) == self._ledger.study.software[name] for name in CODE)

    def _tell(self, stage: str, last: Trial | None) -> None:
        if self._progress is not None:
            done, best = len(self.trials), best_of(self.trials)
            self._progress(Progress(done, self.settings.trials, last, best, self.default, stage, self._ledger.drift))


def _observed(trial: Trial) -> Observation:
    """What a searcher is told of a trial."""
    return Observation(trial.config, trial.time, trial.noise, trial.compile_s + trial.run_s)
