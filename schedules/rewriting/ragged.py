"""Ranges that data tells: which loops have one, and which loops tell it, as the rows of a sparse matrix tell its columns.

Only ranges with both ends in data count. Where both ends read one array, as row pointers, they are taken for parts of one whole, so that
all of them together are as long as the loop: nothing better is known before the call. Of ranges whose ends are apart, as the sides of
boxes, and of `j < length[i]`, nothing is known but the most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tensorlang.ir import Axis, Binary, Compare, Expr, Load, Source
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, loads_of


@dataclass(frozen=True, slots=True)
class Ragged:
    """Axes whose range data tells (`bounded`), by what is read at the axes `keys`; those of them whose ends are `apart` may overlap."""

    bounded: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()

    def length(self, axis: str, extent: float, keys: float | None) -> float:
        """Iterations of a range of a bounded axis to count with, on average over so many iterations of its keys, where these are known.

        Of what is no part of one whole (of more keys than it has elements, ranges overlap), or of nobody knows how many, a range lies for
        all that is known between one element and all of them: their geometric mean.
        """
        if axis in self.apart or keys is None or keys > extent:
            return math.sqrt(extent)
        return extent / max(1.0, keys)


def ragged(conditions: Iterable[Expr]) -> Ragged:
    """What the conditions around a statement tell of ranges."""
    ends: dict[tuple[str, bool], set[Load]] = {}
    waiting = list(conditions)
    while waiting:
        match waiting.pop():
            case Binary("and", left, right):
                waiting += [left, right]
            case Compare("lt" | "le" | "gt" | "ge" as op, left, right) as cond:
                told = frozenset(loads_of(cond))
                read = _axes(told)
                form = linear(Binary("sub", left, right) if op in ("lt", "le") else Binary("sub", right, left))
                for name in axes_of(cond) - read if read else ():
                    factor = form.terms.get(Axis(name), 0)
                    if factor:
                        ends.setdefault((name, factor > 0), set()).update(told)
            case _:
                pass
    both = {name for name, upper in ends if upper and (name, False) in ends}
    keys = _axes(load for name in both for upper in (True, False) for load in ends[name, upper])
    apart = frozenset(name for name in both if _arrays(ends[name, True]).isdisjoint(_arrays(ends[name, False])))
    return Ragged(frozenset(both), keys, apart)


def _axes(loads: Iterable[Load]) -> frozenset[str]:
    return frozenset(axis for load in loads for part in load.index for axis in axes_of(part))


def _arrays(loads: Iterable[Load]) -> set[Source]:
    return {load.buffer for load in loads}
