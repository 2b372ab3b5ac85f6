"""Rows that are read round: a remainder along the lanes is contiguous but for the vector in which the row begins anew.

    vector i in range(16):                                  at = (16 i_o + S) % n
        R[16 i_o + i] = A[(16 i_o + i + S) % n]     ->      if at + 15 < n:
                                                                vector i in range(16): R[16 i_o + i] = A[at + i]
                                                            else: as it was

Where loops tell where that is, `quotients` and `interiors` have decided it before; here data do, as a shift that is an operand, and each
vector asks. Where the last of its places is inside, or the first of one that goes backwards, none before it went round.

The digits of a fused loop, as of `C[i // 56, i % 56]` with rows of 56, are no such rows: in memory they are one number again, whose lanes
are neighbours everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Final, NamedTuple

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Buffer, Compare, Const, Expr, For, If, Load, Nest, Stmt, Store, const
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, dtype_of, expressions, map_expressions, map_statements, nodes, rewrite, statements, substitute

MOST: Final = 2
"""Rows that a statement reads round, each by another shift, at most: a vector is asked whether it is whole in all of them."""


class _Round(NamedTuple):
    """A remainder by its place in the vector: whether none of its lanes is beyond an end, and the place of a lane then."""

    whole: Expr
    place: Expr


def rotated(nest: Nest) -> Nest:
    """The nest whose vectors ask whether a row that they read round begins anew within them."""
    return replace(nest, body=_rotated(nest.body))


def _rotated(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, For) or stmt.kind != "vector":
        return map_statements(stmt, _rotated)
    rounds = {part: _round(part, stmt, factor) for part, factor in _remainders(stmt)}
    if not 0 < len(rounds) <= MOST:
        return stmt
    whole = reduce(lambda left, right: Binary("and", left, right), (one.whole for one in rounds.values()))

    def placed(node: Expr) -> Expr:
        return rounds[node].place if isinstance(node, Binary) and node in rounds else node

    return If(whole, map_expressions(stmt, lambda expr: rewrite(expr, placed)), stmt)


def _round(part: Binary, vector: For, factor: int) -> _Round:
    begin = simplify(substitute(part, {vector.loop: vector.lo}))
    lane, last = Binary("sub", Axis(vector.loop), vector.lo), Binary("sub", Binary("sub", vector.hi, vector.lo), const(1))
    if factor > 0:
        return _Round(Compare("lt", simplify(Binary("add", begin, last)), part.right), simplify(Binary("add", begin, lane)))
    return _Round(Compare("ge", simplify(Binary("sub", begin, last)), const(0)), simplify(Binary("sub", begin, lane)))


def _remainders(vector: For) -> Iterator[tuple[Binary, int]]:
    """The remainders in which neighbouring lanes are neighbours, of more places than twice the lanes, and which way they go."""
    width = linear(Binary("sub", vector.hi, vector.lo)).constant
    for node in dict.fromkeys(node for index, shape in _accesses(vector.body) for node in _open(index, shape)):
        if dtype_of(node) != INT64 or vector.loop in axes_of(node.right):
            continue
        few = isinstance(node.right, Const) and node.right.value < 2 * width
        terms = linear(node.left).terms
        factor = terms.get(Axis(vector.loop), 0)
        others = any(vector.loop in axes_of(atom) for atom in terms if atom != Axis(vector.loop))
        if abs(factor) == 1 and not others and not few:
            yield node, factor


def _accesses(body: Stmt) -> Iterator[tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
    """The indices of elements that are read and written, each with the extents in memory."""
    for inner in statements(body):
        if isinstance(inner, Store):
            yield from ((inner.index, buffer.in_memory) for buffer in inner.buffers)
        loads = (node for expr in expressions(inner) for node in nodes(expr) if isinstance(node, Load))
        yield from ((load.index, load.buffer.in_memory) for load in loads if isinstance(load.buffer, Buffer))


def _open(index: tuple[Expr, ...], shape: tuple[Expr, ...]) -> Iterator[Binary]:
    """The remainders in an index that no quotient of the same beside them makes whole again in memory."""
    strides: list[Expr] = [const(1)]
    for extent in reversed(shape[1:]):
        strides.append(simplify(Binary("mul", strides[-1], extent)))
    parts = [(linear(part).terms, stride) for part, stride in zip(index, strides[len(index) - 1 :: -1], strict=True)] if index else []
    quotients = {
        (atom.left, atom.right): (factor, stride)
        for terms, stride in parts
        for atom, factor in terms.items()
        if isinstance(atom, Binary) and atom.op == "floordiv"
    }
    for part, (terms, stride) in zip(index, parts, strict=True):
        for node in nodes(part):
            if isinstance(node, Binary) and node.op == "mod":
                factor, apart = quotients.get((node.left, node.right), (0, stride))
                closed = isinstance(node.right, Const) and apart == simplify(Binary("mul", stride, node.right))
                if not (closed and factor and factor == terms.get(node)):
                    yield node
