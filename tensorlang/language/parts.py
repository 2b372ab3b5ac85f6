"""Parts of a body that is too large become tensors of their own, as its user would make them with `tl.compute`.

    def mixed(i):
        v = x[i]
        for _ in range(20):
            v = v ^ (v << 13)       # each step says the one before twice, and the expression doubles

An expression is a tree for most that looks at it, so what Python computes once and uses again is there as often as it is used. Beyond
`MAX_SIZE` nodes the largest parts that are used again, over axes of the body alone, are computed first, once for each element: those of
about one size together, as the values of a network that sorts are after so many of its steps, since they are made of the same.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorlang.checks.reads import checked_stage
from tensorlang.definition.expr import MAX_DEPTH, MAX_SIZE, SHORTER
from tensorlang.definition.tensor import Itself, Stage, Tensor, enclosing, fresh_axis, serial
from tensorlang.errors import DefinitionError
from tensorlang.ir import Axis, Expr, Load, Reduce
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import axes_of, children, map_children, nodes, sizes_and_depths, substitute

ROOM: Final = 8
"""An expression is cut until it is so many times smaller than it may be: what goes on with it is not cut at once again."""
DEEP: Final = MAX_DEPTH * 3 // 4
"""How deep it may be then."""
LEAST: Final = 64
"""Nodes of a part that is worth a tensor."""
MOST: Final = 128
"""Nodes of a part, as far as there are smaller ones: what looks at it as at a tree takes as long as it is large."""
STAGES: Final = 64
"""Stages that one body is taken apart into, at most."""


@dataclass(slots=True)
class Parts:
    """The parts of a body over these axes that became tensors, or cannot, by their numbers: what is equal is one part."""

    axes: Mapping[str, Expr]
    numbering: Numbering = field(default_factory=Numbering)
    made: dict[int, Load] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    stages: int = 0

    def shorter(self, expr: Expr) -> Expr:
        """The expression with parts as elements of tensors; as it is where none can be one, or too many would have to be."""
        whole = expr = self.written(expr)
        while True:
            known = sizes_and_depths(expr)
            size, deep = known[id(expr)]
            if size <= MAX_SIZE // ROOM and deep <= DEEP:
                return expr
            if self.stages >= STAGES or not self._take_parts(expr, known):
                return whole
            expr = self.written(expr)

    def written(self, expr: Expr) -> Expr:
        """The expression over the parts that are tensors, each wherever it stands: a condition and what is read under it speak of one."""
        if not self.made:
            return expr
        done: dict[int, Expr] = {}

        def over(node: Expr) -> Expr:
            if id(node) not in done:
                known: Expr | None = self.made.get(self.numbering.number(node))
                if known is None:  # what it is over its parts may be one as well
                    anew = map_children(node, over)
                    known = self.made.get(self.numbering.number(anew)) or anew
                done[id(node)] = known
            return done[id(node)]

        return over(expr)

    def _take_parts(self, expr: Expr, known: Mapping[int, tuple[int, int]]) -> bool:
        """Make tensors of parts that are used again, those of up to `MOST` nodes of which larger parts are made; is there one?

        Where there are none, of the largest part that is used again, or in the middle of what is too deep.
        """
        uses, larger = Counter[int](), set[int]()
        for node in nodes(expr):
            for part in children(node):
                uses[id(part)] += 1
                larger |= {id(part)} if known[id(node)][0] > MOST else set()
        middle = known[id(expr)][1] // 2 if known[id(expr)][1] > DEEP else 0

        def is_useful(node: Expr) -> bool:
            size, deep = known[id(node)]
            again = uses[id(node)] > 1 or LEAST < deep <= middle
            return again and size >= LEAST and self.numbering.number(node) not in self.refused

        def unlike(node: Expr) -> tuple[bool, int]:
            size, _ = known[id(node)]
            return size > MOST, abs(MOST - size)

        found = sorted((node for node in nodes(expr) if node is not expr and is_useful(node)), key=unlike)
        together = [node for node in found if id(node) in larger and known[id(node)][0] <= MOST]
        return self._become_tensors(together) or any(self._become_tensors([node]) for node in found)

    def _become_tensors(self, exprs: Sequence[Expr]) -> bool:
        """Make a stage of those of the same axes, one for each kind of these; is there one?"""
        alike: dict[tuple[str, ...], dict[int, Expr]] = {}
        for expr in exprs:
            number, own = self.numbering.number(expr), self._own_axes(expr)
            if own is None or self._stage(own, (expr,)) is None:
                self.refused.add(number)
            else:
                alike.setdefault(own, {})[number] = expr
        for own, values in alike.items():
            stage = self._stage(own, tuple(values.values()))
            assert stage is not None
            self.stages += 1
            for component, number in enumerate(values):
                self.made[number] = Load(Tensor(stage, component), tuple(map(Axis, own)))
        return bool(alike)

    def _own_axes(self, expr: Expr) -> tuple[str, ...] | None:
        """The axes of the body that a part moves with; None where it moves with others, or reads the recurrence that it is part of."""
        bound = {axis.name for node in nodes(expr) if isinstance(node, Reduce) for axis in node.axes}
        free = axes_of(expr) - bound
        around = {axis.name for axis in enclosing(expr)}
        itself = any(isinstance(node, Load) and isinstance(node.buffer, Itself) for node in nodes(expr))
        if itself or not free <= self.axes.keys() | around:
            return None
        return tuple(axis for axis in self.axes if axis in free)

    def _stage(self, own: tuple[str, ...], values: tuple[Expr, ...]) -> Stage | None:
        """What computes parts over these axes; None where what one reads exists only under a condition of the body."""
        fresh = {axis: fresh_axis(short(axis)) for axis in own}
        moved = tuple(substitute(value, {old: Axis(new) for old, new in fresh.items()}) for value in values)
        around = tuple(dict.fromkeys(axis for value in moved for axis in enclosing(value)))
        stage = Stage(None, tuple(fresh.values()), tuple(self.axes[axis] for axis in own), moved, serial(), within=around)
        try:
            return checked_stage(stage)
        except DefinitionError:
            return None


@contextlib.contextmanager
def body(axes: tuple[str, ...], extents: tuple[Expr, ...]) -> Iterator[Parts]:
    """Where the body of a tensor over these axes is written."""
    parts = Parts(dict(zip(axes, extents, strict=True)))
    token = SHORTER.set(parts.shorter)
    try:
        yield parts
    finally:
        SHORTER.reset(token)
