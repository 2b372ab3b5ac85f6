"""What integers a computed tensor holds, by its definition, and indices that are kept within them.

An index is proved where it is written, and again by whatever makes the access anew: directives, lowering, code generation. These see loads
of buffers. So what a definition says of the elements that an index is made of is written into the index, as a clamp that changes no value:

    which = compute((n,), argmin(x[i, k], axis=k))        elements from 0 to 15
    colour[which[y]]  ->  colour[clamp(which[y], 0, 15)]

The elements of a recurrence that are read by itself, and those of placeholders, states, scans and scatters, have any value of their type.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.interval import Interval, whole
from tensorlang.definition.scope import stage_scope
from tensorlang.definition.tensor import Stage, Tensor, operands
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, Load
from tensorlang.ir.traverse import dtype_of, loads_of, map_children, rewrite

_known: Final[WeakKeyDictionary[Stage, tuple[Interval, ...]]] = WeakKeyDictionary()


def elements(tensor: Tensor) -> Interval:
    """The least and the most element that a tensor of integers can have; those of its type, where its definition says no more."""
    stage = tensor.definition
    if not isinstance(stage, Stage):
        return whole(tensor.dtype)
    waiting = [stage]
    while waiting:  # a chain of tensors may be longer than Python's stack
        part = waiting[-1]
        before = [of.definition for of in operands(part) if of.dtype.is_integer]
        new = [definition for definition in before if isinstance(definition, Stage) and definition not in _known]
        if part not in _known and new:
            waiting += new
            continue
        if part not in _known:
            _known[part] = _elements(part)
        waiting.pop()
    return _known[stage][tensor.component]


def _elements(stage: Stage) -> tuple[Interval, ...]:
    """The values of a stage, whose operands are known."""
    extents = Bounds()
    ranges: dict[Expr, Interval] = {}
    for name, lo, hi in stage_scope(stage).ranges:
        least = extents.values(lo)[0]
        ranges[Axis(name)] = least, max(extents.values(hi)[1] - 1, least)
    bounds = Bounds(ranges)
    return tuple(bounds.values(rewrite(value, _kept)) if dtype_of(value).is_integer else (0, 0) for value in stage.values)


def within_elements(index: Expr) -> Expr:
    """An index in which every element of a computed tensor is kept to what it can be; the index itself where that says nothing."""
    return _kept(index) if isinstance(index, Load) else map_children(index, within_elements)


def element_facts(index: Expr) -> tuple[Expr, ...]:
    """The same as conditions on the elements that an index is made of."""
    found = [(load, load.buffer) for load in loads_of(index) if isinstance(load.buffer, Tensor) and load.buffer.dtype.is_integer]
    ends = [(load, elements(tensor), whole(tensor.dtype), tensor.dtype) for load, tensor in found]
    least = (Compare("ge", load, Const(low, of)) for load, (low, _), (lowest, _), of in ends if low > lowest)
    most = (Compare("le", load, Const(high, of)) for load, (_, high), (_, highest), of in ends if high < highest)
    return (*least, *most)


def _kept(node: Expr) -> Expr:
    if not isinstance(node, Load) or not isinstance(node.buffer, Tensor) or not node.buffer.dtype.is_integer:
        return node
    of = node.buffer.dtype
    (low, high), (lowest, highest) = elements(node.buffer), whole(of)
    kept: Expr = node if low <= lowest else Binary("max", node, Const(low, of))
    return kept if high >= highest else Binary("min", kept, Const(high, of))
