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

from collections.abc import Iterator, Sequence
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


def bound_by_data(stmt: Stmt, lanes: frozenset[str] = frozenset(), own: frozenset[str] = frozenset()) -> Stmt:
    """The statement with loops bounded by conditions on data, the outermost first.

    A bound is the same in all lanes: `lanes` are the vector loops around, `own` the storage inside them, which every lane has of its own.
    """
    around: list[Expr] = []
    if isinstance(stmt, For) and stmt.kind in ("serial", "parallel"):
        around, stmt = _bounded(stmt, lanes, own)
    if isinstance(stmt, For) and stmt.kind == "vector":
        lanes, own = lanes | {stmt.loop}, own | {buffer.name for buffer in allocations(stmt.body)}
    result = map_statements(stmt, lambda part: bound_by_data(part, lanes, own))
    return _nested(around, result)


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


def _bounded(loop: For, lanes: frozenset[str], own: frozenset[str]) -> tuple[list[Expr], For]:
    """The conditions that move in front of a loop, and the loop bounded by the conditions on data inside it."""
    links, body = _links(loop.body)
    written = written_in(body)
    uses = [use for use in _uses(loop, links, lanes) if not (written | own) & read_in(use.says)]
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


def _uses(loop: For, links: Sequence[Link], lanes: frozenset[str]) -> Iterator[_Use]:
    inner: list[For] = []
    passed: list[Expr] = []
    for at, link in enumerate(links):
        if isinstance(link, For):
            inner.append(link)
            if (axes_of(link.lo) | axes_of(link.hi)) & {loop.loop, *(part.loop for part in inner)}:
                return
            continue
        moving = {loop.loop, *(part.loop for part in inner)}
        says = _easiest(link, inner)
        fixed = axes_of(says) - {loop.loop} if says is not None else frozenset[str]()
        if (
            says is not None
            and read_in(link)
            and loop.loop in axes_of(link)
            and not fixed & (moving | lanes)
            and not any(axes_of(cond) & moving and may_protect(cond, link) for cond in passed)
        ):
            yield _Use(at, says, axes_of(link) & moving == {loop.loop})
        passed.append(link)


def may_protect(cond: Expr, other: Expr) -> bool:
    """Could what `other` reads be inside its buffers only because `cond` holds? It could not where they have nothing in common."""
    limits = [part for load in loads_of(other) for part in (*load.index, *getattr(load.buffer, "shape", ()))]
    spoken_of = {node for part in limits for node in walk(part) if isinstance(node, (Axis, Dim, Load))}
    return any(node in spoken_of for node in _compared(cond))


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
