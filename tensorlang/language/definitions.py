"""How definitions are written: `placeholder`, `compute`, `reduce_axis`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.checks.reads import checked_stage
from tensorlang.definition.expr import Expr, as_expr
from tensorlang.definition.extent import Bound, Extent, checked_name, optional_name, shape_nodes
from tensorlang.definition.tensor import Placeholder, ReduceAxis, Stage, Tensor, enclosing, fresh_axis, serial
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import dtype
from tensorlang.language.domain import bounds_of
from tensorlang.language.parts import body


def placeholder(shape: object, dtype: object = "float32", name: str | None = None) -> Tensor:
    """An argument of the kernel, of the given shape (ints and dims) and type.

    Raises `DefinitionError` for a bad extent, type or name.
    """
    label = optional_name(name, "a tensor")
    return Tensor(Placeholder(label, shape_nodes(shape, f"placeholder {label or ''}".strip()), _dtype(dtype), serial()))


_dtype = dtype


def compute(shape: object, fn: Callable[..., Any], name: str | None = None) -> Any:
    """The tensor whose element at each index is `fn(*index)`; a tuple of tensors where `fn` returns a tuple.

    `shape` is a tuple of ints and dims; `fn` takes one parameter for each axis, which names it (`*i`: `i0`, `i1`, ...).
    Raises `DefinitionError` where the expression can read outside a tensor, uses an axis it does not own, or mixes kinds.
    """
    label = optional_name(name, "a tensor")
    what = f"tensor {label}" if label else "a tensor"
    extents = shape_nodes(shape, what)
    axes = tuple(fresh_axis(axis) for axis in parameters(fn, len(extents), what))
    with body(axes, extents) as parts:
        result = fn(*(Expr(ir.Axis(axis)) for axis in axes))
    if isinstance(result, Tensor):
        raise DefinitionError(f"the body of {what} is {result!r} itself; index it, as in A[{', '.join('ijklmn'[: result.ndim])}]")
    values = tuple(as_expr(value) for value in (result if isinstance(result, tuple) else (result,)))
    if not values:
        raise DefinitionError(f"the body of {what} returns an empty tuple; return at least one expression")
    nodes = tuple(parts.written(value.node) for value in values)
    stage = Stage(label, axes, extents, nodes, serial(), within=enclosing(*nodes))
    stage = checked_stage(stage)
    tensors = tuple(Tensor(stage, component) for component in range(len(values)))
    return tensors if isinstance(result, tuple) else tensors[0]


def parameters(fn: Callable[..., Any], rank: int, what: str) -> tuple[str, ...]:
    """The names of the `rank` parameters of a body. Raises `DefinitionError` where it takes another number of them."""
    if not callable(fn):
        raise DefinitionError(f"the body of {what} must be a function of its axes, not {fn!r:.60}")
    names: list[str] = []
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:  # what is written in C need not say
        raise DefinitionError(f"the parameters of the body of {what}, {fn!r:.60}, are not known; wrap it in a lambda") from error
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{n}" for n in range(rank - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.default is parameter.empty:
            names.append(checked_name(parameter.name, "an axis"))
    if len(names) != rank:
        raise DefinitionError(f"{what} has {rank} axes but its body takes {len(names)} parameters ({', '.join(names) or 'none'})")
    return tuple(names)


def require_takes(fn: Callable[..., Any], given: Sequence[object], what: str) -> None:
    """Raise `DefinitionError` where a function cannot be called with so many arguments: "`what`, not ..."."""
    try:
        inspect.signature(fn).bind(*given)
    except (TypeError, ValueError) as error:  # what is written in C need not say what it takes
        raise DefinitionError(f"{what}, not {fn!r:.60} ({error})") from None


def reduce_axis(
    domain: Bound | tuple[Bound, Bound], name: str | None = None, within: Extent | tuple[Extent, Extent] | None = None
) -> ReduceAxis:
    """A reduction axis over `range(domain)`, or over `range(lo, hi)` for a pair; it is empty where `hi <= lo`.

    A bound is an extent, or an integer expression: `reduce_axis((ptr[i], ptr[i + 1]))`, made in the body where `i` is in scope. `within` is
    a range of extents that the axis never leaves, whatever the data says.
    Raises `DefinitionError` for a domain that is none, and for a bound that is no integer, holds a reduction or reads a recurrence itself.
    """
    lo, hi = bounds_of(domain, within)
    label = "" if name is None else checked_name(name, "a reduction axis")
    return ReduceAxis(ir.ReduceAxis(fresh_axis(label), simplify(lo.node), simplify(hi.node)), (lo, hi))
