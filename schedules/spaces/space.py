"""A feasible search space: a tree of knobs, and constraints between them.

Why own it: box-shaped spaces with a rejection lambda repeat points, propose infeasible ones and do not end. Here every knob lists feasible
values, the number of points below each is known by dynamic programming, so a uniform point is a uniform integer unranked through the
tree. Constraints between knobs are counted and drawn exactly too, by asking them what they read (see `feasible`); only a space whose
constraints read too much is left to rejection, and where that finds little, to walks from a point that is known (`around`). Either way a
search of it ends, exactly in the first case.

A space is a value: `fix`, `restrict`, `where` and `only` return another one. `print(space)` shows the tree and how many points it has.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.errors import TensorlangError, TuningError
from tensorlang.schedules.spaces import arguments, serialization
from tensorlang.schedules.spaces.constraints import Constraint
from tensorlang.schedules.spaces.feasible import Alternatives, Config, Feasible, feasible, size, unrank
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knob_trees import knob_of, listing, repeated_name, restricted, shape_of
from tensorlang.schedules.spaces.knobs import (
    INACTIVE,
    Choice,
    Factors,
    Flag,
    Knob,
    Log2,
    Order,
    Sizes,
    TileSize,
    Value,
    spelling,
    tile_sizes,
)
from tensorlang.schedules.spaces.walks import SCANNED, below, scattered, walked
from tensorlang.serialization.spelling import read_record
from tensorlang.system.lazy import cached_property

__all__ = [
    "Choice", "Config", "Count", "Factors", "Flag", "Footprint", "Knob", "Log2", "Order", "Sizes", "Space", "TileSize", "spelling",
    "tile_sizes",
]  # fmt: skip

PROBES: Final = 2_000
RARE: Final = 100
"""Points of which less than one is feasible: drawing uniformly takes minutes for a few, where asking whether one is takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many points: without constraints (exact), and feasible (exact, or estimated from a uniform sample)."""

    total: int
    feasible: int
    exact: bool


@dataclass(frozen=True)
class Space:
    """Knobs that are decided independently (each may open sub-trees), constraints between them, and what a model sees of a point.

    `footprints` compare what tiles occupy with caches; `derived` computes any further features by name. Raises `TuningError` where a point
    would have two knobs of one name.
    """

    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...] = ()
    derived: Callable[[Config], Mapping[str, float]] | None = None
    footprints: tuple[Footprint, ...] = ()
    known: Config | None = field(default=None, compare=False)
    """A feasible point, around which points are drawn where these are too rare to be found."""

    @classmethod
    def of(cls, **values: Iterable[Value]) -> Space:
        """The space of all combinations of named values: positive whole numbers are `Sizes`, truth values a `Flag`, others a `Choice`.

            Space.of(rows=(2, 4, 6), pack=(False, True), order=("ijk", "ikj"))

        Raises `TuningError` for a name without values.
        """
        return cls(tuple(knob_of(name, arguments.values(name, own)) for name, own in values.items()))

    def __post_init__(self) -> None:
        for name, kind in (("knobs", Knob), ("constraints", Constraint), ("footprints", Footprint)):
            object.__setattr__(self, name, arguments.parts(getattr(self, name), kind))
        if (twice := repeated_name(self.knobs, frozenset())) is not None:
            raise TuningError(f"two knobs of one point are called {twice!r}")

    # Counting and drawing --------------------------------------------------------------------------------------------------------

    @cached_property
    def total(self) -> int:
        """The number of points, constraints aside."""
        return size(self.knobs)

    @cached_property
    def count(self) -> Count:
        """The number of points; feasible ones are counted exactly where the constraints allow it, else estimated from a sample."""
        if self._exact is not None:
            return Count(self.total, self._exact.count, exact=True)
        rng = np.random.default_rng(0)
        hits = sum(self._feasible(self.at(below(rng, self.total))) for _ in range(PROBES))
        return Count(self.total, round(self.total * hits / PROBES), exact=False)

    @cached_property
    def _exact(self) -> Feasible | Alternatives | None:
        """The feasible points by number, where they can be told."""
        return feasible(self.knobs, [constraint.admits for constraint in self.constraints])

    def at(self, rank: int) -> Config:
        """The point of this rank (0 <= rank < total), feasible or not: a bijection. Raises `TuningError` for another rank."""
        rank = arguments.whole(rank, "the rank of a point")
        if not 0 <= rank < self.total:
            raise TuningError(f"rank {rank} is outside a space of {self.total} points")
        config: Config = {}
        unrank(self.knobs, rank, config)
        return config

    def __iter__(self) -> Iterator[Config]:
        """Every feasible point once, coarse to fine: ranks in bit-reversed order, so that a prefix is spread over the space."""
        total, at = (self.total, self.at) if self._exact is None else (self._exact.count, self._exact.at)
        bits = max(total - 1, 0).bit_length()
        for step in range(1 << bits if total else 0):
            rank = int(f"{step:0{bits}b}"[::-1], 2) if bits else 0
            if rank < total:
                config = at(rank)
                if self._exact is not None or self._feasible(config):
                    yield config

    def sample(self, rng: np.random.Generator, n: int, exclude: Collection[str] = ()) -> list[Config]:
        """Up to `n` distinct feasible points, uniformly, none whose `spelling` is in `exclude`.

        Fewer come back only when no more are left; or, where the feasible points are not known exactly, when a long scan finds no more.
        Where they are rare, they are not uniform but a few moves from the point that is `known`, if there is one.
        Raises `TuningError` for what is no generator or no number.
        """
        rng, n, exclude = arguments.generator(rng), arguments.whole(n, "the number of points"), arguments.spellings(exclude)
        found: dict[str, Config] = {}
        for config in self._draws(rng, n, len(exclude)):
            key = spelling(config)
            if key not in found and key not in exclude:
                found[key] = config
                if len(found) >= n:
                    break
        return list(found.values())

    def _draws(self, rng: np.random.Generator, n: int, seen: int) -> Iterator[Config]:
        """Uniform feasible points: independent ones while most are unseen, else each once in a random order."""
        if self._exact is not None:
            many = self._exact.count
            if n + seen <= many // 4:
                while True:
                    yield self._exact.at(below(rng, many))
            yield from map(self._exact.at, rng.permutation(many).tolist() if many <= SCANNED else scattered(rng, many))
            return
        if self.known is not None and self.count.feasible * RARE < self.total and self._feasible(self.known):
            yield from (walked(self, rng, self.known) for _ in range(50 * n + PROBES))
            return
        for rank in itertools.chain((below(rng, self.total) for _ in range(50 * n + PROBES)), scattered(rng, self.total)):
            config = self.at(rank)
            if self._feasible(config):
                yield config

    # Points ----------------------------------------------------------------------------------------------------------------------

    def contains(self, config: Mapping[str, Value]) -> bool:
        """Is it a feasible point of this space: every active knob and no other, each with one of its values, constraints met?

        Raises `TuningError` for what is no point of any space.
        """
        config = arguments.point(config)
        active = dict(self.active(config))
        return (
            active.keys() == config.keys() and all(knob.has(config[name]) for name, knob in active.items()) and self._feasible(dict(config))
        )

    def __contains__(self, config: object) -> bool:
        """`config in space`: what `contains` says, of whatever it is; without it Python would go through the whole space."""
        return isinstance(config, Mapping) and self.contains(config)

    def neighbours(self, config: Config) -> list[Config]:
        """The feasible points one move away: one knob to a near value; knobs that it opens take their nearest values.

        Two points with the same active knobs are neighbours of each other or not at all. A move that opens a sub-tree leads to the middle
        of it only, while every point of that sub-tree leads back. Raises `TuningError` for a point that is not whole.
        """
        arguments.present(arguments.point(config), [name for name, _ in self.active(config)])
        moved = (
            self.complete({**config, name: value})
            for name, knob in self.active(config)
            if knob.has(config[name])
            for value in knob.near(config[name])
        )
        own = spelling(config)
        fresh = {spelling(point): point for point in moved if self._feasible(point)}
        return [point for key, point in fresh.items() if key != own]

    def mix(self, rng: np.random.Generator, first: Config, second: Config) -> Config:
        """A point that takes each knob from either parent; it may be infeasible. Raises `TuningError` for what is no point."""
        rng, first, second = arguments.generator(rng), dict(arguments.point(first)), dict(arguments.point(second))
        take = {name: (first, second)[int(rng.integers(2))] for name in sorted(first.keys() | second.keys())}
        return self.complete({name: parent[name] for name, parent in take.items() if name in parent})

    def complete(self, config: Mapping[str, Value]) -> Config:
        """The point with these values where the knobs allow them, else the nearest; constraints are not looked at.

        Raises `TuningError` for what is no mapping.
        """
        config = arguments.point(config)
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
        ring = [self.complete({**point, name: value}) for name, knob in self.active(point) for value in knob.near(point[name])]
        for one in ring:
            if self._feasible(one):
                return one
        return next((near[0] for one in ring if (near := self.neighbours(one))), None)

    def active(self, config: Mapping[str, Value]) -> Iterator[tuple[str, Knob]]:
        """The knobs that a point has, by name."""
        todo = list(self.knobs)
        while todo:
            knob = todo.pop(0)
            yield knob.name, knob
            if knob.opens and knob.name in config:
                todo.extend(knob.children(config[knob.name]))

    def _feasible(self, config: Config) -> bool:
        return all(constraint.admits(config) for constraint in self.constraints)

    # What a model sees -----------------------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the features of `encode`: those of the knobs, of the footprints, and of `derived`."""
        own = (column for knob in self._every() for column in knob.columns())
        occupied = (footprint.name for footprint in self.footprints)
        return (*own, *occupied, *(sorted(self.derived(self._example)) if self.derived else ()))

    @cached_property
    def _example(self) -> Config:
        points = self.sample(np.random.default_rng(0), 1)
        return points[0] if points else self.complete({})

    def encode(self, config: Config) -> npt.NDArray[np.float64]:
        """A point as numbers: logarithms of sizes, flags, precedence bits, footprints, derived features; -1 where a knob is not active.

        Features of sizes are relative to this shape, so a point of another shape of the family may be encoded too, for comparison.
        Raises `TuningError` for what is no point.
        """
        row: npt.NDArray[np.float64] = self.encode_all([config])[0]
        return row

    def encode_all(self, configs: Sequence[Config]) -> npt.NDArray[np.float64]:
        """One row for each point. Raises `TuningError` for what is no list of points."""
        configs = arguments.points(configs)
        rows = np.full((len(configs), len(self.columns)), INACTIVE)
        first = len(self.columns)
        if self.derived:
            extra = [self.derived(config) for config in configs]
            names = sorted(extra[0]) if extra else []
            first -= len(names)
            rows[:, first:] = [[float(values[name]) for name in names] for values in extra]
        for place, footprint in enumerate(self.footprints, first - len(self.footprints)):
            rows[:, place] = [footprint.feature(config) for config in configs]
        for row, config in zip(rows, configs, strict=True):
            for name, knob in self.active(config):
                if name in config:
                    start, table = self._layout[id(knob)]
                    features = table.get(spelling(config[name])) or arguments.features(knob, config[name])
                    row[start : start + len(features)] = features
        return rows

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
        """The points in which the knob, wherever it is active, has this value. Raises `TuningError` as `restrict` does."""
        return self.restrict(name, [value])

    def restrict(self, name: str, values: Iterable[Value]) -> Space:
        """The points in which the knob, wherever it is active, has one of these values.

        Raises `TuningError` if there is no such knob or it has no such value.
        """
        known = sorted({knob.name for knob in self._every()})
        if not isinstance(name, str) or name not in known:
            raise TuningError(f"no knob {name!r:.60}; there are {', '.join(known)}")
        return replace(self, knobs=restricted(self.knobs, name, arguments.values(name, values)))

    def around(self, point: Mapping[str, Value]) -> Space:
        """The same points, drawn around this one where feasible ones are too rare to be found. Raises `TuningError` for no point."""
        found = copy(self)  # with what is found already, which does not depend on it
        object.__setattr__(found, "known", dict(arguments.point(point)))
        return found

    def where(self, holds: Callable[[Config], bool], label: str = "") -> Space:
        """The points for which the predicate holds; inactive knobs are absent from the mapping that it is given.

        It must depend on the point alone. It may also be given points of which not all is decided, to see what it reads. Several small
        constraints are counted faster than one that reads everything. Raises `TuningError` for what cannot be called.
        """
        if not callable(holds):
            raise TuningError(f"a constraint is a function of a point, not {holds!r:.60}")
        if not isinstance(label, str):
            raise TuningError(f"a constraint is called by a text, not {label!r:.60}")
        label = label or getattr(holds, "__name__", "constraint")
        return replace(self, constraints=(*self.constraints, Constraint(label, holds)))

    def only(self, points: Iterable[Config]) -> Space:
        """The points that are among these, as those that a log has."""
        listed = frozenset(map(spelling, arguments.values("points", points)))
        digest = hashlib.sha256("\n".join(sorted(listed)).encode()).hexdigest()[:12]
        return self.where(lambda config: spelling(config) in listed, f"one of {len(listed)} listed points ({digest})")

    def to_json(self) -> dict[str, Any]:
        """Knobs and footprints as plain JSON, with the labels of the constraints."""
        return {
            "knobs": [knob.to_json() for knob in self.knobs],
            "footprints": [{**asdict(footprint), "knobs": list(footprint.knobs)} for footprint in self.footprints],
            "constraints": [constraint.label for constraint in self.constraints],
        }

    @classmethod
    def from_json(cls, data: object) -> Space:
        """The space of `to_json` without its constraints, which are code. Raises `TuningError` for what is not such a space."""
        try:
            record = read_record(data, "the space", ("knobs", "footprints", "constraints"))
            knobs = serialization.KnobReader().every(record["knobs"], "knobs")
            return cls(knobs, footprints=tuple(serialization.footprints(record["footprints"], serialization.sizes_of(knobs))))
        except TensorlangError as error:
            raise TuningError(f"not a search space: {error}") from None

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 of knobs, values and constraint labels: the same in every process."""
        parts = [[shape_of(knob) for knob in self.knobs], [constraint.label for constraint in self.constraints]]
        return hashlib.sha256(spelling(parts).encode()).hexdigest()

    def _repr_html_(self) -> str:
        from tensorlang.system import markup  # noqa: PLC0415 - for notebooks alone

        return markup.display(markup.code(str(self)))

    def __str__(self) -> str:
        count = self.count
        about = "" if count.exact else "about "
        lines = [f"{about}{count.feasible:,} feasible points of {count.total:,}"]
        lines += [line for knob in self.knobs for line in listing(knob, "  ")]
        lines += [f"  {footprint}" for footprint in self.footprints]
        lines += [f"  where {constraint.label}" for constraint in self.constraints]
        return "\n".join(lines)
