"""What axes can be, for what is asked of the values of expressions: from the literal ends of loops, and of those that were split."""

from __future__ import annotations

from collections.abc import Iterable

from tensorlang.algebra.bounds import Bounds
from tensorlang.ir import Axis, Const, Expr, For, Nest, SplitRelation


def ranges(nest: Nest, loops: Iterable[For]) -> Bounds:
    """The bounds of expressions in a nest of these loops; an axis of several loops has the widest."""
    found: dict[Expr, tuple[int, int]] = {}
    ends = [(loop.loop, loop.lo, loop.hi) for loop in loops]
    ends += [(relation.parent, relation.lo, relation.hi) for relation in nest.relations if isinstance(relation, SplitRelation)]
    for name, lo, hi in ends:
        if isinstance(lo, Const) and isinstance(hi, Const):
            least, most = found.get(Axis(name), (int(lo.value), int(lo.value)))
            found[Axis(name)] = min(least, int(lo.value)), max(most, int(hi.value) - 1)
    return Bounds(found)
