"""What a program costs by its definition: arithmetic, compulsory traffic, workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.cost.moving import made
from tensorlang.codegen.emission.storage import fits_stack
from tensorlang.ir import Alloc, Binary, Expr, For, If, Nest, Stmt
from tensorlang.ir.integers import known_value
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import axes_of, statements, substatements, substitute
from tensorlang.schedules.rewriting.ragged import ragged


def flops(nest: Nest) -> Expr:
    """Arithmetic operations of an unscheduled nest at most, as an expression over its dims.

    Conditions count as if they held, and a loop whose length depends on loops around it as if it were always the longest. What is
    done exactly under given dims is counted by `operation_count`.
    """
    total = Linear()
    for _, operations in made(nest):
        loops = {len(operation.loops): operation.loops for operation in operations}
        for depth, number in Counter(len(operation.loops) for operation in operations).items():
            total = total.plus(linear(_times(number, loops[depth])))
    return simplify(expression(total))


def _times(number: int, loops: tuple[For, ...]) -> Expr:
    """So many operations in each iteration of loops."""
    found: Expr = ir.const(number)
    for depth, loop in reversed(list(enumerate(loops))):
        around = loops[:depth]
        trips = _length(loop, _longest(simplify(Binary("sub", loop.hi, loop.lo)), around), around)
        found = simplify(Binary("mul", trips, found))
    return found


def _length(loop: For, trips: Expr, around: tuple[For, ...]) -> Expr:
    """How often a loop runs, which ranges that data tells (`schedules.rewriting.ragged`) share with those of the iterations around it."""
    found = ragged(part.cond for part in statements(loop.body) if isinstance(part, If))
    for outer in around if loop.loop in found.bounded else ():
        if outer.loop in found.keys:
            share = simplify(Binary("sub", outer.hi, outer.lo))
            trips = Binary("floordiv", Binary("sub", Binary("add", trips, share), ir.const(1)), share)
    return trips


def _longest(trips: Expr, around: tuple[For, ...]) -> Expr:
    """The greatest value of an extent, which is linear in the axes of the loops around it: at an end of each."""
    for loop in reversed(around):
        if loop.loop in axes_of(trips):
            first = substitute(trips, {loop.loop: loop.lo})
            last = substitute(trips, {loop.loop: Binary("sub", loop.hi, ir.const(1))})
            trips = Binary("max", simplify(first), simplify(last))
    return simplify(Binary("max", trips, ir.const(0)))


def traffic(nest: Nest) -> Expr:
    """Bytes of all inputs and outputs: what any schedule must move at least."""
    total: Expr = ir.const(0)
    for buffer in (*nest.inputs, *nest.outputs):
        size: Expr = ir.const(buffer.dtype.bytes)
        for extent in buffer.shape:
            size = Binary("mul", size, extent)
        total = Binary("add", total, size)
    return simplify(total)


def workspace(nest: Nest, dims: Mapping[str, int] | None = None) -> int:
    """Bytes that the temporaries of a lowered nest take from the heap, where their extents are literals, or made of these `dims`.

    On one thread, before anything is emitted.
    """
    return _heap_bytes(nest.body, dims or {})


def _heap_bytes(function: Stmt, dims: Mapping[str, int]) -> int:
    """The same of what becomes one function: the nest, or the body of a parallel loop."""
    total = taken = 0
    stack = [function]
    while stack:
        part = stack.pop()
        for buffer in part.buffers if isinstance(part, Alloc) else ():
            extents = [known_value(extent, dims) for extent in buffer.shape]
            if None not in extents:
                size = prod(max(0, extent) for extent in extents if extent is not None)
                if buffer.memory in ("register", "stack") or fits_stack(buffer, size, taken):
                    taken += size * buffer.dtype.bytes
                else:
                    total += size * buffer.dtype.bytes
        if isinstance(part, For) and part.kind == "parallel":
            total += _heap_bytes(part.body, dims)
        else:
            stack.extend(reversed(substatements(part)))
    return total
