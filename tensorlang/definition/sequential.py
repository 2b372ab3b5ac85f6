"""What order a recurrence needs: how many of its leading axes tell the elements that are read from those that are computed."""

from __future__ import annotations

from tensorlang.algebra.polyhedra import find
from tensorlang.definition.scope import not_before, scoped, stage_scope
from tensorlang.definition.tensor import Itself, Stage
from tensorlang.ir import Load


def leading(stage: Stage) -> int:
    """The least number of leading axes in which every read of the stage's own tensor is already earlier.

    Elements that agree in these axes read none of each other: a time-stepped stencil needs 1, a sum along rows all axes.
    """
    reads = [(node, scope) for value in stage.values for node, scope in scoped(value, stage_scope(stage)) if isinstance(node, Load)]
    own = [(load, scope) for load, scope in reads if isinstance(load.buffer, Itself)]
    for depth in range(len(stage.axes)):
        axes = stage.axes[:depth]
        if all(find(*scope.facts(), not_before(load.index[:depth], axes)) is None for load, scope in own):
            return depth
    return len(stage.axes)
