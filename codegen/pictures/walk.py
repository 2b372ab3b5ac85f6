"""A nest walked in program order, without its arithmetic: which elements each statement computes and reads, and what storage still holds.

The nest is the scheduled one, read as the interpreter of nests reads it: derived axes follow from their relations, a statement runs where
their conditions and those around it hold, loops of all kinds run one iteration after the other. Storage that is smaller than its tensor (a
strip, a window that slides) holds other elements at other times. Which element a store computes is what the definition's own loops say,
whose names the schedule keeps; which one a read finds is what was stored last in that place. Nothing is inferred from the directives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from tensorlang import ir
from tensorlang.codegen.calling.sample_operands import values as sample
from tensorlang.codegen.pictures.film import SIDE, Film, Panel
from tensorlang.codegen.pictures.index_values import Unknown, Values
from tensorlang.codegen.pictures.touched import WHOLE, Touch, holds, touched
from tensorlang.codegen.pictures.walk_plan import PICTURES, Choice, Leaf, Loop, Node, NotDrawn, Planner, Sequence, Storage, loops_of
from tensorlang.ir import Buffer, Expr, Nest
from tensorlang.ir.integers import known_value
from tensorlang.ir.mentions import allocations
from tensorlang.ir.printer import short
from tensorlang.ir.relations import in_scope, sides
from tensorlang.ir.traverse import axes_of, expressions, loads_of, statements
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.semantics import arithmetic

ELEMENTS: Final = 40_000_000
"""Elements of all tensors of a program that is walked, at most."""
SHOWN: Final = 16
"""Tensors that are shown."""
MANY: Final = 8
FEWER: Final = 32
"""From `MANY` tensors on their grids have fewer cells along a side."""
LEAST: Final = 8
"""Cells along a side, at least: of loops that are drawn in part, each cell should hold an iteration that is drawn."""


@dataclass(slots=True)
class StoredTensor:
    """A tensor that is computed: what is kept of it, how often each element was computed, and which element lies in which place.

    `owner` is None where each element has a place of its own; else -1 is a place with nothing in it.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    places: int
    kept: NDArray[Any]
    times: NDArray[Any]
    owner: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk saw.

    `partly` names loops of which some iterations were left out, `unknown` tensors whose reads depend on computed values, `made` inputs that
    held made-up numbers, which say where something is read or written.
    """

    film: Film
    held: Mapping[str, StoredTensor]
    shown: tuple[Buffer, ...]
    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, int]
    partly: tuple[str, ...]
    unknown: tuple[str, ...]
    made: tuple[str, ...]


def walk(nest: Nest, plain: Nest, dims: Mapping[str, int]) -> Walked:
    """Walk a scheduled nest whose definition alone makes the nest `plain`, with these extents. Raises `NotDrawn`."""
    with arithmetic.quiet():
        return _Walker.of(nest, plain, dims).walked()


@dataclass(slots=True)
class _Walker:
    nest: Nest
    plan: Node
    values: Values
    film: Film
    held: dict[str, StoredTensor]
    shown: tuple[Buffer, ...]
    shapes: Mapping[str, tuple[int, ...]]
    unknown: dict[str, None] = field(default_factory=dict)
    weight: float = 1.0

    @classmethod
    def of(cls, nest: Nest, plain: Nest, dims: Mapping[str, int]) -> _Walker:
        """Ready to walk."""
        inner = list(dict.fromkeys(allocations(nest.body)))
        buffers = [*nest.inputs, *inner, *nest.outputs]
        shapes = {buffer.name: _shape(buffer, dims) for buffer in buffers}
        elements = _elements(nest, plain)
        wholes = {buffer.name: _shape(buffer, dims) for buffer in (*allocations(plain.body), *plain.outputs)}
        moved = frozenset(
            buffer.name
            for buffer in inner
            if buffer.name in elements and (shapes[buffer.name] != wholes[buffer.name] or _placed(nest, plain, buffer))
        )
        shapes |= {f"{name} whole": wholes[name] for name in moved}
        total = sum(prod(shape) for shape in shapes.values())
        if total > ELEMENTS:
            raise NotDrawn(f"its tensors have {total:,} elements; up to {ELEMENTS:,} are drawn")
        values = Values.of(nest, dims, _made(nest, shapes))
        by_stage = {stage: index for name in moved for stage, index in elements[name].items()}
        plan = Planner(nest, values, shapes, by_stage, moved).plan()
        if not plan.instances:
            raise NotDrawn("with these extents no statement runs")
        shown = tuple(dict.fromkeys([*nest.outputs, *nest.inputs, *inner]))[:SHOWN]
        shown = tuple(buffer for buffer in dict.fromkeys(buffers) if buffer in shown)
        side = min([SIDE if len(shown) < MANY else FEWER, *(max(part.kept - 1, LEAST) for part in _spread(plan))])
        held = {}
        for buffer in (*inner, *nest.outputs):
            name = buffer.name
            shape = shapes[f"{name} whole"] if name in moved else shapes[name]
            count, places = max(prod(shape), 1), max(prod(shapes[name]), 1)
            owner = np.full(places, -1, np.int32) if name in moved else None
            held[name] = StoredTensor(buffer, shape, places, np.zeros(count, bool), np.zeros(count, np.int16), owner)
        panels = {buffer.name: Panel.of(held[buffer.name].shape if buffer.name in held else shapes[buffer.name], side) for buffer in shown}
        return cls(nest, plan, values, Film(panels, plan.instances / PICTURES), held, shown, shapes)

    def walked(self) -> Walked:
        """Walk it all."""
        self._run(self.plan)
        self.film.take()
        partly: dict[str, None] = {}
        for _, part in loops_of(self.plan):
            runs = part.trips if isinstance(part, Loop) else part.visits
            if part.kept and part.kept < runs:
                partly[short(part.loop.loop if isinstance(part, Loop) else part.loops[0].loop)] = None
        shapes = {name: self.held[name].shape if name in self.held else shape for name, shape in self.shapes.items()}
        return Walked(
            self.film, self.held, self.shown, shapes, self.values.dims, tuple(partly), tuple(self.unknown), tuple(self.values.made)
        )

    def _run(self, node: Node) -> None:
        match node:
            case Leaf():
                self._leaf(node)
            case Loop():
                self._loop(node)
            case Sequence(parts):
                for part in parts:
                    self._run(part)
            case Storage(buffers, body):
                for buffer in buffers:
                    self._release(self.held[buffer.name])
                self._run(body)
                for buffer in buffers:
                    self._release(self.held[buffer.name])
            case Choice(cond, then, orelse):
                try:
                    self._run(then if self.values.of_expression(cond) else orelse)
                except Unknown:
                    self._run(then)
            case _:
                assert_never(node)

    def _loop(self, node: Loop) -> None:
        lo, hi = self.values.number(node.loop.lo), self.values.number(node.loop.hi)
        chosen, weight = _chosen(lo, hi, node.kept, first=node.carries), self.weight
        self.weight *= (hi - lo) / max(len(chosen), 1)
        for value in chosen:
            self.values.loops[node.loop.loop] = value
            if all(holds(self.values, cond) for cond in node.conditions):
                self._run(node.body)
        self.values.loops.pop(node.loop.loop, None)
        self.weight = weight

    def _leaf(self, leaf: Leaf) -> None:
        if not leaf.chunk:
            self._visit(leaf, WHOLE, leaf.instances * self.weight)
            return
        lo, hi = self.values.number(leaf.loops[0].lo), self.values.number(leaf.loops[0].hi)
        visits = -(-(hi - lo) // leaf.chunk)
        chosen = _chosen(0, visits, leaf.kept, first=False)
        for visit in chosen:
            begin, end = lo + visit * leaf.chunk, min(lo + (visit + 1) * leaf.chunk, hi)
            self._visit(leaf, (begin, end), leaf.instances * self.weight * (end - begin) / leaf.trips * visits / len(chosen))

    def _visit(self, leaf: Leaf, part: tuple[int, int], instances: float) -> None:
        for one in leaf.touches:
            try:
                found = touched(one, self.values, part)
            except Unknown:
                self.unknown[one.buffer.name] = None
                continue
            if found is not None:
                self._touch(one, *found, fresh=leaf.store.reducer is None)
        self.film.passes(leaf.store.stage, instances)

    def _touch(self, one: Touch, slots: NDArray[Any], elements: NDArray[Any], *, fresh: bool) -> None:
        name = one.buffer.name
        held, panel = self.held.get(name), self.film.panels.get(name)
        places = held.places if held is not None else prod(self.shapes[name])
        if slots.min() < 0 or slots.max() >= places:  # where a made-up number leads to
            inside = (slots >= 0) & (slots < places)
            slots, elements = slots[inside], elements[inside] if len(elements) == len(inside) else elements
        if held is None:
            if panel is not None:
                panel.read[panel.cells[slots]] = True
            return
        if not one.writes:
            ids = slots if held.owner is None else held.owner[slots]
            if panel is not None:
                panel.read[panel.cells[ids if held.owner is None else ids[ids >= 0]]] = True
            return
        ids = slots
        if held.owner is not None:
            ids = elements
            before = held.owner[slots]
            lost = before[(before >= 0) & (before != ids)]
            self._forget(held, lost[held.kept[lost]])
            held.owner[slots] = ids
        if fresh:
            held.times[ids] += 1
        new = ids[~held.kept[ids]]
        held.kept[new] = True
        if held.buffer.memory != "argument" and held.buffer not in self.nest.outputs:
            self.film.holds(len(new) * held.buffer.dtype.bytes)
        if panel is not None:
            panel.computed[panel.cells[ids]] = True
            if len(new):
                panel.kept += np.bincount(panel.cells[new], minlength=panel.grid.cells)

    def _release(self, held: StoredTensor) -> None:
        """Storage begins, or ends: nothing is in it."""
        lost = np.flatnonzero(held.kept) if held.owner is None else held.owner[held.owner >= 0]
        if len(lost):
            self._forget(held, lost)
        if held.owner is not None:
            held.owner.fill(-1)

    def _forget(self, held: StoredTensor, lost: NDArray[Any]) -> None:
        if not len(lost):
            return
        held.kept[lost] = False
        self.film.holds(-len(lost) * held.buffer.dtype.bytes)
        panel = self.film.panels.get(held.buffer.name)
        if panel is not None:
            panel.kept -= np.bincount(panel.cells[lost], minlength=panel.grid.cells)


def _spread(plan: Node) -> list[Loop | Leaf]:
    """What is walked in part, here and there, of more iterations than a grid has cells along a side."""
    found = [(part, part.trips if isinstance(part, Loop) else part.visits) for _, part in loops_of(plan)]
    return [part for part, runs in found if part.kept and runs >= SIDE and not (isinstance(part, Loop) and part.carries)]


def _chosen(lo: int, hi: int, kept: int, *, first: bool) -> list[int]:
    """The iterations that are walked: all, the first ones, or some that are spread evenly."""
    if not kept or kept >= hi - lo:
        return list(range(lo, hi))
    if first:
        return list(range(lo, lo + kept))
    return sorted(set(np.linspace(lo, hi - 1, kept).round().astype(int).tolist()))


def _shape(buffer: Buffer, dims: Mapping[str, int]) -> tuple[int, ...]:
    """Raises `NotDrawn` for an extent that the dims do not tell."""
    found: list[int] = []
    for extent in buffer.shape:
        size = known_value(extent, dims)
        if size is None or size < 0:
            told = ", ".join(f"{name} = {value}" for name, value in dims.items())
            raise NotDrawn(f"{buffer.name} has no extent that is known, or a negative one, {f'with {told}' if told else 'before it runs'}")
        found.append(size)
    return tuple(found)


def _elements(nest: Nest, plain: Nest) -> dict[str, dict[str, tuple[Expr, ...]]]:
    """For each tensor whose every store says by its axes which element it computes: by stage, that element."""
    own = {
        (store.stage, buffer.name): store.index
        for store in statements(plain.body)
        if isinstance(store, ir.Store)
        for buffer in store.buffers
    }
    found: dict[str, dict[str, tuple[Expr, ...]]] = {}
    lost: set[str] = set()
    for access in accesses(nest.body):
        if not access.writes:
            continue
        name, index = access.buffer.name, own.get((access.stage, access.buffer.name))
        loops = [loop.loop for loop in access.loops]
        known = {*loops, *(axis for relation in in_scope(nest, loops) for axis in sides(relation)[1])}
        if index is None or not known.issuperset(frozenset().union(*map(axes_of, index))):
            lost.add(name)
        else:
            found.setdefault(name, {})[access.stage] = index
    return {name: stages for name, stages in found.items() if name not in lost}


def _placed(nest: Nest, plain: Nest, buffer: Buffer) -> bool:
    """Do elements of a tensor lie elsewhere than in the definition's own order?"""

    def places(of: Nest) -> set[tuple[str, tuple[Expr, ...]]]:
        return {(access.stage, access.index) for access in accesses(of.body) if access.writes and access.buffer.name == buffer.name}

    return not places(nest) <= places(plain)


def _made(nest: Nest, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    """Numbers for the inputs that say where something is read, or whether."""
    asked: set[str] = set()
    for stmt in statements(nest.body):
        for expr in expressions(stmt):
            if not isinstance(stmt, ir.Store):
                asked |= {load.buffer.name for load in loads_of(expr) if isinstance(load.buffer, Buffer)}
    for access in accesses(nest.body):
        for expr in (*access.index, *access.conditions):
            asked |= {load.buffer.name for load in loads_of(expr) if isinstance(load.buffer, Buffer)}
    rng = np.random.default_rng(0)
    return {buffer.name: sample(rng, shapes[buffer.name], buffer.dtype, signed=False) for buffer in nest.inputs if buffer.name in asked}
