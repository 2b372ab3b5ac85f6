"""How much a nest runs, roughly: the stores that it executes, and the storage that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from tensorlang.ir import Alloc, Axis, Binary, Const, Dim, Expr, For, Stmt, Store
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import children, substatements
from tensorlang.semantics import scalars

FILLED: Final = 1000
"""Elements of storage that are set up in the time of a store that is interpreted."""


def work(stmt: Stmt, sizes: Callable[[Expr], int], times: int = 1) -> int:
    """About how many stores a nest runs, where bounds that depend on axes are taken at their start."""
    match stmt:
        case Store():
            return times
        case For(lo=lo, hi=hi, body=body):
            return work(body, sizes, times * max(0, sizes(hi) - sizes(lo)))
        case Alloc(buffers=buffers, body=body):
            elements = sum(prod(max(0, sizes(extent)) for extent in buffer.shape) for buffer in buffers)
            return times * (1 + elements // FILLED) + work(body, sizes, times)
        case _:
            return sum(work(part, sizes, times) for part in substatements(stmt))


def sizes_of(dims: Mapping[str, int]) -> Callable[[Expr], int]:
    """The value of a bound with every axis at 0."""

    def size(expr: Expr) -> int:
        match expr:
            case Const(value):
                return int(value)
            case Dim(name):
                return dims.get(name, 1)
            case Axis():
                return 0
            case Binary(op, left, right):
                return int(scalars.integer(op, INT64)(size(left), size(right))) if op != "div" else 1
            case _:
                return max((size(part) for part in children(expr)), default=1)

    return size
