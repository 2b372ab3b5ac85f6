"""What follows from loops: the axes that a split, a fused loop or a window gives, and how far apart in memory the lanes of a vector are."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tensorlang.ir import Axis, Binary, Const, Expr, FuseRelation, Relation, SplitRelation
from tensorlang.ir.linear import linear
from tensorlang.ir.relations import sides
from tensorlang.ir.traverse import axes_of

Step: TypeAlias = dict[tuple[Expr, ...], int]
"""Elements, as multiples of products of extents that only a call tells."""


class DerivedAxes(NamedTuple):
    """The splits by their outer loops, and for each axis the relations that it is an end of, the oldest first."""

    splits: Mapping[str, SplitRelation]
    above: Mapping[str, Sequence[Relation]]

    @classmethod
    def of(cls, relations: Iterable[Relation]) -> DerivedAxes:
        """Those of relations."""
        splits: dict[str, SplitRelation] = {}
        above: dict[str, list[Relation]] = {}
        for relation in relations:
            if isinstance(relation, SplitRelation):
                splits[relation.outer] = relation
            for axis in sides(relation)[0]:
                above.setdefault(axis, []).append(relation)
        return cls(splits, above)

    def over(self, loops: Collection[str]) -> tuple[Relation, ...]:
        """The relations of axes that follow from loops, each once, after those of the axes that follow from its own."""
        found: list[Relation] = []
        seen: set[Relation] = set()
        waiting = [(relation, False) for axis in sorted(self.above.keys() & loops) for relation in self.above[axis]] if self.above else []
        while waiting:
            relation, done = waiting.pop()
            if done:
                found.append(relation)
            elif relation not in seen:
                seen.add(relation)
                waiting.append((relation, True))
                waiting += [(further, False) for made in sides(relation)[1] for further in self.above.get(made, ())]
        return tuple(found)


class Lanes(NamedTuple):
    """The loop of the lanes, how many these are, and the relations of what follows from it; `number` is 0 for no lanes."""

    loop: str = ""
    number: int = 0
    relations: tuple[Relation, ...] = ()

    def moves(self, exprs: Iterable[Expr]) -> bool:
        """Do expressions differ between lanes?"""
        moved = {self.loop}.union(*(sides(relation)[1] for relation in self.relations))
        return self.number > 0 and any(axes_of(expr) & moved for expr in exprs)

    def apart(self, index: Sequence[Expr], shape: Sequence[Expr]) -> int | None:
        """Elements of a tensor in C order between those of two lanes that follow one another; None where that is no literal."""
        step = self._step(index, shape)
        if not step:
            return None if step is None else 0
        return abs(step[()]) if step.keys() == {()} else None

    def near(self, index: Sequence[Expr]) -> bool:
        """Do lanes take elements no further apart than they are many, several of them the same one: `x // 2`, the channels of groups?"""
        *leading, last = index
        moving = [(atom, times) for atom, times in linear(last).terms.items() if self.moves((atom,))]
        spans = [
            abs(times) * self.number / atom.right.value if isinstance(atom.right, Const) and atom.right.value > 0 else math.inf
            for atom, times in moving
            if isinstance(atom, Binary) and atom.op == "floordiv"
        ]
        return not self.moves(leading) and len(spans) == len(moving) and 0 < sum(spans) <= self.number

    def _step(self, index: Sequence[Expr], shape: Sequence[Expr]) -> Step | None:
        """Elements from one lane to the next; None where these are not evenly apart."""
        steps: dict[str, Step] = {}
        stride: tuple[int, tuple[Expr, ...]] = 1, ()
        for part, extent in zip(reversed(index), reversed(shape), strict=True):
            for atom, times in linear(part).terms.items():
                if isinstance(atom, Axis):
                    _add(steps.setdefault(atom.name, {}), {stride[1]: stride[0]}, times)
                elif self.moves((atom,)):
                    return None
            stride = _times(*stride, extent)
        for relation in self.relations:
            match relation:
                case FuseRelation(fused, outer, inner, _, _, extent):
                    own = steps.get(inner, {})
                    if steps.get(outer, {}) != {
                        symbols: factor for factor, symbols in (_times(each, names, extent) for names, each in own.items())
                    }:
                        return None
                    _add(steps.setdefault(fused, {}), own, 1)
                case SplitRelation(parent, outer, inner, factor):
                    for axis, times in ((outer, factor), (inner, 1)):
                        _add(steps.setdefault(axis, {}), steps.get(parent, {}), times)
                case _:
                    _add(steps.setdefault(relation.inner, {}), steps.get(relation.parent, {}), 1)
        return steps.get(self.loop, {})


def _times(factor: int, symbols: tuple[Expr, ...], extent: Expr) -> tuple[int, tuple[Expr, ...]]:
    match extent:
        case Const(value, _):
            return factor * int(value), symbols
        case Binary("max", size, Const(0)):
            return factor, (*symbols, size)
        case _:
            return factor, (*symbols, extent)


def _add(step: Step, more: Step, times: int) -> None:
    for symbols, factor in more.items():
        step[symbols] = step.get(symbols, 0) + times * factor
        if not step[symbols]:
            del step[symbols]
