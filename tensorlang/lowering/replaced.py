"""States of a scan that need no second place: the next one takes that of the last, element by element.

    x = x[i, j] + v[i, j]                     the element of x is read where it is written, and by nobody after that
    v = v[i, j] - (x[i + 1, j] - x[i, j])     v as well; x is another one, which the step has already made

Right where the stage that makes the next state reads the last one at the very element that it writes, outside of sums, which are whole
before anything is written and go through other elements; where every other stage of the step that reads the last one comes before; and
where no next state is what a last one was. Values of an element are all computed before one of them is stored, all at the same index: so
the states that one stage makes are replaced together or not at all.

Stages between, which make no state, count for what they read: `x[i, j] + d[i, j]` after `d = x[i + 1, j] - x[i, j]` keeps two places, for
`d` had else to be stored, which is better written into its reader.
"""

from __future__ import annotations

from collections.abc import Collection

from tensorlang.definition.tensor import Definition, Scan, Stage, State, Tensor
from tensorlang.ir import Axis, Expr, Load, Reduce
from tensorlang.ir.traverse import loads_of, walk


def are_replaced(scan: Scan, component: int) -> bool:
    """May the next state of a component take the place of the last one, and those that the same stage of the step makes as they are?"""
    maker = scan.following[component].definition
    return all(_is_replaced(scan, other) for other, new in enumerate(scan.following) if new.definition is maker)


def _is_replaced(scan: Scan, component: int) -> bool:
    maker, makers = scan.following[component].definition, [new.definition for new in scan.following]
    if any(isinstance(one, State) for one in makers):
        return False
    speaking: list[Definition] = [scan.states[component]]
    made = False
    for stage in scan.body:
        if not isinstance(stage, Stage):
            return False
        if made and _loads(stage.values, speaking):
            return False
        between = all(stage is not one for one in makers)
        if stage is maker or between:
            if not _at_own_element(stage, speaking):
                return False
            if between and _loads(stage.values, speaking):
                speaking.append(stage)
        made = made or stage is maker
    return made


def _at_own_element(stage: Stage, read: Collection[Definition]) -> bool:
    """Does a stage read these definitions only at the element that it writes, and in no sum?"""
    own = tuple(Axis(axis) for axis in stage.axes)
    sums = [node for value in stage.values for node in walk(value) if isinstance(node, Reduce)]
    inside = [part for node in sums for part in (node, *(bound for axis in node.axes for bound in (axis.lo, axis.hi)))]
    return not _loads(inside, read) and all(load.index == own for load in _loads(stage.values, read))


def _loads(values: Collection[Expr], read: Collection[Definition]) -> list[Load]:
    """The reads of these definitions."""
    loads = (load for value in values for load in loads_of(value))
    return [load for load in loads if isinstance(load.buffer, Tensor) and any(load.buffer.definition is one for one in read)]
