"""A stage under the steps of a schedule, as the cost model reads it: loops and accesses alone, without a nest and without proofs.

A point of a search space costs tens of milliseconds as a schedule, since every step is proved, and a fraction of one as a sketch: so many
points can be compared before one of them is made. The steps are those of a schedule, and give what the model would read of the nest.

    sketch = Sketch.of(parts, "C")                  # for i: for j: for k: C[i, j] += A[i, k] * B[k, j]
    outer, inner = sketch.split("C.j", 32)
    sketch.reorder(outer, "C.i", "C.k", inner)
    sketch.mark(inner, "vector")
    sketch.pack("B", outer, 8)
    sketch.accumulate("C.i", loads=False)
    estimated(numbered(sketch.parts()), machine)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace as replaced
from functools import partial
from typing import Final

from tensorlang.schedules.model.parts import Loop, Part, Statement, paths, statements
from tensorlang.schedules.model.walks import Around, LinearAccess, Term, Terms, follow, runs_of

PACKED: Final = "_pack"
"""What the names of packed copies end with."""
UNROLLED: Final = 16
"""Vectors of a tile that is transposed in registers while a panel is packed, at most."""


@dataclass(slots=True)
class Sketch:
    """The loops around one statement, outermost first, and the statements that steps put beside it.

    `before` and `after` hold what stands before and after the rest of a loop's body, by the name of the loop ("" is the whole program).
    `first` has the trips of loops in the first iteration of a loop around, where they may be more than on the average, and those of that
    loop.
    """

    statement: Statement
    loops: list[Loop]
    before: dict[str, list[Part]] = field(default_factory=dict)
    after: dict[str, list[Part]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Sequence[Part], stage: str) -> Sketch:
        """The stage as a program has it. Raises `KeyError` where it is not there."""
        for statement, path in paths(parts):
            if statement.stage == stage:
                return cls(statement, [loop._replace(body=()) for loop in path])
        raise KeyError(stage)

    def copy(self) -> Sketch:
        """The same, on which steps can be tried."""
        before, after = ({name: list(parts) for name, parts in beside.items()} for beside in (self.before, self.after))
        return Sketch(self.statement, list(self.loops), before, after, dict(self.first))

    # Steps ------------------------------------------------------------------------------------------------------------------

    def split(self, loop: str, factor: float, lanes: int = 1) -> tuple[str, str]:
        """Split a loop into one over tiles and one over `factor` iterations.

        A tile that is not whole counts as a part of one; where the tile is vectors, which run whole, as those of so many `lanes`.
        """
        outer, inner = f"{loop}_o", f"{loop}_i"
        place, old = self._find(loop)
        if old.ragged:  # it ends anywhere, so that one more tile is begun where half of one is left
            count = old.trips / factor + 0.5
            whole = max(0.0, 2 * old.trips / factor / count - 1)
            trips, tiles = (count, factor if lanes > 1 else old.trips / count), (1.0, whole)
        else:
            trips = max(1.0, math.ceil(old.trips / lanes) * lanes / factor), min(factor, old.trips)
            tiles = (old.tiles, trips[0]) if trips[0] > 1 else (1.0, old.tiles if old.tiles > 1 else min(1.0, old.trips / factor))
        self.loops[place : place + 1] = [
            Loop(name, count, old.kind, (), parts, old.ragged) for name, count, parts in zip((outer, inner), trips, tiles, strict=True)
        ]
        self._substitute({loop: {outer: Term(factor), inner: Term(1.0)}})
        return outer, inner

    def fuse(self, outer: str, inner: str) -> str:
        """Make one loop of two neighbours."""
        fused = f"{outer}_f"
        first, second = self._find(outer)[1], self._find(inner)[1]
        self.loops.remove(second)
        place = self.loops.index(first)
        self.loops[place] = Loop(fused, first.trips * second.trips, first.kind, ())
        self._substitute({outer: {fused: Term(1 / second.trips)}, inner: {fused: Term(1.0, second.trips)}})
        return fused

    def skew(self, loop: str, by: str, factor: int) -> None:
        """Let a loop count from `factor` further back in each iteration of another one."""
        self._substitute({loop: {loop: Term(1.0), by: Term(-float(factor))}})

    def ask(self, buffers: Collection[str]) -> None:
        """Ask for what the statement reads of these buffers ahead."""
        accesses = tuple(access._replace(asked=access.asked or access.buffer.name in buffers) for access in self.statement.accesses)
        self.statement = self.statement._replace(accesses=accesses)

    def rename(self, old: str, new: str) -> None:
        """Call a loop, where there is one of this name, by another one."""
        if any(loop.name == old for loop in self.loops):
            place, loop = self._find(old)
            self.loops[place] = loop._replace(name=new)
            self._substitute({old: {new: Term(1.0)}})

    def reorder(self, *names: str) -> None:
        """Put loops into the given order, at the places that they have now."""
        present = {loop.name: loop for loop in self.loops}
        order = [present[name] for name in names if name in present]
        wanted = set(names)
        following = iter(order)
        self.loops = [next(following) if loop.name in wanted else loop for loop in self.loops]

    def mark(self, name: str, kind: str, slots: float = 1.0) -> None:
        """Make a loop one of a kind ("vector", "unroll"), or of those of an instruction that takes so many `slots`."""
        for place, loop in enumerate(self.loops):
            if loop.name == name:
                self.loops[place] = loop._replace(kind=kind, slots=slots)

    def stream(self) -> None:
        """Store past the caches what the statement writes."""
        accesses = (access._replace(streams=True) if access.writes and not access.reads else access for access in self.statement.accesses)
        self.statement = self.statement._replace(accesses=tuple(accesses))

    def trips(self, name: str) -> float:
        """How often a loop runs."""
        return next((loop.trips for loop in self.loops if loop.name == name), 1.0)

    def lengthen(self, name: str, factor: float) -> None:
        """Let a loop run so many times as often, for iterations that take longer."""
        self.loops = [loop._replace(trips=loop.trips * factor) if loop.name == name else loop for loop in self.loops]

    def pack(self, buffer: str, at: str, lanes: int, *, copied: bool = True, along: str = "") -> None:
        """Copy what the loops inside `at` use of a buffer, in their order; vectors of the copy have so many lanes.

        What is not `copied` was packed beforehand; of several uses those are copied that move `along` a loop.
        """
        uses = [access for access in self.statement.accesses if access.buffer.name == buffer and not access.writes]
        uses = [access for access in uses if not along or any(along in terms for terms in access.terms)]
        if len(uses) != 1 or len(uses[0].taps) != 1:
            return  # `pack` copies what all uses read alike; of an operand that is read in two ways, the panel before may have taken all
        use = uses[0]
        inside = [loop for loop in self.inside(at) if any(loop.name in terms for terms in use.terms)]
        if not inside:
            return  # a single element, which is as near where it lies
        extents = tuple(loop.trips for loop in inside)
        strides = [float(use.element)]
        for extent in reversed(extents[1:]):
            strides.append(strides[-1] * extent)
        terms = tuple({loop.name: Term(1.0)} for loop in inside)
        taken = {access.buffer.name for access in self.statement.accesses}
        name = f"{buffer}{PACKED}" if f"{buffer}{PACKED}" not in taken else f"{buffer}_1{PACKED}"
        memory = replaced(use.buffer, name=name, memory="heap")
        packed = LinearAccess(
            memory, use.element, extents, tuple(reversed(strides)), ((0,) * len(inside),), terms, reads=True, writes=False
        )
        kept = tuple(packed if access in uses else access for access in self.statement.accesses)
        self.statement = self.statement._replace(accesses=kept)
        if not copied:
            return
        moves = Statement(memory.name, 0, 0.0, (use, packed._replace(reads=False, writes=True)), frozenset(), False, 0.0, 8 * use.element)
        copy = Sketch(moves, [loop._replace(kind="serial") for loop in inside])
        copy._vectorize_copy(use, lanes)
        self.before.setdefault(at, []).extend(copy.parts())

    def put(self, producer: Sketch, at: str) -> None:
        """Let a producer run in a loop ("": once), before what else stands there."""
        self.before.setdefault(at, []).extend(producer.parts())

    def forget(self, buffers: Collection[str]) -> None:
        """Neither load nor store tensors that stay in registers."""
        self.statement = _without(self.statement, buffers)
        for place in (self.before, self.after):
            for at, parts in place.items():
                place[at] = [kept for part in parts for kept in _parts_without(part, buffers)]

    def accumulate(self, at: str, *, loads: bool, consumer: Statement | None = None) -> None:
        """Keep the result in registers inside `at`; where it `loads`, sums that began before are read first.

        Loops that load and store it are of the kinds that the loops inside `at` are by now. A `consumer` that reads the result element by
        element is computed from the registers: what else it reads, and what it writes, in place of the result.
        """
        writes = [access for access in self.statement.accesses if access.writes]
        inside = [loop for loop in self.inside(at) if loop.name in self.statement.moving]
        for place, wanted in ((self.before, loads), (self.after, True)):
            if wanted:
                accesses = tuple(access._replace(reads=place is self.before, writes=place is self.after) for access in writes)
                moves = self.statement._replace(
                    operations=0.0,
                    sums=0.0,
                    light=0.0,
                    accesses=accesses,
                    combines=False,
                    joining=0.0,
                    conditions=(),
                    divided=(),
                    apart=(),
                    edges=(),
                )
                if consumer is not None and place is self.after:
                    moves = _from_registers(consumer, writes) or moves
                place.setdefault(at, []).extend(Sketch(moves, list(inside)).parts())
        kept = tuple(access for access in self.statement.accesses if not access.writes)
        self.statement = self.statement._replace(accesses=kept)

    # The result -------------------------------------------------------------------------------------------------------------

    def parts(self) -> tuple[Part, ...]:
        """The loops and statements in program order."""
        body: tuple[Part, ...] = (self.statement,)
        for loop in reversed(self.loops):
            body = (*self.before.get(loop.name, ()), *body, *self.after.get(loop.name, ()))
            body = body if loop.trips == 1 else (loop._replace(body=body),)
        return (*self.before.get("", ()), *body)

    def _find(self, name: str) -> tuple[int, Loop]:
        for place, loop in enumerate(self.loops):
            if loop.name == name:
                return place, loop
        self.loops.append(Loop(name, 1.0, "serial", ()))  # a loop of one iteration, which the model leaves out
        return len(self.loops) - 1, self.loops[-1]

    def inside(self, at: str) -> list[Loop]:
        """The loops inside another one ("": all)."""
        return self.loops[self._find(at)[0] + 1 :] if at else self.loops

    def _substitute(self, axes: Mapping[str, Terms]) -> None:
        """Follow loops that are made of others."""
        old = axes.keys()

        def followed(access: LinearAccess) -> LinearAccess:
            if all(map(old.isdisjoint, access.terms)):
                return access
            return access.over(tuple([follow(terms, axes) for terms in access.terms]), access.runs)

        accesses = tuple([followed(access) for access in self.statement.accesses])
        self.statement = _followed(self.statement, axes, accesses)

    def _vectorize_copy(self, source: LinearAccess, lanes: int) -> None:
        """Walk memory along both sides of a copy: by vectors of its last loop, or across, by tiles that are transposed in registers."""
        steps = source.steps()
        last = self.loops[-1]
        if abs(steps.get(last.name, 0.0)) != 1:
            along = next((loop for loop in reversed(self.loops[:-1]) if abs(steps.get(loop.name, 0.0)) == 1), None)
            if along is None:
                return
            tiles, vector = self.split(self._fused_run(along, steps), lanes)
            around, panel = last.name, last.name
            if last.trips > UNROLLED:
                around, panel = self.split(last.name, UNROLLED)
            others = [loop.name for loop in self.loops if loop.name not in (tiles, vector, around, panel)]
            self.reorder(*others, *([around] if around != panel else []), tiles, panel, vector)
            self.mark(panel, "unroll")
        else:
            vector = self.split(last.name, lanes)[1] if last.trips > 4 * lanes else last.name
        self.mark(vector, "vector")

    def _fused_run(self, last: Loop, steps: Mapping[str, float]) -> str:
        """One loop of those that walk neighbours, of which `last` is innermost."""
        name, run = last.name, last.trips
        for loop in reversed(self.loops[: self._find(last.name)[0]]):
            if abs(steps.get(loop.name, 0.0)) != run:
                break
            name, run = self.fuse(loop.name, name), run * loop.trips
        return name


def _from_registers(consumer: Statement, writes: Sequence[LinearAccess]) -> Statement | None:
    """A consumer over the loops that make what it reads; None where it does not read that element by element."""
    made = {access.buffer.name: access.terms for access in writes}
    axes: dict[str, Terms] = {}
    for access in consumer.accesses:
        for own, terms in zip(access.terms, made.get(access.buffer.name, ()), strict=False):
            if list(own.values()) not in ([], [Term(1.0)]) or any(axes.setdefault(loop, terms) != terms for loop in own):
                return None
    rest = tuple(
        access.over(tuple(follow(terms, axes) for terms in access.terms), access.runs)
        for access in consumer.accesses
        if access.buffer.name not in made
    )
    return _followed(consumer, axes, rest)._replace(waiting=True) if axes else None


def _followed(statement: Statement, axes: Mapping[str, Terms], accesses: tuple[LinearAccess, ...]) -> Statement:
    """A statement that moves with loops of which others are made, with its accesses over these."""
    return statement.over(partial(made_of, axes=axes), moving=made_of(statement.moving, axes), accesses=accesses)


def _without(statement: Statement, buffers: Collection[str]) -> Statement:
    return statement._replace(accesses=tuple(access for access in statement.accesses if access.buffer.name not in buffers))


def _parts_without(part: Part, buffers: Collection[str]) -> Iterator[Part]:
    """A part without accesses to buffers; nothing where nothing else is left."""
    if isinstance(part, Loop):
        body = tuple(kept for inner in part.body for kept in _parts_without(inner, buffers))
        if body:
            yield part._replace(body=body)
    else:
        left = _without(part, buffers)
        if left.accesses or left.operations:
            yield left


def made_of(loops: frozenset[str], axes: Mapping[str, Terms]) -> frozenset[str]:
    """The loops of which loops are made, where that is not themselves."""
    old = loops.intersection(axes)
    return (loops - old).union(*(axes[name] for name in old)) if old else loops


def beside_others(sketch: Sketch, parts: Sequence[Part]) -> tuple[Part, ...]:
    """The outermost loop of a program in which the stage of a sketch stands, with the loops of the sketch in place of its own."""
    stage = sketch.statement.stage
    return tuple(new for part in parts if _holds(part, stage) for new in _in_place(part, tuple(sketch.parts()), stage))


def _in_place(part: Part, own: tuple[Part, ...], stage: str) -> Iterator[Part]:
    """A part that holds a stage, with what becomes of this stage."""
    same = next((one for one in own if isinstance(one, Loop) and isinstance(part, Loop) and one.name == part.name), None)
    if same is None or not isinstance(part, Loop):
        yield from own
        return
    body = (new for inner in part.body for new in (_in_place(inner, same.body, stage) if _holds(inner, stage) else (inner,)))
    yield part._replace(body=tuple(body))


def _holds(part: Part, stage: str) -> bool:
    return any(statement.stage == stage for statement in statements((part,)))


def numbered(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts whose statements are numbered in program order, and whose accesses know what runs they touch."""
    return tuple(_numbered(parts, [], iter(range(1, 1 << 30))))


def _numbered(parts: Sequence[Part], around: list[Around], places: Iterator[int]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, Loop):
            yield part._replace(body=tuple(_numbered(part.body, [*around, (part.name, part.trips, part.kind)], places)))
        else:
            accesses = tuple([access.over(access.terms, runs_of(access, around)) for access in part.accesses])
            yield part._replace(place=next(places), accesses=accesses)
