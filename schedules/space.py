"""A feasible search space: a tree of knobs, and constraints between them.

Why own it: box-shaped spaces with a rejection lambda repeat points, propose infeasible ones and do not end. Here every knob lists feasible
values, the number of points below each is known by dynamic programming, so a uniform point is a uniform integer unranked through the
tree, and only the constraints declared between knobs are left to rejection. A small space is enumerated once and ends exactly.

A space is a value: `fix`, `restrict` and `where` return another one. `print(space)` shows the tree and how many points it has.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlang.schedules.knobs import INACTIVE, Choice, Flag, Knob, Log2, Order, Sizes, Split, Value, spelling, tile_sizes

__all__ = ["Choice", "Config", "Count", "Flag", "Knob", "Log2", "Order", "Sizes", "Space", "Split", "spelling", "tile_sizes"]

Config: TypeAlias = dict[str, Any]
"""A point: from the names of the knobs that are active in it to their values; plain JSON."""

ENUMERABLE: Final = 20_000
SCANNED: Final = 100_000
PROBES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Count:
    """How many points: without constraints (exact), and feasible (exact, or estimated from a uniform sample)."""

    total: int
    feasible: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Constraint:
    """A predicate on points; the label stands for it in print and in the fingerprint."""

    label: str
    holds: Callable[[Config], bool]


@dataclass(frozen=True)
class Space:
    """Knobs that are decided independently (each may open sub-trees), constraints, and features derived from a point."""

    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...] = ()
    derived: Callable[[Config], Mapping[str, float]] | None = None

    # Counting and drawing --------------------------------------------------------------------------------------------------------

    @cached_property
    def total(self) -> int:
        """The number of points, constraints aside."""
        return _size(self.knobs)

    @cached_property
    def count(self) -> Count:
        """The number of points; feasible ones are counted exactly in a small space, else estimated from a sample."""
        if not self.constraints:
            return Count(self.total, self.total, exact=True)
        if self._points is not None:
            return Count(self.total, len(self._points), exact=True)
        rng = np.random.default_rng(0)
        hits = sum(self._feasible(self.at(_below(rng, self.total))) for _ in range(PROBES))
        return Count(self.total, round(self.total * hits / PROBES), exact=False)

    @cached_property
    def _points(self) -> tuple[int, ...] | None:
        """The ranks of the feasible points, where the space is small enough to list them."""
        if self.total > ENUMERABLE:
            return None
        return tuple(rank for rank in range(self.total) if self._feasible(self.at(rank)))

    def at(self, rank: int) -> Config:
        """The point of this rank (0 <= rank < total), feasible or not: a bijection."""
        if not 0 <= rank < self.total:
            raise IndexError(f"rank {rank} is outside a space of {self.total} points")
        config: Config = {}
        _unrank(self.knobs, rank, config)
        return config

    def __iter__(self) -> Iterator[Config]:
        """Every feasible point once, coarse to fine: ranks in bit-reversed order, so that a prefix is spread over the space."""
        bits = max(self.total - 1, 0).bit_length()
        for step in range(1 << bits):
            rank = int(f"{step:0{bits}b}"[::-1], 2) if bits else 0
            if rank < self.total:
                config = self.at(rank)
                if self._feasible(config):
                    yield config

    def sample(self, rng: np.random.Generator, n: int, exclude: Collection[str] = ()) -> list[Config]:
        """Up to `n` distinct feasible points, uniformly, none whose `spelling` is in `exclude`.

        Fewer come back only when no more are left, or in a large space when constraints leave so little that a long scan finds no more.
        """
        found: dict[str, Config] = {}
        for rank in self._ranks(rng, n, len(exclude)):
            config = self.at(rank)
            key = spelling(config)
            if key not in found and key not in exclude and self._feasible(config):
                found[key] = config
                if len(found) >= n:
                    break
        return list(found.values())

    def _ranks(self, rng: np.random.Generator, n: int, seen: int) -> Iterator[int]:
        if self._points is not None:
            if n + seen > len(self._points) // 4:
                yield from (self._points[i] for i in rng.permutation(len(self._points)))
                return
            while True:
                yield self._points[int(rng.integers(len(self._points)))]
        for _ in range(50 * n + PROBES):
            yield _below(rng, self.total)
        start = _below(rng, self.total)
        stride = next(step for step in range(self.total * 618 // 1000 | 1, 2 * self.total) if math.gcd(step, self.total) == 1)
        for i in range(SCANNED):
            yield (start + i * stride) % self.total

    # Points ----------------------------------------------------------------------------------------------------------------------

    def contains(self, config: Mapping[str, Value]) -> bool:
        """Is it a feasible point of this space: every active knob and no other, each with one of its values, constraints met?"""
        active = dict(self._active(config))
        return (
            active.keys() == config.keys() and all(knob.has(config[name]) for name, knob in active.items()) and self._feasible(dict(config))
        )

    def neighbours(self, config: Config) -> list[Config]:
        """The feasible points one move away: one knob to a near value; knobs that it opens take their nearest values."""
        moved = (
            self.complete({**config, name: value})
            for name, knob in self._active(config)
            for value in knob.near(config[name])
            if knob.has(config[name])
        )
        own = spelling(config)
        fresh = {spelling(point): point for point in moved if self._feasible(point)}
        return [point for key, point in fresh.items() if key != own]

    def mix(self, rng: np.random.Generator, first: Config, second: Config) -> Config:
        """A point that takes each knob from either parent; it may be infeasible."""
        take = {name: (first, second)[int(rng.integers(2))] for name in sorted(first.keys() | second.keys())}
        return self.complete({name: parent[name] for name, parent in take.items() if name in parent})

    def complete(self, config: Mapping[str, Value]) -> Config:
        """The point with these values where the knobs allow them, else the nearest; constraints are not looked at."""
        point: Config = {}
        todo = list(reversed(self.knobs))
        while todo:
            knob = todo.pop()
            point[knob.name] = value = knob.nearest(config.get(knob.name))
            todo.extend(reversed(knob.children(value)))
        return point

    def project(self, config: Mapping[str, Value]) -> Config | None:
        """The feasible point closest to one of another space (another shape): completed, then at most two moves; None if that fails."""
        point = self.complete(config)
        if self._feasible(point):
            return point
        ring = [self.complete({**point, name: value}) for name, knob in self._active(point) for value in knob.near(point[name])]
        for one in ring:
            if self._feasible(one):
                return one
        return next((near[0] for one in ring if (near := self.neighbours(one))), None)

    def _active(self, config: Mapping[str, Value]) -> Iterator[tuple[str, Knob]]:
        todo = list(self.knobs)
        while todo:
            knob = todo.pop(0)
            yield knob.name, knob
            if knob.opens and knob.name in config:
                todo.extend(knob.children(config[knob.name]))

    def _feasible(self, config: Config) -> bool:
        return all(constraint.holds(config) for constraint in self.constraints)

    # What a model sees -----------------------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the features of `encode`, those of `derived` last."""
        own = [column for knob in self._every() for column in knob.columns()]
        return (*own, *(sorted(self.derived(self._example)) if self.derived else ()))

    @cached_property
    def _example(self) -> Config:
        points = self.sample(np.random.default_rng(0), 1)
        return points[0] if points else self.complete({})

    def encode(self, config: Config) -> npt.NDArray[np.float64]:
        """A point as numbers: logarithms of sizes, flags, precedence bits, derived features; -1 where a knob is not active."""
        extra = self.derived(config) if self.derived else {}
        own = len(self.columns) - len(extra)
        row = np.full(own, INACTIVE)
        for name, knob in self._active(config):
            start, table = self._layout[id(knob)]
            if (features := table.get(spelling(config[name]))) is not None:
                row[start : start + len(features)] = features
        return np.append(row, [float(extra[name]) for name in sorted(extra)]) if extra else row

    @cached_property
    def _layout(self) -> dict[int, tuple[int, dict[str, tuple[float, ...]]]]:
        """For each knob: its first column, and the features of each of its values."""
        layout = {}
        start = 0
        for knob in self._every():
            layout[id(knob)] = (start, {spelling(value): knob.features(value) for value in knob.values})
            start += len(knob.columns())
        return layout

    def _every(self) -> Iterator[Knob]:
        """Every knob of the tree once, also one that stands under several values."""
        todo, seen = list(self.knobs), set[int]()
        while todo:
            knob = todo.pop(0)
            if id(knob) not in seen:
                seen.add(id(knob))
                yield knob
            todo.extend(child for children in knob.opens.values() for child in children)

    # Editing and showing ---------------------------------------------------------------------------------------------------------

    def fix(self, name: str, value: Value) -> Space:
        """The points in which the knob, wherever it is active, has this value. Raises `ValueError` as `restrict` does."""
        return self.restrict(name, [value])

    def restrict(self, name: str, values: Iterable[Value]) -> Space:
        """The points in which the knob, wherever it is active, has one of these values.

        Raises `ValueError` if there is no such knob or it has no such value.
        """
        if name not in {knob.name for knob in self._every()}:
            raise ValueError(f"no knob {name!r}; there are {', '.join(sorted({knob.name for knob in self._every()}))}")
        return Space(_restricted(self.knobs, name, tuple(values)), self.constraints, self.derived)

    def where(self, holds: Callable[[Config], bool], label: str = "") -> Space:
        """The points for which the predicate holds; inactive knobs are absent from the mapping that it is given."""
        label = label or getattr(holds, "__name__", "constraint")
        return Space(self.knobs, (*self.constraints, Constraint(label, holds)), self.derived)

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 of knobs, values and constraint labels: the same in every process."""
        parts = [[_shape(knob) for knob in self.knobs], [constraint.label for constraint in self.constraints]]
        return hashlib.sha256(spelling(parts).encode()).hexdigest()

    def __str__(self) -> str:
        count = self.count
        about = "" if count.exact else "about "
        lines = [f"{about}{count.feasible:,} feasible points of {count.total:,}"]
        lines += [line for knob in self.knobs for line in _lines(knob, "  ")]
        lines += [f"  where {constraint.label}" for constraint in self.constraints]
        return "\n".join(lines)


def _size(knobs: tuple[Knob, ...]) -> int:
    return math.prod(_size_of(knob) for knob in knobs)


def _size_of(knob: Knob) -> int:
    return sum(_size(knob.children(value)) for value in knob.values) if knob.opens else len(knob.values)


def _unrank(knobs: tuple[Knob, ...], rank: int, config: Config) -> None:
    for knob in knobs:
        if not knob.opens:
            rank, at = divmod(rank, len(knob.values))
            config[knob.name] = knob.values[at]
            continue
        rank, at = divmod(rank, _size_of(knob))
        for value in knob.values:
            below = _size(knob.children(value))
            if at < below:
                config[knob.name] = value
                _unrank(knob.children(value), at, config)
                break
            at -= below


def _below(rng: np.random.Generator, bound: int) -> int:
    """A uniform integer below a bound of any size."""
    return int.from_bytes(rng.bytes(bound.bit_length() // 8 + 9), "little") % bound


def _restricted(knobs: tuple[Knob, ...], name: str, values: tuple[Value, ...]) -> tuple[Knob, ...]:
    edited = (
        knob.opening({text: _restricted(children, name, values) for text, children in knob.opens.items()}) if knob.opens else knob
        for knob in knobs
    )
    return tuple(knob.restricted(values) if knob.name == name else knob for knob in edited)


def _shape(knob: Knob) -> list[Any]:
    below = {text: [_shape(child) for child in children] for text, children in knob.opens.items()}
    return [type(knob).__name__, knob.name, list(knob.values), below]


def _lines(knob: Knob, indent: str) -> Iterator[str]:
    yield f"{indent}{knob.name}: {knob.listing()}"
    for value in knob.values:
        if children := knob.children(value):
            yield f"{indent}  {value}:"
            for child in children:
                yield from _lines(child, indent + "    ")
