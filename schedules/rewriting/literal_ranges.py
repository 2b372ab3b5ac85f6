"""What axes can be, as far as literal ends tell."""

from __future__ import annotations

from collections.abc import Iterable

from tensorlang.ir import Axis, Const, Expr


def literal_ranges(ends: Iterable[tuple[str, Expr, Expr]]) -> dict[Expr, tuple[int, int]]:
    """The first and the last value of each axis from `lo` to below `hi`, where these are literals; copies of a stage share names.

    An axis of several ranges has the widest, and one that has no values counts as if it had its first.
    """
    found: dict[Expr, tuple[int, int]] = {}
    for name, lo, hi in ends:
        if isinstance(lo, Const) and isinstance(hi, Const):
            first, last = found.get(Axis(name), (int(lo.value), int(lo.value)))
            found[Axis(name)] = min(first, int(lo.value)), max(last, int(hi.value) - 1)
    return found
