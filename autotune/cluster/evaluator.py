"""Candidates on a cluster: where each is built and measured, what is tried again, and when to stop waiting.

Each candidate is built by one worker and measured by another, or the same. The client gives a worker no more than it can do at once, so
that what it waits for has begun, and what has begun has a deadline. What a lost worker had is tried once more, elsewhere if there is an
elsewhere; a candidate whose worker was lost both times is given up.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from tensorlang.autotune.cluster import remote
from tensorlang.autotune.cluster.assignment import QUEUE, Assignment, Patience
from tensorlang.autotune.cluster.hosts import Member
from tensorlang.autotune.cluster.link import Link, News
from tensorlang.autotune.cluster.messages import HoldTask
from tensorlang.autotune.cluster.worker_pool import WorkerPool
from tensorlang.autotune.log.status import Failure
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.host import MachineFields, TargetFields
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Build, Candidate, Measure, Outcome, Paired, WorkerTask, decode, encode
from tensorlang.autotune.workers.runner import incumbent
from tensorlang.codegen.target import Target, target as named_target
from tensorlang.errors import TuningError

TICK: Final = 1.0
AHEAD: Final = 4
"""Builds for each host that measures: with more, candidates would only be asked for with less known."""


class ClusterEvaluator:
    """Evaluates on the workers of the Dask scheduler at `address` that can run `target` (None: their own).

    `machine` is that of a host which measures; every outcome tells its own. Nothing happens before `open`, which raises `TuningError`
    where Dask is missing, the scheduler does not answer, or no worker can measure. `next` and `paired` raise it when the scheduler is
    lost, or for a while nobody is left to measure; outcomes that have arrived are returned first.
    """

    def __init__(
        self,
        address: str,
        limits: Limits,
        target: TargetFields | None = None,
        *,
        path: tuple[str, ...] = (),
        patience: Patience | None = None,
    ) -> None:
        self.limits = limits
        self.machine: MachineFields | None = None
        self._address = address
        self._target = target
        self._path = path
        self._patience = patience or Patience()
        self._pool: WorkerPool | None = None
        self._underway: dict[str, Assignment] = {}
        self._waiting: deque[Assignment] = deque()
        self._finished: deque[tuple[str, Outcome]] = deque()
        self._best = math.inf
        self._missing: set[str] = set()
        self._watched = self._staffed = 0.0

    @property
    def capacity(self) -> int:
        """The threads that build, as far as measuring keeps up with them, and one candidate more for each host that measures."""
        if self._pool is None:
            return 1
        hosts = len({one.host for one in self._pool.measurers()})
        return hosts + min(sum(one.builders for one in self._pool.builders()), AHEAD * hosts) or 1

    def open(self, task: WorkerTask) -> None:
        """Connect, choose the hosts and give them the task."""
        self.close()
        pool = self._pool = WorkerPool(Link(self._address, self._patience.scheduler), self._target, self._patience.silence)
        try:
            pool.gather(exact=task.target == "native")  # such code is for whoever builds it
            self.machine = pool.measurers()[0].about.machine
            pool.give(HoldTask(structs.replace(task, cores=None), self.limits, self._path))
        except BaseException:
            self.close()
            raise
        self._watched = self._staffed = time.monotonic()

    def submit(self, key: str, candidate: Candidate) -> None:
        """Send a candidate on its way."""
        self._waiting.append(Assignment(key, Build(candidate)))
        self._place()

    def next(self, until: float | None = None) -> tuple[str, Outcome] | None:
        """The next candidate that is finished; None if there is none before `until`, or none on its way."""
        while not self._finished:
            if until is None and not self._underway and not self._waiting:
                return None
            left = math.inf if until is None else until - time.monotonic()
            if left <= 0:
                return None
            self._step(min(left, TICK))
        return self._finished.popleft()

    def paired(self, candidates: Sequence[Candidate], until: float | None = None) -> Outcome:
        """Time the finalists in turns, in fresh processes of one host."""
        seconds = None if until is None else max(until - time.monotonic(), 0.0)
        for token in list(self._underway):
            self._drop(token)
        self._finished.clear()
        self._waiting = deque([Assignment("", Paired(tuple(candidates), seconds=seconds))])
        while not self._finished:
            self._step(TICK)
        return self._finished.popleft()[1]

    def close(self) -> None:
        """Take back what is waiting, let the workers end their processes, and hang up."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.release()
            pool.link.close()
        self._underway, self._waiting, self._finished, self._missing, self._best = {}, deque(), deque(), set(), math.inf

    # What happens ----------------------------------------------------------------------------------------------------------------

    def _step(self, wait: float) -> None:
        """Wait for news and act on it; look after the workers now and then."""
        pool = self._working()
        self._place()
        for news in pool.link.news(wait):
            if not pool.hear(news):
                self._hear(news)
        if not self._finished and (self._missing or time.monotonic() - self._watched >= TICK):
            self._watch()
        self._place()

    def _working(self) -> WorkerPool:
        if self._pool is None:
            raise TuningError("this evaluator is not open")
        return self._pool

    def _hear(self, news: News) -> None:
        job = self._underway.get(news.token)
        if job is None:
            return
        if news.event == "begun":
            if job.begun:  # Dask has started it again: the worker was lost and came back under its address
                job.lost += 1
            job.begun, job.deadline = True, time.monotonic() + job.allowed(self.limits) + self._patience.slack
            return
        if news.event == "lost":  # the worker, or the scheduler: `_watch` will tell
            self._missing.add(news.token)
            return
        self._leave(news.token)
        if news.event == "told":
            self._told(job, news.value)
        else:
            self._lose(job, f"failed: {news.value}")

    def _told(self, job: Assignment, value: Any) -> None:
        try:
            outcome = decode(Outcome, *value)
        except (TypeError, ValueError) as error:
            self._lose(job, f"answered what is no outcome: {error}")
            return
        one, fault = self._working().members.get(job.worker), outcome.error
        if outcome.status == "infra":
            if fault is not None and fault.type == remote.STRANGER:
                self._working().give_again(job.worker)
                self._waiting.appendleft(job)
            else:
                job.begun = False
                self._lose(job, "failed" if fault is None else fault.message)
            return
        if one is not None:
            one.failures = 0
        outcome = structs.replace(outcome, facts=job.facts.then(outcome.facts))
        if isinstance(job.work, Build) and outcome.status == "ok":
            work, facts = Measure(job.work.candidate, outcome.facts.kernel), outcome.facts.without_kernel()
            self._waiting.appendleft(replace(job, work=work, facts=facts, begun=False, worker="", deadline=math.inf))
        else:
            self._measured(job, outcome)
            self._finished.append((job.key, outcome))

    def _measured(self, job: Assignment, outcome: Outcome) -> None:
        if outcome.status == "ok":
            self._best = min(self._best, outcome.facts.time or math.inf)
        elif job.trusted:
            self._working().distrust()

    def _lose(self, job: Assignment, why: str) -> None:
        """The worker of a job is lost or of no use: try once more, else give the candidate up."""
        one = self._working().members.get(job.worker)
        if one is not None:
            one.failures += 1
            if one.failures > 1:
                self._working().banish(job.worker, why)
        job.lost += 1
        if job.lost < 2:
            retry = replace(job, shunned=job.worker, worker="", begun=False, deadline=math.inf)
            self._waiting.appendleft(retry)
            return
        message = f"the worker {job.worker} {why}, the second one with this candidate"
        outcome = Outcome("killed" if job.begun else "infra", job.facts, Failure("WorkerLost", message[:500]))
        self._finished.append((job.key, outcome))

    def _drop(self, token: str) -> None:
        self._working().link.drop(token)
        self._leave(token)

    def _leave(self, token: str) -> None:
        job = self._underway.pop(token)
        if (one := self._working().members.get(job.worker)) is not None:
            one.building.discard(token)
            one.measuring.discard(token)

    def _watch(self) -> None:
        """Look after workers and deadlines. Raises `TuningError` if there is no hope left."""
        pool = self._working()
        lost = pool.watch()
        now = self._watched = time.monotonic()
        for token, job in list(self._underway.items()):
            late = now > job.deadline
            if late or token in self._missing or job.worker not in pool.members:
                self._drop(token)
                if late:
                    pool.banish(job.worker, "it did not answer in time")
                self._lose(job, lost.get(job.worker, "did not answer in time" if late else "was lost"))
        self._missing.clear()
        if any(one.ready for one in pool.measurers()):
            self._staffed = now
        elif now - self._staffed > self._patience.nobody and not self._finished:
            raise TuningError(
                f"for {self._patience.nobody:g} s no worker at {self._address} could measure; every finished trial is in the log: "
                "start workers and repeat the command, which goes on from there"
            )

    # Who does what ---------------------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Give waiting jobs to workers that are free: what is to be measured first, and the default before all others."""
        waiting, self._waiting = sorted(self._waiting, key=lambda job: (job.builds, not job.trusted)), deque()
        held, due = any(job.trusted for job in (*waiting, *self._underway.values())), False
        for job in waiting:
            if job.builds:
                one = self._builder(job, due=due)
            elif held and not job.trusted:
                one = None
            else:
                one = self._measurer(job)
                due |= one is None
            if one is None:
                self._waiting.append(job)
            else:
                self._start(job, one)

    def _builder(self, job: Assignment, *, due: bool) -> Member | None:
        """The least busy worker; where measuring needs all cores of a host, none there while it measures or is `due` to."""
        pool = self._working()
        taken = {one.host for one in pool.measurers() if pool.filled(one) and (due or one.measuring)}
        free = [one for one in pool.builders() if one.ready and len(one.building) < one.builders and one.host not in taken]
        return min(free, key=lambda one: (one.address == job.shunned, len(one.building) / one.builders, one.measures), default=None)

    def _measurer(self, job: Assignment) -> Member | None:
        """A worker on a host where we measure nothing now; not the one that was lost, as long as another will be free."""
        pool = self._working()
        ready = [one for one in pool.measurers() if one.ready]
        others = [one for one in ready if one.address != job.shunned] or ready
        building = {one.host for one in pool.builders() if one.building}
        busy = {one.host for one in ready if one.measuring or (pool.filled(one) and one.host in building)}
        return next((one for one in others if one.host not in busy), None)

    def _start(self, job: Assignment, one: Member) -> None:
        pool = self._working()
        token = uuid.uuid4().hex
        job.worker, job.begun = one.address, False
        job.deadline = time.monotonic() + QUEUE * job.allowed(self.limits)
        self._underway[token] = job
        (one.building if job.builds else one.measuring).add(token)
        work = job.work
        if isinstance(work, Measure):
            work = structs.replace(work, candidate=incumbent(work.candidate, self._best))
        pool.link.start(token, one.address, remote.work, pool.name, *encode(work), measuring=not job.builds)


def target(address: str, wanted: str | Target | None = None) -> Target:
    """The processor to tune for on the cluster at `address`: that of the hosts that an evaluator will choose.

    `wanted` names a target; None means this machine's own CPU if a worker that measures has it, else that of the most hosts. Raises
    `TuningError` as `ClusterEvaluator.open` does, `BuildError` for a name that is not known.
    """
    asked = None if wanted in (None, "native") else named_target(wanted)
    link = Link(address, Patience().scheduler)
    try:
        pool = WorkerPool(link, None if asked is None else host.target_fields(asked), Patience().silence)
        pool.gather(exact=False)
        found = pool.measurers()[0].target
    finally:
        link.close()
    return found if asked is None else asked
