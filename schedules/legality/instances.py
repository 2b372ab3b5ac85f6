"""Instances: one execution of an access, every axis renamed to a copy of its own, with what holds of the copies.

Questions about two executions are asked of two instances (see `dependences`): their facts, what ties them, and how they are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Buffer, Compare, Const, Expr, Load, Nest, const
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure, equations, in_scope, relation_names
from tensorlang.ir.traverse import loads_of, map_children, reads_data, walk
from tensorlang.schedules.legality.accesses import Access, facts_of


def rename(expr: Expr, names: dict[str, str], mark: str = "") -> Expr:
    """The expression over a copy's axes. What it reads of a buffer that the nest writes is an unknown of that copy."""
    if isinstance(expr, Axis):
        return Axis(names.get(expr.name, expr.name))
    expr = map_children(expr, lambda child: rename(child, names, mark))
    if isinstance(expr, Load) and mark and isinstance(expr.buffer, Buffer):
        return Load(replace(expr.buffer, name=f"{expr.buffer.name}{mark}"), expr.index)
    return expr


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of a statement: its access, with every axis renamed to a copy of its own, and what holds of the copies."""

    access: Access
    names: dict[str, str]
    facts: tuple[Expr, ...]
    index: tuple[Expr, ...]

    def at(self, loop: str) -> Expr:
        """The copy's value of a loop."""
        return Axis(self.names.get(loop, loop))


def instance(nest: Nest, access: Access, mark: str, shared: frozenset[str]) -> Instance:
    """A copy of an access whose loops outside `shared` are its own."""
    around = {loop.loop for loop in access.loops}
    relations = in_scope(nest, around)
    axes = around | {name for relation in relations for name in relation_names(relation)}
    shared_axes = {name for name in axes if closure(nest, (name,)) & around <= shared}
    names = {name: f"{name}{mark}" for name in axes - shared_axes}
    facts: list[Expr] = [fact for loop in access.loops for fact in facts_of(loop)]
    facts += [fact for relation in relations for fact in equations(relation)]
    inputs = {buffer.name for buffer in nest.inputs}

    def varies(expr: Expr) -> bool:
        return any(getattr(load.buffer, "name", "") not in inputs for load in loads_of(expr))

    held = (simplify(condition) for condition in conjuncts(access.conditions))  # A[i + 0] is A[i]
    facts += [condition for condition in held if not varies(condition)]
    index = tuple(rename(part, names, mark if varies(part) else "") for part in map(simplify, access.index))
    return Instance(access, names, tuple(rename(fact, names) for fact in facts), index)


def same_element(first: Instance, second: Instance) -> Iterator[Expr]:
    """What holds where two instances touch one element of a buffer."""
    for a, b in zip(first.index, second.index, strict=True):
        yield Compare("eq", a, b)


def exists(copy: Instance) -> Iterator[Expr]:
    """What holds of an element that data choose: it is one of the buffer, since an access is in bounds wherever it is made.

    Which instances there are, and what they touch, is that of the nest as it stands. Where the index is one of axes alone, bounds,
    relations and conditions say as much.
    """
    for part, extent in zip(copy.index, copy.access.buffer.shape, strict=True):
        if reads_data(part) and not any(isinstance(node, (Axis, Load)) for node in walk(extent)):
            yield from (Compare("le", const(0), part), Compare("lt", part, extent))


def example_of(one: Instance, two: Instance, point: dict[Expr, int]) -> dict[str, Any]:
    """Two instances at a point, as a counterexample."""

    def values(copy: Instance) -> dict[str, int]:
        return {short(loop.loop): point[copy.at(loop.loop)] for loop in copy.access.loops if copy.at(loop.loop) in point}

    def known(part: Expr) -> int | None:
        return point.get(part, int(part.value) if isinstance(part, Const) else None)

    index = [known(part) if known(part) is not None else known(other) for part, other in zip(one.index, two.index, strict=True)]
    element = f"{one.access.buffer.name}[{', '.join('?' if value is None else str(value) for value in index)}]"
    dims = {node.name: value for node, value in point.items() if isinstance(node, ir.Dim)}
    found: dict[str, Any] = {
        "first": {"stage": one.access.stage, "does": "writes" if one.access.writes else "reads", "at": values(one)},
        "second": {"stage": two.access.stage, "does": "writes" if two.access.writes else "reads", "at": values(two)},
        "element": element,
    }
    return {**found, "dims": dims} if dims else found
