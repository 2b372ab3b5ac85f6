"""Integer sets: the only file that talks to islpy.

Every question the compiler asks ("can this index leave the tensor", "do two iterations touch one element in the wrong order") is one
question: is there an integer point at which a boolean `ir` expression holds? `find` answers it exactly for quasi-affine expressions
and returns the point, which becomes the concrete example in an error. `formula` spells the question: what is not affine (a loaded value,
a product of two axes) is an unknown of its own, equal expressions are equal unknowns, and each lies in the interval that `bounds` finds.
So an answer "no point" is always right, and a point may be spurious only where unknowns decide.

islpy is loaded on use: it costs import time, and most definitions are decided by intervals alone.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.formula import Formula
from tensorlang.ir import Axis, Dim, Expr, Select
from tensorlang.ir.traverse import walk
from tensorlang.system import forks
from tensorlang.system.interruptions import imported_whole

if TYPE_CHECKING:
    from types import ModuleType

MAX_OPERATIONS: Final = 500_000
_VARIABLE: Final = re.compile(r"\b[vh]\d+\b")
"""A variable of a formula, or a helper."""
Image: TypeAlias = tuple[Sequence[Expr], Sequence[tuple[Expr, Expr]]]
"""Facts of points, and pairs of which these points cover what they make equal."""


@cache
def _isl() -> ModuleType:
    with forks.loading:  # a thread may be here while another one forks
        return imported_whole("islpy")


class _Own(threading.local):
    context: Any = None


_own: Final = _Own()


def _context() -> Any:
    """The isl context of this thread, our own; its operation limit keeps a hostile formula from running for ever.

    Operations are counted for a context: what another thread asks must not decide whether a question is too large.
    """
    if _own.context is None:
        _own.context = _isl().Context()
        _own.context.set_max_operations(MAX_OPERATIONS)
    return _own.context


def find(*conditions: Expr, exact: Iterable[Expr] = ()) -> dict[Expr, int] | None:
    """An integer point at which all conditions hold, as a value for each axis, dim and unknown; None if there is none.

    The arithmetic of the expressions in `exact` is known not to wrap. The point is empty where the question is too large to decide within
    `MAX_OPERATIONS`: there may be one, and nobody knows it.
    """
    settled = frozenset(exact)
    formula = Formula(Bounds(exact=settled).under(conditions))
    parts = [formula.boolean(condition) for condition in conditions]
    point = _sample(formula, parts)
    if point and formula.products and (laws := formula.laws()):
        return _sample(formula, [*parts, *laws])
    return point


def _sample(formula: Formula, parts: list[str]) -> dict[Expr, int] | None:
    """A point of all parts and constraints, of those that share no variable each by itself: they are smaller, and asked again."""
    found: dict[str, int] = {}
    known = True
    for names, joint in _independent([*parts, *formula.constraints]):
        space, helpers = ([name for name in names if name[0] == kind] for kind in "vh")
        numbered = {name: f"{name[0]}{place}" for place, name in enumerate(names)}
        text = f"{{ [{', '.join(space)}] : {_exists(helpers, joint)} }}"
        point = _point_of(_VARIABLE.sub(lambda name: numbered[name[0]], text))  # noqa: B023 - called at once
        if point is None:
            return None
        known = known and len(point) == len(space)
        found |= zip(space, point, strict=False)
    return {expr: found.get(name, 0) for expr, name in formula.variables.items()} if known else {}


def _independent(parts: Iterable[str]) -> Iterable[tuple[list[str], list[str]]]:
    """The parts in groups that have no variable in common, each with its variables, in the order of their first."""
    groups: list[tuple[dict[str, None], list[str]]] = []
    for part in parts:
        names = dict.fromkeys(_VARIABLE.findall(part))
        met = [group for group in groups if not names.keys().isdisjoint(group[0])]
        if not met:
            groups.append((names, [part]))
            continue
        first, *others = met
        for group in others:
            first[0].update(group[0])
            first[1].extend(group[1])
            groups.remove(group)
        first[0].update(names)
        first[1].append(part)
    return [(list(names), joint) for names, joint in groups]


@lru_cache(maxsize=4096)
def _point_of(text: str) -> tuple[int, ...] | None:
    """A point of a set as isl spells it, by position; () where that takes too long to find, None where there is none.

    Kept, since strategies try many schedules of a program, and each step of each asks what the same step of another one asked before.
    """
    isl, context = _isl(), _context()
    context.reset_operations()
    try:
        found = isl.Set.read_from_str(context, text)
        if found.is_empty():
            return None
        point = found.sample_point()
    except isl.Error:
        return ()
    return _coordinates(point, found.dim(isl.dim_type.set))


def _coordinates(point: Any, count: int) -> tuple[int, ...]:
    """A point that was found, as numbers: to read it takes operations, too, of which those may be left that the search did not take."""
    _context().reset_operations()
    return tuple(int(point.get_coordinate_val(_isl().dim_type.set, place).to_python()) for place in range(count))


def _exists(names: Sequence[str], parts: Sequence[str]) -> str:
    """All of some conditions in isl's notation, for some values of the variables named."""
    joint = " and ".join(f"({part})" for part in parts) or "1 = 1"
    return f"exists ({', '.join(names)} : {joint})" if names else joint


def uncovered(wanted: Sequence[Expr], *images: Image) -> dict[Expr, int] | None:
    """A point that holds all of `wanted`, and for which no point that the facts of an image hold of makes its pairs equal; None if none is.

    The first of a pair speaks of the axes of `wanted`, the second of those of the facts; axes and dims that occur in both are the same.
    A fact of an image that is among `wanted` holds wherever it is asked for. What products of unknowns or data decide is left out of
    `wanted`, which then asks for more than there is. The answer is empty where it cannot be decided: where that is too much, where data
    decide what an image reaches, or where the question is too large.
    """
    limits = Bounds().under(wanted)
    affine = [fact for fact in wanted if _is_affine(Formula(limits), fact)]
    here = Formula(limits)
    parts = [here.boolean(fact) for fact in affine]
    images = tuple(([fact for fact in facts if fact not in wanted], equal) for facts, equal in images)
    told = (expr for facts, equal in images for expr in (*facts, *itertools.chain(*equal)))
    for dim in dict.fromkeys(part for expr in told for part in walk(expr) if isinstance(part, Dim)):
        here.variable(dim)
    for axis in dict.fromkeys(part for expr in (*wanted, *(left for _, equal in images for left, _ in equal)) for part in walk(expr)):
        if isinstance(axis, Axis):
            here.variable(axis)
    reached = [_reached(here, *image) for image in images]
    if None in reached:
        return {}
    space = ", ".join(here.variables.values())
    asked = (f"{{ [{space}] : {text} }}" for text in (_exists(here.helpers, [*parts, *here.constraints]), *filter(None, reached)))
    point = _point_outside(*asked)
    if point is None:
        return None
    return dict(zip(here.variables, point, strict=True)) if point and len(affine) == len(wanted) else {}


@lru_cache(maxsize=4096)
def _point_outside(wanted: str, *reached: str) -> tuple[int, ...] | None:
    """A point of a set that is in none of some others, as isl spells them; () and None as `_point_of` has it, and as it is kept there."""
    isl, context = _isl(), _context()
    context.reset_operations()
    try:
        left = isl.Set.read_from_str(context, wanted)
        for covered in reached:
            left = left.subtract(isl.Set.read_from_str(context, covered))
        if left.is_empty():
            return None
        point = left.sample_point()
    except isl.Error:
        return ()
    return _coordinates(point, left.dim(isl.dim_type.set))


def _reached(here: Formula, facts: Sequence[Expr], equal: Sequence[tuple[Expr, Expr]]) -> str | None:
    """What holds of the variables of `here` where a point that facts hold of makes pairs equal; None where data decide."""
    image = Formula(Bounds().under(facts))
    image.variables = dict(here.variables)
    some = [image.boolean(fact) for fact in facts] + [f"{image.integer(left)} = {image.integer(right)}" for left, right in equal]
    if not _holds_no_unknowns(image):
        return None
    own = [name for part, name in image.variables.items() if part not in here.variables]
    return _exists([*own, *image.helpers], [*some, *image.constraints])


def _is_affine(formula: Formula, fact: Expr) -> bool:
    formula.boolean(fact)
    return _holds_no_unknowns(formula)


def _holds_no_unknowns(formula: Formula) -> bool:
    """Does a formula speak of axes, dims and choices alone, without products of these and without data?"""
    return not formula.products and all(isinstance(part, (Axis, Dim, Select)) for part in formula.variables)
