"""Questions to indices that only edges ask: clamps, padding and conditions at borders leave the interior of a loop.

    for x_o in range(32):                           for x_o in range(32):
        vector x_i in range(16):                        if 2 <= 16 x_o and 16 x_o + 17 < 512:
            B[16 x_o + x_i] =           ->                  vector x_i in range(16): B[..] = A[16 x_o + x_i + 2]
                A[min(16 x_o + x_i + 2, 511)]           else:
                                                            for x_i in range(16): B[..] = A[min(16 x_o + x_i + 2, 511)]

A question is a comparison or an extremum of two indices whose difference is linear in the loops inside, or a remainder of such an index
that hardly ever is another than in the middle, as of neighbours in an image that goes on at its other end. It is answered in the middle of
the loops; the answer holds for a whole iteration of an outer loop where it holds with the loops inside at the ends that are hardest for it.
The body of the loop is emitted once where all answers hold, with these in place of the questions, and once as it was. In between a clamped
index is contiguous along the lanes, where it was a gather. At edges lanes that ask where to read run one by one, since a gather of eight
takes longer than eight loads. Conditions around statements stay: they are masks of partial tiles (`guards`).

A loop in which answers hold from some iteration on, or up to one, is cut in two there instead, so that a recurrence does not ask in every
step whether it has a past.

Right because an answer replaces a question only where the test implies it: a linear form over a box is largest at a corner, where the box
is empty nothing inside runs, and none of these forms can wrap (`algebra.bounds`). Every iteration runs once, and in its order. A question
inside another one is answered first, and the test asks for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, TypeAlias

from tensorlang.algebra.bounds import interval
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.bounds import bounded
from tensorlang.ir import Axis, Binary, Buffer, Call, Compare, Const, Dim, Expr, For, If, Load, Nest, Select, Stmt, Store, block
from tensorlang.ir.dtype import INT64
from tensorlang.ir.integers import ARITHMETIC, COMPARE, EXTENT_OPERATORS
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import (
    axes_of,
    children,
    dtype_of,
    expressions,
    loads_of,
    map_expressions,
    map_statements,
    rewrite,
    statements,
    substatements,
)
from tensorlang.schedules.legality.code_size import instructions

MAX_VERSIONED: Final = 4096
"""Instructions of a body that is emitted twice at most; half as many inside a version, and so on."""
MAX_QUESTIONS: Final = 64
REGISTERS: Final = 4096
"""Bytes of storage that LLVM may keep in registers."""
USUAL: Final = 1024
"""Assumed of an extent that is known only at run time, to find the middle of a loop."""

Middle: TypeAlias = Mapping[str, int]
Loops: TypeAlias = Mapping[str, For]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What takes the place of a question, and forms that are negative wherever that is right, one for each place that asks."""

    value: Expr
    tests: tuple[Linear, ...]


@dataclass(slots=True)
class _Found:
    """The questions inside a loop: their answers, those that have none, and the loops whose lanes ask."""

    answers: dict[Expr, _Answer] = field(default_factory=dict)
    refused: set[Expr] = field(default_factory=set)


def interiors(nest: Nest) -> Nest:
    """The nest with the interiors of its loops apart from their edges."""
    return replace(nest, body=_parted(nest.body, {}, 0))


def _parted(stmt: Stmt, middle: Middle, depth: int) -> Stmt:
    """The statement with interiors apart; `middle` has a typical value of each loop around, `depth` counts the versions around."""
    if not any(_is_question(node) for part in statements(stmt) for expr in expressions(part) for node in _nodes(expr)):
        return stmt
    if not isinstance(stmt, For):
        return map_statements(stmt, lambda part: _parted(part, middle, depth))
    middle = _inside(stmt, middle)
    answers = _answers(stmt, middle) if _may_be_cut(stmt, depth) else {}
    forms = [test for answer in answers.values() for test in answer.tests]
    if not forms or not _is_most(stmt, forms, middle):
        return replace(stmt, body=_parted(stmt.body, middle, depth))
    interior = _parted(_answered(stmt.body, answers), middle, depth + 1)
    edges = _by_lanes(_parted(stmt.body, middle, depth + 2))
    return _cut(stmt, _strongest(forms), interior, edges)


def _is_most(loop: For, forms: Iterable[Linear], middle: Middle) -> bool:
    """Are half of a loop's iterations inside, where the loops around are in their middle?"""
    lo, hi = _number(loop.lo, middle), _number(loop.hi, middle)
    if lo is None or hi is None:
        return False
    first, end = lo, hi
    for form in forms:
        factor = form.terms[Axis(loop.loop)]
        rest = _middle_of(form.plus(Linear(0, {Axis(loop.loop): factor}), -1), middle)
        if rest is None:
            return False
        if factor > 0:  # factor * loop < -rest
            end = min(end, -(rest // factor))
        else:
            first = max(first, rest // -factor + 1)
    return 2 * (end - first) >= hi - lo


def _may_be_cut(loop: For, depth: int) -> bool:
    serial = loop.kind in ("serial", "parallel") or (loop.kind == "unroll" and depth > 0 and _gathers(loop))
    return serial and instructions(loop.body) <= MAX_VERSIONED >> depth


def _cut(loop: For, tests: list[Expr], interior: Stmt, edges: Stmt) -> Stmt:
    """The loop in two parts where the tests hold on one side, else with both versions inside."""
    if loop.kind == "serial":
        main: For | None = loop
        for test in tests:
            main = None if main is None else bounded(main, test)
        if main is not None and main.hi == loop.hi:
            before = simplify(Binary("min", main.lo, loop.hi))
            return block(replace(loop, hi=before, body=edges), replace(main, body=interior))
        if main is not None and main.lo == loop.lo:
            after = simplify(Binary("max", main.hi, loop.lo))
            return block(replace(main, body=interior), replace(loop, lo=after, body=edges))
    whole: Expr = TRUE
    for test in tests:
        whole = simplify(Binary("and", whole, test))
    return replace(loop, body=If(whole, interior, edges))


def _strongest(tests: Iterable[Linear]) -> list[Expr]:
    """Conditions `form < 0`, of forms that differ by a constant the hardest one."""
    most: dict[frozenset[tuple[Expr, int]], Linear] = {}
    for test in tests:
        key = frozenset(test.terms.items())
        if key not in most or most[key].constant < test.constant:
            most[key] = test
    return [_negative(form) for form in most.values()]


def _negative(form: Linear) -> Expr:
    """`form < 0`, with its negative terms on the other side."""
    low = Linear(0, {atom: -factor for atom, factor in form.terms.items() if factor < 0})
    high = Linear(form.constant, {atom: factor for atom, factor in form.terms.items() if factor > 0})
    return simplify(Compare("lt", expression(high), expression(low)))


# Questions -----------------------------------------------------------------------------------------------------------------------


def _is_question(node: Expr) -> bool:
    if isinstance(node, Compare):
        return dtype_of(node.left) == INT64
    return isinstance(node, Binary) and dtype_of(node.left) == INT64 and (node.op in ("min", "max") or _wraps(node))


def _wraps(node: Expr) -> bool:
    """Is it a remainder by an extent, as of a neighbour in an image that goes on at its other end?"""
    match node:
        case Binary("mod", _, Const(by)):
            return by > 0
        case Binary("mod", _, Dim(_, least, _)):
            return least >= 0  # of 0 no index is within the first turn
        case _:
            return False


def _answers(loop: For, middle: Middle) -> dict[Expr, _Answer]:
    """The questions inside a loop whose answers depend on it, and hold for whole iterations of it."""
    found = _Found()
    _search(loop.body, loop, {}, middle, found)
    useful = {node: answer for node, answer in found.answers.items() if node not in found.refused}
    return useful if len(useful) <= MAX_QUESTIONS else {}


def _search(stmt: Stmt, loop: For, inner: Loops, middle: Middle, found: _Found) -> None:
    lanes = {name for name, part in inner.items() if part.kind == "vector"}
    for expr in expressions(stmt):
        reads, written = _chooses_reads(expr), isinstance(stmt, Store) and any(expr is part for part in stmt.index)

        def visit(node: Expr, *, reads: bool = reads, written: bool = written) -> Expr:
            if not _is_question(node):
                return node
            answer = None if node in found.refused else _answer(node, loop, inner, middle, reads=reads)
            before = found.answers.get(node)
            one = written and answer is not None and not axes_of(answer.value) & lanes  # all lanes would write one element
            if answer is None or one or isinstance(stmt, If) or (before is not None and before.value != answer.value):
                found.refused.add(node)
                return node
            found.answers[node] = _Answer(answer.value, (*(before.tests if before is not None else ()), *answer.tests))
            return answer.value

        rewrite(expr, visit)
    if isinstance(stmt, For):
        middle, inner = _inside(stmt, middle), {**inner, stmt.loop: stmt}
    for part in substatements(stmt):
        _search(part, loop, inner, middle, found)


def _chooses_reads(expr: Expr) -> bool:
    """Does a read hang on a choice in the expression?"""
    choices = (node for node in _nodes(expr) if isinstance(node, Select))
    return any(True for choice in choices for side in (choice.yes, choice.no) for _ in loads_of(side))


_LOW: Final = {"lt": 0, "ge": 0, "eq": 0, "ne": 0, "le": 1, "gt": 1, "min": 1, "max": 1}
"""A question to the sign of a difference d that is negative, or 0 where this is 1, has one answer for all d below that."""
_HIGH: Final = {"le": 0, "gt": 0, "eq": 0, "ne": 0, "lt": 1, "ge": 1, "min": 1, "max": 1}
"""The same for a positive difference."""


def _answer(node: Expr, loop: For, inner: Loops, middle: Middle, *, reads: bool) -> _Answer | None:
    """The answer to a question in the middle of the loops, with its tests; None where it has none that is useful here.

    Useful is what differs between lanes, and a comparison on which a read hangs. `reads`: some choice between reads is in the expression.
    """
    assert isinstance(node, (Binary, Compare))
    if any(True for _ in loads_of(node)) or interval(node.left) is None or interval(node.right) is None:
        return None
    if isinstance(node, Binary) and _wraps(node):
        return _turn(node, loop, inner, middle)
    form = linear(Binary("sub", node.left, node.right))
    moving = [atom for atom in form.terms if axes_of(atom) & (inner.keys() | {loop.loop})]
    lanes = any(isinstance(atom, Axis) and atom.name in inner and inner[atom.name].kind == "vector" for atom in moving)
    here = _middle_of(form, middle)
    if here is None or not all(isinstance(atom, Axis) for atom in moving) or not (lanes or (reads and isinstance(node, Compare))):
        return None
    low = here < 0 or (here == 0 and _LOW[node.op] == 1)
    if here == 0 and node.op in ("eq", "ne"):
        return None
    most = _hardest(form, inner, 1 if low else -1)
    if most is None:
        return None
    test = most.plus(Linear(-(_LOW if low else _HIGH)[node.op]))
    condition = _negative(test)
    if condition == FALSE or (condition != TRUE and Axis(loop.loop) not in test.terms):
        return None
    if isinstance(node, Compare):
        value: Expr = TRUE if COMPARE[node.op](here, 0) else FALSE
    else:
        value = node.left if low == (node.op == "min") else node.right
    return _Answer(value, () if condition == TRUE else (test,))


def _turn(node: Binary, loop: For, inner: Loops, middle: Middle) -> _Answer | None:
    """A remainder as the difference to the multiple that it has in the middle of the loops; None where that is another one mostly."""
    form, by = linear(node.left), linear(node.right)
    moving = {atom.name for atom in form.terms if isinstance(atom, Axis)}
    here, size = _middle_of(form, middle), _middle_of(by, middle)
    most, least = _hardest(form, inner, 1), _hardest(form, inner, -1)
    lanes = any(part.kind == "vector" for name, part in inner.items() if name in moving)
    if not here or not size or most is None or least is None or not lanes:
        return None
    turns = here // size
    tests = most.plus(by, -turns - 1), least.plus(by, turns).plus(Linear(-1))
    asked = tuple(test for test in tests if _negative(test) != TRUE)
    if any(Axis(loop.loop) not in test.terms for test in asked) or not _is_most(loop, asked, middle):
        return None
    return _Answer(expression(form.plus(by, -turns)), asked)


def _hardest(form: Linear, inner: Loops, sign: int) -> Linear | None:
    """`sign` times a form where it is largest over the loops inside; None where their ends are not told by the loops around."""
    found = form.times(sign)
    for name in reversed(list(inner)):
        factor = found.terms.get(Axis(name), 0)
        if not factor:
            continue
        part = inner[name]
        end = linear(part.lo) if factor < 0 else linear(part.hi).plus(Linear(-1))
        if any(not isinstance(atom, (Axis, Dim)) for atom in end.terms):
            return None
        found = found.plus(Linear(0, {Axis(name): factor}), -1).plus(end, factor)
    return found


# The middle ----------------------------------------------------------------------------------------------------------------------


def _inside(loop: For, middle: Middle) -> Middle:
    """The middle of the loops around, and of this one where it can be told."""
    ends = _number(loop.lo, middle), _number(loop.hi, middle)
    rest = {name: at for name, at in middle.items() if name != loop.loop}
    return rest if ends[0] is None or ends[1] is None else {**rest, loop.loop: (ends[0] + ends[1]) // 2}


def _middle_of(form: Linear, middle: Middle) -> int | None:
    total = form.constant
    for atom, factor in form.terms.items():
        value = _number(atom, middle)
        if value is None:
            return None
        total += factor * value
    return total


def _number(expr: Expr, middle: Middle) -> int | None:
    """An index in the middle of the loops."""
    match expr:
        case Const(value):
            return int(value)
        case Axis(name):
            return middle.get(name)
        case Dim(_, least, most):
            return min(max(USUAL, least), most)
        case Binary(op, left, right) if op in EXTENT_OPERATORS:
            a, b = _number(left, middle), _number(right, middle)
            return None if a is None or b is None else ARITHMETIC[op](a, b)
        case _:
            return None


# Versions ------------------------------------------------------------------------------------------------------------------------


def _answered(stmt: Stmt, answers: Mapping[Expr, _Answer]) -> Stmt:
    """The statement with answers in place of questions."""

    def chosen(node: Expr) -> Expr:
        found = answers.get(node) if _is_question(node) else None
        return node if found is None else found.value

    def replaced(expr: Expr) -> Expr:
        new = rewrite(expr, chosen)
        return expr if new is expr else simplify(new)

    return map_expressions(stmt, replaced)


def _gathers(stmt: Stmt, lanes: frozenset[str] = frozenset()) -> bool:
    """Does a question that differs between lanes stand in the index of a read?"""
    if isinstance(stmt, For) and stmt.kind == "vector":
        lanes |= {stmt.loop}
    loads = (load for expr in expressions(stmt) for load in loads_of(expr)) if lanes else ()
    asked = (node for load in loads for part in load.index for node in _nodes(part) if _is_question(node))
    return any(axes_of(node) & lanes for node in asked) or any(_gathers(part, lanes) for part in substatements(stmt))


def _by_lanes(stmt: Stmt) -> Stmt:
    """The statement with vector loops whose lanes ask where to read run lane by lane, where memory is all that they touch."""
    if not isinstance(stmt, For) or stmt.kind != "vector":
        return map_statements(stmt, _by_lanes)
    nodes = [node for part in statements(stmt.body) for expr in expressions(part) for node in _nodes(expr)]
    buffers = [load.buffer for load in nodes if isinstance(load, Load)]
    buffers += [buffer for part in statements(stmt.body) if isinstance(part, Store) for buffer in part.buffers]
    near = any(isinstance(buffer, Buffer) and _is_near(buffer) for buffer in buffers)
    return replace(stmt, kind="serial") if _gathers(stmt) and not near and not any(isinstance(node, Call) for node in nodes) else stmt


def _is_near(buffer: Buffer) -> bool:
    """May a buffer be in registers, as long as its elements have known places?"""
    extents = [extent.value for extent in buffer.shape if isinstance(extent, Const)]
    small = len(extents) == len(buffer.shape) and prod(extents) * buffer.dtype.bytes <= REGISTERS
    return buffer.memory == "register" or (buffer.memory in ("auto", "stack") and small)


def _nodes(expr: Expr) -> Iterator[Expr]:
    """Every node once."""
    stack, seen = [expr], set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(children(node))
