"""Reducers: `sum`, `prod`, `max`, ... as data (an identity and an associative, commutative combination), and the calls that use them.

A reducer's state may have several components: `argmax` keeps a value and its position. A call gives a `Reduce` node that may stand
anywhere in an expression.
"""

from __future__ import annotations

import builtins
import functools
import operator
from functools import cache
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.algebra.bounds import values
from tensorlang.algebra.interval import inside, whole
from tensorlang.algebra.ranges import is_fixed
from tensorlang.algebra.simplify import simplify
from tensorlang.definition.elementary import select
from tensorlang.definition.expr import Expr, ExprLike, as_expr, cast, condition, convert
from tensorlang.definition.tensor import ReduceAxis
from tensorlang.errors import DefinitionError
from tensorlang.ir import Binary, Call, Compare, Const, Param, Reducer, Select, Unary
from tensorlang.ir.dtype import BOOL, FLOAT32, INT32, INT64, DType, dtype
from tensorlang.ir.traverse import axes_of

Axes: TypeAlias = "ReduceAxis | tuple[ReduceAxis, ...] | None"
_typed = dtype
_PAIRS: Final = {"max": "maximum", "min": "minimum", "fmax": "fmax", "fmin": "fmin"}
"""Functions of two values beside the reducers that are named alike."""


@cache
def single(name: str, op: str, identity: float | bool, of: DType) -> Reducer:
    """The reducer of one operator."""
    return Reducer(name, (Const(identity, of),), (Binary(op, Param("a0", of), Param("b0", of)),))


@cache
def _position(name: str, order: str, of: DType, place: DType = INT64) -> Reducer:
    """The better value and the least position, a `place`, that has it; NaN is best; position -1 is none at all."""
    a, b = Param("a0", of), Param("b0", of)
    p, q = Param("a1", place), Param("b1", place)
    zero = Const(0, place)
    better: ir.Expr = Compare(order, a, b)
    equal: ir.Expr = Compare("eq", a, b)
    if of.is_floating:
        a_nan, b_nan = Call("isnan", (a,), BOOL), Call("isnan", (b,), BOOL)
        better = Binary("or", better, Binary("and", a_nan, Unary("not", b_nan)))
        equal = Binary("or", equal, Binary("and", a_nan, b_nan))
    first = Binary("or", better, Binary("and", equal, Compare("lt", p, q)))
    keep = Binary("and", Compare("ge", p, zero), Binary("or", Compare("lt", q, zero), first))
    identity = of.lowest if order == "gt" else of.highest
    return Reducer(name, (Const(identity, of), Const(-1, place)), (Select(keep, a, b), Select(keep, p, q)))


def _axes(name: str, axis: Axes) -> tuple[ReduceAxis, ...]:
    if axis is None:
        raise DefinitionError(f"tl.{name} is over reduction axes: k = tl.reduce_axis(n), then tl.{name}(A[k], axis=k)")
    axes = axis if isinstance(axis, tuple) else (axis,)
    for entry in axes:
        if not isinstance(entry, ReduceAxis):
            pair = _PAIRS.get(name)
            hint = "" if pair is None else f"; of two values it is tl.{pair}(a, b)"
            raise DefinitionError(f"axis= of tl.{name} takes reduction axes made by tl.reduce_axis, not {entry!r:.60}{hint}")
    if not axes or len({entry.axis.name for entry in axes}) != len(axes):
        raise DefinitionError(f"axis= of tl.{name} needs one or more different reduction axes")
    for place, entry in enumerate(axes):
        for other in axes[place + 1 :]:
            if other.axis.name in axes_of(entry.axis.lo) | axes_of(entry.axis.hi):
                raise DefinitionError(f"axis= of tl.{name}: the range of {entry!r} is told by {other!r}, which has to come before it")
    return axes


def _reduce(reducer: Reducer, values: tuple[Expr, ...], axes: tuple[ReduceAxis, ...], where: object, component: int = 0) -> Expr:
    cond = None if where is None else condition(where, f"where= of tl.{reducer.name}")
    operands = (*values, *(() if cond is None else (cond,)), *(bound for axis in axes for bound in axis.bounds))
    over = tuple(axis.axis for axis in axes)
    node = ir.Reduce(reducer, tuple(value.node for value in values), over, None if cond is None else cond.node, component)
    return Expr(node, operands, weak=builtins.all(value.weak for value in values))


def reduce_over(reducer: Reducer, values: tuple[Expr, ...], axis: Axes, where: object, component: int) -> Expr:
    """A component of the combination of `values` over reduction axes. Raises `DefinitionError` for axes that are none."""
    return _reduce(reducer, values, _axes(reducer.name, axis), where, component)


def accumulator(of: DType) -> DType:
    """The type in which `sum` and `prod` accumulate by default."""
    if of in ("float16", "bfloat16"):
        return FLOAT32
    if of == BOOL or (of.is_integer and of.bits < INT32.bits):
        return INT32
    return of


def _accumulate(name: str, op: str, identity: int, expr: ExprLike, axis: Axes, where: object, to: object) -> Expr:
    value = as_expr(expr)
    own = value.dtype
    wide = accumulator(own) if to is None else dtype(to)
    if wide == BOOL:
        raise DefinitionError(f"tl.{name} cannot accumulate in bool; use tl.any or tl.all")
    narrow = wide in ("float16", "bfloat16")
    inner = FLOAT32 if narrow else wide
    start: float | int = float(identity) if inner.is_floating else identity
    widened = _kept(_widened(value, inner), value, to)
    result = _reduce(single(name, op, start, inner), (widened,), _axes(name, axis), where)
    final = own if to is None and own in ("float16", "bfloat16") else wide
    return result if final == inner else cast(result, final)


def _kept(operand: Expr, value: Expr, to: object) -> Expr:
    """`operand`, which is of no type of its own where `value` is not and none was asked for; literals are of theirs."""
    weak = value.weak and to is None and not isinstance(value.node, Const)
    return Expr(operand.node, (operand,), weak=True) if weak else operand


def _widened(value: Expr, to: DType) -> Expr:
    """`value` in the accumulation type; a product is widened factor by factor, so that it cannot wrap."""
    if value.dtype == to:
        return Expr(value.node, (value,))
    if value.weak:
        return convert(value, to) if value.dtype.kind == to.kind else cast(value, to)
    if value.dtype.is_floating and (not to.is_floating or to.bits < value.dtype.bits):
        return cast(value, to)
    return Expr(_widen_node(value.node, to), (value,))


def _widen_node(node: ir.Expr, to: DType) -> ir.Expr:
    match node:
        case Binary("add" | "sub" | "mul" as op, left, right):
            return Binary(op, _widen_node(left, to), _widen_node(right, to))
        case Unary("neg", operand):
            return Unary("neg", _widen_node(operand, to))
        case Const(value, _):
            return Const(float(value), to) if to.is_floating else Const(int(value), to)
        case _:
            return simplify(ir.Cast(node, to))


def sum(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """The sum over reduction axes, where `where` holds. 8 and 16 bit integers and bool add up in int32, half precision in float32."""
    return _accumulate("sum", "add", 0, expr, axis, where, dtype)


def prod(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """The product over reduction axes, in the type that `sum` uses."""
    return _accumulate("prod", "mul", 1, expr, axis, where, dtype)


def mean(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """The sum over reduction axes, where `where` holds, by the number of what was added up; NaN of an empty domain.

    Half precision adds up and divides in float32. Raises `DefinitionError` for integers, which have no type that fits all their means.
    """
    value = as_expr(expr)
    own = value.dtype if dtype is None else _typed(dtype)
    if not own.is_floating:
        raise DefinitionError(
            f'tl.mean of {value!r} ({own}) would be a fraction; give its type, as in tl.mean(..., dtype="float32"), or use tl.sum(...) // n'
        )
    wide = accumulator(own)
    axes = _axes("mean", axis)
    total = sum(value, axes, where, wide)
    if where is None and builtins.all(is_fixed(entry.axis.lo) and is_fixed(entry.axis.hi) for entry in axes):
        count = functools.reduce(operator.mul, (_extent(entry.axis) for entry in axes))
    else:
        count = sum(cast(1, INT64), axes, where)
    result = total / cast(count, wide)
    return result if wide == own else cast(result, own)


def _extent(axis: ir.ReduceAxis) -> Expr:
    """How many values an axis with fixed bounds takes."""
    size = simplify(Binary("sub", axis.hi, axis.lo))
    return Expr(size if isinstance(size, ir.Dim) else simplify(Binary("max", size, ir.const(0))))


def _extremum(name: str, op: str, expr: ExprLike, axis: Axes, where: object, to: object) -> Expr:
    value = as_expr(expr)
    if value.dtype == BOOL:
        raise DefinitionError(f"tl.{name} of bool has no meaning; use tl.any or tl.all")
    operand = cast(value, dtype(to)) if to is not None else Expr(value.node, (value,))
    value = _kept(operand, value, to)
    of = value.dtype
    identity = of.lowest if op in ("max", "fmax") else of.highest
    if op in ("fmin", "fmax") and of.is_floating:
        identity = float("nan")
    return _reduce(single(name, op, identity, of), (value,), _axes(name, axis), where)


def max(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """The greatest value; NaN if any is NaN; minus infinity or the least integer of an empty domain."""
    return _extremum("max", "max", expr, axis, where, dtype)


def min(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """The least value; NaN if any is NaN; infinity or the greatest integer of an empty domain."""
    return _extremum("min", "min", expr, axis, where, dtype)


def reduce_fmax(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """The greatest value, NaN ignored; NaN (or the least integer) of an empty domain."""
    return _extremum("fmax", "fmax", expr, axis, where, dtype)


def reduce_fmin(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """The least value, NaN ignored; NaN (or the greatest integer) of an empty domain."""
    return _extremum("fmin", "fmin", expr, axis, where, dtype)


def any(expr: ExprLike, axis: Axes = None, where: object = None) -> Expr:
    """Does the condition hold anywhere?"""
    return _reduce(single("any", "or", False, BOOL), (condition(expr, "the operand of tl.any"),), _axes("any", axis), where)


def all(expr: ExprLike, axis: Axes = None, where: object = None) -> Expr:
    """Does the condition hold everywhere?"""
    return _reduce(single("all", "and", True, BOOL), (condition(expr, "the operand of tl.all"),), _axes("all", axis), where)


def _argument(name: str, order: str, expr: ExprLike, axis: Axes, where: object, to: object) -> Expr:
    value = as_expr(expr)
    if value.dtype == BOOL:  # the first that is, or is not
        value = cast(value, "int8")
    chosen = _axes(name, axis)
    axes = tuple(entry.axis for entry in chosen)
    start = axes[0].lo
    below = len(axes) == 1 and values(start)[0] < 0  # -1 may be a place: places are counted from the first one
    position: ir.Expr = ir.Axis(axes[0].name) if not below else Binary("sub", ir.Axis(axes[0].name), start)
    if len(axes) > 1:
        if not builtins.all(is_fixed(entry.lo) and is_fixed(entry.hi) for entry in axes):
            raise DefinitionError(
                f"tl.{name} over several axes gives a row-major position, which there is none of where data or an axis bounds another; "
                "reduce over one axis at a time"
            )
        position = ir.const(0)
        for entry in axes:
            offset = Binary("sub", ir.Axis(entry.name), entry.lo)
            position = Binary("add", Binary("mul", position, Binary("sub", entry.hi, entry.lo)), offset)
    wanted = INT64 if to is None else dtype(to)
    position = simplify(position)
    within = values(position, {ir.Axis(entry.name): (values(entry.lo)[0], values(entry.hi)[1] - 1) for entry in axes})
    short = wanted == INT32 and not below and inside(within, whole(INT32))  # half as long as lanes of values need it
    place = INT32 if short else INT64
    where_it_is = Expr(ir.Cast(position, place) if short else position)
    found = _reduce(_position(name, order, value.dtype, place), (value, where_it_is), chosen, where, component=1)
    if below:
        found = select(found >= 0, found + Expr(start), -1)
    return found if found.dtype == wanted else cast(found, wanted)


def argmax(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """Where the greatest value is: the axis value, or the row-major position over several axes. The first of equals; -1 if none.

    With `dtype="int32"` places are found in 32 bits where they fit: lanes of `float32` have twice as many beside them.
    """
    return _argument("argmax", "gt", expr, axis, where, dtype)


def argmin(expr: ExprLike, axis: Axes = None, where: object = None, dtype: object = None) -> Expr:
    """Where the least value is: the axis value, or the row-major position over several axes. The first of equals; -1 if none.

    With `dtype="int32"` places are found in 32 bits where they fit: lanes of `float32` have twice as many beside them.
    """
    return _argument("argmin", "lt", expr, axis, where, dtype)
