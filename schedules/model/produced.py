"""Sketches of stages that others are computed in: a producer in the expressions of its reader, or in one of the loops around it.

    for i: P[i] = f(X[i])                        for i_o: for j: P[j] = f(X[4 i_o + j])            # what the loops inside `i_o` read
    for i_o: for i_i: for k:              ->              for i_i: for k: C[...] += P[i_i + k]
        C[4 i_o + i_i] += P[4 i_o + i_i + k]

The region is as in `compute_at`: of each dimension what the inner loops reach, beginning where the outer ones say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tensorlang.ir import Buffer
from tensorlang.schedules.model.program import Loop, Statement
from tensorlang.schedules.model.sketch import Sketch
from tensorlang.schedules.model.walks import LinearAccess, Term, Terms, added, follow


def copied(sketch: Sketch, buffer: str) -> Sketch:
    """The statement that copies all that a stage reads of a buffer, as a producer that stands before it; the stage reads the copy."""
    use = next(access for access in sketch.statement.accesses if access.buffer.name == buffer and not access.writes)
    names = [f"{buffer}_copy.{place}" for place in range(len(use.extents))]
    terms: tuple[Terms, ...] = tuple({name: Term(1.0)} for name in names)
    offsets = (0,) * len(names)
    read = use._replace(terms=terms, offsets=offsets)
    write = read._replace(buffer=replace(use.buffer, name=f"{buffer}_copy", memory="heap"), reads=False, writes=True)
    statement = Statement(f"{buffer}_copy", 0, 0.0, (read, write), frozenset(names), False, 0.0, 8 * use.element)
    accesses = tuple(
        access._replace(buffer=write.buffer) if access.buffer.name == buffer and not access.writes else access
        for access in sketch.statement.accesses
    )
    sketch.statement = sketch.statement._replace(accesses=accesses)
    return Sketch(statement, [Loop(name, extent, "serial", ()) for name, extent in zip(names, use.extents, strict=True)])


def inlined(sketch: Sketch, producer: Sketch) -> None:
    """Compute the producer anew wherever the stage reads what it makes."""
    made = _written(producer)
    accesses: list[LinearAccess] = []
    statement = sketch.statement
    for access in statement.accesses:
        if access.buffer.name != made.buffer.name:
            accesses.append(access)
            continue
        axes, shifts = dict[str, Terms](), dict[str, float]()
        for own, terms, offset in zip(made.terms, access.terms, access.offsets, strict=True):
            axes |= dict.fromkeys(own, terms)
            shifts |= dict.fromkeys(own, float(offset))
        accesses += [_moved(read, axes, shifts) for read in producer.statement.accesses if read is not made]
        asked = tuple(frozenset(name for own in loops for name in axes.get(own, {})) for loops in producer.statement.conditions)
        statement = statement._replace(
            operations=statement.operations + producer.statement.operations, conditions=statement.conditions + asked
        )
    sketch.statement = statement._replace(accesses=tuple(accesses))


def computed_at(sketch: Sketch, producer: Sketch, at: str) -> Sketch:
    """The producer of what the loops inside `at` read, whose steps may be taken before it is `put`; the stage reads it in local storage."""
    made = _written(producer)
    uses = [access for access in sketch.statement.accesses if access.buffer.name == made.buffer.name]
    inside = {loop.name: loop.trips for loop in sketch.inside(at)}
    axes, kept, extents = dict[str, Terms](), dict[str, float](), list[float]()
    for place, own in enumerate(made.terms):
        reach = max(1.0, *(_reach(use.terms[place], inside) for use in uses))
        reach += max(use.offsets[place] for use in uses) - min(use.offsets[place] for use in uses)
        extents.append(min(reach, made.extents[place]))
        for name in own:
            outer = {loop: term for loop, term in uses[0].terms[place].items() if loop not in inside}
            axes[name] = added((outer, 1), ({name: Term(1.0)} if extents[-1] > 1 else {}, 1))
            kept[name] = extents[-1]
    memory = replace(made.buffer, memory="heap")
    reads = (_moved(read, axes, {}) for read in producer.statement.accesses if read is not made)
    write = _stored(made, memory, extents, {name for name, extent in kept.items() if extent > 1})
    asked = tuple(
        frozenset(inner for name in loops for inner in axes.get(name, {name: Term(1.0)})) for loops in producer.statement.conditions
    )
    sketch.statement = sketch.statement._replace(
        accesses=tuple(_stored(access, memory, extents, inside) if access in uses else access for access in sketch.statement.accesses)
    )
    statement = producer.statement._replace(accesses=(*reads, write), conditions=asked)
    return Sketch(
        statement, [loop._replace(trips=kept.get(loop.name, loop.trips)) for loop in producer.loops if kept.get(loop.name, 2) > 1]
    )


def _written(producer: Sketch) -> LinearAccess:
    return next(access for access in producer.statement.accesses if access.writes)


def _reach(terms: Terms, trips: Mapping[str, float]) -> float:
    """Elements from the first to the last that loops of so many trips reach along a dimension."""
    return 1 + sum(abs(term.coefficient) * (trips[name] - 1) for name, term in terms.items() if name in trips)


def _moved(access: LinearAccess, axes: Mapping[str, Terms], shifts: Mapping[str, float]) -> LinearAccess:
    """An access whose loops are made of others, and shifted."""
    offsets = (
        offset + sum(term.coefficient * shifts.get(name, 0.0) for name, term in terms.items())
        for offset, terms in zip(access.offsets, access.terms, strict=True)
    )
    return access._replace(terms=tuple(follow(terms, axes) for terms in access.terms), offsets=tuple(map(int, offsets)))


def _stored(access: LinearAccess, buffer: Buffer, extents: Sequence[float], loops: Collection[str]) -> LinearAccess:
    """An access to storage of other extents, along which some loops move."""
    strides = [float(access.element)]
    for extent in reversed(extents[1:]):
        strides.append(strides[-1] * extent)
    terms = tuple({name: term for name, term in own.items() if name in loops} for own in access.terms)
    return access._replace(buffer=buffer, extents=tuple(extents), strides=tuple(reversed(strides)), terms=terms)
