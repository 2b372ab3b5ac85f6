"""Ways in which the proofs of dependences may be weakened: what they know of two iterations and of writes. For `faulty_steps`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Compare, Expr, Nest, Select
from tensorlang.ir.mentions import allocations


def storage_of(_old: Any, nest: Nest, *_uses: Any) -> set[str]:
    return {buffer.name for buffer in allocations(nest.body)}


def outer_counts_short(counts: Iterable[Expr]) -> Iterator[Expr]:
    for count in counts:
        yield simplify(Binary("sub", count, ir.const(1)))


def remainders_apart(old: Any, one: Any, two: Any, relation: ir.FuseRelation) -> Iterator[Expr]:
    yield from old(one, two, relation)
    fused, inner = (Compare("eq", one.at(axis), two.at(axis)) for axis in (relation.fused, relation.inner))
    yield Binary("or", fused, Compare("ne", inner.left, inner.right))


def choices_swapped(old: Any, found: list[Any], stage: str, expr: Expr, *where: Any) -> None:
    old(found, stage, Select(expr.cond, expr.no, expr.yes) if isinstance(expr, Select) else expr, *where)


def reads_unconditional(old: Any, found: list[Any], stage: str, expr: Expr, *where: Any) -> None:
    if stage:
        old(found, stage, expr, *where)
