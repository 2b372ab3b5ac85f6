"""Questions to indices that only edges ask: clamps, padding and conditions at borders leave the interior of a loop.

    for x_o in range(32):                           for x_o in range(32):
        vector x_i in range(16):                        if 2 <= 16 x_o and 16 x_o + 17 < 512:
            B[16 x_o + x_i] =           ->                  vector x_i in range(16): B[..] = A[16 x_o + x_i + 2]
                A[min(16 x_o + x_i + 2, 511)]           else:
                                                            for x_i in range(16): B[..] = A[min(16 x_o + x_i + 2, 511)]

A question is answered in the middle of the loops, with tests that its answer holds for a whole iteration of an outer loop (`questions`).
The body of the loop is emitted once where all answers hold, with these in place of the questions, and once as it was. In between a clamped
index is contiguous along the lanes, where it was a gather. At edges lanes that ask where to read run one by one, since a gather of eight
takes longer than eight loads; not where each would divide, nor where places rise by one at most, and the processor moves lanes of a
register (`emission.rising`).
Conditions around statements stay: they are masks of partial tiles (`guards`).

A loop in which answers hold from some iteration on, or up to one, is cut in two there instead, so that a recurrence does not ask in every
step whether it has a past. Where its first iterations have other answers than its middle, as in a triangle, these come first, then the
tile that has to ask, then the rest (`select(i < t, Y[t - 1 - i], 0)` reads nothing there). One of few iterations, of which the first and
the last are edges, is cut in three: all that these ask is known, since each is one iteration, and a 5 x 5 window that asks in each of its
tiles takes 1.7 of the time.

Right because an answer replaces a question only where the test implies it: a linear form over a box is largest at a corner, where the box
is empty nothing inside runs, and none of these forms can wrap (`algebra.bounds`). Every iteration runs once, and in its order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Final

from tensorlang.algebra.rules import conjunction
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.conversions import divides
from tensorlang.codegen.lowering.passes.cuts import cut, where
from tensorlang.codegen.lowering.passes.questions import Answer, Middle, answers_of, asks, inside, is_most, is_question, negative
from tensorlang.ir import Binary, Buffer, Call, Const, Expr, For, If, Load, Nest, Stmt, Store, block, const
from tensorlang.ir.linear import Linear
from tensorlang.ir.traverse import (
    axes_of,
    dtype_of,
    expressions,
    loads_of,
    map_expressions,
    map_statements,
    nodes,
    rewrite,
    statements,
    substatements,
)
from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.rewriting.rising import moves_lanes, rises

MAX_VERSIONED: Final = 4096
"""Instructions of a body that is emitted twice at most; half as many inside a version, and so on."""
MAX_PARTED: Final = 2 * MAX_VERSIONED
"""The same where a loop is cut in three, and its edges are single iterations, of which most that is counted is known; a quarter inside a
version, and so on."""
MAX_BEGUN: Final = 2 * MAX_PARTED
"""The same where a loop is cut in two, as one that asks in every step whether it has a past, of which LLVM takes longer over the questions
than over both parts; an eighth inside a version, and so on."""
FEW: Final = 16
"""Iterations of a loop, at most, whose edges count: of more the two are not worth a third copy."""
SHARE: Final = 4
"""Of a loop whose first iterations have other answers than its middle, the part that these have to be, at least: a quarter. Of fewer tiles
the end of a row is half."""
REGISTERS: Final = 4096
"""Bytes of storage that LLVM may keep in registers."""


def interiors(nest: Nest, isa: Collection[str] = ()) -> Nest:
    """The nest with the interiors of its loops apart from their edges, for processors with these instructions."""
    return replace(nest, body=_parted(nest.body, {}, 0, isa))


def _parted(stmt: Stmt, middle: Middle, depth: int, isa: Collection[str]) -> Stmt:
    """The statement with interiors apart; `middle` has a typical value of each loop around, `depth` counts the versions around."""
    if not asks(stmt):
        return stmt
    if not isinstance(stmt, For):
        return map_statements(stmt, lambda part: _parted(part, middle, depth, isa))
    around, middle = middle, inside(stmt, middle)
    answers = answers_of(stmt, middle) if _may_be_cut(stmt, depth) else {}
    forms = [test for answer in answers.values() for test in answer.tests]
    if not forms or not is_most(stmt, forms, middle):
        begun = _begun(stmt, around, middle, depth, isa)
        return replace(stmt, body=_parted(stmt.body, middle, depth, isa)) if begun is None else begun
    tests = _strongest(forms)
    main = where(stmt, tests)
    size, at_once = instructions(stmt.body), _ends_at_once(stmt, main)
    small = size <= MAX_VERSIONED >> depth
    at_once = at_once and (size <= MAX_PARTED >> 2 * depth or (size <= MAX_BEGUN >> 3 * depth and _is_in_two(stmt, main)))
    if not (small or at_once):
        return replace(stmt, body=_parted(stmt.body, middle, depth, isa))
    interior = _parted(_answered(stmt.body, answers), middle, depth + 1, isa)
    if main is not None and main.hi == stmt.hi:  # what comes before may be a loop of its own, most of which asks nothing either
        first = replace(stmt, hi=simplify(Binary("min", main.lo, stmt.hi)))
        begun = _begun(first, around, inside(first, around), depth, isa)
        if begun is not None:
            return block(begun, replace(main, body=interior))
    deeper = 0 if stmt.kind == "parallel" else 2  # an edge of a loop that threads share is a whole block, and there is one such loop
    edges = _by_lanes(_parted(stmt.body, middle, depth + deeper, isa), isa)
    return cut(stmt, main, interior, edges, in_three=at_once and not (small and _has_many(stmt))) or replace(
        stmt, body=If(conjunction(tests), interior, edges)
    )


def _begun(loop: For, around: Middle, middle: Middle, depth: int, isa: Collection[str]) -> Stmt | None:
    """A loop whose first iterations have answers in common, and others than those in its middle: these, and then the rest, in parts.

    None where they are few, or bounds cannot name them, or no lanes ask: one comparison for a whole iteration is not worth the code.
    """
    begin = inside(replace(loop, hi=Binary("add", loop.lo, const(1))), around)
    if loop.kind != "serial" or instructions(loop.body) > MAX_VERSIONED >> depth:
        return None
    answers = answers_of(loop, begin)
    lanes = {part.loop for part in statements(loop.body) if isinstance(part, For) and part.kind == "vector"}
    forms = [test for answer in answers.values() for test in answer.tests]
    if not any(axes_of(node) & lanes for node in answers) or not forms or not is_most(loop, forms, middle, SHARE):
        return None
    main = where(loop, _strongest(forms))
    if main is None or main.lo != loop.lo:
        return None
    rest = replace(loop, lo=simplify(Binary("max", main.hi, loop.lo)))
    begun = _parted(_answered(loop.body, answers), middle, depth + 1, isa)
    return block(replace(main, body=begun), _parted(rest, around, depth + 1, isa))


def _may_be_cut(loop: For, depth: int) -> bool:
    serial = loop.kind in ("serial", "parallel") or (loop.kind == "unroll" and depth > 0 and _gathers(loop))
    return serial and instructions(loop.body) <= max(MAX_VERSIONED >> depth, MAX_PARTED >> 2 * depth, MAX_BEGUN >> 3 * depth)


def _ends_at_once(loop: For, main: For | None) -> bool:
    """Is no more than one iteration an edge on either side, so that what it asks is known?"""
    match loop.lo, loop.hi, main:
        case Const(lo), Const(hi), For(_, Const(first), Const(last)):
            return first <= lo + 1 and last >= hi - 1 and first < last
        case _:
            return False


def _is_in_two(loop: For, main: For | None) -> bool:
    """Does the part in which the tests hold reach one end of the loop?"""
    return main is not None and (main.lo == loop.lo or main.hi == loop.hi)


def _has_many(loop: For) -> bool:
    return isinstance(loop.lo, Const) and isinstance(loop.hi, Const) and loop.hi.value - loop.lo.value > FEW


def _strongest(tests: Iterable[Linear]) -> list[Expr]:
    """Conditions `form < 0`, of forms that differ by a constant the hardest one."""
    most: dict[frozenset[tuple[Expr, int]], Linear] = {}
    for test in tests:
        key = frozenset(test.terms.items())
        if key not in most or most[key].constant < test.constant:
            most[key] = test
    return [negative(form) for form in most.values()]


# Versions ------------------------------------------------------------------------------------------------------------------------


def _answered(stmt: Stmt, answers: Mapping[Expr, Answer]) -> Stmt:
    """The statement with answers in place of questions."""

    def chosen(node: Expr) -> Expr:
        found = answers.get(node) if is_question(node) else None
        return node if found is None else found.value

    def replaced(expr: Expr) -> Expr:
        new = rewrite(expr, chosen)
        return expr if new is expr else simplify(new)

    return map_expressions(stmt, replaced)


def _gathers(stmt: Stmt, lane: str = "", isa: Collection[str] = ()) -> bool:
    """Does a question that differs between lanes stand in the index of a read, and not one that moves lanes of a register (`rising`)?"""
    if isinstance(stmt, For) and stmt.kind == "vector":
        lane = stmt.loop
    loads = (load for expr in expressions(stmt) for load in loads_of(expr)) if lane else ()
    asking = (load for load in loads if not (moves_lanes(dtype_of(load).bits, isa) and rises(load.index, lane)))
    asked = (node for load in asking for part in load.index for node in nodes(part) if is_question(node))
    return any(lane in axes_of(node) for node in asked) or any(_gathers(part, lane, isa) for part in substatements(stmt))


def _by_lanes(stmt: Stmt, isa: Collection[str]) -> Stmt:
    """The statement with vector loops whose lanes ask where to read run lane by lane, where memory is all that they touch."""
    if not isinstance(stmt, For) or stmt.kind != "vector":
        return map_statements(stmt, lambda part: _by_lanes(part, isa))
    found = [node for part in statements(stmt.body) for expr in expressions(part) for node in nodes(expr)]
    buffers = [load.buffer for load in found if isinstance(load, Load)]
    buffers += [buffer for part in statements(stmt.body) if isinstance(part, Store) for buffer in part.buffers]
    near = any(isinstance(buffer, Buffer) and _is_near(buffer) for buffer in buffers)
    dear = any(isinstance(node, Call) or (divides(node) and stmt.loop in axes_of(node)) for node in found)  # one by one
    asks = _gathers(stmt, isa=isa) and not near and not dear
    return replace(stmt, kind="serial") if asks else stmt


def _is_near(buffer: Buffer) -> bool:
    """May a buffer be in registers, as long as its elements have known places?"""
    extents = [extent.value for extent in buffer.shape if isinstance(extent, Const)]
    small = len(extents) == len(buffer.shape) and prod(extents) * buffer.dtype.bytes <= REGISTERS
    return buffer.memory == "register" or (buffer.memory in ("auto", "stack") and small)
