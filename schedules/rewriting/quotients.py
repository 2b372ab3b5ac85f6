"""Quotients and remainders that a split decides: with `o = 4 o_o + o_i`, `o // 4` is `o_o` and `o % 4` is `o_i`.

A definition addresses the channels of a group, the phases of an image or the digits of a layout by `//` and `%`. Once its loop is split
into these digits, what it reads is linear in them, and every directive and strategy sees which loop moves what. So `split` writes what its
loops decide into the statements inside them. A quotient by more than a digit is over the outer loop alone: with `o = 16 o_o + o_i`,
`o % 64` is `16 (o_o % 4) + o_i` (`algebra.quotients`), which moves with the inner loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.algebra.bounds import interval
from tensorlang.algebra.quotients import taken_apart
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Const, Expr, For, Nest, Stmt
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import expression, linear
from tensorlang.ir.mentions import among, map_among
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, dtype_of, expressions, map_children, map_expressions, nodes, statements, walk
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.rewriting.literal_ranges import literal_ranges
from tensorlang.schedules.rewriting.region import expand


def is_quotient(expr: Expr) -> bool:
    """Is it a floored quotient of indices by a positive literal, or what is left of one? Not of data, which may be of another type."""
    if not (isinstance(expr, Binary) and expr.op in ("floordiv", "mod") and isinstance(expr.right, Const)):
        return False
    return dtype_of(expr.right) == INT64 and expr.right.value > 0


def without_decided_quotients(nest: Nest, made: frozenset[str]) -> Nest:
    """The nest with the quotients gone that the loops `made`, and those around and inside of them, decide."""
    found = (part for part in among(nest.body, made) if isinstance(part, For) and part.loop in made)
    held = (expr for loop in found for stmt in statements(loop) for expr in expressions(stmt))
    if not any(is_quotient(node) for expr in held for node in nodes(expr)):
        return nest
    known = literal_ranges((loop.loop, loop.lo, loop.hi) for loop in loops(nest.body))
    names = [loop.loop for loop in loops(nest.body)]
    done: dict[int, Expr] = {}

    def rewrite(expr: Expr) -> Expr:
        if id(expr) not in done:  # several nodes share parts
            done[id(expr)] = decided(expr) or map_children(expr, rewrite)
        return done[id(expr)]

    def decided(expr: Expr) -> Expr | None:
        if not (is_quotient(expr) and closure(nest, axes_of(expr)) & made):
            return None
        found = _within(expand(nest, expr, names), known)
        return found if _weight(nest, found) < _weight(nest, expr) else None

    def inside(stmt: Stmt) -> Stmt:
        made_here = isinstance(stmt, For) and stmt.loop in made
        return map_expressions(stmt, rewrite) if made_here else map_among(stmt, made, inside)

    return replace(nest, body=inside(nest.body))


def _weight(nest: Nest, expr: Expr) -> tuple[int, int]:
    """How many quotients there are, and how many axes they take their values from."""
    found = [node for node in walk(expr) if is_quotient(node)]
    return len(found), sum(len(closure(nest, axes_of(node))) for node in found)


def _within(expr: Expr, known: Mapping[Expr, tuple[int, int]]) -> Expr:
    """The expression without the quotients that bounds on its axes decide."""
    node = simplify(map_children(expr, lambda part: _within(part, known)))
    if not (isinstance(node, Binary) and is_quotient(node) and isinstance(node.right, Const)):
        return node
    if interval(node.left, known) is None:
        return node
    found = taken_apart(node.op, linear(node.left), int(node.right.value), lambda rest: interval(expression(rest), known))
    return node if found is None else found
