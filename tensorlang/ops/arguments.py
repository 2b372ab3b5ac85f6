"""What operator definitions ask of their arguments, and the refusals in one wording: operator, what is wrong, the tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import numpy as np

from tensorlang.definition.expr import Expr, ExprLike, cast
from tensorlang.definition.extent import Extent, choice
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.definitions import compute
from tensorlang.language.reduction import accumulator


def need(op: str, what: str, tensor: object, *ranks: int, least: int | None = None) -> Tensor:
    """`tensor`, if it is one and has one of `ranks` axes (or at least `least`)."""
    if not isinstance(tensor, Tensor):
        raise DefinitionError(f"{op}: {what} must be a tensor, not {tensor!r:.60}")
    fits = tensor.ndim >= least if least is not None else tensor.ndim in ranks
    if not fits:
        wanted = f"at least {least}" if least is not None else " or ".join(map(str, ranks))
        raise DefinitionError(f"{op}: {what} has {wanted} axes, but is {tensor!r}")
    return tensor


def agree(op: str, what: str, left: Tensor, left_axis: int, right: Tensor, right_axis: int) -> Extent:
    """The extent that an axis of one tensor shares with an axis of another."""
    a, b = left.shape[left_axis], right.shape[right_axis]
    if a != b:
        raise DefinitionError(f"{op}: {what} differ: {a} in axis {left_axis} of {left!r}, {b} in axis {right_axis} of {right!r}")
    return a


def pair(op: str, what: str, value: object, least: int) -> tuple[int, int]:
    """One or two ints of at least `least`, as (vertical, horizontal)."""
    entries = (value, value) if isinstance(value, int) else value
    if isinstance(entries, (tuple, list)) and len(entries) == 2:
        down, across = entries
        if all(isinstance(entry, int) and not isinstance(entry, bool) and entry >= least for entry in (down, across)):
            return down, across
    raise DefinitionError(f"{op}: {what} must be an int or a pair of ints, each at least {least}, not {value!r:.60}")


def literal(op: str, what: str, extent: Extent) -> int:
    """An extent that has to be known when the operator is defined."""
    if not isinstance(extent, int):
        raise DefinitionError(f"{op}: {what} must be an int, not the dim {extent!r}")
    return extent


def whole_axis(op: str, axis: object, tensor: Tensor) -> int:
    """`axis`, counted from the front."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -tensor.ndim <= axis < tensor.ndim:
        raise DefinitionError(f"{op}: axis {axis!r} is none of the {tensor.ndim} axes of {tensor!r}")
    return axis % tensor.ndim


def one_of(op: str, what: str, value: object, *known: str) -> str:
    """A choice among words."""
    return choice(value, f"{op}: {what}", known)


def flag(op: str, what: str, value: object) -> bool:
    """True or False, NumPy's included. Raises `DefinitionError` for anything else, such as a word that would count as True."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise DefinitionError(f"{op}: {what} must be True or False, not {value!r:.60}")


def define(shape: Sequence[Extent], names: Sequence[str], body: Callable[[tuple[Expr, ...]], ExprLike], name: str | None) -> Tensor:
    """`compute` over a number of axes known only here: `body` takes their tuple, `names` are their names."""

    def element(*axes: Expr) -> ExprLike:
        return body(axes)

    parameters = [inspect.Parameter(axis, inspect.Parameter.POSITIONAL_ONLY) for axis in names]
    element.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    result: Tensor = compute(tuple(shape), element, name=name)
    return result


def index_names(rank: int) -> tuple[str, ...]:
    """Names for the axes of a tensor of any rank: i, j or i0, i1, ..."""
    return ("i", "j")[:rank] if rank <= 2 else tuple(f"i{n}" for n in range(rank))


def wide(value: Expr) -> Expr:
    """Half precision as float32, other types as they are: what a formula of several steps is computed in."""
    return cast(value, accumulator(value.dtype)) if value.dtype.is_floating else value


def floating(op: str, what: str, tensor: Tensor) -> None:
    """Refuse a tensor whose elements are not floating point."""
    if not tensor.dtype.is_floating:
        raise DefinitionError(f"{op}: {what} must be floating point, but is {tensor!r}; convert it with tl.cast")
