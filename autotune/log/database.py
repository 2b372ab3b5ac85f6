"""Look-up over logs: the best schedule known for a program on a target.

A record counts only where it applies: same program up to names, same CPU, no instruction that the target lacks, same number of threads
and cache policy. The winner of a paired re-measurement stands before a mere trial, however lucky. Where no record is exact, this program
as it was tuned on another CPU of the same instruction set may serve, and then the nearest shape of the same family lends its
configuration, projected to what this shape allows. A match always says which of the three it is, and whether it has to be validated
before use: a record that another version of this software wrote, or another CPU, vouches for nothing here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from tensorlang.autotune.log.glimpse import Glimpse, GlimpseParser, LineAt
from tensorlang.autotune.log.index import Index, Study, StudyEntry, dims_of, study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.scan import FileScan, LocatedRecord, Position, Problem
from tensorlang.autotune.log.study_records import FinalRecord
from tensorlang.autotune.measurement.host import software, target_fields
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import Target, target as named_target
from tensorlang.errors import LogError, TensorlangError
from tensorlang.schedules.spaces.space import Config
from tensorlang.system import forks

__all__ = ["Database", "Match", "Study", "study_of"]

NEAREST_TRIED: Final = 5
BATCH: Final = 8
"""Records parsed before they are put into the index: few, since parsed ones are many objects."""
PROJECTIONS: Final = 10_000

_MAKERS: Final = ("tensorlang", "llvmlite")
"""The packages whose versions decide what code a schedule becomes."""


@dataclass(frozen=True, slots=True)
class Match:
    """What was found: `kind` is "tuned" (this very program, here), "nearest" (another shape or CPU) or None (nothing).

    `foreign` records were measured on another CPU of the same instruction set.
    """

    kind: Literal["tuned", "nearest"] | None
    record: Trial | None = None
    config: Config | None = None
    outputs: Any = None
    target: Target | None = None
    threads: int = 1
    foreign: bool = False

    @property
    def stale(self) -> bool:
        """Was the record written by another version of what makes the code, or by one that is not known?"""
        if self.record is None:
            return False
        wrote, ours = self.record.fields.get("software"), software()
        return not isinstance(wrote, dict) or any(wrote.get(name) != ours[name] or ours[name] == "uninstalled" for name in _MAKERS)

    @property
    def dims(self) -> dict[str, int]:
        """The values at which extents known only at run time were measured."""
        return {} if self.record is None else dims_of(self.record)

    @property
    def needs_validation(self) -> bool:
        """Must a kernel of this schedule be compared with the definition before it is used?"""
        return self.foreign or self.stale

    def schedule(self) -> Any:
        """The schedule, proved legal for the program at hand; None if there is none or it is no longer accepted."""
        return self.replayed()[0]

    def replayed(self) -> tuple[Any, str]:
        """The schedule, or None and why there is none."""
        if self.record is None or self.config is None or self.target is None:
            return None, "there is no record"
        from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415
        from tensorlang.schedules.strategies import choose  # noqa: PLC0415
        from tensorlang.serialization import canonical  # noqa: PLC0415 - the index itself needs no compiler

        try:
            same_names = canonical.describe(self.outputs) == self.record.task.get("definition")
            if self.record.schedule and same_names:
                return Schedule.from_json(self.outputs, self.record.schedule), ""
            return choose(self.outputs, self.target, self.threads).schedule(self.config), ""
        except (TensorlangError, KeyError, TypeError, ValueError) as error:  # a record of another version, or of a template
            return None, (str(error).splitlines() or [type(error).__name__])[0]


class Database:
    """The records of a log, or of a folder of logs, as they were when it was made; `refresh` reads what was appended since.

    Any number of threads may use it. Raises `LogError` if there is nothing at `path` or it cannot be read; `problems` lists lines that
    were skipped.
    """

    def __init__(self, path: str | os.PathLike[str] | Log) -> None:
        self.log = path if isinstance(path, Log) else Log(path)
        self.problems: tuple[Problem, ...] = ()
        self._index = Index()
        self._files: dict[Path, Position] = {}
        self._settled: list[Problem] = []
        self._verdicts: dict[tuple[str, ...], str | None] = {}
        self._projections: dict[tuple[str, str, str, int], Config | None] = {}
        self._lock = forks.short_lock()
        self.renew()
        forks.anew(self)
        self.refresh()

    def renew(self) -> None:
        """Nobody refreshes: in a forked child, who did is not there any more. What was read and not noted is read again."""
        self._refreshing = threading.Lock()

    def __len__(self) -> int:
        """The number of studies that have a valid trial."""
        return len(self._index.studies)

    def refresh(self) -> None:
        """Read what was appended; everything anew where a file was replaced, cut or removed. Look-ups go on meanwhile.

        Raises `LogError` if the log is gone or cannot be read; what was known before is kept.
        """
        with self._refreshing:
            paths = self.log.files()
            if set(self._files) <= set(paths) and all(position.stands(path) for path, position in self._files.items()):
                index, files, settled = self._index, dict(self._files), list(self._settled)
            else:
                index, files, settled = Index(), dict[Path, Position](), list[Problem]()
            unsettled: list[Problem] = []
            read = GlimpseParser()
            for path in paths:
                scan = FileScan(path, files.get(path, Position()), read)
                try:
                    self._take(index, scan)
                except OSError as error:
                    if not self.log.folder:
                        raise LogError(f"cannot read {path}: {error.strerror}") from None
                    unsettled.append(Problem(path, 0, scan.position.offset, f"cannot read the file: {error.strerror}"))
                files[path] = scan.position
                for problem in scan.problems:
                    (settled if problem.offset < scan.position.offset else unsettled).append(problem)
            with self._lock:
                self._index, self._files, self._settled = index, files, settled
                self.problems = (*settled, *unsettled)

    def _take(self, index: Index, scan: FileScan) -> None:
        """Put what a file has into the index, some records at a time, so that look-ups never wait long."""
        found = _parsed(scan)
        while batch := list(islice(found, BATCH)):
            with self._lock:
                for located, record in batch:
                    if isinstance(record, Glimpse):
                        index.add(record, located.data, LineAt(scan.path, located.offset, len(located.data)))
                    else:
                        index.decide(record)

    def best(self, outputs: Any, target: str | Target | None = None, threads: int | None = None, cache: str = "warm") -> Match:
        """The best schedule known for these outputs; a `Match` of kind None if there is none that applies."""
        return next(self.matches(outputs, target, threads, cache), Match(None))

    def matches(self, outputs: Any, target: str | Target | None = None, threads: int | None = None, cache: str = "warm") -> Iterator[Match]:
        """All that may serve for these outputs, the best first: exact, then of other CPUs, then of the nearest shapes."""
        from tensorlang.serialization import canonical  # noqa: PLC0415 - the index itself needs no compiler

        machine, count = named_target(target), threads or get_threads()
        program = canonical.fingerprint(outputs)
        for foreign in (False, True):
            for trial in self._of_program(program, machine, count, cache, foreign=foreign):
                yield Match("nearest" if foreign else "tuned", trial, trial.config, outputs, machine, count, foreign)
        for trial in self.near(canonical.family(outputs), canonical.extents(outputs), machine, count, cache, NEAREST_TRIED):
            if (config := self._projected(trial, program, outputs, machine, count)) is not None:
                yield Match("nearest", trial, config, outputs, machine, count)

    def find(self, fingerprint: str, target: Target, threads: int, cache: str = "warm") -> Trial | None:
        """The best record of this very program that applies."""
        return next(self._of_program(fingerprint, target, threads, cache, foreign=False), None)

    def near(
        self, family: str, extents: tuple[int, ...], target: Target, threads: int, cache: str = "warm", limit: int = 16
    ) -> Iterator[Trial]:
        """The best records of at most `limit` other shapes of this family that apply, nearest first."""
        fits = _Fits(target)
        with self._lock:
            shapes = self._index.families.get((family, threads, cache, len(extents)))
            found = () if shapes is None else islice((known for known in shapes.near(extents) if fits(known) is False), limit)
            kept = [known.best for known in found]
        return (one.trial for one in kept)

    def verdict(self, match: Match, check: Callable[[], str | None]) -> str | None:
        """Why a match that needs validation must not be used, as `check` says; None if it may. Asked once for each record and target."""
        assert match.record is not None
        key = (match.record.id, str(match.record.task.get("fingerprint")), str(match.target), str(match.threads))
        if key not in self._verdicts:
            self._verdicts[key] = check()
        return self._verdicts[key]

    @property
    def rejected(self) -> dict[str, str]:
        """Records that were validated and must not be used: their ids, and why."""
        return {key[0]: why for key, why in list(self._verdicts.items()) if why is not None}

    def _projected(self, trial: Trial, program: str, outputs: Any, target: Target, threads: int) -> Config | None:
        """The configuration of another shape as this one allows it, found once: it takes the analysis of the whole program."""
        key = (trial.id, program, str(target), threads)
        if key not in self._projections:
            from tensorlang.schedules.strategies import choose  # noqa: PLC0415 - the index itself needs no compiler

            strategy = choose(outputs, target, threads)
            if len(self._projections) >= PROJECTIONS:
                self._projections.clear()
            self._projections[key] = strategy.space.project(trial.config) if _strategy(trial) == strategy.name else None
        return self._projections.get(key)

    def _of_program(self, fingerprint: str, target: Target, threads: int, cache: str, *, foreign: bool) -> Iterator[Trial]:
        """The fastest of each study that applies, then the others."""
        fits = _Fits(target)
        with self._lock:
            studies = self._index.programs.get(fingerprint, ())
            found = [known for known in studies if known.study[2:] == (threads, cache) and fits(known) is foreign]
            found.sort(key=lambda known: (-known.size, known.best.time))  # of the dims that were measured at, the largest
            ranks = [known.kept for known in found]
        heads = [kept[0] for kept in ranks]
        others = sorted((one for kept in ranks for one in kept[1:]), key=lambda one: one.time)
        return (one.trial for one in (*heads, *others))


class _Fits:
    """Do records of a study apply to a target? None: no; False: measured on this CPU; True: on another, without foreign instructions."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.fingerprint = target_fields(target)["fingerprint"]

    def __call__(self, known: StudyEntry) -> bool | None:
        if known.study[1] == self.fingerprint:
            return False
        if known.triple != self.target.triple or known.isa is None or not self.target.isa >= known.isa:
            return None
        return known.cpu != self.target.cpu


def _parsed(scan: FileScan) -> Iterator[tuple[LocatedRecord, Glimpse | FinalRecord]]:
    """Valid trials and final measurements; a malformed one is one more problem."""
    for located in scan:
        fields = located.fields
        if isinstance(fields, Glimpse):
            if fields.status == "ok":
                yield located, fields
            continue
        if not located.known or fields["kind"] not in ("trial", "final"):
            continue
        try:
            if fields["kind"] == "final":
                yield located, FinalRecord.of(fields)
            elif fields.get("status") == "ok":
                yield located, Glimpse.of(Trial.of(fields))
        except ValueError as reason:
            scan.problems.append(Problem(scan.path, located.line, located.offset, str(reason)[:200]))


def _strategy(trial: Trial) -> object:
    strategy = trial.fields.get("strategy")
    return strategy.get("name") if isinstance(strategy, dict) else None
