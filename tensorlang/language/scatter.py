"""`scatter`: a tensor with values combined into it at computed indices: histograms, scatter-add, permutations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorlang import ir
from tensorlang.checks.reads import checked_scatter
from tensorlang.definition.expr import Expr, as_expr, common, condition
from tensorlang.definition.extent import optional_name
from tensorlang.definition.tensor import ReduceAxis, Scatter, Tensor, enclosing, index_parts, serial
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import BOOL, DType, promote
from tensorlang.language.definitions import require_takes
from tensorlang.language.reduction import single

KINDS: Final = ("add", "min", "max", "set")


def scatter(
    init: Tensor,
    axes: ReduceAxis | tuple[ReduceAxis, ...],
    index: Callable[..., Any],
    value: Callable[..., Any],
    reduce: str = "add",
    where: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Tensor:
    """`init` with `value(*axes)` combined into its element `index(*axes)`, for all `axes` where `where(*axes)` holds.

    `axes` are reduction axes; `index` gives one integer for each axis of `init`. `reduce` is "add", "min", "max", or "set", which stores in
    row-major order of `axes`. Arithmetic is in the type of `init`.
    Raises `DefinitionError` where an index is not provably inside `init` (use `tl.clamp`, or `where` on the same expression).
    """
    label = optional_name(name, "a tensor")
    what = f"tensor {label}" if label else "a scatter"
    if not isinstance(init, Tensor):
        raise DefinitionError(f"init of {what} must be a tensor, not {init!r:.60}")
    over = axes if isinstance(axes, (tuple, list)) else (axes,)
    names = {axis.axis.name for axis in over if isinstance(axis, ReduceAxis)}
    if not over or len(names) != len(over):
        raise DefinitionError(f"axes of {what} must be one or more different axes made by tl.reduce_axis")
    found = _called(index, over, f"index of {what}")
    parts = index_parts(repr(init), init.ndim, tuple(found) if isinstance(found, (tuple, list)) else (found,))
    element = _typed(as_expr(_called(value, over, f"value of {what}")), init, what)
    cond = None if where is None else condition(_called(where, over, f"where= of {what}"), f"where= of {what}")
    test = None if cond is None else cond.node
    nodes = tuple(part.node for part in parts)
    ranges = tuple(axis.axis for axis in over)
    around = enclosing(*nodes, element.node, test, *(bound for axis in ranges for bound in (axis.lo, axis.hi)))
    made = Scatter(label, init, ranges, nodes, element.node, test, scatter_reducer(reduce, init.dtype), serial(), around)
    return Tensor(checked_scatter(made))


def scatter_reducer(kind: object, of: DType) -> ir.Reducer | None:
    """The reducer of a kind of scatter; None for "set". Raises `DefinitionError` for another kind."""
    if not isinstance(kind, str) or kind not in KINDS:
        hint = "; products of what is above 0 are tl.exp of sums of logarithms" if kind in ("mul", "prod", "multiply") else ""
        raise DefinitionError(f"reduce={kind!r:.60} is not one of {', '.join(KINDS)}{hint}")
    if kind == "set":
        return None
    if of == BOOL:
        raise DefinitionError(f'a scatter into bool can only "set", not {kind!r}')
    if kind == "add":
        return single("sum", "add", 0.0 if of.is_floating else 0, of)
    return single(str(kind), str(kind), of.highest if kind == "min" else of.lowest, of)


def _typed(value: Expr, init: Tensor, what: str) -> Expr:
    """The value in the type of `init`."""
    literal = value.weak and value.dtype.is_integer and init.dtype != BOOL
    if not literal and promote(value.dtype, init.dtype) is None:
        raise DefinitionError(
            f"the value of {what} is {value!r} ({value.dtype}), of another kind than {init!r}; "
            f'write tl.cast(..., "{init.dtype}") for the value, or make {init.name or "init"} of {value.dtype}'
        )
    (element, _), _ = common(f"the value of {what}", value, Expr(ir.Load(init, ())))
    if element.dtype != init.dtype:
        raise DefinitionError(f'the value of {what} is {element.dtype} and {init!r} is narrower; write tl.cast(..., "{init.dtype}")')
    return element


def _called(fn: Callable[..., Any], axes: tuple[ReduceAxis, ...], what: str) -> Any:
    require_takes(fn, axes, f"{what} must be a function of the {len(axes)} axes")
    return fn(*axes)
