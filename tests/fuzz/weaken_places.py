"""Ways in which directives may lose where a statement stands: its conditions, its bounds, what it covers. For `faulty_steps` to inject."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Binary, Block, Compare, Expr, For, If, Stmt
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, reads_data
from tensorlang.schedules.rewriting.edit import literal_extent

from .weaken import in_nest


def all_of(*injections: Callable[[], None]) -> Callable[[], None]:
    """A fault that is made in several places."""

    def inject() -> None:
        for injection in injections:
            injection()

    return inject


def lower_sides_lost(found: list[Expr]) -> list[Expr]:
    return [side for side in found if not (isinstance(side, Compare) and side.op == "ge")]


def upper_sides_lost(found: list[Expr]) -> list[Expr]:
    return [side for side in found if not (isinstance(side, Compare) and side.op == "lt")]


def nest_as_it_is(_old: Any, nest: Any, *_rest: Any) -> Any:
    return nest


def told_by_closure(_old: Any, nest: Any, _chain: Any, write: Any) -> bool:
    told = closure(nest, frozenset().union(*(axes_of(part) for part in write.index)) if write.index else ())
    return all(loop.loop in told for loop in write.loops)


def end_kept(old: Any, part: For, *rest: Any) -> Any:
    return dataclasses.replace(old(part, *rest), hi=part.hi)


def first_not_run(part: Stmt) -> Stmt:
    return Block(()) if isinstance(part, For) and part.loop.endswith("_first") else part


def bounds_kept(_old: Any, _nest: Any, above: For, below: For, *_rest: Any) -> Any:
    return below, above


def second_first(old: Any, *parts: Stmt) -> Stmt:
    made: Stmt = old(*reversed(parts)) if len(parts) == 2 else old(*parts)
    return made


def versions_swapped(nest: Any) -> Any:
    body = nest.body
    return dataclasses.replace(nest, body=If(body.cond, body.orelse, body.then)) if isinstance(body, If) and body.orelse else nest


def data_conditions_lost(part: Stmt) -> Stmt:
    return part.then if isinstance(part, If) and part.orelse is None and reads_data(part.cond) else part


def chosen_or_not(old: Any, self: Any, reduce: Any) -> Any:
    self.conditions = ()
    return old(self, reduce)


def at_least_once(part: Stmt) -> Stmt:
    if not isinstance(part, For) or literal_extent(part) is not None or part.kind != "serial":
        return part
    return dataclasses.replace(part, hi=Binary("max", part.hi, Binary("add", part.lo, ir.const(1))))


def last_copy_lost(part: Stmt) -> Stmt:
    if not isinstance(part, For) or part.kind != "unroll" or (literal_extent(part) or 0) < 2:
        return part
    return dataclasses.replace(part, hi=simplify(Binary("sub", part.hi, ir.const(1))))


def combined_from_second(old: Any, self: Any, nest: Any) -> Any:
    def late(part: Stmt) -> Stmt:
        if isinstance(part, For) and part.loop == self.loop:
            return dataclasses.replace(part, lo=simplify(Binary("add", part.lo, ir.const(1))))
        return part

    return in_nest(late)(old(self, nest))


def copied_afterwards(part: Stmt) -> Stmt:
    match part:
        case Alloc(buffers, Block((copy, *rest))) if buffers[0].name.endswith("_cache"):
            return Alloc(buffers, Block((*rest, copy)))
        case _:
            return part
