"""`recurrence`: a tensor whose elements may read earlier elements of itself.

The elements are computed in row-major order. A read of `self` becomes `tl.select(inside, self[...], outside)`, without the conditions
that always hold, so that `outside` is the value beyond every edge. That each read is earlier is proved when the definition is written,
by the same oracle that proves reads inside their tensors: there is no iteration in which the element read is not before the one computed.

The type is that of the body with `self` taken as weak, like a Python number: the body is run once to learn it and once more with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tensorlang import ir
from tensorlang.checks import Scope, check_stage, inside, stage_scope
from tensorlang.dtype import BOOL, FLOAT32, INT64, DType
from tensorlang.dtype import dtype as dtype_named
from tensorlang.errors import DefinitionError
from tensorlang.expr import Expr, ExprLike, as_expr, cast, common, convert
from tensorlang.extent import optional_name, shape_nodes
from tensorlang.ir import Binary, Compare, Const, Load, Reduce, Select, Unary
from tensorlang.polyhedra import find
from tensorlang.tensor import Itself, Stage, Tensor, enclosing, fresh_axis, index_parts, parameters, serial
from tensorlang.traverse import map_children

PROBES: Final = (INT64, FLOAT32, BOOL)
"""The kinds of weak value that `self` may stand for while the type of the body is not known."""


class Self:
    """The tensor being defined, as its body reads it."""

    __slots__ = ("itself", "rank", "weak")

    def __init__(self, itself: Itself, rank: int, *, weak: bool) -> None:
        self.itself = itself
        self.rank = rank
        self.weak = weak

    def __getitem__(self, index: object) -> Expr:
        parts = index_parts("self", self.rank, index)
        return Expr(Load(self.itself, tuple(part.node for part in parts)), parts, weak=self.weak)


def recurrence(shape: object, fn: Callable[..., Any], outside: ExprLike = 0, dtype: object = None, name: str | None = None) -> Tensor:
    """The tensor whose element at each index is `fn(*index, self)`, where `self[...]` reads earlier elements in row-major order.

    Reads outside the tensor give `outside`. `dtype` defaults to that of the body with `self` taken as weak.
    Raises `DefinitionError` as `compute` does, and for a read of `self` that is not provably earlier.
    """
    label = optional_name(name, "a tensor")
    what = f"tensor {label}" if label else "a tensor"
    extents = shape_nodes(shape, what)
    axes = tuple(fresh_axis(axis) for axis in parameters(fn, len(extents) + 1, f"{what}, self included,")[:-1])
    border = as_expr(outside)
    if not isinstance(border.node, Const):
        raise DefinitionError(f"outside= of {what} must be a number, not {border!r}")

    def body(itself: Itself, *, weak: bool = False) -> Expr:
        result = fn(*(Expr(ir.Axis(axis)) for axis in axes), Self(itself, len(axes), weak=weak))
        if isinstance(result, (tuple, Tensor, Self)):
            raise DefinitionError(f"the body of {what} must be one expression, not {result!r:.60}; several states are a tl.scan")
        return as_expr(result)

    of = _inferred(body, border, what) if dtype is None else dtype_named(dtype)
    itself = Itself(of)
    result = body(itself)
    value = cast(result, of) if dtype is not None else convert(result, of)
    stage = Stage(label, axes, extents, (), serial(), itself, enclosing(value.node))
    stage = replace(stage, values=(_guarded(value.node, stage_scope(stage), stage, cast(border, of).node),), order=serial())
    check_stage(stage)
    return Tensor(stage)


def _inferred(body: Callable[..., Expr], border: Expr, what: str) -> DType:
    """The type of the body, `self` being weak."""
    first: DefinitionError | None = None
    for probe in PROBES:
        try:
            result = body(Itself(probe), weak=True)
            (found, _), _ = common("outside=", result, border)
            break
        except DefinitionError as error:
            first = first or error
    else:
        assert first is not None
        raise first
    of = found.dtype
    for _ in range(len(PROBES)):
        result = body(Itself(of))
        if result.weak or result.dtype == of:
            return of
        of = result.dtype
    raise DefinitionError(f"the type of {what} depends on itself; give dtype=, and tl.cast the body to it")


def _guarded(expr: ir.Expr, scope: Scope, stage: Stage, border: ir.Expr) -> ir.Expr:
    """The expression with every read of the tensor itself under the conditions that keep it inside, where they do not always hold."""

    def inner(part: ir.Expr, here: Scope) -> ir.Expr:
        return _guarded(part, here, stage, border)

    match expr:
        case Load(Itself(), index):
            load = Load(expr.buffer, tuple(inner(part, scope) for part in index))
            tests = [test for part, extent in zip(index, stage.shape, strict=True) for test in _needed(part, extent, scope)]
            if not tests:
                return load
            return Select(functools.reduce(functools.partial(Binary, "and"), tests), load, border)
        case Select(cond, yes, no):
            return Select(inner(cond, scope), inner(yes, scope.where(cond)), inner(no, scope.where(Unary("not", cond))))
        case Reduce(_, values, axes, where, _):
            here = scope.over(axes)
            test = None if where is None else inner(where, here)
            here = here if where is None else here.where(where)
            return replace(expr, values=tuple(inner(value, here) for value in values), where=test)
        case _:
            return map_children(expr, lambda part: inner(part, scope))


def _needed(index: ir.Expr, extent: ir.Expr, scope: Scope) -> list[ir.Expr]:
    """The conditions among `0 <= index < extent` that can fail."""
    if inside(index, extent, scope):
        return []
    pairs = (
        (Compare("ge", index, ir.const(0)), Compare("lt", index, ir.const(0))),
        (Compare("lt", index, extent), Compare("ge", index, extent)),
    )
    return [holds for holds, fails in pairs if find(*scope.facts(), fails) is not None]
