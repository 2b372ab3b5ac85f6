"""The checks that make a definition mean something, made when it is written: axes it owns, reads inside their tensors.

Most reads are proved by intervals, with what the conditions say of the expressions that they compare; the rest go to `polyhedra.find`, and
where that is not sure, to a look at every point. An example in an error is one that `counterexample` has seen to occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import is_
from typing import Final

from tensorlang import ir
from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.ranges import is_fixed, is_limited
from tensorlang.algebra.simplify import simplify
from tensorlang.checks.elements import element_facts, within_elements
from tensorlang.checks.proof import possible, witness
from tensorlang.checks.question import Question, Witness
from tensorlang.definition.extent import dims_in
from tensorlang.definition.scope import Scope, not_before, scoped, stage_scope
from tensorlang.definition.tensor import Itself, Scatter, Stage, Tensor
from tensorlang.errors import DefinitionError
from tensorlang.ir import Axis, Binary, Compare, Const, Dim, Expr, Load, Reduce
from tensorlang.ir.linear import Linear, linear
from tensorlang.ir.printer import spoken, text
from tensorlang.ir.traverse import reads_data, rewrite, walk

LONGEST: Final = 240
"""Letters of a read in a message."""


def checked_stage(stage: Stage) -> Stage:
    """The stage, its indices within what the elements of tensors can be where that alone keeps them inside.

    Raises `DefinitionError` where it uses an axis that it does not own, can read outside a tensor, or its own later elements.
    """
    what = stage.name or "the tensor"
    values = tuple(checked_expression(what, value, stage_scope(stage), stage) for value in stage.values)
    return stage if all(map(is_, values, stage.values)) else replace(stage, values=values)


def checked_scatter(scatter: Scatter) -> Scatter:
    """The same of a scatter, which writes inside as well."""
    what = scatter.name or "the tensor"
    scope = Scope(tuple((axis.name, axis.lo, axis.hi) for axis in scatter.within))
    axes = list[ir.ReduceAxis]()
    for axis in scatter.axes:
        lo, hi = (checked_expression(what, bound, scope) for bound in (axis.lo, axis.hi))
        axes.append(replace(axis, lo=lo, hi=hi))
        check_limits(what, (axis,))
        scope = scope.over((axis,))
    where = None if scatter.where is None else checked_expression(what, scatter.where, scope)
    if scatter.where is not None:
        scope = scope.where(scatter.where)
    index = tuple(checked_expression(what, part, scope) for part in scatter.index)
    value = checked_expression(what, scatter.value, scope)
    kept = _kept_inside(what, "writes", Load(scatter.init, index), scatter.init.extents, scope)
    index = tuple(within_elements(part) if place in kept else part for place, part in enumerate(index))
    return replace(scatter, axes=tuple(axes), where=where, index=index, value=value)


def checked_expression(what: str, value: Expr, scope: Scope, stage: Stage | None = None) -> Expr:
    """The expression, which is meant as `checked_stage` has it; `stage` may be a recurrence.

    Raises `DefinitionError` where it has no meaning within the scope.
    """
    nodes = list(scoped(value, scope))
    for node, here in nodes:
        if isinstance(node, Axis) and all(node.name != name for name, _, _ in here.ranges):
            own = ", ".join(spoken(name) for name, _, _ in scope.ranges) or "its own"
            raise DefinitionError(
                f"{what} uses the axis {spoken(node.name)!r}, which it does not own; "
                f"reduce over it (tl.sum(..., axis={spoken(node.name)})) or use one of {own}"
            )
        if isinstance(node, Reduce):
            check_limits(what, node.axes)
    dims_in(part for part in _with_dims([node for node, _ in nodes], scope) if not isinstance(part, Const))
    kept: set[tuple[int, int]] = set()
    for node, here in nodes:
        match node:
            case Load(Tensor() as tensor):
                kept.update((id(tensor), place) for place in _kept_inside(what, "reads", node, tensor.extents, here))
            case Load(Itself()) if stage is not None:
                kept.update((id(node.buffer), place) for place in _kept_inside(what, "reads", node, stage.shape, here))
                kept.update((id(node.buffer), place) for place in _kept_earlier(what, stage, node, here))

    def written(node: Expr) -> Expr:
        if not isinstance(node, Load) or not any((id(node.buffer), place) in kept for place in range(len(node.index))):
            return node
        index = (within_elements(part) if (id(node.buffer), place) in kept else part for place, part in enumerate(node.index))
        return Load(node.buffer, tuple(index))

    return rewrite(value, written) if kept else value


def check_limits(what: str, axes: tuple[ir.ReduceAxis, ...]) -> None:
    """Raise `DefinitionError` for an axis of `what` whose range could be anything."""
    for axis in axes:
        if not is_limited(axis):
            bounds = f"({text(axis.lo)}, {text(axis.hi)})"
            raise DefinitionError(
                f"{what} runs {spoken(axis.name)!r} over {bounds}, which data alone limits; "
                "give the range that it never leaves: tl.reduce_axis(..., within=n)"
            )


def _with_dims(nodes: list[Expr], scope: Scope) -> Iterator[Expr]:
    """What may speak of dims: the bounds of axes, dims themselves, and the shapes of what is read."""
    for _, lo, hi in scope.ranges:
        yield from (lo, hi)
    for node in nodes:
        match node:
            case Load(Tensor() as tensor):
                yield from tensor.extents
            case Reduce(axes=axes):
                yield from (bound for axis in axes for bound in (axis.lo, axis.hi))
            case Dim():
                yield node


def _kept_earlier(what: str, stage: Stage, load: Load, scope: Scope) -> set[int]:
    """The axes on which what elements of tensors can be makes a read earlier. Raises `DefinitionError` where it may not be."""

    def later(index: tuple[Expr, ...], *facts: Expr) -> Question:
        return Question(scope.ranges, (*scope.conditions, *facts, not_before(index, stage.axes)), index, stage.shape)

    if possible(later(load.index)) is None:
        return set()
    within = tuple(map(within_elements, load.index))
    if within != load.index and possible(later(within)) is None:
        return {place for place, part in enumerate(load.index) if part != within[place]}
    question = later(load.index, *(fact for part in load.index for fact in element_facts(part)))
    point, spelled = possible(question), _told(load)
    hint = "a recurrence may read elements that come earlier in row-major order, so restrict the read with tl.select or where="
    found = None if point is None else witness(question, point)
    if found is None:
        raise DefinitionError(f"{what} reads {spelled}, which cannot be proved to be earlier; {hint}")
    written = ", ".join(str(found.point[axis]) for axis in stage.axes)
    raise DefinitionError(
        f"{what} reads {spelled}, which is {what}[{', '.join(map(str, found.value))}] while {what}[{written}] is computed; {hint}"
    )


def _kept_inside(what: str, does: str, load: Load, shape: tuple[Expr, ...], scope: Scope) -> set[int]:
    """The axes on which an index is inside because of what elements of tensors can be. Raises `DefinitionError` where it may be outside."""
    kept = set[int]()
    for position, (index, extent) in enumerate(zip(load.index, shape, strict=True)):
        if stays_inside(index, extent, scope):
            continue
        if possible(_outside_of(index, extent, shape, scope)) is None:
            continue
        within = within_elements(index)
        if within != index and (stays_inside(within, extent, scope) or possible(_outside_of(within, extent, shape, scope)) is None):
            kept.add(position)
            continue
        question = _outside_of(index, extent, shape, scope, element_facts(index))
        point = possible(question)
        raise DefinitionError(_outside(what, does, load, position, question, None if point is None else witness(question, point)))
    return kept


def _outside_of(index: Expr, extent: Expr, shape: tuple[Expr, ...], scope: Scope, facts: tuple[Expr, ...] = ()) -> Question:
    """Can an index be outside, where facts hold as well?"""
    outside = Binary("or", Compare("lt", index, ir.const(0)), Compare("ge", index, extent))
    extents = (*shape, *(hi for _, _, hi in scope.ranges if is_fixed(hi)))
    return Question(scope.ranges, (*scope.conditions, *facts, outside), (index,), extents)


def _told(load: Load) -> str:
    """A read as it is written, the middle of a long one left out."""
    spelled = text(load)
    return spelled if len(spelled) <= LONGEST else f"{spelled[: LONGEST // 2]} ... {spelled[-LONGEST // 4 :]}"


def _outside(what: str, does: str, load: Load, position: int, question: Question, found: Witness | None) -> str:
    """The message for an index that can be outside, with the example that was seen if there is one."""
    spelled, index = f"{what} {does} {_told(load)}", load.index[position]
    tensor = repr(load.buffer) if isinstance(load.buffer, Tensor) else "itself"
    told = [name for name, lo, hi in question.ranges if Axis(name) in walk(index) and not (is_fixed(lo) and is_fixed(hi))]
    counted = _counted_back(index, question.extents[position])
    if counted:
        return f"{spelled} outside {tensor}: {counted}"
    limit = f"limit {spoken(told[0])} with tl.reduce_axis(..., within={text(question.extents[position])}), " if told else ""
    if found is None:
        return f"{spelled} of {tensor}, and axis {position} cannot be proved to stay inside; {limit}{_hint(does, index)}"
    axes = [name for name, _, _ in question.ranges]
    shown = [name for name in (*axes, *(name for name in found.point if name not in axes)) if _matters(name, question)]
    at = [f"{spoken(name)} = {found.point[name]}" for name in shown]
    at += [f"{element} = {value}" for element, value in found.data.items()]
    verb, hint = "read" if does == "reads" else "written", _hint(does, index, [name for name in shown if name not in axes])
    place = f"at {', '.join(at)}" if at else "for some data" if reads_data(index) else "at every point"
    return f"{spelled} outside {tensor}: {place}, axis {position} is {verb} at {found.value[0]}; {limit}{hint}"


def _counted_back(index: Expr, extent: Expr) -> str:
    """What is told of a literal below 0; nothing of any other index."""
    index = simplify(index)
    if not isinstance(index, Const) or index.value >= 0:
        return ""
    return f"indices do not count from the end; {text(simplify(Binary('add', extent, index)))} is that element"


def _matters(name: str, question: Question) -> bool:
    told = [*question.told()]
    told += [bound for axis, lo, hi in question.ranges if any(Axis(axis) in walk(expr) for expr in told) for bound in (lo, hi)]
    return any(isinstance(node, (Axis, Dim)) and node.name == name for expr in told for node in walk(expr))


def _hint(does: str, index: Expr, dims: Sequence[str] = ()) -> str:
    if does == "writes":
        return "keep the index inside with tl.clamp, or write under where= with a condition on it"
    if reads_data(index):
        return "keep a data-dependent index inside with tl.clamp, or read under a condition on the same expression"
    bound = f"bound the dim, as in tl.dim({dims[0]!r}, least, most), " if dims else ""
    return f"read it under tl.select with a condition, restrict the axis, {bound}or pad the tensor with tl.pad"


def stays_inside(index: Expr, extent: Expr, scope: Scope) -> bool:
    """Do intervals alone, of the axes and of what the conditions compare, keep `index` in `range(extent)`?"""
    if isinstance(index, Axis) and any(name == index.name and lo == ir.const(0) and hi == extent for name, lo, hi in scope.ranges):
        return True
    ranges: dict[Expr, tuple[int, int]] = {}
    for name, lo, hi in scope.ranges:
        if isinstance(lo, Const) and isinstance(hi, Const):
            if lo.value >= hi.value:
                return True
            ranges[Axis(name)] = (int(lo.value), int(hi.value) - 1)
    bounds = Bounds(ranges)
    most = bounds.values(extent)[0]
    low, high = bounds.values(index)
    if low < 0 or high >= most:
        low, high = spread(linear(index), bounds)
    if (low < 0 or high >= most) and scope.conditions:
        bounds = bounds.under(scope.conditions)
        most = bounds.values(extent)[0]
        low, high = bounds.values(index)
    return low >= 0 and high < most


def spread(form: Linear, bounds: Bounds) -> tuple[int, int]:
    """The values of an ideal linear form: one that is inside a tensor did not wrap either."""
    low = high = form.constant
    for atom, factor in form.terms.items():
        least, most = bounds.values(atom)
        low += factor * (least if factor > 0 else most)
        high += factor * (most if factor > 0 else least)
    return low, high
