"""Which elements of a tensor are read: orders of indices that hold wherever it is.

    for i in range(64):
        for j in range(64):
            if j <= i:                          of S the elements with `j - i - 1 < 0`, where i and j are the coordinates of the element
                m[i] = max(m[i], S[i, j])

Each is a linear form that is below 0 at every read. Conditions that data decide, and those of loops that the element does not tell, say
nothing here, so elements may be left that nobody reads; none that somebody reads is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tensorlang.algebra.bounds import conjuncts
from tensorlang.ir import Alloc, Axis, Buffer, Compare, Expr, For, Nest, Store
from tensorlang.ir.linear import Linear, below_zero, expression, linear
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, reads_data
from tensorlang.schedules.legality.accesses import Access
from tensorlang.schedules.rewriting.edit import loops_on, path_to
from tensorlang.schedules.rewriting.region import expand

Forms = dict[frozenset[tuple[Expr, int]], int]
"""Linear forms that are below 0: the terms of each with its constant."""


def read_where(nest: Nest, buffer: Buffer, found: Sequence[Access]) -> Forms:
    """Forms over the coordinates of an element of `buffer`, and the loops around its storage, below 0 at each of its reads.

    `found` are the accesses of the nest; a sum that adds to an element does not count as a read of it.
    """
    home = path_to(nest.body, lambda part: isinstance(part, Alloc) and buffer in part.buffers, {buffer.name})
    around = frozenset(loop.loop for loop in loops_on(home))
    each = [_of_read(nest, read, around) for read in found if read.buffer == buffer and not read.writes]
    return common(each)


def written_where(nest: Nest, forms: Forms, store: Store, around: Sequence[For]) -> Forms:
    """The forms of an element, at the one that a statement inside the loops `around` writes: over these loops."""
    names = [loop.loop for loop in around]
    at: dict[Expr, Linear] = {coordinate(place): linear(expand(nest, part, names)) for place, part in enumerate(store.index)}
    result: Forms = {}
    for terms, constant in forms.items():
        form = Linear(constant)
        for atom, factor in terms:
            form = form.plus(at.get(atom, Linear(0, {atom: 1})), factor)
        _add(result, form)
    return result


def common(each: Collection[Forms]) -> Forms:
    """What is below 0 wherever one of several lots of forms is: forms that all have, with the least constant."""
    first, *others = each or [{}]
    return {terms: min(lot[terms] for lot in (first, *others)) for terms in first if all(terms in lot for lot in others)}


def orders(nest: Nest, condition: Expr, names: Iterable[str]) -> Forms:
    """The forms over the loops `names` that a condition says are below 0."""
    found: Forms = {}
    for part in conjuncts((condition,)):
        for form in () if reads_data(part) else filter(None, map(below_zero, _sides(part))):
            _add(found, linear(expand(nest, expression(form), names)))
    return found


def coordinate(place: int) -> Axis:
    """The coordinate of an element along a dimension, as an axis that no loop has."""
    return Axis(f"element.{place}")


def _of_read(nest: Nest, read: Access, around: frozenset[str]) -> Forms:
    names = [loop.loop for loop in read.loops]
    index = [linear(expand(nest, part, names)) for part in read.index]
    found: Forms = {}
    for condition in read.conditions:
        for terms, constant in orders(nest, condition, names).items():
            form = _of_element(nest, Linear(constant, dict(terms)), index, around)
            if form is not None:
                _add(found, form)
    return found


def _of_element(nest: Nest, form: Linear, index: Sequence[Linear], around: frozenset[str]) -> Linear | None:
    """A form over loops as one over coordinates and the loops `around` alone, by whole multiples of indices; None where there is none."""
    for place, part in enumerate(index):
        moving = next((atom for atom in part.terms if not _is_fixed(nest, atom, around)), None)
        factor = 0 if moving is None else form.terms.get(moving, 0)
        if moving is not None and factor % part.terms[moving] == 0:
            form = form.plus(part, -factor // part.terms[moving]).plus(Linear(0, {coordinate(place): factor // part.terms[moving]}))
    coordinates = {coordinate(place) for place in range(len(index))}
    return form if all(atom in coordinates or _is_fixed(nest, atom, around) for atom in form.terms) else None


def _is_fixed(nest: Nest, atom: Expr, around: Collection[str]) -> bool:
    return closure(nest, axes_of(atom)) <= set(around)


def _sides(condition: Expr) -> tuple[Expr, ...]:
    """A condition; an equation as both orders."""
    match condition:
        case Compare("eq", left, right):
            return Compare("le", left, right), Compare("ge", left, right)
        case _:
            return (condition,)


def _add(forms: Forms, form: Linear) -> None:
    terms = frozenset(form.terms.items())
    forms[terms] = max(form.constant, forms.get(terms, form.constant))
