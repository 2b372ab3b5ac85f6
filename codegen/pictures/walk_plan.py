"""How a nest is walked: which loops iteration by iteration, which many at once, and of which only a part.

A leaf is a store with the loops right around it; all of its iterations are looked at together (`touched`), so many that a picture of the
film is some leaves. Where a walk would take too long, loops run over a part of their iterations: evenly spread ones, but the first ones
where storage carries something from one iteration to the next, for there a gap would show what is not so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from tensorlang import ir
from tensorlang.codegen.pictures.index_values import Unknown, Values
from tensorlang.codegen.pictures.touched import Touch, touch
from tensorlang.ir import Alloc, Block, Buffer, Expr, For, If, Nest, Prefetch, SplitRelation, Stmt, Store, WindowRelation
from tensorlang.ir.integers import known_value
from tensorlang.ir.relations import closure, condition, is_ready, sides
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.legality.accesses import accesses

PICTURES: Final = 72
"""Pictures of a film, about."""
AT_ONCE: Final = 1 << 21
"""Iterations of a leaf, at most."""
VISIT: Final = 8_000.0
"""What an access costs each time that its leaf is come to, in elements touched."""
LISTED: Final = 12_000.0
"""What a group of loops costs whose rows are listed each time."""
BUDGET: Final = 1.2e8
"""Elements that a walk touches, about: some two seconds."""
PRESSED: Final = 3.0
"""How much more a walk may take before a loop keeps fewer iterations than a grid has rows."""
FLOORS: Final = (96, 48, 16, 6, 2)
"""Iterations that a loop keeps at least, in the first round that leaves some out, in the second, ..."""


class NotDrawn(Exception):  # noqa: N818 - a reason, in words, and no error
    """Why a nest cannot be walked."""


@dataclass(slots=True, eq=False)
class Leaf:
    """A store and the loops around it that are looked at together; of the outermost, `chunk` iterations (0: all)."""

    loops: tuple[For, ...]
    store: Store
    touches: tuple[Touch, ...]
    instances: float
    trips: float = 1.0
    chunk: int = 0
    kept: int = 0

    @property
    def visits(self) -> float:
        """How often it is come to, each time."""
        return 1.0 if not self.chunk else math.ceil(self.trips / self.chunk)

    @property
    def cost(self) -> float:
        """What one visit costs."""
        share = self.chunk / self.trips if self.chunk else 1.0
        listed = sum(not (group.steady or group.linear) for one in self.touches for group in one.groups)
        return VISIT * len(self.touches) + LISTED * listed + share * sum(one.size for one in self.touches)


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that is walked: its body runs where `conditions` hold. `kept`: so many of its iterations (0: all)."""

    loop: For
    body: Node
    trips: float
    instances: float
    conditions: tuple[Expr, ...]
    carries: bool = False
    kept: int = 0


@dataclass(slots=True, eq=False)
class Sequence:
    """Parts in order."""

    parts: tuple[Node, ...]
    instances: float


@dataclass(slots=True, eq=False)
class Storage:
    """Storage that lives meanwhile."""

    buffers: tuple[Buffer, ...]
    body: Node
    instances: float


@dataclass(slots=True, eq=False)
class Choice:
    """A condition around parts."""

    cond: Expr
    then: Node
    orelse: Node
    instances: float


Node: TypeAlias = "Leaf | Loop | Sequence | Storage | Choice"
Elements: TypeAlias = "Mapping[str, tuple[Expr, ...]]"


@dataclass(slots=True)
class Planner:
    """Makes the plan of a nest. `elements` says which element of its tensor a stage computes, where the storage does not."""

    nest: Nest
    values: Values
    shapes: Mapping[str, tuple[int, ...]]
    elements: Elements
    moved: frozenset[str]
    closures: dict[int, tuple[Expr, frozenset[str]]] = field(default_factory=dict)

    def plan(self) -> Node:
        """The plan of the whole nest. Raises `NotDrawn`."""
        counted = self._instances(self.nest.body, self.values)
        per_leaf = max(1.0, counted / PICTURES / 2)
        made = self._node(self.nest.body, self.values, frozenset(), per_leaf, ())
        _thinned(made)
        return made

    # How much there is

    def _trips(self, loop: For, middle: Values) -> tuple[float, Values]:
        """About how often a loop runs, and where its middle is."""
        try:
            lo, hi = middle.number(loop.lo), middle.number(loop.hi)
        except Unknown as unknown:
            raise NotDrawn(f"how often the loop {loop.loop} runs depends on the values of {unknown}, which the program computes") from None
        return float(max(hi - lo, 0)), middle.at({loop.loop: (lo + max(hi - 1, lo)) // 2})  # type: ignore[dict-item]

    def _instances(self, stmt: Stmt, middle: Values) -> float:
        """About how many stores run within."""
        match stmt:
            case For(body=body):
                trips, inside = self._trips(stmt, middle)
                return trips * self._instances(body, inside)
            case Store():
                return 1.0
            case Block(body):
                return sum(self._instances(part, middle) for part in body)
            case If(_, then, orelse):
                return max(self._instances(then, middle), 0.0 if orelse is None else self._instances(orelse, middle))
            case Alloc(_, body):
                return self._instances(body, middle)
            case Prefetch():
                return 0.0
            case _:
                assert_never(stmt)

    # Nodes

    def _node(self, stmt: Stmt, middle: Values, known: frozenset[str], per_leaf: float, compact: tuple[str, ...]) -> Node:
        match stmt:
            case For():
                return self._for(stmt, middle, known, per_leaf, compact)
            case Store():
                return self._leaf((), stmt, (), middle, known)
            case Block(body):
                parts = tuple(self._node(part, middle, known, per_leaf, compact) for part in body)
                return Sequence(parts, sum(part.instances for part in parts))
            case If(cond, then, orelse):
                yes = self._node(then, middle, known, per_leaf, compact)
                no = Sequence((), 0.0) if orelse is None else self._node(orelse, middle, known, per_leaf, compact)
                return Choice(cond, yes, no, max(yes.instances, no.instances))
            case Alloc(buffers, body):
                inside = (*compact, *(buffer.name for buffer in buffers if buffer.name in self.moved))
                inner = self._node(body, middle, known, per_leaf, inside)
                return Storage(buffers, inner, inner.instances)
            case Prefetch():
                return Sequence((), 0.0)
            case _:
                assert_never(stmt)

    def _for(self, stmt: For, middle: Values, known: frozenset[str], per_leaf: float, compact: tuple[str, ...]) -> Node:
        trips, inside = self._trips(stmt, middle)
        chain = _chain(stmt)
        each = self._instances(stmt.body, inside)
        if chain is not None:
            loops, store, conditions = chain
            if trips * each <= min(per_leaf, AT_ONCE):
                return self._leaf(loops, store, conditions, middle, known)
            if each <= min(per_leaf, AT_ONCE) / 2:
                leaf = self._leaf(loops, store, conditions, middle, known)
                leaf.trips, leaf.chunk = trips, max(1, min(math.ceil(min(per_leaf, AT_ONCE) / max(each, 1.0)), int(trips)))
                return leaf
        now, asked = self._follow(known | {stmt.loop})
        body = self._node(stmt.body, inside, now, per_leaf, compact)
        written = {buffer.name for leaf in leaves(body) for buffer in leaf.store.buffers}
        return Loop(stmt, body, trips, trips * body.instances, asked, carries=not written.isdisjoint(compact))

    def _follow(self, known: frozenset[str]) -> tuple[frozenset[str], tuple[Expr, ...]]:
        """The axes that follow from known ones, and the conditions of the relations that say so."""
        asked: list[Expr] = []
        while True:
            ready = [relation for relation in self.nest.relations if is_ready(relation, known) and not known.issuperset(sides(relation)[1])]
            if not ready:
                return known, tuple(asked)
            asked += [condition(part) for part in ready if isinstance(part, SplitRelation | WindowRelation) and not self._whole(part)]
            known = known.union(*(sides(relation)[1] for relation in ready))

    def _whole(self, relation: SplitRelation | WindowRelation) -> bool:
        """Is each tile of a split whole, so that its condition always holds?"""
        if not isinstance(relation, SplitRelation):
            return False
        hi, lo = known_value(relation.hi, self.values.dims), known_value(relation.lo, self.values.dims)
        return hi is not None and lo is not None and (hi - lo) % relation.factor == 0

    def _leaf(self, loops: tuple[For, ...], store: Store, conditions: tuple[Expr, ...], middle: Values, known: frozenset[str]) -> Leaf:
        names = frozenset(loop.loop for loop in loops)
        _, asked = self._follow(known | names)
        trips: dict[str, float] = {}
        for loop in loops:
            trips[loop.loop], middle = self._trips(loop, middle)

        def needs(expr: Expr) -> frozenset[str]:
            found = self.closures.get(id(expr))
            if found is None:
                found = self.closures[id(expr)] = expr, closure(self.nest, axes_of(expr))
            return found[1] & names

        made: list[Touch] = []
        seen: set[tuple[str, bool, tuple[Expr, ...], tuple[Expr, ...]]] = set()
        for access in accesses(store):
            name = access.buffer.name
            key = name, access.writes, access.index, access.conditions
            if key in seen:
                continue
            seen.add(key)
            slots = _offsets(access.index, self.shapes[name])
            own = self.elements[store.stage] if access.writes and name in self.moved else None
            elements = slots if own is None else _offsets(own, self.shapes[f"{name} whole"])
            everywhere = (*asked, *conditions, *access.conditions)
            made.append(
                touch(
                    access.buffer, access.writes, loops, everywhere, slots, () if elements is slots else elements, needs, trips, self.values
                )
            )
        return Leaf(loops, store, tuple(made), math.prod(trips.values()))


def leaves(node: Node) -> Iterator[Leaf]:
    """The leaves of a plan, in order."""
    match node:
        case Leaf():
            yield node
        case Loop(body=body) | Storage(body=body):
            yield from leaves(body)
        case Sequence(parts):
            for part in parts:
                yield from leaves(part)
        case Choice(_, then, orelse):
            yield from leaves(then)
            yield from leaves(orelse)
        case _:
            assert_never(node)


def loops_of(node: Node, depth: int = 0) -> Iterator[tuple[int, Loop | Leaf]]:
    """What can be walked in part, and how deep it stands."""
    match node:
        case Leaf(chunk=chunk):
            if chunk:
                yield depth, node
        case Loop(body=body):
            yield depth, node
            yield from loops_of(body, depth + 1)
        case Storage(body=body):
            yield from loops_of(body, depth)
        case Sequence(parts):
            for part in parts:
                yield from loops_of(part, depth)
        case Choice(_, then, orelse):
            yield from loops_of(then, depth)
            yield from loops_of(orelse, depth)
        case _:
            assert_never(node)


def cost(node: Node) -> float:
    """About how many elements a walk touches."""
    match node:
        case Leaf(kept=kept):
            return node.cost * (kept or node.visits)
        case Loop(body=body, trips=trips, kept=kept):
            return (kept or trips) * cost(body)
        case Storage(body=body):
            return cost(body)
        case Sequence(parts):
            return sum(map(cost, parts))
        case Choice(_, then, orelse):
            return max(cost(then), cost(orelse))
        case _:
            assert_never(node)


def _thinned(node: Node) -> None:
    """Leave iterations out where the walk would take too long, outer loops first."""
    found = list(loops_of(node))
    deepest = max((depth for depth, _ in found), default=-1)
    for place, floor in enumerate(FLOORS):
        budget = BUDGET if place == 0 else PRESSED * BUDGET
        for depth in range(deepest + 1):
            over = cost(node) / budget
            if over <= 1:
                return
            for at, part in found:
                if at != depth or (place < 2 and isinstance(part, Loop) and part.carries):
                    continue
                runs = part.kept or (part.trips if isinstance(part, Loop) else part.visits)
                fewer = max(floor, math.ceil(runs / over))
                if fewer < runs:
                    part.kept = fewer


def _chain(stmt: For) -> tuple[tuple[For, ...], Store, tuple[Expr, ...]] | None:
    """The loops and conditions around the only store within a loop; None where there is more than that."""
    loops: list[For] = []
    conditions: list[Expr] = []
    here: Stmt = stmt
    while True:
        match here:
            case For(body=body):
                loops.append(here)
                here = body
            case If(cond, then, None):
                conditions.append(cond)
                here = then
            case Block((only,)):
                here = only
            case Store():
                return tuple(loops), here, tuple(conditions)
            case _:
                return None


def _offsets(index: tuple[Expr, ...], shape: tuple[int, ...]) -> tuple[tuple[Expr, int], ...]:
    """Each index with the elements that a step of it skips."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple((expr, stride) for expr, stride in zip(index, reversed(strides), strict=True) if expr != ir.const(0)) if index else ()
