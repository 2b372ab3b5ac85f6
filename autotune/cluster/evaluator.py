"""Candidates on a cluster: where each is built and measured, what is tried again, and when to stop waiting.

Each candidate is built by one worker and measured by another, or the same. The client gives a worker no more than it can do at once, so
that what it waits for has begun, and what has begun has a deadline. What a lost worker had is tried once more, elsewhere if there is an
elsewhere; a candidate whose worker was lost both times is given up.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections import deque
from dataclasses import asdict, replace
from typing import Any, Final

from tensorlang.autotune.cluster import remote
from tensorlang.autotune.cluster.assignment import QUEUE, Job, Patience
from tensorlang.autotune.cluster.hosts import Member
from tensorlang.autotune.cluster.link import Link, News
from tensorlang.autotune.cluster.worker_pool import Crew
from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.runner import Limits, Outcome
from tensorlang.codegen.target import Target
from tensorlang.codegen.target import target as named_target
from tensorlang.errors import TuningError

TICK: Final = 1.0
AHEAD: Final = 4
"""Builds for each host that measures: with more, candidates would only be asked for with less known."""


class ClusterEvaluator:
    """Evaluates on the workers of the Dask scheduler at `address` that can run `target` (fields as `host.target_fields` has them).

    `machine` is that of a host which measures; every outcome tells its own. Nothing happens before `open`, which raises `TuningError`
    where Dask is missing, the scheduler does not answer, or no worker can measure. `next` and `paired` raise it when the scheduler is
    lost, or for a while nobody is left to measure; outcomes that have arrived are returned first.
    """

    def __init__(
        self,
        address: str,
        limits: Limits,
        target: dict[str, Any] | None = None,
        *,
        path: tuple[str, ...] = (),
        patience: Patience | None = None,
    ) -> None:
        self.limits = limits
        self.machine: dict[str, Any] | None = None
        self._address = address
        self._target = target
        self._path = path
        self._patience = patience or Patience()
        self._crew: Crew | None = None
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._finished: deque[tuple[str, Outcome]] = deque()
        self._best = math.inf
        self._missing: set[str] = set()
        self._watched = self._staffed = 0.0

    @property
    def capacity(self) -> int:
        """The threads that build, as far as measuring keeps up with them, and one candidate more for each host that measures."""
        if self._crew is None:
            return 1
        hosts = len({one.host for one in self._crew.benches()})
        return hosts + min(sum(one.builders for one in self._crew.builders()), AHEAD * hosts) or 1

    def open(self, task: dict[str, Any]) -> None:
        """Connect, choose the hosts and give them the task."""
        self.close()
        crew = self._crew = Crew(Link(self._address, self._patience.scheduler), self._target, self._patience.silence)
        try:
            crew.gather(exact=task.get("target", "native") == "native")  # such code is for whoever builds it
            self.machine = crew.benches()[0].about["machine"]
            plain = {name: value for name, value in task.items() if name not in ("blobs", "cores")}
            order = {"task": plain, "limits": asdict(self.limits), "path": list(self._path)}
            crew.give(order, list(task.get("blobs", ())))
        except BaseException:
            self.close()
            raise
        self._watched = self._staffed = time.monotonic()

    def submit(self, key: str, candidate: dict[str, Any]) -> None:
        """Send a candidate on its way."""
        self._waiting.append(Job(key, candidate))
        self._place()

    def next(self, until: float | None = None) -> tuple[str, Outcome] | None:
        """The next candidate that is finished; None if there is none before `until`, or none on its way."""
        while not self._finished:
            if until is None and not self._jobs and not self._waiting:
                return None
            left = math.inf if until is None else until - time.monotonic()
            if left <= 0:
                return None
            self._step(min(left, TICK))
        return self._finished.popleft()

    def paired(self, candidates: list[dict[str, Any]], until: float | None = None) -> Outcome:
        """Time the finalists in turns, in fresh processes of one host."""
        seconds = None if until is None else max(until - time.monotonic(), 0.0)
        for token in list(self._jobs):
            self._drop(token)
        self._finished.clear()
        self._waiting = deque([Job("", {"candidates": candidates, "seconds": seconds}, stage="paired")])
        while not self._finished:
            self._step(TICK)
        return self._finished.popleft()[1]

    def close(self) -> None:
        """Take back what is waiting, let the workers end their processes, and hang up."""
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.release()
            crew.link.close()
        self._jobs, self._waiting, self._finished, self._missing, self._best = {}, deque(), deque(), set(), math.inf

    # What happens ----------------------------------------------------------------------------------------------------------------

    def _step(self, wait: float) -> None:
        """Wait for news and act on it; look after the workers now and then."""
        crew = self._working()
        self._place()
        for news in crew.link.news(wait):
            if not crew.hear(news):
                self._hear(news)
        if not self._finished and (self._missing or time.monotonic() - self._watched >= TICK):
            self._watch()
        self._place()

    def _working(self) -> Crew:
        if self._crew is None:
            raise TuningError("this evaluator is not open")
        return self._crew

    def _hear(self, news: News) -> None:
        job = self._jobs.get(news.token)
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

    def _told(self, job: Job, value: Any) -> None:
        text, kernel = value if job.stage == "build" else (value, b"")
        fields = json.loads(text)
        told, one = fields["told"], self._working().members.get(job.worker)
        if fields["status"] == "infra":
            if told.get("stranger"):
                self._working().give_again(job.worker)
                self._waiting.appendleft(job)
            else:
                job.begun = False
                self._lose(job, (fields["error"] or {}).get("message", "failed"))
            return
        if one is not None:
            one.failures = 0
        outcome = Outcome(fields["status"], {**job.told, **told}, fields["error"], fields["place"])
        if job.stage == "build" and outcome.status == "ok":
            again = replace(job, stage="measure", kernel=kernel, told=told, begun=False, worker="", deadline=math.inf)
            self._waiting.appendleft(again)
        else:
            self._measured(job, outcome)
            self._finished.append((job.key, outcome))

    def _measured(self, job: Job, outcome: Outcome) -> None:
        if outcome.status == "ok":
            self._best = min(self._best, outcome.told.get("min", math.inf))
        elif job.trusted:
            self._working().distrust()

    def _lose(self, job: Job, why: str) -> None:
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
        error = {"type": "WorkerLost", "message": message[:500], "signal": None}
        self._finished.append((job.key, Outcome("killed" if job.begun else "infra", job.told, error)))

    def _drop(self, token: str) -> None:
        self._working().link.drop(token)
        self._leave(token)

    def _leave(self, token: str) -> None:
        job = self._jobs.pop(token)
        if (one := self._working().members.get(job.worker)) is not None:
            one.building.discard(token)
            one.measuring.discard(token)

    def _watch(self) -> None:
        """Look after workers and deadlines. Raises `TuningError` if there is no hope left."""
        crew = self._working()
        lost = crew.watch()
        now = self._watched = time.monotonic()
        for token, job in list(self._jobs.items()):
            late = now > job.deadline
            if late or token in self._missing or job.worker not in crew.members:
                self._drop(token)
                if late:
                    crew.banish(job.worker, "it did not answer in time")
                self._lose(job, lost.get(job.worker, "did not answer in time" if late else "was lost"))
        self._missing.clear()
        if any(one.ready for one in crew.benches()):
            self._staffed = now
        elif now - self._staffed > self._patience.nobody and not self._finished:
            raise TuningError(
                f"for {self._patience.nobody:g} s no worker at {self._address} could measure; every finished trial is in the log: "
                "start workers and repeat the command, which goes on from there"
            )

    # Who does what ---------------------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Give waiting jobs to workers that are free: what is to be measured first, and the default before all others."""
        waiting, self._waiting = sorted(self._waiting, key=lambda job: (job.stage == "build", not job.trusted)), deque()
        held, due = any(job.trusted for job in (*waiting, *self._jobs.values())), False
        for job in waiting:
            if job.stage == "build":
                one = self._builder(job, due=due)
            elif held and not job.trusted:
                one = None
            else:
                one = self._bench(job)
                due |= one is None
            if one is None:
                self._waiting.append(job)
            else:
                self._start(job, one)

    def _builder(self, job: Job, *, due: bool) -> Member | None:
        """The least busy worker; where measuring needs all cores of a host, none there while it measures or is `due` to."""
        crew = self._working()
        taken = {one.host for one in crew.benches() if crew.filled(one) and (due or one.measuring)}
        free = [one for one in crew.builders() if one.ready and len(one.building) < one.builders and one.host not in taken]
        return min(free, key=lambda one: (one.address == job.shunned, len(one.building) / one.builders, one.measures), default=None)

    def _bench(self, job: Job) -> Member | None:
        """A worker on a host where we measure nothing now; not the one that was lost, as long as another will be free."""
        crew = self._working()
        ready = [one for one in crew.benches() if one.ready]
        others = [one for one in ready if one.address != job.shunned] or ready
        building = {one.host for one in crew.builders() if one.building}
        busy = {one.host for one in ready if one.measuring or (crew.filled(one) and one.host in building)}
        return next((one for one in others if one.host not in busy), None)

    def _start(self, job: Job, one: Member) -> None:
        crew = self._working()
        token = uuid.uuid4().hex
        job.worker, job.begun = one.address, False
        job.deadline = time.monotonic() + QUEUE * job.allowed(self.limits)
        self._jobs[token] = job
        (one.building if job.stage == "build" else one.measuring).add(token)
        known = min(job.order.get("incumbent") or math.inf, self._best)
        order = json.dumps(job.order | ({"incumbent": known} if job.stage == "measure" and known < math.inf else {}))
        match job.stage:
            case "build":
                crew.link.start(token, one.address, remote.build, crew.name, order, measuring=False)
            case "measure":
                crew.link.start(token, one.address, remote.measure, crew.name, order, job.kernel, measuring=True)
            case _:
                crew.link.start(token, one.address, remote.paired, crew.name, order, measuring=True)


def target(address: str, wanted: str | Target | None = None) -> Target:
    """The processor to tune for on the cluster at `address`: that of the hosts that an evaluator will choose.

    `wanted` names a target; None means this machine's own CPU if a worker that measures has it, else that of the most hosts. Raises
    `TuningError` as `ClusterEvaluator.open` does, `BuildError` for a name that is not known.
    """
    asked = None if wanted in (None, "native") else named_target(wanted)
    link = Link(address, Patience().scheduler)
    try:
        crew = Crew(link, None if asked is None else host.target_fields(asked), Patience().silence)
        crew.gather(exact=False)
        found = crew.benches()[0].target
    finally:
        link.close()
    return found if asked is None else asked
