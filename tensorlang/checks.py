"""The checks that make a definition mean something, made when it is written: axes it owns, reads inside their tensors.

Most reads are proved by intervals; the rest go to `polyhedra.find`, whose point is the concrete example of the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang import ir
from tensorlang.dtype import BOOL
from tensorlang.errors import DefinitionError
from tensorlang.ir import Axis, Binary, Cast, Compare, Const, Expr, Load, Reduce, Select, Unary
from tensorlang.linear import linear
from tensorlang.polyhedra import find
from tensorlang.printer import short, text
from tensorlang.ranges import is_fixed, is_limited
from tensorlang.tensor import Itself, Scatter, Stage, Tensor
from tensorlang.traverse import children, dtype_of, walk


@dataclass(frozen=True, slots=True)
class Scope:
    """What holds where an expression is evaluated: the range of each axis, and conditions."""

    ranges: tuple[tuple[str, Expr, Expr], ...]
    conditions: tuple[Expr, ...] = ()

    def where(self, condition: Expr) -> Scope:
        """The scope in which `condition` holds too."""
        return Scope(self.ranges, (*self.conditions, condition))

    def over(self, axes: tuple[ir.ReduceAxis, ...]) -> Scope:
        """The scope inside a reduction."""
        return Scope((*self.ranges, *((axis.name, axis.lo, axis.hi) for axis in axes)), self.conditions)

    def facts(self) -> tuple[Expr, ...]:
        """All that holds, as conditions."""
        bounds = [bound for name, lo, hi in self.ranges for bound in (Compare("le", lo, Axis(name)), Compare("lt", Axis(name), hi))]
        return (*bounds, *self.conditions)


def scoped(expr: Expr, scope: Scope) -> Iterator[tuple[Expr, Scope]]:
    """Every node of an expression with what holds where it is evaluated: the chosen side of selects, the domain of reductions."""
    yield expr, scope
    match expr:
        case Select(cond, yes, no):
            yield from scoped(cond, scope)
            yield from scoped(yes, scope.where(cond))
            yield from scoped(no, scope.where(Unary("not", cond)))
        case Reduce(_, values, axes, where, _):
            inner = scope
            for axis in axes:
                yield from scoped(axis.lo, inner)
                yield from scoped(axis.hi, inner)
                inner = inner.over((axis,))
            if where is not None:
                yield from scoped(where, inner)
                inner = inner.where(where)
            for value in values:
                yield from scoped(value, inner)
        case _:
            for child in children(expr):
                yield from scoped(child, scope)


def stage_scope(stage: Stage) -> Scope:
    """What holds of the axes of a stage: its own and those of the scans around it."""
    own = tuple((axis, ir.const(0), extent) for axis, extent in zip(stage.axes, stage.shape, strict=True))
    return Scope((*own, *((axis.name, axis.lo, axis.hi) for axis in stage.within)))


def check_stage(stage: Stage) -> None:
    """Raise `DefinitionError` where the stage uses an axis that it does not own, can read outside a tensor, or its own later elements."""
    what = stage.name or "the tensor"
    for value in stage.values:
        check_expression(what, value, stage_scope(stage), stage)


def check_scatter(scatter: Scatter) -> None:
    """Raise `DefinitionError` where a scatter uses an axis that it does not own, or can read or write outside a tensor."""
    what = scatter.name or "the tensor"
    scope = Scope(tuple((axis.name, axis.lo, axis.hi) for axis in scatter.within))
    for axis in scatter.axes:
        check_expression(what, axis.lo, scope)
        check_expression(what, axis.hi, scope)
        check_limits(what, (axis,))
        scope = scope.over((axis,))
    if scatter.where is not None:
        check_expression(what, scatter.where, scope)
        scope = scope.where(scatter.where)
    for expr in (*scatter.index, scatter.value):
        check_expression(what, expr, scope)
    _check_element(what, "writes", Load(scatter.init, scatter.index), repr(scatter.init), scatter.init.extents, scope)


def check_expression(what: str, value: Expr, scope: Scope, stage: Stage | None = None) -> None:
    """Raise `DefinitionError` where an expression of `what` has no meaning within the scope; `stage` may be a recurrence."""
    for node, here in scoped(value, scope):
        if isinstance(node, Axis) and all(node.name != name for name, _, _ in here.ranges):
            own = ", ".join(short(name) for name, _, _ in scope.ranges) or "its own"
            raise DefinitionError(
                f"{what} uses the axis {short(node.name)!r}, which it does not own; "
                f"reduce over it (tl.sum(..., axis={short(node.name)})) or use one of {own}"
            )
        if isinstance(node, Reduce):
            check_limits(what, node.axes)
    for node, here in scoped(value, scope):
        match node:
            case Load(Tensor() as tensor):
                _check_element(what, "reads", node, repr(tensor), tensor.extents, here)
            case Load(Itself()) if stage is not None:
                _check_element(what, "reads", node, "itself", stage.shape, here)
                _check_earlier(what, stage, node, here)


def check_limits(what: str, axes: tuple[ir.ReduceAxis, ...]) -> None:
    """Raise `DefinitionError` for an axis of `what` whose range could be anything."""
    for axis in axes:
        if not is_limited(axis):
            bounds = f"({text(axis.lo)}, {text(axis.hi)})"
            raise DefinitionError(
                f"{what} runs {short(axis.name)!r} over {bounds}, which data alone limits; "
                "give the range that it never leaves: tl.reduce_axis(..., within=n)"
            )


def _check_earlier(what: str, stage: Stage, load: Load, scope: Scope) -> None:
    point = find(*scope.facts(), not_before(load.index, stage.axes))
    if point is None:
        return
    spelled = text(load)
    if not point:
        raise DefinitionError(f"{what} reads {spelled} under conditions that are too complex to prove it earlier; simplify the index")
    read, written = ([_evaluate(part, point) for part in parts] for parts in (load.index, tuple(map(Axis, stage.axes))))
    at = ["?" if value is None else str(value) for value in read]
    raise DefinitionError(
        f"{what} reads {spelled}, which is {what}[{', '.join(at)}] while {what}[{', '.join(map(str, written))}] is computed; "
        "a recurrence may read elements that come earlier in row-major order, so restrict the read with tl.select or where="
    )


def not_before(index: tuple[Expr, ...], axes: tuple[str, ...]) -> Expr:
    """The condition that `index` is not before `axes` in row-major order."""
    result: Expr = Const(True, BOOL)
    for part, axis in reversed(list(zip(index, axes, strict=True))):
        later = Compare("gt", part, Axis(axis))
        result = Binary("or", later, Binary("and", Compare("eq", part, Axis(axis)), result))
    return result


def _check_element(what: str, does: str, load: Load, tensor: str, shape: tuple[Expr, ...], scope: Scope) -> None:
    for position, (index, extent) in enumerate(zip(load.index, shape, strict=True)):
        if inside(index, extent, scope):
            continue
        outside = Binary("or", Compare("lt", index, ir.const(0)), Compare("ge", index, extent))
        point = find(*scope.facts(), outside)
        if point is None:
            continue
        spelled = f"{what} {does} {text(load)}"
        raise DefinitionError(
            _outside(spelled, does, tensor, load, position, extent, point, scope)
            if point
            else f"{spelled} of {tensor} under conditions that are too complex to prove it inside; keep the index inside with tl.clamp"
        )


def inside(index: Expr, extent: Expr, scope: Scope) -> bool:
    """Do the ranges of the axes alone, where they are literals, keep `index` in `range(extent)`?"""
    if not isinstance(extent, Const):
        return _equals_axis(index, extent, scope)
    ranges = {name: (int(lo.value), int(hi.value) - 1) for name, lo, hi in scope.ranges if isinstance(lo, Const) and isinstance(hi, Const)}
    form = linear(index)
    least = most = form.constant
    for atom, factor in form.terms.items():
        if not isinstance(atom, Axis) or atom.name not in ranges:
            return False
        lo, hi = ranges[atom.name]
        if lo > hi:
            return True
        least += factor * (lo if factor > 0 else hi)
        most += factor * (hi if factor > 0 else lo)
    return least >= 0 and most < int(extent.value)


def _equals_axis(index: Expr, extent: Expr, scope: Scope) -> bool:
    return isinstance(index, Axis) and any(name == index.name and lo == ir.const(0) and hi == extent for name, lo, hi in scope.ranges)


def _outside(spelled: str, does: str, tensor: str, load: Load, position: int, extent: Expr, point: dict[Expr, int], scope: Scope) -> str:
    named = {name for name, _, _ in scope.ranges}
    at = [f"{short(atom.name)} = {value}" for atom, value in point.items() if isinstance(atom, Axis) and atom.name in named]
    at += [f"{text(atom)} = {value}" for atom, value in point.items() if not isinstance(atom, Axis) and dtype_of(atom) != BOOL]
    index = load.index[position]
    value = _evaluate(index, point)
    verb = "read" if does == "reads" else "written"
    where = f"axis {position} is {verb} at {text(index) if value is None else value}"
    data = any(isinstance(node, Load) for node in walk(index))
    ragged = [name for name, lo, hi in scope.ranges if Axis(name) in walk(index) and not (is_fixed(lo) and is_fixed(hi))]
    if does == "writes":
        hint = "keep the index inside with tl.clamp, or write under where= with a condition on it"
    elif ragged:
        hint = f"the range of {short(ragged[0])} depends on data or other axes; limit it with tl.reduce_axis(..., within={text(extent)})"
    elif data:
        hint = "keep a data-dependent index inside with tl.clamp, or read under a condition on the same expression"
    else:
        hint = "read it under tl.select with a condition, restrict the axis, or pad the tensor with tl.pad"
    return f"{spelled} outside {tensor}: at {', '.join(at) or 'every point'}, {where}; {hint}"


def _evaluate(expr: Expr, point: dict[Expr, int]) -> int | None:
    """The value of an index at a point, where every part of it is known."""
    if expr in point:
        return point[expr]
    form = linear(expr)
    if expr in form.terms:
        return _evaluate_atom(expr, point)
    total = form.constant
    for atom, factor in form.terms.items():
        value = _evaluate(atom, point)
        if value is None:
            return None
        total += factor * value
    return total


def _evaluate_atom(expr: Expr, point: dict[Expr, int]) -> int | None:
    match expr:
        case Cast(value, dtype) if dtype.is_integer:
            return _evaluate(value, point)
        case Binary("floordiv" | "mod" | "min" | "max" as op, left, right):
            a, b = _evaluate(left, point), _evaluate(right, point)
            if a is None or b is None or (op in ("floordiv", "mod") and b == 0):
                return None
            return {"floordiv": lambda: a // b, "mod": lambda: a % b, "min": lambda: min(a, b), "max": lambda: max(a, b)}[op]()
        case _:
            return None
