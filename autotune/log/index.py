"""What a database knows of its records, in memory: the fastest few of each study, and where the others stand.

A study is what competes: one program on one target with one number of threads and one cache policy. Only its fastest trials are kept, so
memory grows with the number of studies, and by a place in a file for each valid trial: the winner of a paired re-measurement is often
not among the fastest and is then read again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorlang.autotune.log.fixed_operands import family_of
from tensorlang.autotune.log.glimpse import Glimpse, LineAt, Study, StudyAtDims, dims_of, study_of
from tensorlang.autotune.log.record import Trial, from_line, whole
from tensorlang.autotune.log.study_records import FinalRecord
from tensorlang.autotune.measurement.quality import Quality, doubtful

__all__ = ["Index", "IndexedTrial", "Study", "StudyEntry", "dims_of", "study_of"]

KEPT: Final = 4
_HEAD: Final = 200
NEAR: Final = 64
LEAD: Final = 1.1
"""How many times as fast as the default a trial has to be to be served where no final measurement says that it is."""


@dataclass(slots=True, eq=False)
class IndexedTrial:
    """A valid trial as its line, which is parsed when it is asked for: most never are. Where another process read it, its place."""

    time: float
    id: str
    place: LineAt
    line: bytes = b""
    parsed: Trial | None = None

    @property
    def trial(self) -> Trial:
        """The trial, with this time. Raises `ValueError` if the line holds none, or is not there any more."""
        if self.parsed is None:
            if not self.fetch():
                raise ValueError(f"the record {self.id:.60} is not there any more")
            self.parsed = replace(Trial.of(from_line(self.line)), time=self.time)
        return self.parsed

    def fetch(self) -> bool:
        """Have the line, unless it is that of something else by now."""
        if not self.line:
            line = self.place.line() or b""
            with contextlib.suppress(ValueError):
                whole(line)
                self.line = line if b'"id":"%b"' % self.id.encode() in line[:_HEAD] or from_line(line).get("id") == self.id else b""
        return bool(self.line)


class Standing(NamedTuple):
    """What a final measurement said: did the default win, how far can that be trusted, and how much faster is the winner?"""

    default: bool
    quality: Quality | None
    speedup: float | None


@dataclass(slots=True, eq=False)
class StudyEntry:
    """A study, at some values of its dims whose product is `size`: the winner of its last final measurement, and its fastest trials.

    `default` is the fastest trial of the default schedule.
    """

    study: Study
    triple: object
    cpu: object
    isa: frozenset[str] | None
    size: int = 1
    winner: IndexedTrial | None = None
    decided: float = -math.inf
    ranked: tuple[IndexedTrial, ...] = ()
    standing: Standing | None = None
    default: IndexedTrial | None = None

    def rank(self, trial: Glimpse, place: LineAt, line: bytes) -> None:
        """Keep a trial if it is among the fastest; of equal ones the earlier."""
        assert trial.time is not None
        kept = IndexedTrial(trial.time, trial.id, place, line)
        if trial.source == "default" and (self.default is None or trial.time < self.default.time):
            self.default = kept
        if len(self.ranked) < KEPT or trial.time < self.ranked[-1].time:
            self.ranked = tuple(sorted((*self.ranked, kept), key=lambda kept: kept.time))[:KEPT]

    def decide(self, winner: str, time: float, place: LineAt) -> None:
        """Let a trial stand before the others."""
        line = next((kept.line for kept in self.ranked if kept.id == winner), b"")
        self.winner = IndexedTrial(time, winner, place, line)

    def fetch(self) -> bool:
        """Have the lines of what is kept; was all of it still there? A winner that is not is forgotten."""
        if self.winner is not None and not self.winner.fetch():
            self.winner, self.standing, self.decided = None, None, -math.inf
        default = () if self.default is None else (self.default,)
        missing = [kept for kept in (*default, *self.ranked) if not kept.fetch()]
        return not missing

    @property
    def served(self) -> tuple[IndexedTrial, ...]:
        """What may stand before the default schedule, or is it: the winner unless that is doubtful, then trials that are clearly ahead."""
        winner, standing = self.winner, self.standing
        if winner is not None and standing is not None and standing.default:
            return (winner,)  # however sure: it stands because nothing surely beat it
        if standing is not None and doubtful(standing.quality):
            return () if self.default is None else (self.default,)
        others = (kept for kept in self.ranked if (winner is None or kept.id != winner.id) and self._leads(kept))
        return (*(() if winner is None else (winner,)), *others)

    def _leads(self, kept: IndexedTrial) -> bool:
        """Is a trial that was not measured again surely faster than the default, or that itself?"""
        try:
            trial = kept.trial
        except ValueError:
            return False
        if doubtful(trial.quality) or trial.quality is Quality.DRIFTED:
            return False
        return trial.source == "default" or self.default is None or kept.time * LEAD <= self.default.time

    @property
    def why_default(self) -> str | None:
        """Why nothing but the default is served for this program, and is none of this program's neighbours' business; None if more is."""
        standing = self.standing
        if standing is not None and doubtful(standing.quality):
            return f"the final measurement of its log is {standing.quality}, so nothing stands before the default"
        if standing is not None and standing.default:
            return "the default won the final measurement of its log"
        if not self.served:
            return "no trial of its log is clearly ahead of the default, and there is no final measurement"
        return None

    @property
    def gain(self) -> float | None:
        """How many times as fast as the default the winner was when they were measured side by side; None without that."""
        return None if self.standing is None else self.standing.speedup

    @property
    def gained(self) -> str:
        """How much faster than the default the best is, in words."""
        standing = self.standing
        if standing is not None:
            return "the default itself" if standing.default else "" if standing.speedup is None else f"{standing.speedup:.2f}x its default"
        return "" if self.default is None else f"{self.default.time / self.best.time:.2f}x its default, in single trials"

    @property
    def best(self) -> IndexedTrial:
        """The winner, else the fastest."""
        return self.winner or self.ranked[0]


@dataclass(slots=True)
class Shapes:
    """Studies of one family, threads and cache policy by the logarithms of their extents."""

    studies: list[StudyEntry] = field(default_factory=list)
    logs: list[list[float]] = field(default_factory=list)
    rows: npt.NDArray[np.float64] | None = None

    def add(self, known: StudyEntry, extents: list[int]) -> None:
        """One more study."""
        self.studies.append(known)
        self.logs.append(_logs(extents))
        self.rows = None

    def near(self, extents: tuple[float, ...]) -> Iterator[tuple[float, StudyEntry]]:
        """Studies of other extents with their distance, nearest first: that is the sum of the logarithms of the ratios."""
        if self.rows is None:
            self.rows = np.array(self.logs)
        distances = np.abs(self.rows - np.array(_logs(extents))).sum(axis=1)
        few = np.argpartition(distances, NEAR)[:NEAR] if len(distances) > 2 * NEAR else np.arange(len(distances))
        first = sorted((float(distances[at]), self.studies[at].best.id, int(at)) for at in few)
        chosen = {at for _, _, at in first}
        yield from ((distance, self.studies[at]) for distance, _, at in first if distance > 0)
        if len(few) < len(distances):
            rest = (at for at in np.argsort(distances, kind="stable").tolist() if at not in chosen and distances[at] > 0)
            yield from ((float(distances[at]), self.studies[at]) for at in rest)


@dataclass(slots=True)
class Index:
    """All studies, by program and by family."""

    studies: dict[StudyAtDims, StudyEntry] = field(default_factory=dict)
    programs: dict[str, list[StudyEntry]] = field(default_factory=dict)
    families: dict[tuple[str, int, str, int], Shapes] = field(default_factory=dict)
    homes: dict[str, StudyEntry] = field(default_factory=dict)
    """The study of each trial, by id; `places` has where its line stands."""
    places: dict[str, LineAt] = field(default_factory=dict)
    waiting: dict[str, FinalRecord] = field(default_factory=dict)
    instructions: dict[tuple[object, ...], frozenset[str] | None] = field(default_factory=dict)
    touched: set[StudyEntry] = field(default_factory=set)
    """Studies of which something may be kept whose line is not here yet."""

    def add(self, trial: Glimpse, place: LineAt, line: bytes) -> None:
        """A valid trial, with its line where that is at hand; a repeated one counts once."""
        study = trial.study
        if study is None or trial.id in self.places:
            return
        known = self.studies.get(study) or self._new(study, trial)
        self.homes[trial.id], self.places[trial.id] = known, place
        known.rank(trial, place, line)
        if not line:
            self.touched.add(known)
        if (final := self.waiting.pop(trial.id, None)) is not None:
            self.decide(final)

    def decide(self, final: FinalRecord) -> None:
        """A final measurement: its winner stands before the other trials of its study, until a later one."""
        if final.winner not in self.places:
            self.waiting[final.winner] = final
            return
        known, place = self.homes[final.winner], self.places[final.winner]
        when = -math.inf if final.time_unix is None else final.time_unix
        if when >= known.decided:
            known.decide(final.winner, final.time, place)
            self.touched.add(known)
            known.decided = when
            known.standing = Standing(final.default_stands, final.verdict, final.speedup)

    def fetch(self) -> bool:
        """Have the lines of all that is kept; False where a trial that was read before is not there any more."""
        touched, self.touched = self.touched, set()
        missing = [known for known in touched if not known.fetch()]
        return not missing

    def _new(self, at: StudyAtDims, trial: Glimpse) -> StudyEntry:
        """The study of a first trial."""
        isa = self._isa(trial.target.get("features"))
        study, dims = at
        known = StudyEntry(study, trial.target.get("triple"), trial.target.get("cpu"), isa, math.prod(size for _, size in dims))
        self.studies[at] = known
        self.programs.setdefault(study[0], []).append(known)
        family, extents = family_of(trial.task), trial.task.get("extents")
        if family is not None and isinstance(extents, list) and all(isinstance(extent, int) for extent in extents):
            self.families.setdefault((family, *study[2:], len(extents)), Shapes()).add(known, extents)
        return known

    def _isa(self, features: object) -> frozenset[str] | None:
        """The instruction set that a record names, the same object for the same names; None if it is none."""
        if not isinstance(features, list):
            return None
        try:
            names = tuple(features)
            if names not in self.instructions:
                self.instructions[names] = frozenset(features) if all(isinstance(name, str) for name in names) else None
            return self.instructions[names]
        except TypeError:  # what cannot be hashed is no name
            return None


def _logs(extents: Sequence[float]) -> list[float]:
    return [math.log(max(extent, 1)) for extent in extents]
