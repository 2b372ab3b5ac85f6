"""Cases of a loop that does not move along a row: each iteration computes one of them.

    select(d < 2, select(d < 1, X[x], X[x + 1]), select(d < 3, X[x + 2], X[x + 3]))        ->        X[x + 1]

Where lanes do not choose, loops are parted at such conditions, or unrolled, and decide them. Of two sides of a choice the model counts both
but for what only one of them takes; with a dozen cases (`by_cases`) that would be the reads of all of them in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tensorlang.ir import Axis, Compare, Const, Expr, Select, Store
from tensorlang.ir.traverse import axes_of, read_in

FEWEST: Final = 3
"""Cases that are told from the two sides of a choice."""


def in_one_case(store: Store) -> Store:
    """The statement with a case in the middle in place of all of a loop, where its elements do not follow one another along the loop."""
    along = axes_of(store.index[-1]) if store.index else frozenset()
    values = tuple(_in_one_case(value, along) for value in store.values)
    return store if values == store.values else replace(store, values=values)


def _in_one_case(value: Expr, along: frozenset[str]) -> Expr:
    axis = _axis(value)
    if axis is None or axis in along:
        return value
    cases = [*_cases(value, axis)]
    alike = len({read_in(case) for case in cases}) == 1  # parts that are put together read other tensors, each of which counts
    return cases[(len(cases) - 1) // 2] if alike and len(cases) >= FEWEST else value


def _axis(value: Expr) -> str | None:
    """The loop by which an expression is chosen, at a literal."""
    match value:
        case Select(Compare("lt", Axis(name), Const())):
            return name
        case _:
            return None


def _cases(value: Expr, axis: str) -> Iterator[Expr]:
    if isinstance(value, Select) and _axis(value) == axis:
        yield from _cases(value.yes, axis)
        yield from _cases(value.no, axis)
    else:
        yield value
