"""Parts of what a stage computes that become stages of their own: which they are, and one after the other as far as that is legal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tensorlang.ir import Expr, Nest
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.traverse import children
from tensorlang.schedules.directive import Refusal


def largest(values: Iterable[Expr], wanted: Callable[[Expr], bool], skipped: Callable[[Expr], bool]) -> list[Expr]:
    """The largest parts of values that are wanted, each once, in order; what is skipped is not looked into."""
    numbering = Numbering()
    found: dict[int, Expr] = {}

    def inside(expr: Expr, seen: set[int]) -> Iterator[Expr]:
        number = numbering.number(expr)
        if number in seen or skipped(expr):
            return
        seen.add(number)
        if wanted(expr):
            yield expr
            return
        for part in children(expr):
            yield from inside(part, seen)

    for value in values:
        for expr in inside(value, set()):
            found.setdefault(numbering.number(expr), expr)
    return list(found.values())


def with_each(nest: Nest, parts: Iterable[Expr], step: Callable[[Nest, Expr], Nest], nothing: Refusal) -> Nest:
    """The nest after a step for each part for which that is legal. Raises the last `Refusal`, or `nothing`, where there is no such part."""
    result, refused = nest, nothing
    for part in parts:
        try:
            result = step(result, part)
        except Refusal as why:
            refused = why
    if result is nest:
        raise refused
    return result
