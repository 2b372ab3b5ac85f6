"""Ranges of reduction axes that data or other axes decide: `tl.reduce_axis((ptr[i], ptr[i + 1]))`.

A loop of a nest has bounds over dims. So such an axis becomes a loop over its *hull*, a range over dims that holds every value it can have,
around the conditions that keep it inside: what `where=` would say. Whatever is proved of conditions is proved of data-dependent
ranges with it, and code generation turns the conditions into bounds of the loop again (`codegen/lowering/passes/ranges`).

    sum(f(j) for j in range(max(ptr[i], 0), min(ptr[i + 1], n)))
    ->
    for j in range(0, n):  if max(ptr[i], 0) <= j:  if j < min(ptr[i + 1], n):  y[i] += f(j)

No axis leaves `INDEX_LIMIT` on either side, whatever the data says: index arithmetic relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.algebra.bounds import INDEX_LIMIT, interval, values
from tensorlang.algebra.simplify import simplify
from tensorlang.errors import InternalError
from tensorlang.ir import Axis, Binary, Cast, Compare, Const, Dim, Expr, ReduceAxis, Select, Unary
from tensorlang.ir.dtype import INT64
from tensorlang.ir.integers import EXTENT_OPERATORS
from tensorlang.ir.traverse import dtype_of, walk

Spans: TypeAlias = Mapping[str, tuple[Expr, Expr]]
"""The range of each axis in scope, with bounds over dims."""

NARROW: Final = 16
"""Bits of an integer that limits a range by its type alone."""
NEAR: Final = 1 << 60
_OPPOSITE: Final = {"min": "max", "max": "min"}


def is_fixed(expr: Expr) -> bool:
    """Is a bound arithmetic on literals and dims alone, so that a loop can have it?"""
    match expr:
        case Const(_, dtype):
            return dtype == INT64
        case Dim():
            return True
        case Unary("neg", value):
            return is_fixed(value)
        case Binary(op, left, right) if op in EXTENT_OPERATORS:
            return is_fixed(left) and is_fixed(right)
        case _:
            return False


def conditions(axis: ReduceAxis) -> tuple[Expr, ...]:
    """What keeps an axis in its range where its hull does not: nothing for bounds that are fixed."""
    least = () if is_fixed(axis.lo) else (Compare("le", _clipped(axis.lo), Axis(axis.name)),)
    most = () if is_fixed(axis.hi) else (Compare("lt", Axis(axis.name), _clipped(axis.hi)),)
    return (*least, *most)


def is_near(bound: Expr) -> bool:
    """Is a bound not so large that arithmetic with it could wrap?"""
    low, high = values(bound)
    return is_fixed(bound) or (low >= -NEAR and high <= NEAR)


def _clipped(bound: Expr) -> Expr:
    """A bound that says the same of an axis, and is near."""
    if is_near(bound):
        return bound
    return Binary("min", Binary("max", bound, ir.const(-INDEX_LIMIT)), ir.const(INDEX_LIMIT))


def hull(axis: ReduceAxis, spans: Spans) -> tuple[Expr, Expr]:
    """Bounds over dims of a range that holds all values of an axis; its own bounds where these are fixed."""
    lo, hi = _end(axis.lo, "min", spans), _end(axis.hi, "max", spans)
    if lo is None or hi is None:
        raise InternalError(f"the axis {axis.name} has no limits")
    return simplify(lo), simplify(hi)


def is_limited(axis: ReduceAxis) -> bool:
    """Is a limit on both sides known before the call? Otherwise a loop over the hull could run for ever."""
    return _end(axis.lo, "min", {}) is not None and _end(axis.hi, "max", {}) is not None


def _end(expr: Expr, which: str, spans: Spans) -> Expr | None:
    """An expression over dims that an integer expression is nowhere below (`which` is "min") or above ("max"); None where none is known."""
    if is_fixed(expr):
        return expr
    if isinstance(expr, Cast) and _keeps(expr):
        return _end(expr.value, which, spans)
    known = interval(expr)
    if known is None and not (isinstance(expr, Binary) and expr.op in ("min", "max")):  # its own arithmetic could wrap
        of = dtype_of(expr)
        return ir.const(int(of.lowest if which == "min" else of.highest)) if of.bits <= NARROW else None
    match expr:
        case Const(value, _):
            return ir.const(int(value))
        case Axis(name):
            lo, hi = spans.get(name, (expr, expr))
            return lo if which == "min" else Binary("sub", hi, ir.const(1))
        case Binary("min" | "max" as op, left, right):
            a, b = _end(left, which, spans), _end(right, which, spans)
            if a is None or b is None:  # of min(a, b) each is an upper bound, of max(a, b) a lower one
                return (b if a is None else a) if op != which else None
            return _extremum(op, a, b)
        case Select(_, yes, no):
            return _both(lambda a, b: _extremum(which, a, b), _end(yes, which, spans), _end(no, which, spans))
        case Binary("add", left, right):
            return _both(lambda a, b: Binary("add", a, b), _end(left, which, spans), _end(right, which, spans))
        case Binary("sub", left, right):
            return _both(lambda a, b: Binary("sub", a, b), _end(left, which, spans), _end(right, _OPPOSITE[which], spans))
        case Unary("neg", value):
            found = _end(value, _OPPOSITE[which], spans)
            return None if found is None else Unary("neg", found)
        case Binary("mul", Const(by), value) | Binary("mul", value, Const(by)):
            found = _end(value, which if by >= 0 else _OPPOSITE[which], spans)
            return None if found is None else Binary("mul", ir.const(int(by)), found)
        case Binary("floordiv", value, Const(by)) if by > 0:
            found = _end(value, which, spans)
            return None if found is None else Binary("floordiv", found, ir.const(int(by)))
        case Binary("mod", _, Const(by)) if by > 0:
            return ir.const(0 if which == "min" else int(by) - 1)
        case _ if known is not None and known[1] - known[0] < 1 << NARROW:
            return ir.const(known[0] if which == "min" else known[1])
        case _:
            return None


def _keeps(cast: Cast) -> bool:
    """Does a conversion keep every integer that its operand can be?"""
    source = dtype_of(cast.value)
    if not source.is_integer:
        return False
    known = interval(cast.value) or (int(source.lowest), int(source.highest))
    return int(cast.dtype.lowest) <= known[0] and known[1] <= int(cast.dtype.highest)


def _both(join: Callable[[Expr, Expr], Expr], a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else join(a, b)


def _extremum(op: str, a: Expr, b: Expr) -> Expr:
    """The lesser or the greater of two ends; one of them where their ranges say which. Dims are at least 0."""
    known: dict[Expr, tuple[int, int]] = {node: (0, INDEX_LIMIT) for end in (a, b) for node in walk(end) if isinstance(node, Dim)}
    first, second = interval(a, known), interval(b, known)
    if first is not None and second is not None:
        if first[1] <= second[0]:
            return a if op == "min" else b
        if second[1] <= first[0]:
            return b if op == "min" else a
    return Binary(op, a, b)
