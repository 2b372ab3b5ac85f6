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
from tensorlang.ir import Axis, Buffer, Expr, For, Load, Nest, Param, Store
from tensorlang.ir.traverse import operands_first
from tensorlang.schedules.rewriting.edit import stores_within

Loops: TypeAlias = tuple[For, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """An operation of a statement, the loops in each iteration of which it is made, and the conditions under which it is made there."""

    name: str
    loops: Loops
    conditions: Conditions


def made(nest: Nest) -> Iterator[tuple[Store, tuple[Made, ...]]]:
    """The operations of each statement of an unscheduled nest, in program order."""
    every, writers = tuple(stores_within(nest.body)), dict[str, list[Loops]]()
    for store, loops, _ in every:
        for buffer in store.buffers:
            writers.setdefault(buffer.name, []).append(loops)
    for store, loops, conditions in every:
        depths = _Depths(loops, writers)
        yield store, tuple([_made(name, (value, *chosen), chosen, conditions, depths) for name, chosen, value in operations(store)])


def _made(name: str, of: tuple[Expr, ...], chosen: Conditions, around: Conditions, depths: _Depths) -> Made:
    depth = max(map(depths.of, of))
    return Made(name, depths.loops[:depth], (*(cond for cond in around if depths.of(cond) <= depth), *chosen))


@dataclass(frozen=True, slots=True)
class _Depths:
    """How many of the `loops` around a statement, outermost first, hold all that move an expression; `writers` are by buffers' names."""

    loops: Loops
    writers: Mapping[str, Sequence[Loops]]
    known: dict[int, tuple[Expr, int]] = field(default_factory=dict)

    def of(self, expr: Expr) -> int:
        """The number of loops: all of them where it combines what was reduced before."""
        for node, parts in operands_first((expr,), self.known):
            self.known[id(node)] = node, max([self._own(node), *(self.known[id(part)][1] for part in parts)])
        return self.known[id(expr)][1]

    def _own(self, node: Expr) -> int:
        loops = [loop.loop for loop in self.loops]
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
        return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(self.loops, other, strict=False)))
