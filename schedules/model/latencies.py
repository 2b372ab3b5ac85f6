"""How long after a read an expression is there, in latencies of a multiply-add; and a load after the store of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorlang.ir import Binary, Call, Cast, Compare, Expr, Load, Select, Unary
from tensorlang.ir.traverse import children, dtype_of, operands_first, reads_data
from tensorlang.schedules.model.functions import function_slots, products_of_quotient

INTEGER: Final = 0.25
"""Latencies of a multiply-add that an operation on integers takes: one cycle of four."""
ADDED: Final = 0.75
"""The same of a sum or an extremum: 3 cycles on most, 4 on Skylake to Ice Lake, 2 on Arm's cores (Fog's tables, uops.info)."""
DIVIDED: Final = 3.0
"""The same of a division: 11 to 14 cycles (Fog's tables)."""
FORWARDED: Final = 2.0
"""Latencies of L1 from a store until a load of the same element has it: 7 or 8 cycles on a Zen 3, whose L1 gives in 4 (Fog's tables)."""


def latencies(values: Sequence[Expr], own: frozenset[str]) -> dict[Load, float]:
    """The reads of the buffers `own` in values, each with the longest way from it to the value that is made of it."""
    known: dict[int, dict[Load, float]] = {}

    def after(expr: Expr) -> dict[Load, float]:
        if id(expr) not in known:
            here, found = _latency(expr), dict[Load, float]()
            for part in children(expr):
                for load, latency in after(part).items():
                    found[load] = max(found.get(load, 0.0), latency + here)
            if isinstance(expr, Load) and getattr(expr.buffer, "name", "") in own:
                found[expr] = 0.0
            known[id(expr)] = found
        return known[id(expr)]

    found: dict[Load, float] = {}
    for value in values:
        for load, latency in after(value).items():
            found[load] = max(found.get(load, 0.0), latency)
    return found


def depth(values: Sequence[Expr]) -> float:
    """The longest way from something that is read to one of the values."""
    known: dict[int, float | None] = {}  # None where nothing is read
    for node, parts in operands_first(values, known):
        before = [found for part in parts if (found := known[id(part)]) is not None]
        known[id(node)] = _latency(node) + max(before, default=0.0) if before or isinstance(node, Load) else None
    return max((known[id(value)] or 0.0 for value in values), default=0.0)


def _latency(expr: Expr) -> float:
    match expr:
        case Call():
            return function_slots(expr).latency
        case Binary(op, left, by):
            if op in ("div", "floordiv", "mod"):
                return DIVIDED if dtype_of(left).is_integer else products_of_quotient(by) or DIVIDED
            return INTEGER if dtype_of(left).is_integer or op in ("and", "or") else 1.0 if op == "mul" else ADDED
        case Select(cond):
            return INTEGER if reads_data(cond) else 0.0  # what loops decide is known before
        case Compare() | Unary():
            return INTEGER
        case Cast():
            return 1.0
        case _:
            return 0.0
