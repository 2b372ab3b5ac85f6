"""Which elements an access touches in many iterations at once: exact, and without asking for each iteration.

The dimensions of an index hardly ever share loops. Loops that stand together, in a dimension, a condition or a bound, are one group, and
each group is listed by itself: the offsets of its rows. What is touched is the sum of one row of each group. So a tile of a product
that runs over 8 x 32 x 512 iterations touches 8 x 512 elements of one operand at the price of 8 + 512 rows.

An offset is `constant + sum(coefficient * loop)` as far as the index is linear; only the rest is computed from the index itself. The rows
of a group without such a rest are the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from tensorlang.codegen.pictures.index_values import Array, Unknown, Values
from tensorlang.ir import Axis, Binary, Buffer, Dim, Expr, For
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, substitute

WHOLE: Final = (0, 0)
"""No part of the outermost loop, but all of it."""

KEPT: Final = 64
"""Lists of rows of a group that are kept, for so many parts of the outermost loop."""

Needs: TypeAlias = "Callable[[Expr], frozenset[str]]"


@dataclass(slots=True)
class Offset:
    """An offset in elements: a constant, multiples of loops, and strides of indices that are not linear."""

    constant: int = 0
    terms: dict[str, int] = field(default_factory=dict)
    rest: list[tuple[Expr, int]] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[tuple[Expr, int]], values: Values) -> Offset:
        """The sum of indices, each times its stride."""
        found = cls()
        for expr, stride in parts:
            form = linear(resolved(expr, values.derived))
            if not all(isinstance(atom, Axis | Dim) for atom in form.terms):
                found.rest.append((expr, stride))
                continue
            found.constant += form.constant * stride
            for atom, factor in form.terms.items():
                if isinstance(atom, Dim):
                    found.constant += values.dims[atom.name] * factor * stride
                elif isinstance(atom, Axis):
                    found.terms[atom.name] = found.terms.get(atom.name, 0) + factor * stride
        return found

    def split(self, names: frozenset[str], needs: Needs) -> tuple[Offset, Offset]:
        """The part that these loops move, and the rest."""
        inside = Offset(0, {name: factor for name, factor in self.terms.items() if name in names})
        outside = Offset(self.constant, {name: factor for name, factor in self.terms.items() if name not in names})
        for part in self.rest:
            (inside if needs(part[0]) & names else outside).rest.append(part)
        return inside, outside

    def value(self, values: Values) -> Any:
        """The offset where loops have these values."""
        found: Any = self.constant
        for name, factor in self.terms.items():
            found = found + values.loops[name] * factor
        for expr, stride in self.rest:
            found = found + values.of_expression(expr) * stride
        return found

    @property
    def moves(self) -> bool:
        """Is it more than a constant?"""
        return bool(self.terms or self.rest)


@dataclass(slots=True)
class Group:
    """Loops that are listed together, the conditions on them, and what they add to both offsets.

    Where nothing of it depends on loops around the leaf it is `steady`: its rows are the same each time, and some are kept in `known`.
    Those of a `linear` one, whose loops have known extents and no conditions, only move with the places where its loops begin.
    """

    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    slots: Offset
    elements: Offset
    steady: bool
    linear: bool
    known: dict[tuple[int, int], tuple[Array, Array] | None] = field(default_factory=dict)


@dataclass(slots=True)
class Touch:
    """An access in all iterations of the loops of a leaf: groups of loops, and the offsets and conditions that none of them moves."""

    buffer: Buffer
    writes: bool
    groups: tuple[Group, ...]
    conditions: tuple[Expr, ...]
    slots: Offset
    elements: Offset
    first: str
    size: float


def touch(
    buffer: Buffer,
    writes: bool,
    loops: Sequence[For],
    conditions: Sequence[Expr],
    slots: Sequence[tuple[Expr, int]],
    elements: Sequence[tuple[Expr, int]],
    needs: Needs,
    trips: Mapping[str, float],
    values: Values,
) -> Touch:
    """An access to places `slots` of its storage (each an index with its stride) that hold `elements` of the tensor."""
    names = [loop.loop for loop in loops]
    together = [needs(expr) for expr, _ in (*slots, *elements)] + [needs(cond) for cond in conditions]
    together += [frozenset({loop.loop}) | needs(loop.lo) | needs(loop.hi) for loop in loops]
    in_storage, in_tensor = Offset.of(slots, values), Offset.of(elements, values)
    groups = []
    for joined in _joined(names, together):
        own, in_storage = in_storage.split(joined, needs)
        ours, in_tensor = in_tensor.split(joined, needs)
        asked = tuple(cond for cond in conditions if needs(cond) & joined)
        inside = tuple(loop for loop in loops if loop.loop in joined)
        ends = [end for loop in inside for end in (loop.lo, loop.hi)]
        others = [*asked, *(expr for expr, _ in (*own.rest, *ours.rest)), *ends]
        steady = all(axes_of(resolved(expr, values.derived)) <= joined for expr in others)
        known = all(linear(Binary("sub", loop.hi, loop.lo)).is_constant and not axes_of(loop.lo) & joined for loop in inside)
        groups.append(Group(inside, asked, own, ours, steady, known and not (asked or own.rest or ours.rest)))
    moving = frozenset().union(*(needs(expr) for expr, _ in slots))
    size = float(np.prod([trips[name] for name in names if name in moving] or [1.0]))
    outside = tuple(cond for cond in conditions if not needs(cond))
    return Touch(buffer, writes, tuple(groups), outside, in_storage, in_tensor, names[0] if names else "", size)


def resolved(expr: Expr, derived: Mapping[str, Expr]) -> Expr:
    """An expression over loops alone."""
    while True:
        found = substitute(expr, derived)
        if found == expr:
            return expr
        expr = found


def touched(one: Touch, values: Values, part: tuple[int, int]) -> tuple[Array, Array] | None:
    """The places that an access touches and the elements there, one for one, where its outermost loop runs over `part`.

    None where it touches nothing. Raises `Unknown` for an index that depends on what the program computes.
    """
    if not all(holds(values, cond) for cond in one.conditions):
        return None
    slots = np.asarray([one.slots.value(values)], np.int64)
    elements = np.asarray([one.elements.value(values)], np.int64)
    for group in one.groups:
        known = group.steady or group.linear
        rows = _steady_rows(group, values, one.first, part) if known else _rows(group, values, one.first, part)
        if rows is None:
            return None
        if group.slots.moves or group.elements.moves:
            slots = np.add.outer(slots, rows[0]).ravel()
            elements = np.add.outer(elements, rows[1]).ravel() if group.elements.moves else elements
    return slots, elements


def holds(values: Values, cond: Expr) -> bool:
    """Does a condition on loops that have one value hold? What depends on computed values is taken to."""
    try:
        return bool(values.of_expression(cond))
    except Unknown:
        return True


def _steady_rows(group: Group, values: Values, first: str, part: tuple[int, int]) -> tuple[Array, Array] | None:
    """The rows of a group that are the same each time, but for where its loops begin."""
    own = part if group.loops[0].loop == first else WHOLE
    if group.linear:
        return _linear_rows(group, values, own)
    if own not in group.known:
        found = _rows(group, values, first, own)
        if len(group.known) < KEPT:
            group.known[own] = found
        return found
    return group.known[own]


def _linear_rows(group: Group, values: Values, own: tuple[int, int]) -> tuple[Array, Array] | None:
    """Multiples of the loops, counted from where each begins, or where the part of the outermost one does."""
    begins = {loop.loop: values.number(loop.lo) for loop in group.loops}
    extents = [values.number(loop.hi) - begins[loop.loop] for loop in group.loops]
    if own != WHOLE:
        begins[group.loops[0].loop], extents[0] = own[0], own[1] - own[0]
    key = 0, extents[0]
    if key not in group.known:
        slots = elements = np.zeros(1, np.int64)
        for loop, extent in zip(group.loops, extents, strict=True):
            steps = np.arange(max(extent, 0), dtype=np.int64)
            slots = np.add.outer(slots, steps * group.slots.terms.get(loop.loop, 0)).ravel()
            elements = np.add.outer(elements, steps * group.elements.terms.get(loop.loop, 0)).ravel()
        group.known[key] = _different(group, slots, elements) if len(slots) else None
    found = group.known[key]
    if found is None:
        return None
    ahead, forward = (sum(offset.terms.get(name, 0) * begin for name, begin in begins.items()) for offset in (group.slots, group.elements))
    return found[0] + ahead, found[1] + forward


def _different(group: Group, slots: Array, elements: Array) -> tuple[Array, Array]:
    """The different ones of pairs of offsets."""
    if len(slots) == 1 or not (group.slots.moves or group.elements.moves):
        return slots, elements
    least = int(elements.min())
    joint = slots * (int(elements.max()) - least + 1) + elements - least if group.elements.moves else slots
    kept = np.unique(joint, return_index=True)[1]
    return (slots, elements) if len(kept) == len(slots) else (slots[kept], elements[kept])


def _rows(group: Group, values: Values, first: str, part: tuple[int, int]) -> tuple[Array, Array] | None:
    """The different offsets of a group, in the storage and in the tensor; None where it has no iteration."""
    columns, count = _listed(group.loops, values, first, part)
    for cond in group.conditions:
        if not count:
            break
        try:
            kept = np.broadcast_to(values.at(columns).of_expression(cond), (count,))
        except Unknown:
            continue
        if not kept.all():
            columns = {name: column[kept] for name, column in columns.items()}
            count = int(np.count_nonzero(kept))
    if not count:
        return None
    inside = values.at(columns)
    slots = np.broadcast_to(group.slots.value(inside), (count,))
    elements = np.broadcast_to(group.elements.value(inside), (count,))
    return _different(group, slots, elements)


def _listed(loops: Sequence[For], values: Values, first: str, part: tuple[int, int]) -> tuple[dict[str, Array], int]:
    """The iterations of loops, in order: the value of each loop, and how many there are."""
    columns: dict[str, Array] = {}
    count = 1
    for loop in loops:
        inside = values.at(columns)
        if loop.loop == first and part != WHOLE:
            lo, hi = np.asarray(part[0]), np.asarray(part[1])
        else:
            lo, hi = inside.of_expression(loop.lo), inside.of_expression(loop.hi)
        if np.ndim(lo) == 0 and np.ndim(hi) == 0:
            own = np.arange(int(lo), max(int(hi), int(lo)), dtype=np.int64)
            columns = {name: np.repeat(column, len(own)) for name, column in columns.items()}
            columns[loop.loop] = np.tile(own, count)
            count *= len(own)
            continue
        begins = np.broadcast_to(lo, (count,))
        trips = np.maximum(np.broadcast_to(hi, (count,)) - begins, 0)
        columns = {name: np.repeat(column, trips) for name, column in columns.items()}
        ends = np.cumsum(trips)
        count = int(ends[-1]) if len(ends) else 0
        columns[loop.loop] = np.arange(count) - np.repeat(ends - trips, trips) + np.repeat(begins, trips)
    return columns, count


def _joined(names: Sequence[str], together: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """The loops in groups: those that stand together anywhere are in one."""
    found = [frozenset({name}) for name in names]
    for link in together:
        meeting = [group for group in found if group & link]
        if len(meeting) > 1:
            found = [group for group in found if not group & link] + [frozenset().union(*meeting)]
    return sorted(found, key=lambda group: min(map(names.index, group)))
