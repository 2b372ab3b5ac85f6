"""Which loops move a value: what none of the inner ones moves is made before them, once for all of their iterations.

    for i: for k: Y[i] += X[k] * sqrt(w[i])         # n square roots, n * m products and sums

A load moves with its index, and with the loops in which what it reads is written: the norm of a step of a scan is another one in each step,
though its index says nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

from tensorlang.codegen.cost.operations import Conditions, operations
from tensorlang.ir import Axis, Buffer, Expr, For, If, Load, Nest, Param, Stmt, Store, Unary
from tensorlang.ir.traverse import operands_first, substatements

Loops: TypeAlias = tuple[For, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, the loops around it, outermost first, and the conditions under which it runs."""

    store: Store
    loops: Loops
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Made:
    """An operation of a statement, the loops in each iteration of which it is made, and the conditions under which it is made there."""

    name: str
    loops: Loops
    conditions: Conditions


def made(nest: Nest) -> Iterator[tuple[Store, tuple[Made, ...]]]:
    """The operations of each statement of an unscheduled nest, in program order."""
    every, writers = tuple(_statements(nest.body, (), ())), dict[str, list[Loops]]()
    for statement in every:
        for buffer in statement.store.buffers:
            writers.setdefault(buffer.name, []).append(statement.loops)
    for statement in every:
        depths = _Depths(statement, writers)
        yield statement.store, tuple([_made(name, value, chosen, depths) for name, chosen, value in operations(statement.store)])


def _made(name: str, value: Expr, chosen: Conditions, depths: _Depths) -> Made:
    depth = max(map(depths.of, (value, *chosen)))
    asked = (cond for cond in depths.statement.conditions if depths.of(cond) <= depth)
    return Made(name, depths.statement.loops[:depth], (*asked, *chosen))


def _statements(stmt: Stmt, loops: Loops, conditions: Conditions) -> Iterator[Statement]:
    match stmt:
        case Store():
            yield Statement(stmt, loops, conditions)
        case For(body=body):
            yield from _statements(body, (*loops, stmt), conditions)
        case If(cond, then, orelse):
            yield from _statements(then, loops, (*conditions, cond))
            if orelse is not None:
                yield from _statements(orelse, loops, (*conditions, Unary("not", cond)))
        case _:
            for part in substatements(stmt):
                yield from _statements(part, loops, conditions)


@dataclass(frozen=True, slots=True)
class _Depths:
    """How many of the loops around a statement, outermost first, hold all that move an expression; `writers` are by buffers' names."""

    statement: Statement
    writers: Mapping[str, Sequence[Loops]]
    known: dict[int, tuple[Expr, int]] = field(default_factory=dict)

    def of(self, expr: Expr) -> int:
        """The number of loops: all of them where it combines what was reduced before."""
        for node, parts in operands_first((expr,), self.known):
            self.known[id(node)] = node, max([self._own(node), *(self.known[id(part)][1] for part in parts)])
        return self.known[id(expr)][1]

    def _own(self, node: Expr) -> int:
        loops = [loop.loop for loop in self.statement.loops]
        match node:
            case Axis(name):
                return loops.index(name) + 1 if name in loops else 0
            case Param():
                return len(loops)
            case Load(Buffer(name)):
                return max((self._shared(other) for other in self.writers.get(name, ())), default=0)
            case _:
                return 0

    def _shared(self, other: Loops) -> int:
        """How many loops stand around both the statement and another one, which stands in these."""
        return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(self.statement.loops, other, strict=False)))
