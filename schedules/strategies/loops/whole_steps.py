"""Steps of a sum in which all of a tile takes part, and those in which a condition lets some of it.

    for k: for i in rows: if k > i: acc[i] += ...       ->      for k up to the last row: for i in rows: if k > i: acc[i] += ...
                                                                for the other k: for i in rows: acc[i] += ...

A tile of rows over a triangle or a band asks for each of its rows in each step, though all but as many steps as it has rows have one answer
for all. The cost model counts conditions as nothing, so this is a rule: where several rows share a step, what is asked costs as much as
their sums.
"""

from __future__ import annotations

from math import inf, prod

from tensorlang.algebra.bounds import conjuncts
from tensorlang.ir import Expr, For, If, Nest, Stmt
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, statements
from tensorlang.schedules.directives.partition import Partition
from tensorlang.schedules.rewriting.edit import literal_extent, loops, stores
from tensorlang.schedules.schedule import Schedule


def part_whole_steps(s: Schedule) -> None:
    """Append the directive for each sum over a tile of rows that asks for them."""
    for loop in [part.loop for part in loops(s.nest.body) if _asks_for_rows(s.nest, part)]:
        s.attempt(Partition(loop))


def _asks_for_rows(nest: Nest, loop: For) -> bool:
    """Does each step of a sum in registers ask which of several rows take part, of which there are fewer than steps?"""
    if loop.kind != "serial" or not all(part.reducer is not None and part.buffers[0].memory == "register" for part in stores(loop.body)):
        return False
    rows = {part.loop: literal_extent(part) or 1 for part in loops(loop.body) if part.kind == "unroll"}
    conditions = (closure(nest, axes_of(condition)) for condition in _conditions(loop.body))
    asked = frozenset[str]().union(*(axes & rows.keys() for axes in conditions if loop.loop in axes))
    return bool(asked) and (literal_extent(loop) or inf) > prod(rows[name] for name in asked)


def _conditions(body: Stmt) -> list[Expr]:
    return conjuncts(part.cond for part in statements(body) if isinstance(part, If))
