"""May a result lie where an operand lies? Every element of the operand has to be read before it is overwritten.

    for i: y[i] = f(x[i])                       yes: an instance reads its element and then writes it
    for i: y[i] = f(x[i], x[i + 1])             yes: what is read later was not written yet
    for i: y[i] = f(x[i - 1])                   no: iteration i - 1 has written there
    for i: { for j: m = max(m, x[i, j]);  for j: y[i, j] = x[i, j] / m }        yes, row by row

Two instances are a counterexample where the one writes an element of the result, the other one reads the same element of the operand, and
the write may come first: in an earlier iteration of a loop around both (in any other one, where iterations run at once), or in the same
iterations by a statement that comes first. A statement reads before it writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tensorlang.ir import Buffer, For, Nest
from tensorlang.ir.traverse import loads_of, statements
from tensorlang.schedules.legality.accesses import Access, accesses, distinct
from tensorlang.schedules.legality.dependences import conflict, later

_IN_ORDER: Final = ("serial", "unroll")


def overwritten(nest: Nest, result: str, operand: str) -> dict[str, Any] | None:
    """Two instances of which the first writes an element of `result` where the second still reads `operand`, or None if there are none."""
    nest = replace(nest, inputs=tuple(buffer for buffer in nest.inputs if buffer.name != operand))  # what it holds does change
    found = distinct(accesses(nest.body))
    writes = [access for access in found if access.writes and access.buffer.name == result]
    reads = [access for access in found if not access.writes and access.buffer.name == operand]
    ends = (end for part in statements(nest.body) if isinstance(part, For) for end in (part.lo, part.hi))
    if any(isinstance(load.buffer, Buffer) and load.buffer.name == operand for end in ends for load in loads_of(end)):
        return {"first": {"stage": result}, "second": {"stage": "the bounds of loops"}, "element": operand}
    for write in writes:
        for read in reads:
            example = _too_soon(nest, write, read)
            if example is not None:
                return example
    return None


def _too_soon(nest: Nest, write: Access, read: Access) -> dict[str, Any] | None:
    common = 0
    for one, two in zip(write.loops, read.loops, strict=False):
        if one is not two:
            break
        common += 1
    for level, loop in enumerate(write.loops[:common]):
        shared = frozenset(part.loop for part in write.loops[:level])
        orders = [later(loop, "'", "''")] if loop.kind in _IN_ORDER else [later(loop, "'", "''"), later(loop, "''", "'")]
        for order in orders:
            example = conflict(nest, write, read, shared, (order,))
            if example is not None:
                return example
    if write.source == read.source or write.position > read.position:
        return None
    return conflict(nest, write, read, frozenset(part.loop for part in write.loops[:common]), ())
