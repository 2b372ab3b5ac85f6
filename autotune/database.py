"""Look-up over logs: the best schedule known for a program on a target.

A record counts only where it applies: same program up to names, same CPU, no instruction that the target lacks, same number of threads
and cache policy. The winner of a paired re-measurement stands before a mere trial, however lucky. Where no record is exact, the nearest
shape of the same family may lend its configuration, projected to what this shape allows; a match always says which of the two it is.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from tensorlang.autotune.host import target_fields
from tensorlang.autotune.log import Log, Problem
from tensorlang.autotune.record import Trial
from tensorlang.codegen.target import Target
from tensorlang.codegen.target import target as named_target
from tensorlang.codegen.threads import get_threads
from tensorlang.errors import TensorlangError
from tensorlang.schedules.space import Config

NEAREST_TRIED: Final = 5

Study: TypeAlias = tuple[str, str, int, str]
"""Records that compete: fingerprints of program and target, threads, cache policy."""


def study_of(trial: Trial) -> Study | None:
    """The study that a trial belongs to; None for a record that does not say."""
    program, target = trial.task.get("fingerprint"), trial.target.get("fingerprint")
    return (program, target, trial.threads, trial.cache) if isinstance(program, str) and isinstance(target, str) else None


@dataclass(frozen=True, slots=True)
class Match:
    """What was found: `kind` is "tuned" (this very program), "nearest" (another shape of its family) or None (nothing)."""

    kind: Literal["tuned", "nearest"] | None
    record: Trial | None = None
    config: Config | None = None
    outputs: Any = None
    target: Target | None = None
    threads: int = 1

    def schedule(self) -> Any:
        """The schedule, validated against the program at hand; None if there is none or it is no longer legal."""
        if self.record is None or self.config is None or self.target is None:
            return None
        from tensorlang import canonical  # noqa: PLC0415 - the index itself needs no compiler
        from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415
        from tensorlang.schedules.strategies import choose  # noqa: PLC0415

        try:
            same_names = canonical.describe(self.outputs) == self.record.task.get("definition")
            if self.kind == "tuned" and self.record.schedule and same_names:
                return Schedule.from_json(self.outputs, self.record.schedule)
            return choose(self.outputs, self.target, self.threads).schedule(self.config)
        except (TensorlangError, KeyError, TypeError, ValueError):
            return None  # a record of another version: as if it were not there


class Database:
    """The records of a log, or of a folder of logs, read once (`refresh` reads again).

    Raises `LogError` if there is nothing at `path` or it cannot be read; `problems` lists lines that were skipped.
    """

    def __init__(self, path: str | os.PathLike[str] | Log) -> None:
        self.log = path if isinstance(path, Log) else Log(path)
        self.problems: tuple[Problem, ...] = ()
        self._best: dict[Study, Trial] = {}
        self._programs: dict[str, list[Study]] = {}
        self._families: dict[str, list[Study]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._best)

    def refresh(self) -> None:
        """Read the log anew."""
        trials: dict[str, Trial] = {}
        best: dict[Study, Trial] = {}
        winners: dict[Study, Trial] = {}
        for record in self.log.records("trial", "final"):
            if isinstance(record, Trial):
                study = study_of(record)
                if study is None or record.time is None:
                    continue
                trials[record.id] = record
                if study not in best or record.time < (best[study].time or math.inf):
                    best[study] = record
            elif (winner := trials.get(str(record.get("winner")))) and (study := study_of(winner)) and _positive(record.get("time")):
                winners[study] = replace(winner, time=record["time"])
        self.problems = self.log.problems
        self._best = {**best, **winners}
        programs, families = defaultdict(list), defaultdict(list)
        for study, trial in self._best.items():
            programs[study[0]].append(study)
            families[str(trial.task.get("family"))].append(study)
        self._programs, self._families = dict(programs), dict(families)

    def best(self, outputs: Any, target: str | Target | None = None, threads: int | None = None, cache: str = "warm") -> Match:
        """The best schedule known for these outputs; a `Match` of kind None if there is none that applies."""
        from tensorlang import canonical  # noqa: PLC0415 - the index itself needs no compiler

        machine, count = named_target(target), threads or get_threads()
        if (trial := self.find(canonical.fingerprint(outputs), machine, count, cache)) is not None:
            return Match("tuned", trial, trial.config, outputs, machine, count)
        family, extents = canonical.family(outputs), tuple(canonical.extents(outputs))
        if any(self.near(family, extents, machine, count, cache)):
            from tensorlang.schedules.strategies import choose  # noqa: PLC0415

            strategy = choose(outputs, machine, count)
            for trial in list(self.near(family, extents, machine, count, cache))[:NEAREST_TRIED]:
                if _strategy(trial) == strategy.name and (config := strategy.space.project(trial.config)) is not None:
                    return Match("nearest", trial, config, outputs, machine, count)
        return Match(None)

    def find(self, fingerprint: str, target: Target, threads: int, cache: str = "warm") -> Trial | None:
        """The best record of this very program that applies."""
        found = self._applicable(self._programs.get(fingerprint, []), target, threads, cache)
        return min(found, key=lambda trial: trial.time or math.inf, default=None)

    def near(self, family: str, extents: tuple[int, ...], target: Target, threads: int, cache: str = "warm") -> Iterator[Trial]:
        """The best records of other shapes of this family that apply, nearest first."""
        found = self._applicable(self._families.get(family, []), target, threads, cache)
        distances = [(distance, trial.id, trial) for trial in found if 0 < (distance := _distance(extents, trial)) < math.inf]
        return (trial for _, _, trial in sorted(distances))

    def _applicable(self, studies: list[Study], target: Target, threads: int, cache: str) -> Iterator[Trial]:
        exact = target_fields(target)["fingerprint"] if studies else ""
        for study in studies:
            trial = self._best[study]
            if study[2:] == (threads, cache) and (study[1] == exact or _runs_on(trial, target)):
                yield trial


def _runs_on(trial: Trial, target: Target) -> bool:
    features = trial.target.get("features")
    same = (trial.target.get("cpu"), trial.target.get("triple")) == (target.cpu, target.triple)
    return same and isinstance(features, list) and target.isa.issuperset(features)


def _strategy(trial: Trial) -> object:
    strategy = trial.fields.get("strategy")
    return strategy.get("name") if isinstance(strategy, dict) else None


def _distance(extents: tuple[int, ...], trial: Trial) -> float:
    other = trial.task.get("extents")
    if not isinstance(other, list) or len(other) != len(extents) or not all(isinstance(entry, int) for entry in other):
        return math.inf
    return sum(abs(math.log(max(a, 1) / max(b, 1))) for a, b in zip(extents, other, strict=True))


def _positive(value: object) -> bool:
    return isinstance(value, float) and 0 < value < math.inf
