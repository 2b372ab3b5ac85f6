"""Look-up over logs: the best schedule known for a program on a target.

A record counts only where it applies: same program up to names, same CPU, no instruction that the target lacks, same number of threads
and cache policy. The winner of a paired re-measurement stands before a mere trial, however lucky. Where no record is exact, this program
as it was tuned on another CPU of the same instruction set may serve, and then the nearest shape of the same family lends its
configuration, projected to what this shape allows. A match always says which of the three it is, and whether it has to be validated
before use: a record that another version of this software wrote, or another CPU, vouches for nothing here. A program with an epilogue or a
prologue gets what was found for its stage with most work alone (`anchors`), before that of another shape.

A database must not hurt. A winner that is doubtful is not served, and a neighbour whose default won gives this shape's default; what
comes from another shape or CPU has to be faster than this shape's default by the cost model (`lending`). Every choice says why
(`Match.reason`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensorlang.autotune.log.glimpse import Glimpse, LineAt
from tensorlang.autotune.log.index import Index, IndexedTrial, Study, StudyEntry, study_of
from tensorlang.autotune.log.lending import NO_COUNTERPART, Loan, by_distance, by_model
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.match import Match, Query
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.remembered import RememberedScan
from tensorlang.autotune.log.scan import LocatedRecord, Position, Problem
from tensorlang.autotune.log.study_records import FinalRecord
from tensorlang.autotune.measurement.host import target_fields
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import Target, target as named_target
from tensorlang.errors import LogError
from tensorlang.system import collector, forks

__all__ = ["Database", "Match", "Study", "study_of"]

NEAREST_TRIED: Final = 5
BATCH: Final = 8
"""Records parsed before they are put into the index: few, since parsed ones are many objects."""
LOANS: Final = 10_000
_log: Final = logging.getLogger("tensorlang")


class Database:
    """The records of a log, or of a folder of logs, as they were when it was made; `refresh` reads what was appended since.

    Any number of threads may use it; `revision` grows when a refresh found more. Raises `LogError` if there is nothing at `path` or it
    cannot be read; `problems` lists lines that were skipped, of which the log has a line for each file.
    """

    def __init__(self, path: str | os.PathLike[str] | Log) -> None:
        self.log = path if isinstance(path, Log) else Log(path)
        self.problems: tuple[Problem, ...] = ()
        self._index = Index()
        self._files: dict[Path, Position] = {}
        self._settled: list[Problem] = []
        self._told = set[Path]()
        self._verdicts: dict[tuple[str, ...], str | None] = {}
        self._loans: dict[tuple[str, str, str, int, float | None], Loan] = {}
        self.revision = 0
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
        with self._refreshing, collector.paused():
            paths = self.log.files()
            known = self._files and set(self._files) <= set(paths)
            if known and all(position.stands(path) for path, position in self._files.items()):
                read = self._read(paths, self._index, dict(self._files), list(self._settled))
            else:
                read = self._read(paths, Index(), {}, [], remembered=True) or self._read(paths, Index(), {}, [])
            assert read is not None, "what is remembered was not asked"
            self._tell(read[2])
            with self._lock:
                self.revision += read[1] != self._files
                self._index, self._files, self._settled, self.problems = read

    def _tell(self, settled: list[Problem]) -> None:
        """One line in the log for each file with lines that are no records: a torn last one is not among them, which may be whole soon."""
        untold = [problem for problem in settled if problem.path not in self._told]
        for path, count in Counter(problem.path for problem in untold).items():
            first = next(problem for problem in untold if problem.path == path)
            _log.warning("%s: %d lines are passed over; line %d: %s", path, count, first.line, first.reason)
            self._told.add(path)

    def _read(
        self, paths: list[Path], index: Index, files: dict[Path, Position], settled: list[Problem], *, remembered: bool = False
    ) -> tuple[Index, dict[Path, Position], list[Problem], tuple[Problem, ...]] | None:
        """Read what follows these positions; None where what is `remembered` of the files turns out not to be there."""
        unsettled: list[Problem] = []
        for path in paths:
            scan = RememberedScan(path, files.get(path, Position()), remembered=remembered)
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
            there = index.fetch()
        return (index, files, settled, (*settled, *unsettled)) if there or not remembered else None

    def _take(self, index: Index, scan: RememberedScan) -> None:
        """Put what a file has into the index, some records at a time, so that look-ups never wait long."""
        found = _parsed(scan)
        while batch := list(islice(found, BATCH)):
            with self._lock:
                for located, record in batch:
                    if isinstance(record, Glimpse):
                        index.add(record, LineAt(scan.path, located.offset, located.length), located.data)
                    else:
                        index.decide(record)

    def best(self, outputs: Any, target: str | Target | None = None, threads: int | None = None, cache: str = "warm") -> Match:
        """The best schedule known for these outputs; a `Match` of kind None if there is none that applies, or the default is best."""
        return next(self.matches(outputs, target, threads, cache))

    def matches(
        self,
        outputs: Any,
        target: str | Target | None = None,
        threads: int | None = None,
        cache: str = "warm",
        constants: Iterable[str] = (),
    ) -> Iterator[Match]:
        """All that may serve for these outputs, the best first: exact, then of other CPUs, then of the nearest shapes.

        `constants` are operands that stay fixed, by name: what was tuned with these fixed stands before what was tuned with none.
        The last is of kind None: the default schedule, and why nothing else.
        """
        asked = Query.of(outputs, named_target(target), threads or get_threads(), cache, constants)
        found = list(self._matches(asked)) if asked.places else []
        yield from (match for match in found if match.kind is not None)
        if found and self._known(asked, foreign=False):
            yield found[-1]
            return
        yield from self._matches(asked.as_given())

    def _matches(self, asked: Query) -> Iterator[Match]:
        """The same of what was tuned with exactly these operands fixed."""
        for known, kept in self._of_program(asked, foreign=False):
            found = asked.match("tuned", kept.trial, f"tuned: {_told(known, kept)}")
            if not (found.stale and known.why_default is not None):  # the default of another version is not ours
                yield found
        if (why := next((known.why_default for known in self._known(asked, foreign=False)), None)) is not None:
            yield asked.match(None, None, f"this program was tuned here, but {why}")
            return
        for known, kept in self._of_program(asked, foreign=True):
            if (loan := self._lent(kept.trial, asked, 0.0, known.gain)).config is not None:
                told = f"tuned on another CPU, {known.cpu}: {_told(known, kept)}; {loan.reason}"
                yield asked.match("nearest", kept.trial, told, foreign=True)
        yield from self._of_sizes(asked)
        yield from self._of_anchor(asked)
        nearest = self._nearest(asked)
        yield nearest
        if nearest.kind is not None:
            yield asked.match(None, None, "nothing else that was tuned applies")

    def _of_sizes(self, asked: Query) -> Iterator[Match]:
        """What was found for this program of bounded dims at sizes of its range."""
        from tensorlang.autotune.log.ranges import within  # noqa: PLC0415 - the index itself needs no compiler

        def neighbours(family: str, extents: tuple[float, ...], limit: int) -> list[tuple[float, StudyEntry]]:
            return self._neighbours(family, extents, asked.target, asked.threads, asked.cache, limit)

        for _, known, sizes, span in within(asked, NEAREST_TRIED, neighbours):
            if known.why_default is not None:
                continue
            kept, told = known.best, ", ".join(f"{name} = {size}" for name, size in sizes.items())
            key = (kept.trial.id, span.text, str(asked.target), asked.threads, known.gain)
            loan = self._loans.get(key) or self._loans.setdefault(key, span.lent(kept.trial, sizes, known.gain))
            if loan.config is not None:
                reason = f"of this program at {told}: {_told(known, kept)}; {loan.reason}"
                yield asked.match("nearest", kept.trial, reason, config=loan.config, sizes=sizes)

    def _of_anchor(self, asked: Query) -> Iterator[Match]:
        """What was found for the stage with most work, tuned alone at these extents; nothing where its default won."""
        from tensorlang.autotune.log.anchors import anchors  # noqa: PLC0415 - the index itself needs no compiler

        for anchor in anchors(asked.outputs, asked.fingerprint, asked.constants):
            places = anchor.places if asked.places else ()
            if asked.places and not places:
                continue  # among what was tuned without anything fixed
            for known, kept in self._of_program(replace(asked, fingerprint=anchor.fingerprint, places=places), foreign=False):
                if known.why_default is not None:
                    continue
                loan = self._lent(kept.trial, asked, 0.0, known.gain)
                if loan.config is not None:
                    told = f"of its stage {anchor.name}, tuned alone: {_told(known, kept)}; {loan.reason}"
                    yield asked.match("nearest", kept.trial, told, config=loan.config)

    def _nearest(self, asked: Query) -> Match:
        """What the nearest shape of the family comes to."""
        why = "no record of this program, or of another shape of it, applies"
        for distance, known in self._neighbours(asked.family, asked.extents, asked.target, asked.threads, asked.cache, NEAREST_TRIED):
            kept = known.best
            shape = "x".join(map(str, kept.trial.task.get("extents") or ()))
            name = f"the nearest shape that was tuned, with extents {shape},"
            if (said := known.why_default) is not None:
                return asked.match(None, None, f"{name} has no better schedule than its default ({said}), so this one has its own")
            loan = by_distance(distance) or self._lent(kept.trial, asked, distance, known.gain)
            if loan.config is not None:
                return asked.match("nearest", kept.trial, f"of {name} {_told(known, kept)}; {loan.reason}", config=loan.config)
            why = f"{name} lends nothing: {loan.reason}"
            if loan.reason != NO_COUNTERPART:
                break
        return asked.match(None, None, why)

    def find(self, fingerprint: str, target: Target, threads: int, cache: str = "warm") -> Trial | None:
        """The best record of this very program that applies."""
        asked = Query(None, fingerprint, target, threads, cache)
        return next((kept.trial for _, kept in self._of_program(asked, foreign=False)), None)

    def near(
        self, family: str, extents: tuple[int, ...], target: Target, threads: int, cache: str = "warm", limit: int = 16
    ) -> Iterator[Trial]:
        """The best records of at most `limit` other shapes of this family that apply, nearest first."""
        return (known.best.trial for _, known in self._neighbours(family, extents, target, threads, cache, limit))

    def _neighbours(
        self, family: str, extents: tuple[float, ...], target: Target, threads: int, cache: str, limit: int
    ) -> list[tuple[float, StudyEntry]]:
        """Studies of at most `limit` other shapes of this family that apply, nearest first, with their distance."""
        fits = _Fits(target)
        with self._lock:
            shapes = self._index.families.get((family, threads, cache, len(extents)))
            found = () if shapes is None else islice((one for one in shapes.near(extents) if fits(one[1]) is False), limit)
            return [(distance, copy(known)) for distance, known in found]

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

    def _lent(self, trial: Trial, asked: Query, distance: float, gain: float | None) -> Loan:
        """What a record from elsewhere comes to here, found once: it takes the analysis of the whole program."""
        key = (trial.id, f"{asked.fingerprint} {sorted(asked.constants)}", str(asked.target), asked.threads, gain)
        if key not in self._loans:
            loan = by_model(asked.outputs, asked.target, asked.threads, trial, distance, gain, asked.constants)
            if len(self._loans) >= LOANS:
                self._loans.clear()
            self._loans[key] = loan
            return loan
        return self._loans[key]

    def _known(self, asked: Query, *, foreign: bool) -> list[StudyEntry]:
        """The studies of a program that apply, as they are now; of the dims that were measured at, the largest first."""
        fits = _Fits(asked.target)
        with self._lock:
            studies = self._index.programs.get(asked.program, ())
            found = [copy(known) for known in studies if known.study[2:] == (asked.threads, asked.cache) and fits(known) is foreign]
        return sorted(found, key=lambda known: (-known.size, known.best.time))

    def _of_program(self, asked: Query, *, foreign: bool) -> Iterator[tuple[StudyEntry, IndexedTrial]]:
        """What each study that applies serves first, then the others."""
        ranks = [(known, known.served) for known in self._known(asked, foreign=foreign)]
        yield from ((known, kept[0]) for known, kept in ranks if kept)
        yield from sorted(((known, one) for known, kept in ranks for one in kept[1:]), key=lambda pair: pair[1].time)


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


def _parsed(scan: RememberedScan) -> Iterator[tuple[LocatedRecord, Glimpse | FinalRecord]]:
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


def _told(known: StudyEntry, kept: IndexedTrial) -> str:
    """Which record that is."""
    best = known.best.id == kept.id
    if not best and known.default is not None and known.default.id == kept.id and known.why_default is not None:
        return f"the default {kept.id[:8]}: {known.why_default}"
    word = "the winner" if best and known.standing is not None else "the fastest trial" if best else "a trial"
    gained = f", {known.gained}" if best and known.gained else ""
    quality = known.standing.quality if best and known.standing is not None else kept.trial.quality
    return f"{word} {kept.id[:8]}{gained}" + ("" if quality is None else f" ({quality})")
