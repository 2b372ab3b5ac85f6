"""What axes can be, for what is asked of the values of expressions: from the literal ends of loops, and of those that were split."""

from __future__ import annotations

from collections.abc import Iterable

from tensorlang.algebra.bounds import Bounds
from tensorlang.ir import For, Nest, SplitRelation
from tensorlang.schedules.rewriting.literal_ranges import literal_ranges


def ranges(nest: Nest, loops: Iterable[For]) -> Bounds:
    """The bounds of expressions in a nest of these loops; an axis of several loops has the widest."""
    ends = [(loop.loop, loop.lo, loop.hi) for loop in loops]
    ends += [(relation.parent, relation.lo, relation.hi) for relation in nest.relations if isinstance(relation, SplitRelation)]
    return Bounds(literal_ranges(ends))
