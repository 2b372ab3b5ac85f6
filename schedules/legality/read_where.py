"""Which elements of a tensor are read: orders of indices that hold wherever it is.

    for i in range(64):
        for j in range(64):
            if j <= i:                          of S the elements with `j - i - 1 < 0`, where i and j are the coordinates of the element
                m[i] = max(m[i], S[i, j])

Each is a linear form that is below 0 at every read. Conditions that data decide, and those of loops that the element does not tell, say
nothing here, so elements may be left that nobody reads; none that somebody reads is missing.

Of a state of which steps write one copy after the other (`turns`) forms speak of the step that wrote an element, too: the next one reads
it, and what comes behind the steps reads what the last ones wrote.

    for t in range(200):
        for j in range(201):
            S[(t + 1) % 2, j] = select(j <= 199 - t, f(S[t % 2, j + 1], ...), 0.0)      of elements of step t those with `j + t - 200 < 0`

What a step reads only for elements that nobody reads does not count. So an order that chooses what a state becomes is one of them, too,
if it holds at all that is read for elements at which it holds, and behind the last step (an induction from there): `S[t % 2, j]` in place
of 0.0 reads every element, and of those with `j > 199 - t` nothing is read in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tensorlang.algebra.bounds import conjuncts, negated
from tensorlang.algebra.polyhedra import find
from tensorlang.ir import Alloc, Axis, Binary, Buffer, Compare, Const, Expr, For, Nest, Select, Store, const
from tensorlang.ir.linear import Linear, below_zero, expression, linear
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, reads_data, walk
from tensorlang.schedules.legality.accesses import Access
from tensorlang.schedules.legality.in_bounds import place_facts
from tensorlang.schedules.rewriting.edit import loops_on, path_to, path_to_store, stores
from tensorlang.schedules.rewriting.region import expand

Forms = dict[frozenset[tuple[Expr, int]], int]
"""Linear forms that are below 0: the terms of each with its constant."""


class Turns(NamedTuple):
    """A loop whose iterations write the copies of a state in turn, at `place`, the loop and a number modulo so many `copies`."""

    loop: For
    place: Expr
    copies: int


def read_where(nest: Nest, buffer: Buffer, found: Sequence[Access], turns: Turns | None = None) -> Forms:
    """Forms over the coordinates of an element of `buffer`, and the loops around its storage, below 0 at each of its reads.

    `found` are the accesses of the nest; a sum that adds to an element does not count as a read of it. With `turns` the forms are of
    elements that an iteration of that loop writes, and speak of it.
    """
    around = frozenset(loop.loop for loop in _loops_around(nest, buffer))
    reads = [read for read in found if read.buffer == buffer and not read.writes]
    if turns is None:
        return common([_of_read(nest, read, around) for read in reads])
    later = [read for read in reads if turns.loop in read.loops]
    last = max((access.position for access in found if turns.loop in access.loops), default=0)
    behind = [read for read in reads if turns.loop not in read.loops and read.position > last]

    def kept(forms: Forms) -> Forms:
        return {
            terms: constant
            for terms, constant in forms.items()
            if all(_holds(nest, Linear(constant, dict(terms)), read, turns) for read in behind)
        }

    forms = kept(common([_of_later_read(nest, read, around, turns) for read in later]))
    return _inductive(nest, buffer, later, kept(_chosen(nest, buffer, around, turns)), turns) | forms


def turns_of(nest: Nest, loop: For, buffer: Buffer) -> Turns | None:
    """The loop around another one that takes turns with the copies of a tensor; None where each iteration writes the same one."""
    around = loops_on(path_to(nest.body, lambda part: part is loop, {loop.loop}))[:-1]
    outside = _loops_around(nest, buffer)
    written = {store.index[0] for store in stores(loop.body) if buffer in store.buffers and store.index}
    if len(written) != 1 or len(around) <= len(outside) or around[: len(outside)] != outside:
        return None
    steps, (index,) = around[len(outside)], written
    match index:
        case Binary("mod", inner, Const(int(copies))) if dict(linear(inner).terms) == {Axis(steps.loop): 1}:
            return Turns(steps, index, copies)
        case _:
            return None


def copies_apart(one: Expr, other: Expr) -> int | None:
    """How many copies of a state `(t + 1) % 3` is ahead of `t % 3`, which takes turns with it; None for other indices."""
    match one, other:
        case Binary("mod", a, Const(int(copies))), Binary("mod", b, Const(count)) if copies == count:
            apart = linear(Binary("sub", a, b))
            return None if apart.terms else apart.constant % copies
        case _:
            return None


def _loops_around(nest: Nest, buffer: Buffer) -> tuple[For, ...]:
    """The loops around the storage of a tensor."""
    return loops_on(path_to(nest.body, lambda part: isinstance(part, Alloc) and buffer in part.buffers, {buffer.name}))


def _of_later_read(nest: Nest, read: Access, around: frozenset[str], turns: Turns) -> Forms:
    """The forms of a read, over the iteration that wrote what is read; none where that is not an earlier one for sure."""
    later = copies_apart(turns.place, read.index[0])
    step, result = Axis(turns.loop.loop), dict[frozenset[tuple[Expr, int]], int]()
    if later:
        for terms, constant in _of_read(nest, read, around | {turns.loop.loop}).items():
            _add(result, Linear(constant + dict(terms).get(step, 0) * later, dict(terms)))
    return result


def _chosen(nest: Nest, buffer: Buffer, around: frozenset[str], turns: Turns) -> Forms:
    """The orders that choose what an element of a state becomes, over its coordinates and the step that writes it."""
    result: Forms = {}
    for store in stores(turns.loop.body):
        if buffer in store.buffers:
            choices = dict.fromkeys(part.cond for value in store.values for part in walk(value) if isinstance(part, Select))
            sides = [side for choice in choices for side in (choice, negated(choice))]
            found = _over_coordinates(nest, sides, store.index, loops_on(path_to_store(nest, store)), around | {turns.loop.loop})
            for terms, constant in found.items():
                _add(result, Linear(constant, dict(terms)))
    return result


def _inductive(nest: Nest, buffer: Buffer, reads: Sequence[Access], forms: Forms, turns: Turns) -> Forms:
    """Those of the forms that hold at all that steps read for elements of which they hold."""
    made = {id(store): store for store in stores(turns.loop.body)}
    while True:
        kept = {
            terms: constant
            for terms, constant in forms.items()
            if all(_is_kept(nest, buffer, Linear(constant, dict(terms)), forms, read, made, turns) for read in reads)
        }
        if len(kept) == len(forms):
            return kept
        forms = kept


def _is_kept(nest: Nest, buffer: Buffer, form: Linear, needed: Forms, read: Access, made: Mapping[int, Store], turns: Turns) -> bool:
    """Is a form below 0 of what an earlier step wrote and a statement reads, where what this one makes is `needed`?"""
    later, store = copies_apart(turns.place, read.index[0]), made.get(read.source)
    if not later or store is None:
        return False
    at = written_where(nest, needed, store, read.loops) if store.buffers == (buffer,) else {}
    used = [Compare("lt", expression(Linear(constant, dict(terms))), const(0)) for terms, constant in at.items()]
    before = form.plus(Linear(-form.terms.get(Axis(turns.loop.loop), 0) * later))
    return _is_below(nest, before, read, used)


def _holds(nest: Nest, form: Linear, read: Access, turns: Turns) -> bool:
    """Is a form below 0 at a read that comes behind all steps, of what the last ones wrote?"""
    step = Axis(turns.loop.loop)
    written = (Compare("ge", step, Binary("sub", turns.loop.hi, const(turns.copies))), Compare("lt", step, turns.loop.hi))
    return _is_below(nest, form, read, written)


def _is_below(nest: Nest, form: Linear, read: Access, facts: Iterable[Expr]) -> bool:
    """Is a form below 0 at the element that is read, wherever `facts` hold?"""
    at = expression(_put(form, _coordinates(nest, read.index, read.loops)))
    asked = [condition for condition in read.conditions if not reads_data(condition)]
    return find(*place_facts(nest, read.loops, asked), *facts, Compare("ge", at, const(0))) is None


def written_where(nest: Nest, forms: Forms, store: Store, around: Sequence[For]) -> Forms:
    """The forms of an element, at the one that a statement inside the loops `around` writes: over these loops."""
    at, result = _coordinates(nest, store.index, around), Forms()
    for terms, constant in forms.items():
        _add(result, _put(Linear(constant, dict(terms)), at))
    return result


def _coordinates(nest: Nest, index: Sequence[Expr], loops: Sequence[For]) -> dict[Expr, Linear]:
    """What each coordinate of the element at an index is, over loops."""
    names = [loop.loop for loop in loops]
    return {coordinate(place): linear(expand(nest, part, names)) for place, part in enumerate(index)}


def _put(form: Linear, at: Mapping[Expr, Linear]) -> Linear:
    """A form with what coordinates are in their place."""
    result = Linear(form.constant)
    for atom, factor in form.terms.items():
        result = result.plus(at.get(atom, Linear(0, {atom: 1})), factor)
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
    return _over_coordinates(nest, read.conditions, read.index, read.loops, around)


def _over_coordinates(nest: Nest, conditions: Iterable[Expr], index: Sequence[Expr], loops: Sequence[For], around: frozenset[str]) -> Forms:
    """The orders among conditions inside loops, over the coordinates of the element at an index and the loops `around` its storage."""
    names = [loop.loop for loop in loops]
    at, found = [*_coordinates(nest, index, loops).values()], Forms()
    for condition in conditions:
        for terms, constant in orders(nest, condition, names).items():
            form = _of_element(nest, Linear(constant, dict(terms)), at, around)
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
