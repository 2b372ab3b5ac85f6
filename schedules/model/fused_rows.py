"""Loops that were fused from several, taken apart again for what caches hold.

A fused loop goes along a row by most of its iterations, and to the next row by few. What one iteration touches tells nothing of what is
still there a row later: for that the row has to be a loop. So it is counted as two, as many iterations as a row has inside the rows:

    for i_j_o in range(14490): A[i_j_o // 30.2, 21.3 i_j_o % 644]    ->    for i in range(480): for i_j_o in range(30.2): A[i, 21.3 i_j_o]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tensorlang.schedules.model.parts import Loop, Part, Statement, statements
from tensorlang.schedules.model.walks import Term, Terms

ROWS_OF: Final = "{}_rows"
"""What the loop over the rows of a fused loop is called."""
NEAR: Final = 1.01
"""How near the row of one tensor is to that of another: of what is padded rows are longer."""


def rows_apart(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The same program with the rows of fused loops as loops of their own."""
    return tuple([part if isinstance(part, Statement) else _apart(part) for part in parts])


def _apart(loop: Loop) -> Loop:
    body = rows_apart(loop.body)
    return _outer_apart(loop if body == loop.body else loop._replace(body=body))


def _outer_apart(loop: Loop) -> Loop:
    """The loop with its own rows apart, and the rows of these; what is inside is done."""
    share = max(_shares(loop), default=0.0)
    if loop.trips * share <= NEAR:
        return loop
    rows = ROWS_OF.format(loop.name)
    inner = loop._replace(trips=1 / share, body=tuple([_divided(part, loop.name, rows, share) for part in loop.body]))
    return _outer_apart(Loop(rows, loop.trips * share, loop.kind, (inner,)))


def _shares(loop: Loop) -> Iterator[float]:
    """The parts of a row that an iteration goes on in some tensor."""
    for statement in statements(loop.body):
        for access in statement.accesses:
            own = [terms[loop.name] for terms in access.terms if loop.name in terms]
            if len(own) > 1:
                yield from (abs(term.coefficient) for term in own if abs(term.coefficient) < 1 and not term.told)


def _divided(part: Part, name: str, rows: str, share: float) -> Part:
    if isinstance(part, Loop):
        return part._replace(body=tuple([_divided(inner, name, rows, share) for inner in part.body]))
    accesses = [access.over(tuple([_over(terms, name, rows, share) for terms in access.terms]), access.runs) for access in part.accesses]
    return part._replace(accesses=tuple(accesses))


def _over(terms: Terms, name: str, rows: str, share: float) -> Terms:
    """The terms of a dimension, with those of the fused loop as terms of its rows and of what is inside one."""
    if name not in terms:
        return terms
    coefficient, period, told = terms[name]
    size, found = abs(coefficient), {other: term for other, term in terms.items() if other != name}
    if size <= share * NEAR:
        return {**found, rows: Term(coefficient / share, period, told)}
    if size / share <= period * NEAR and period < math.inf:  # a row of it, or the part of one
        found[name] = Term(coefficient, math.inf, told)
        return found if size / share * NEAR >= period else {**found, rows: Term(coefficient / share, period, told)}
    return terms if period < math.inf else {**terms, rows: Term(coefficient / share, period, told)}
