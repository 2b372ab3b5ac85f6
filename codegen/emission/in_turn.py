"""Stores in lanes of which several may mean one element, since data tell which: lanes compute what and where, and write in turn.

    vector r in range(16):                          where, what = &H[f(X[r])], g(X[r])          16 lanes
        if X[r] > 0:                        ->      where = X[r] > 0 ? where : &spare
            H[f(X[r])] += g(X[r])                   for each lane: *where += what

Right for what combines in any order, and for a plain store in the order of the lanes (`dependences.race`). A lane that is off has an
element of its own that nothing reads, so that no jump waits for data: one that is taken half of the time at random is foretold wrongly
every other time, and then takes twenty cycles.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission import memory
from tensorlang.codegen.emission.combining import combined, given_values
from tensorlang.codegen.emission.expression import value
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.types import I32, I64, POINTER, VOID, Value, filled, in_memory, lanes_of, literal, shaped
from tensorlang.codegen.emission.vector_access import VectorAccess
from tensorlang.ir.traverse import reads_data

STACKED: Final = 64
"""Bytes of whose multiples the addresses of vectors on the stack are: the longest register."""
POINTER_BYTES: Final = 8
"""Bytes of an address."""


def takes_turns(frame: Frame, stmt: ir.Store, access: VectorAccess) -> bool:
    """May lanes of a store mean one element, others another one, and is that not settled by storing one lane after the other?"""
    told = access.offsets is not None and not access.is_distinct and any(map(reads_data, stmt.index))
    return told and (stmt.reducer is not None or frame.mask is not None)


def in_turn(frame: Frame, stmt: ir.Store, accesses: list[VectorAccess]) -> None:
    """Store the lanes, or combine them with what is there, one after the other."""
    given = [value(frame, expr) for expr in given_values(stmt)]
    elements = [_one_by_one(frame, access) for access in accesses]
    with frame.masked(None):
        lanes, frame.lanes = frame.lanes, 0
        for lane, places in enumerate(zip(*elements, strict=True)):
            own = [frame.builder.extract_element(part, literal(I32, lane)) if lanes_of(part) else part for part in given]
            if stmt.reducer is not None:
                own = combined(frame, stmt, own, [memory.load(frame.builder, frame.target, place, None) for place in places])
            for place, new in zip(places, own, strict=True):
                memory.store(frame.builder, frame.target, place, new, None)
        frame.lanes = lanes


def _one_by_one(frame: Frame, access: VectorAccess) -> list[VectorAccess]:
    """The element of each lane as an access of its own.

    Their addresses are read from the stack: taken out of vectors one by one, into the few registers that there are, they make a Zen 4 take
    an address for the one before, and find out 25 cycles later (eight times as slow).
    """
    builder, found = frame.builder, memory.pointers(frame.builder, access)
    if frame.mask is not None:
        found = builder.select(frame.mask, found, _spare(frame, access, found.type))
    stack = frame.reserve(found.type, "places", align=STACKED)
    builder.store(found, stack, align=STACKED)
    builder.asm(llvm.FunctionType(VOID, [POINTER]), "", "r,~{memory}", [stack], side_effect=True)  # or LLVM would not read them back
    places = [builder.gep(stack, [literal(I64, lane)], source_etype=POINTER) for lane in range(access.lanes)]
    return [VectorAccess(access.place, builder.load(place, align=POINTER_BYTES, typ=POINTER)) for place in places]


def _spare(frame: Frame, access: VectorAccess, kind: llvm.Type) -> Value:
    """Addresses of elements for lanes that are off: one for each, or they would wait for one another."""
    elements = shaped(in_memory(access.place.dtype), access.lanes)
    spare = frame.reserve(elements, "spare", align=STACKED)
    frame.entry.store(filled(elements, 0), spare, align=STACKED)  # what lies there by chance may be denormal, and slow to add to
    lanes = literal(I64, tuple(range(access.lanes)))
    beside = frame.builder.gep(spare, [lanes], source_etype=in_memory(access.place.dtype))
    beside.type = kind  # llvmlite gives the type of `spare`
    return beside
