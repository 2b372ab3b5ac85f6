"""What a store that combines writes: its values and what is there, put together by its reducer."""

from __future__ import annotations

from tensorlang import ir
from tensorlang.codegen.emission.convert import round_to_half, widen
from tensorlang.codegen.emission.expression import value
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.math import emit_fma
from tensorlang.codegen.emission.types import Value, matched


def given_values(stmt: ir.Store) -> tuple[ir.Expr, ...]:
    """What a store computes before it asks what is there: its values, or the factors of a product that one instruction adds."""
    match stmt:
        case ir.Store(values=(ir.Binary("mul", left, right),), reducer=ir.Reducer("sum")) if stmt.buffers[0].dtype.is_floating:
            return left, right
    return stmt.values


def combined(frame: Frame, stmt: ir.Store, given: list[Value], old: list[Value]) -> list[Value]:
    """What is `given` combined with what is there."""
    assert stmt.reducer is not None
    if len(given) > len(old):
        return [_multiply_add(frame, stmt, *given, *old)]
    frame.fresh()
    frame.params = {f"{side}{n}": found for side, states in (("a", old), ("b", given)) for n, found in enumerate(states)}
    return [value(frame, expr) for expr in stmt.reducer.results]


def _multiply_add(frame: Frame, stmt: ir.Store, left: Value, right: Value, old: Value) -> Value:
    """`old + left * right` with one rounding where the target can."""
    dtype = stmt.buffers[0].dtype
    a, b, c = (widen(frame.builder, frame.target, dtype, part) for part in matched(frame.builder, left, right, old))
    return round_to_half(frame.builder, frame.target, dtype, emit_fma(frame.builder, a, b, c, has_fma=frame.target.has_fma))
