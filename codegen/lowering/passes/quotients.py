"""Quotients, remainders and bits that the ranges of loops decide.

    for c_o in range(4):                            for c_o in range(4):
        vector c_i in range(8):             ->          vector c_i in range(8):
            h[(8 c_o + c_i) // 8, (8 c_o + c_i) % 8]        h[c_o, c_i]

So a blocked layout is walked as the blocks lie, and a vector over one block is one access to memory. Where a vector lies within one of
the blocks of which a divisor is made, the division leaves the lanes: `(16 c_o + c_i) % 64` is `16 (c_o % 4) + c_i` (`algebra.quotients`).
So do bits: `(16 c_o + c_i) ^ 64` is `16 (c_o ^ 4) + c_i` (`algebra.bits`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang import ir
from tensorlang.algebra.bits import bits_apart
from tensorlang.algebra.quotients import taken_apart
from tensorlang.algebra.rules import SMALL
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Const, Dim, Expr, For, Stmt
from tensorlang.ir.linear import Linear, linear
from tensorlang.ir.traverse import map_children, map_own_expressions, map_statements, operands_first

Ranges = Mapping[str, tuple[int, int]]


def decide_quotients(stmt: Stmt, ranges: Ranges | None = None) -> Stmt:
    """The statement with decided quotients and remainders replaced; `ranges` are the first and last values of loops around."""
    known = ranges or {}
    if isinstance(stmt, For):
        bounds = _least(stmt.lo), _most(stmt.hi)
        inside = {name: found for name, found in known.items() if name != stmt.loop}
        if bounds[0] is not None and bounds[1] is not None and bounds[0] <= bounds[1]:
            inside[stmt.loop] = bounds[0], bounds[1]
        body = decide_quotients(stmt.body, inside)
        stmt = stmt if body is stmt.body else replace(stmt, body=body)
    else:
        stmt = map_statements(stmt, lambda part: decide_quotients(part, known))
    return map_own_expressions(stmt, lambda expr: _decided(expr, known))


def _least(lo: Expr) -> int | None:
    match lo:
        case Const(value):
            return int(value)
        case Binary("max", left, right):
            found = [side for side in (_least(left), _least(right)) if side is not None]
            return max(found) if found else None
        case _:
            return None


def _most(hi: Expr) -> int | None:
    match hi:
        case Const(value):
            return int(value) - 1
        case Binary("min", left, right):
            found = [side for side in (_most(left), _most(right)) if side is not None]
            return min(found) if found else None
        case _:
            return None


def _decided(expr: Expr, ranges: Ranges) -> Expr:
    done: dict[int, Expr] = {}
    for node, _ in operands_first((expr,), done):
        done[id(node)] = _over_decided(node, map_children(node, lambda part: done[id(part)]), ranges)
    return done[id(expr)]


def _over_decided(expr: Expr, node: Expr, ranges: Ranges) -> Expr:
    """What is decided of an expression; `node` is the same over operands of which that is done."""
    match node:
        case Binary("floordiv" | "mod" as op, left, Const(by)) if by > 0 and node.right == ir.const(int(by)):
            form = linear(left)
            found = taken_apart(op, form, int(by), lambda rest: _span(rest, ranges)) if _is_of_loops(form) else None
            return node if found is None else found
        case Binary("and" | "or" | "xor" as op, left, Const(mask)) if node.right == ir.const(int(mask)):
            form = linear(left)
            found = bits_apart(op, form, int(mask), lambda rest: _span(rest, ranges)) if _is_of_loops(form) else None
            return node if found is None else found
        case _:
            return node if node is expr else simplify(node)


def _is_of_loops(form: Linear) -> bool:
    """Is a form one of loops and extents, which does not wrap?"""
    return all(isinstance(atom, (Axis, Dim)) and abs(factor) < SMALL for atom, factor in form.terms.items())


def _span(form: Linear, ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest value of a form over the ranges of its loops."""
    low = high = form.constant
    for atom, factor in form.terms.items():
        bounds = ranges.get(atom.name) if isinstance(atom, Axis) else None
        if bounds is None:
            return None
        ends = (factor * bounds[0], factor * bounds[1])
        low, high = low + min(ends), high + max(ends)
    return low, high
