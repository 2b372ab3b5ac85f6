"""Conditions on data become bounds of the loops that they bound: what `tensorlang.algebra.ranges` made conditions of.

    for i in range(n):                                    for i in range(n):
        for j in range(m):                                    for j in range(max(0, ptr[i]), min(m, ptr[i + 1])):
            if ptr[i] <= j:                         ->            y[i] += a[j]
                if j < ptr[i + 1]:
                    y[i] += a[j]

Of a loop that was split, the outer one is bounded by what the condition says where the inner loops are at their easiest, and keeps it.

A bound is evaluated before the loop and not in it. That is right where nothing in the loop stores to what it reads, and it reads inside
its buffers because everything that could have kept it from being read is still around it: the conditions before it that do not speak of
the loop move out in front, one that speaks of the loop as well as of the place that the bound reads forbids it, and where the loop or one
inside it may be empty, a test comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts, interval
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.bounds import bounded
from tensorlang.ir import Axis, Binary, Compare, Const, Dim, Expr, For, If, Load, Stmt
from tensorlang.ir.linear import linear
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import axes_of, children, dtype_of, loads_of, map_statements, read_in, substitute, walk, written_in

Link: TypeAlias = "For | Expr"
"""A loop, or a condition."""


def bound_by_data(
    stmt: Stmt, lanes: frozenset[str] = frozenset(), own: frozenset[str] = frozenset(), holding: tuple[Expr, ...] = ()
) -> Stmt:
    """The statement with loops bounded by conditions on data, the outermost first.

    A bound is the same in all lanes: `lanes` are the vector loops around, `own` the storage inside them, which every lane has of its own.
    `holding` is what holds around the statement.
    """
    front: list[Expr] = []
    if isinstance(stmt, For) and stmt.kind in ("serial", "parallel"):
        front, stmt = _bounded(stmt, lanes, own, holding)
    if isinstance(stmt, For) and stmt.kind == "vector":
        lanes, own = lanes | {stmt.loop}, own | {buffer.name for buffer in allocations(stmt.body)}
    inside = (*holding, *front, *told_by(stmt))
    result = map_statements(stmt, lambda part: bound_by_data(part, lanes, own, inside))
    return _nested(front, result)


def told_by(stmt: Stmt) -> tuple[Expr, ...]:
    """What holds inside a statement because of it: a loop is within its bounds, a condition may hold."""
    match stmt:
        case For(name, lo, hi):
            return Compare("le", lo, Axis(name)), Compare("lt", Axis(name), hi)
        case If(cond):
            return tuple(conjuncts((cond,)))
        case _:
            return ()


def _links(stmt: Stmt) -> tuple[list[Link], Stmt]:
    """The loops and conditions directly inside each other, outermost first, and what stands inside them all."""
    found: list[Link] = []
    while True:
        match stmt:
            case For(body=body):
                found.append(stmt)
                stmt = body
            case If(cond, then, None):
                found += conjuncts((cond,))
                stmt = then
            case _:
                return found, stmt


def _nested(links: Sequence[Link], body: Stmt) -> Stmt:
    for link in reversed(links):
        body = replace(link, body=body) if isinstance(link, For) else If(link, body)
    return body


@dataclass(frozen=True, slots=True)
class _Use:
    """A condition that bounds the loop, by what it says where the inner loops are at their easiest; `whole`: that is all that it says."""

    position: int
    says: Expr
    whole: bool


def _bounded(loop: For, lanes: frozenset[str], own: frozenset[str], holding: tuple[Expr, ...]) -> tuple[list[Expr], For]:
    """The conditions that move in front of a loop, and the loop bounded by the conditions on data inside it."""
    links, body = _links(loop.body)
    written = written_in(body)
    uses = [use for use in _uses(loop, links, lanes, holding) if not (written | own) & read_in(use.says)]
    tight = loop
    kept: list[_Use] = []
    for use in uses:
        found = bounded(tight, use.says)
        if found is not None and interval(found.lo) is not None and interval(found.hi) is not None:
            tight = replace(found, lo=_plain(found.lo), hi=_plain(found.hi))
            kept.append(use)
    if not kept:
        return [], loop
    last = kept[-1].position
    inner = [link for link in links[:last] if isinstance(link, For)]
    moving = {loop.loop, *(link.loop for link in inner)}
    front = [at for at, link in enumerate(links[:last]) if not isinstance(link, For) and not axes_of(link) & moving]
    if any(written & read_in(link) for at in front if not isinstance(link := links[at], For)):
        return [], loop
    tests = [simplify(Compare("lt", part.lo, part.hi)) for part in (loop, *inner) if not runs(part)]
    gone = {*front, *(use.position for use in kept if use.whole)}
    rest = [link for at, link in enumerate(links) if at not in gone]
    return [*tests, *(link for at in front if not isinstance(link := links[at], For))], replace(tight, body=_nested(rest, body))


def _uses(loop: For, links: Sequence[Link], lanes: frozenset[str], holding: tuple[Expr, ...]) -> Iterator[_Use]:
    """The conditions that may bound the loop, up to the first that may have to stay where it is and would move in front for a later one."""
    inner: list[For] = []
    staying: list[Expr] = []  # conditions that speak of loops inside
    around = holding
    for at, link in enumerate(links):
        if isinstance(link, For):
            inner.append(link)
            if (axes_of(link.lo) | axes_of(link.hi)) & {loop.loop, *(part.loop for part in inner)}:
                return
            continue
        moving = {loop.loop, *(part.loop for part in inner)}
        if not axes_of(link) & moving:
            if read_in(link) and may_protect(staying, around, link):
                return
            around = (*around, link)
            continue
        says = _easiest(link, inner)
        fixed = axes_of(says) - {loop.loop} if says is not None else frozenset[str]()
        if (
            says is not None
            and read_in(link)
            and loop.loop in axes_of(link)
            and not fixed & (moving | lanes)
            and not may_protect(staying, around, link)
        ):
            yield _Use(at, says, axes_of(link) & moving == {loop.loop})
        staying.append(link)


def may_protect(conds: Iterable[Expr], around: Iterable[Expr], other: Expr) -> bool:
    """Could what `other` reads be inside its buffers only because one of `conds` holds, by itself or by what holds `around`?

    It could not where they have nothing in common: no axis, dim or element that a condition compares with what limits the reads, nor with
    what such a comparison around has led to. Of `T[p]`, `j < 8` says something where `p <= k` and `k <= j` hold around it.
    """
    limits = [part for load in loads_of(other) for part in (*load.index, *getattr(load.buffer, "shape", ()))]
    known: set[Expr] = {node for part in limits for node in walk(part) if isinstance(node, (Axis, Dim, Load))}
    if not known:
        return False
    asked = [set(_compared(cond)) for cond in conds]
    links = [set(_compared(cond)) for cond in around]
    while joined := [nodes for nodes in links if nodes & known and not nodes <= known]:
        known.update(*joined)
    return any(nodes & known for nodes in asked)


def _compared(cond: Expr) -> Iterator[Load | Axis | Dim]:
    """The axes, dims and elements that a condition compares."""
    match cond:
        case Load() | Axis() | Dim():
            yield cond
        case _:
            for part in children(cond):
                yield from _compared(part)


def _easiest(condition: Expr, inner: Sequence[For]) -> Expr | None:
    """What an inequality says where loops inside are at the ends at which it holds first; None for any other condition."""
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge") or dtype_of(condition.left) != "int64":
        return None
    less = condition.op in ("lt", "le")
    form = linear(Binary("sub", condition.left, condition.right) if less else Binary("sub", condition.right, condition.left))
    ends: dict[str, Expr] = {}
    for part in inner:
        factor = form.terms.get(Axis(part.loop), 0)
        ends[part.loop] = part.lo if factor > 0 else Binary("sub", part.hi, ir.const(1))
        if any(part.loop in axes_of(atom) for atom in form.terms if atom != Axis(part.loop)):
            return None
    return Compare(condition.op, substitute(condition.left, ends), substitute(condition.right, ends))


def _plain(bound: Expr) -> Expr:
    """A bound without a side that the other one already respects: max(0, max(x, 0)) is max(x, 0)."""
    match bound:
        case Binary("min" | "max" as op, old, Binary(same, left, right) as new) if op == same and old in (left, right):
            return new
        case _:
            return bound


def runs(loop: For) -> bool:
    """Does a loop have an iteration, whatever the dims are?"""
    return isinstance(loop.lo, Const) and isinstance(loop.hi, Const) and loop.lo.value < loop.hi.value
