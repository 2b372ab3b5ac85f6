"""What a job writes down: each record with all that it takes to understand it alone, and where the time of the run went.

The overhead is the share of the search's wall time in which neither a build nor a measurement ran: with builders beside the measuring
process the seconds of both overlap, so their sum would say nothing. Starting processes counts as overhead, building and measuring,
verification included, do not.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from tensorlang.autotune.jobs.result import failures
from tensorlang.autotune.log.clock import clock
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial, summary
from tensorlang.autotune.log.study_records import Decision, FinalRecord, Noise, RunEnd, RunPlan, StrategyFields, StudyFields
from tensorlang.autotune.log.writer import this_process
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.sentinel import usual_best
from tensorlang.autotune.measurement.slowness import Slow, slow_stretches
from tensorlang.autotune.search.searcher import Proposal
from tensorlang.autotune.settings import Settings
from tensorlang.autotune.task import Task
from tensorlang.autotune.workers.protocol import Outcome, Where
from tensorlang.codegen.target import Target


class Ledger:
    """The records of one run on one task. Every method that writes raises `LogError` if the log cannot be written."""

    def __init__(self, log: Log | None, task: Task, target: Target, settings: Settings, strategy: StrategyFields) -> None:
        self.log = log
        self.run = uuid.uuid4().hex
        self.settings = settings
        self.started = time.monotonic()
        self.study = StudyFields(
            task=task.to_json(),
            strategy=strategy,
            target=host.described_target(target),
            threads=settings.threads,
            cache=settings.policy.cache,
            policy=settings.policy,
            machine=host.machine(),
            software=host.software(),
        )
        self._shared = self.study.to_json()
        self.trials: list[Trial] = []
        self.drift: float | None = None
        self._least: dict[str | None, float] = {}
        self._open = False

    def start(self, points: int) -> None:
        """The run begins; written once, however often it is called."""
        if not self._open:
            self._open = True
            wanted = self.settings
            plan = RunPlan(
                trials=wanted.trials, seed=wanted.seed, search=wanted.strategy, pid=os.getpid(),
                budget=wanted.budget, timeout=wanted.timeout, workers=wanted.workers, points=points, writer=this_process(),
            )  # fmt: skip
            self._append({"kind": "run_start", **plan.to_json()})

    def end(self, reason: str) -> None:
        """The run ended; nothing if it never began or its end is written."""
        if self._open:
            self._open = False
            self._append({"kind": "run_end", **self._summary(reason).to_json()})

    def trial(self, seq: int, proposal: Proposal, outcome: Outcome, wall_s: float, asked: dict[str, int]) -> Trial:
        """Write down what came of a candidate. `wall_s` is the time since the outcome before it, so that they add up to the search's."""
        facts, failed = outcome.facts, outcome.status != "ok"
        samples = list(facts.samples)
        spans = {
            name: [round(at - self.started, 4) for at in span]
            for name, span in (("build", outcome.spans.build), ("run", outcome.spans.run))
            if span is not None
        }
        elapsed = {name: end - start for name, (start, end) in spans.items()}
        compile_s = elapsed.get("build", 0.0) if facts.compile_s is None else facts.compile_s
        run_s = (elapsed.get("run", 0.0) if failed else 0.0) if facts.run_s is None else facts.run_s
        fields = self._append({
            "kind": "trial",
            "seq": seq,
            "config": proposal.config,
            "schedule": facts.schedule,
            "source": proposal.source,
            "prediction": proposal.prediction,
            **asked,
            "status": outcome.status,
            "error": outcome.error and asdict(outcome.error),
            "samples": samples,
            "number": facts.number,
            **summary(samples),
            "censored": facts.censored,
            "flops": facts.flops,
            "bytes": facts.bytes,
            "compile_s": round(compile_s, 6),
            "run_s": round(run_s, 6),
            "wall_s": round(wall_s, 6),
            "spans": spans,
            "sentinel": facts.sentinel,
            "quality": facts.quality,
            "drift": self._drifted(outcome),
            "load": host.load(),
            **_host_fields(outcome.where),
        })  # fmt: skip
        trial = Trial.of(fields)
        self.trials.append(trial)
        return trial

    def final(self, decision: Decision, where: Where | None) -> FinalRecord:
        """Write down the final measurement; `where` is the host of a cluster that made it."""
        return FinalRecord.of(self._append({"kind": "final", **decision.to_json(), **_host_fields(where)}))

    def _summary(self, reason: str) -> RunEnd:
        """Where the time of this run went, and what the machine did meanwhile."""
        wall = sum(trial.wall_s for trial in self.trials)
        spans = [(start, end) for trial in self.trials for start, end in trial.fields["spans"].values()]
        spreads = sorted(trial.noise for trial in self.trials if trial.time is not None)
        return RunEnd(
            reason=reason,
            wall_s=round(time.monotonic() - self.started, 3),
            measured=len(self.trials),
            overhead=round(max(1 - seconds_covered(spans) / wall, 0.0), 4) if wall and spans else None,
            noise=Noise(
                spread=round(spreads[len(spreads) // 2], 4) if spreads else None,
                slow=tuple(replace(stretch, by=round(stretch.by, 4)) for stretch in slowed(self.trials)),
            ),
        )

    def _append(self, fields: JsonObject) -> JsonObject:
        own = {"id": uuid.uuid4().hex, "run": self.run, "time_unix": round(time.time(), 3)}
        record = {**own, **self._shared, **fields, "clock": clock()}  # a cluster's hosts say of themselves what they are
        if self.log is not None:
            self.log.append(record)
        return record

    def _drifted(self, outcome: Outcome) -> float | None:
        """How much slower the sentinel was than at its best in this run on this host."""
        if (seconds := outcome.facts.sentinel) is None:
            return None
        where = None if outcome.where is None else outcome.where.machine["host"]
        self._least[where] = min(self._least.get(where, seconds), seconds)
        self.drift = round(seconds / self._least[where] - 1, 4)
        return self.drift


def _host_fields(where: Where | None) -> JsonObject:
    """What another host says of itself, as fields of a record."""
    return {} if where is None else {"machine": where.machine, "software": where.software, "load": where.load}


def seconds_covered(spans: Iterable[Sequence[float]]) -> float:
    """Seconds in at least one of the spans (start, end)."""
    total, until = 0.0, float("-inf")
    for start, end in sorted((span[0], span[1]) for span in spans):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total


def slowed(trials: Sequence[Trial]) -> tuple[Slow, ...]:
    """When the machine was slow, by the sentinels of the trials; each run on each host by itself."""
    groups: dict[tuple[Any, Any], list[tuple[int, float]]] = {}
    for trial in trials:
        machine, seconds = trial.fields.get("machine"), trial.fields.get("sentinel")
        if isinstance(seconds, float):
            groups.setdefault((trial.fields.get("run"), str(machine)), []).append((trial.seq, seconds))
    return tuple(stretch for times in groups.values() for stretch in slow_stretches(times))


def usual_sentinel(trials: Sequence[Trial]) -> float | None:
    """The sentinel's time beside these trials where the machine was at its usual best; None where no trial says."""
    times = [seconds for trial in trials if isinstance(seconds := trial.fields.get("sentinel"), float) and seconds > 0]
    return usual_best(times) if times else None


def why_no_winner(op: str, trials: Sequence[Trial], budget: float | None) -> str:
    """Why a search has none: what failed, how often, and the first failure in full."""
    if not trials:
        return f"{op}: nothing was measured; the budget of {budget} s ended before the first trial"
    counts = ", ".join(f"{count} {status}" for status, count in failures(trials).items())
    first = next((trial for trial in trials if trial.error is not None), trials[0])
    return f"{op}: no schedule is valid after {len(trials)} trials ({counts}); the first failure: {first.config}: {first.why}"
