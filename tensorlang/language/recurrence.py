"""`recurrence`: tensors whose elements may read earlier elements of themselves.

The elements are computed in row-major order, those of several tensors together: none sees what the others are at its own index. A read of
`self` becomes `tl.select(inside, self[...], outside)`, without the conditions that always hold, so that `outside` is the value beyond
every edge. That each read is earlier is proved when the definition is written, by the same oracle that proves reads inside their tensors:
there is no iteration in which the element read is not before the one computed.

A body that defines several tensors has a parameter for each of them, so that how many there are is known before it is run. The type is
that of the body with what it reads of itself taken as weak, like a Python number: the body is run to learn it, and once more with it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.checks.reads import checked_stage, stays_inside
from tensorlang.definition.expr import Expr, as_expr, cast, common, convert
from tensorlang.definition.extent import optional_name, shape_nodes
from tensorlang.definition.scope import Scope, stage_scope
from tensorlang.definition.tensor import Itself, Stage, Tensor, enclosing, fresh_axis, index_parts, serial
from tensorlang.errors import DefinitionError
from tensorlang.ir import Binary, Compare, Const, Load, Reduce, Select, Unary
from tensorlang.ir.dtype import BOOL, FLOAT32, INT64, DType, dtype as dtype_named
from tensorlang.ir.traverse import map_children
from tensorlang.language import parts
from tensorlang.language.definitions import parameters

MAX_PROBED: Final = 3
PROBES: Final = (INT64, FLOAT32, BOOL)
"""The kinds of weak value that `self` may stand for while the type of the body is not known."""


class Self:
    """A tensor being defined, as its body reads it."""

    __slots__ = ("itself", "rank", "weak")

    def __init__(self, itself: Itself, weak: bool, rank: int) -> None:
        self.itself = itself
        self.rank = rank
        self.weak = weak

    def __getitem__(self, index: object) -> Expr:
        parts = index_parts(self.itself.name, self.rank, index)
        return Expr(Load(self.itself, tuple(part.node for part in parts)), parts, weak=self.weak)


def recurrence(shape: object, fn: Callable[..., Any], outside: object = 0, dtype: object = None, name: str | None = None) -> Any:
    """The tensor whose element at each index is `fn(*index, self)`, where `self[...]` reads earlier elements in row-major order.

    A body with several parameters after the axes, one for each tensor, returns a tuple of as many expressions, and several tensors are
    the result: `fn(i, j, H, E)`. Reads outside a tensor give `outside`, a number for all or a tuple of one for each. `dtype` is one or
    a tuple, too, and defaults to the types of the body with what it reads of itself taken as weak.
    Raises `DefinitionError` as `compute` does, and for a read that is not provably earlier.
    """
    label = optional_name(name, "a tensor")
    what = f"tensor {label}" if label else "a tensor"
    extents = shape_nodes(shape, what)
    count = _count(fn, len(extents))
    labels = parameters(fn, len(extents) + count, f"{what}, self included,")
    axes = tuple(fresh_axis(axis) for axis in labels[: len(extents)])
    borders = [as_expr(border) for border in _each(outside, count, f"outside= of {what}")]
    for border in borders:
        if not isinstance(border.node, Const):
            raise DefinitionError(f"outside= of {what} must be a number, not {border!r}")
    names = labels[len(extents) :] if count > 1 else ("self",)

    def body(types: Sequence[DType], weak: Sequence[bool] = (False,) * count) -> tuple[tuple[Itself, ...], tuple[Expr, ...]]:
        past = tuple(Itself(of, component, spelled) for component, (of, spelled) in enumerate(zip(types, names, strict=True)))
        with parts.body(axes, extents) as made:
            result = fn(*(Expr(ir.Axis(axis)) for axis in axes), *map(functools.partial(Self, rank=len(axes)), past, weak))
        results = result if count > 1 and isinstance(result, (tuple, list)) else (result,)
        if len(results) != count or any(isinstance(part, (tuple, list, Tensor, Self)) for part in results):
            wanted = "one expression" if count == 1 else f"a tuple of {count} expressions"
            more = "; take a parameter for each of several tensors, as in fn(i, first, second)" if isinstance(result, tuple) else ""
            raise DefinitionError(f"the body of {what} must be {wanted}, not {result!r:.60}{more}")
        values = map(as_expr, results)
        return past, tuple(Expr(made.written(value.node), weak=value.weak) for value in values)

    given = None if dtype is None else [dtype_named(of) for of in _each(dtype, count, f"dtype= of {what}")]
    types = _inferred(body, borders, what) if given is None else given
    past, results = body(types)
    nodes = [(convert(value, of) if given is None else cast(value, of)).node for value, of in zip(results, types, strict=True)]
    stage = Stage(label, axes, extents, (), serial(), past, enclosing(*nodes))
    ends = tuple(cast(border, of).node for border, of in zip(borders, types, strict=True))
    stage = replace(stage, values=tuple(_guarded(node, stage_scope(stage), stage, ends) for node in nodes), order=serial())
    stage = checked_stage(stage)
    tensors = tuple(Tensor(stage, component) for component in range(count))
    return tensors if count > 1 else tensors[0]


def _count(fn: object, rank: int) -> int:
    """How many tensors a body defines: its parameters after the axes; one where that is not said."""
    if not callable(fn):
        return 1
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # `parameters` says what is wrong
        return 1
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in found):
        return 1
    return max(1, sum(parameter.default is parameter.empty for parameter in found) - rank)


def _each(value: object, count: int, what: str) -> tuple[Any, ...]:
    """The value for each of `count` tensors: one for all, or as many. Raises `DefinitionError` for another number."""
    if not isinstance(value, (tuple, list)):
        return (value,) * count
    if len(value) != count or count == 1:
        raise DefinitionError(f"{what} gives {len(value)} values for {count} tensor{'s' if count > 1 else ''}")
    return tuple(value)


def _inferred(body: Callable[..., tuple[tuple[Itself, ...], tuple[Expr, ...]]], borders: Sequence[Expr], what: str) -> list[DType]:
    """The types of the body, what it reads of itself being weak; of a tensor that reads only the others, the type that they give it."""
    first: DefinitionError | None = None
    count = len(borders)
    kinds = [(BOOL, *PROBES) if border.dtype == BOOL else PROBES for border in borders]  # what is true or false outside may be it inside
    for probe in itertools.product(*kinds) if count <= MAX_PROBED else ((kind,) * count for kind in (*kinds[0], *PROBES)):
        try:
            _, results = body(probe, (True,) * count)
            found = [common("outside=", result, border)[0][0] for result, border in zip(results, borders, strict=True)]
            if any(kind == BOOL != part.dtype for kind, part in zip(probe, found, strict=True)):
                continue
            break
        except DefinitionError as error:
            first = error if first is None or probe == PROBES[:1] * count else first
    else:
        assert first is not None
        raise first
    types = [part.dtype for part in found]
    untold = [result.weak and border.weak for result, border in zip(results, borders, strict=True)]
    following = not all(untold)
    while following:
        _, results = body(types, untold)
        told = [place for place, result in enumerate(results) if untold[place] and not result.weak]
        for place in told:
            types[place], untold[place] = results[place].dtype, False
        following = bool(told)
    for _ in range(len(PROBES) * count):
        _, results = body(types)
        if all(result.weak or result.dtype == of for result, of in zip(results, types, strict=True)):
            return types
        types = [of if result.weak else result.dtype for result, of in zip(results, types, strict=True)]
    raise DefinitionError(f"the type of {what} depends on itself; give dtype=, and tl.cast the body to it")


def _guarded(expr: ir.Expr, scope: Scope, stage: Stage, borders: tuple[ir.Expr, ...]) -> ir.Expr:
    """The expression with every read of the tensors themselves under the conditions that keep it inside, where they do not always hold."""

    def inner(part: ir.Expr, here: Scope) -> ir.Expr:
        return _guarded(part, here, stage, borders)

    match expr:
        case Load(Itself(component=component), index):
            load = Load(expr.buffer, tuple(inner(part, scope) for part in index))
            tests = [test for part, extent in zip(index, stage.shape, strict=True) for test in _needed(part, extent, scope)]
            if not tests:
                return load
            return Select(functools.reduce(functools.partial(Binary, "and"), tests), load, borders[component])
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
    if stays_inside(index, extent, scope):
        return []
    pairs = (
        (Compare("ge", index, ir.const(0)), Compare("lt", index, ir.const(0))),
        (Compare("lt", index, extent), Compare("ge", index, extent)),
    )
    return [holds for holds, fails in pairs if find(*scope.facts(), fails) is not None]
