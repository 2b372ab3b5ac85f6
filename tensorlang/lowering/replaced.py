"""States of a scan that need no second place: the next one takes that of the last, element by element.

    x = x[i, j] + v[i, j]                     the element of x is read where it is written, and by nobody after that
    v = v[i, j] - (x[i + 1, j] - x[i, j])     v as well; x is another one, which the step has already made

Right where the stage that makes the next state reads the last one at the very element that it writes, outside of sums, which are whole
before anything is written and go through other elements; where every other stage of the step that reads the last one comes before; and
where no next state is what a last one was. Values of an element are all computed before one of them is stored, all at the same index: so
the states that one stage makes are replaced together or not at all.
"""

from __future__ import annotations

from tensorlang.definition.tensor import Definition, Scan, Stage, State, Tensor
from tensorlang.ir import Axis, Expr, Load, Reduce
from tensorlang.ir.traverse import loads_of, walk


def are_replaced(scan: Scan, component: int) -> bool:
    """May the next state of a component take the place of the last one, and those that the same stage of the step makes as they are?"""
    maker = scan.following[component].definition
    return all(_is_replaced(scan, other) for other, new in enumerate(scan.following) if new.definition is maker)


def _is_replaced(scan: Scan, component: int) -> bool:
    state, maker = scan.states[component], scan.following[component].definition
    if not isinstance(maker, Stage) or any(isinstance(new.definition, State) for new in scan.following):
        return False
    if not all(isinstance(part, Stage) for part in scan.body):
        return False
    place = next(place for place, part in enumerate(scan.body) if part is maker)
    if any(_reads(part, state) for part in scan.body[place + 1 :]):
        return False
    own = tuple(Axis(axis) for axis in maker.axes)
    sums = [node for value in maker.values for node in walk(value) if isinstance(node, Reduce)]
    parts = (part for node in sums for part in (node, *(bound for axis in node.axes for bound in (axis.lo, axis.hi))))
    return not any(_loads(part, state) for part in parts) and all(load.index == own for load in _reads(maker, state))


def _reads(stage: Definition, state: State) -> list[Load]:
    return [load for value in stage.values for load in _loads(value, state)] if isinstance(stage, Stage) else []


def _loads(expr: Expr, state: State) -> list[Load]:
    return [load for load in loads_of(expr) if isinstance(load.buffer, Tensor) and load.buffer.definition is state]
