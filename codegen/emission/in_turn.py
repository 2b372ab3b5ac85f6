"""Stores in lanes of which several may mean one element, since data tell which: lanes compute what and where, and write in turn.

    vector r in range(16):                          where, what = &H[f(X[r])], g(X[r])          16 lanes
        if X[r] > 0:                        ->      where = X[r] > 0 ? where : &spare
            H[f(X[r])] += g(X[r])                   for each lane: *where += what

Right for what combines in any order, and for a plain store in the order of the lanes (`dependences.race`). A lane that is off has an
element of its own that nothing reads, so that no jump waits for data: one that is taken half of the time at random is foretold wrongly
every other time, and then takes twenty cycles. Sums into tables of our own add nothing there instead; so several tables share the numbers
of their elements, and each lane has one to fetch, not an address in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission import memory
from tensorlang.codegen.emission.combining import combined, given_values
from tensorlang.codegen.emission.expression import value
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.types import (
    I32,
    I64,
    POINTER,
    VOID,
    Builder,
    Value,
    element_of,
    filled,
    in_memory,
    lanes_of,
    literal,
    shaped,
    splat,
)
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.traverse import reads_data

STACKED: Final = 64
"""Bytes of whose multiples the addresses of vectors on the stack are: the longest register."""
POINTER_BYTES: Final = 8
"""Bytes of an address."""

BYTE: Final = 8
"""Bits of a byte."""


def takes_turns(frame: Frame, stmt: ir.Store, access: VectorAccess) -> bool:
    """May lanes of a store mean one element, others another one, and is that not settled by storing one lane after the other?"""
    told = access.offsets is not None and not access.is_distinct and any(map(reads_data, stmt.index))
    return told and (stmt.reducer is not None or frame.mask is not None)


def in_turn(frame: Frame, stmt: ir.Store, accesses: list[VectorAccess]) -> None:
    """Store the lanes, or combine them with what is there, one after the other."""
    given = [value(frame, expr) for expr in given_values(stmt)]
    if frame.mask is None or not _may_add_nothing(stmt, accesses):
        elements = _one_by_one(frame, accesses)
    else:
        summed = len(given) == len(accesses)
        given = [_where_on(frame, part, -0.0 if summed or not place else 0.0) for place, part in enumerate(given)]
        elements = _numbered(frame, accesses, _or_apart(frame, accesses))
    with frame.masked(None):
        lanes, frame.lanes = frame.lanes, 0
        for lane, places in enumerate(elements):
            own = [frame.builder.extract_element(part, literal(I32, lane)) if lanes_of(part) else part for part in given]
            if stmt.reducer is not None:
                own = combined(frame, stmt, own, [memory.load(frame.builder, frame.target, place, None) for place in places])
            for place, new in zip(places, own, strict=True):
                memory.store(frame.builder, frame.target, place, new, None)
        frame.lanes = lanes


def _may_add_nothing(stmt: ir.Store, accesses: list[VectorAccess]) -> bool:
    """Are they sums into tables of our own, numbered alike from their first elements on?

    What other threads see would be written while they add to it, and there would be no element where the first one is not in memory.
    """
    if stmt.reducer is None or not all(map(_is_sum, stmt.reducer.results, stmt.buffers, count())):
        return False
    return _alike(accesses) and all(access.place.own and access.base is access.place.pointer for access in accesses)


def _alike(accesses: list[VectorAccess]) -> bool:
    """Have the elements of all tables the same numbers? All are written at the same index."""
    return all(access.place.shape == accesses[0].place.shape for access in accesses)


def _is_sum(result: ir.Expr, buffer: ir.Buffer, component: int) -> bool:
    sides = ir.Param(f"a{component}", buffer.dtype), ir.Param(f"b{component}", buffer.dtype)
    return buffer.dtype != BOOL and result == ir.Binary("add", *sides)


def _where_on(frame: Frame, part: Value, nothing: float) -> Value:
    """A summand or a factor of one, and in lanes that are off what adds nothing: the zero that leaves another one its sign."""
    part = splat(frame.builder, part, frame.lanes)
    return frame.builder.select(frame.mask, part, filled(part.type, nothing))


def _or_apart(frame: Frame, accesses: list[VectorAccess]) -> Value:
    """The numbers of the elements, of lanes that are off one for each, as far as there are some, or they would wait for one another."""
    offsets, elements = accesses[0].offsets, min(access.place.own for access in accesses)
    assert offsets is not None
    apart = literal(element_of(offsets), tuple(lane % elements for lane in range(frame.lanes)))
    return frame.builder.select(frame.mask, offsets, splat(frame.builder, apart, frame.lanes))


def _one_by_one(frame: Frame, accesses: list[VectorAccess]) -> Iterable[list[VectorAccess]]:
    """For each lane in turn its elements as accesses of their own.

    Where they are is read from the stack: taken out of vectors one by one, into the few registers that there are, addresses make a Zen 4
    take one for the one before, and find out 25 cycles later (eight times as slow).
    """
    if frame.mask is None and _alike(accesses):
        return _numbered(frame, accesses, accesses[0].offsets)
    elements = [_addressed(frame, access) for access in accesses]
    return map(list, zip(*elements, strict=True))


def _numbered(frame: Frame, accesses: list[VectorAccess], offsets: Value) -> Iterator[list[VectorAccess]]:
    """The elements by their numbers, which all tables share; each is read when its lane's turn comes, so that none waits in a register."""
    stack, kind = _on_stack(frame, offsets), element_of(offsets)
    for lane in range(accesses[0].lanes):
        offset = _of_lane(frame.builder, stack, kind, lane)
        yield [VectorAccess(access.place, address(frame.builder, access.place.dtype, access.base, offset)) for access in accesses]


def _addressed(frame: Frame, access: VectorAccess) -> list[VectorAccess]:
    """The elements by their addresses, so that lanes that are off have others; read before any is written, which they would wait for."""
    builder, found = frame.builder, memory.pointers(frame.builder, access)
    if frame.mask is not None:
        found = builder.select(frame.mask, found, _spare(frame, access, found.type))
    stack = _on_stack(frame, found)
    return [VectorAccess(access.place, _of_lane(builder, stack, POINTER, lane)) for lane in range(access.lanes)]


def _on_stack(frame: Frame, vector: Value) -> Value:
    stack = frame.reserve(vector.type, "places", align=STACKED)
    frame.builder.store(vector, stack, align=STACKED)
    frame.builder.asm(llvm.FunctionType(VOID, [POINTER]), "", "r,~{memory}", [stack], side_effect=True)  # or LLVM would not read it back
    return stack


def _of_lane(builder: Builder, stack: Value, kind: llvm.Type, lane: int) -> Value:
    place = builder.gep(stack, [literal(I64, lane)], source_etype=kind)
    return builder.load(place, align=POINTER_BYTES if kind == POINTER else kind.width // BYTE, typ=kind)


def _spare(frame: Frame, access: VectorAccess, kind: llvm.Type) -> Value:
    """Addresses of elements for lanes that are off: one for each, or they would wait for one another."""
    elements = shaped(in_memory(access.place.dtype), access.lanes)
    spare = frame.reserve(elements, "spare", align=STACKED)
    frame.entry.store(filled(elements, 0), spare, align=STACKED)  # what lies there by chance may be denormal, and slow to add to
    lanes = literal(I64, tuple(range(access.lanes)))
    beside = frame.builder.gep(spare, [lanes], source_etype=in_memory(access.place.dtype))
    beside.type = kind  # llvmlite gives the type of `spare`
    return beside
