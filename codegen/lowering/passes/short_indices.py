"""Floating point that says where something is becomes an integer of 32 bits, which lanes can convert.

    x[max(min(int64(floor(y)), 299), 0)]        ->        x[max(min(int64(int32(floor(y))), 299), 0)]

A place on an image that is turned, warped or resampled is a float until it is an index, and an index has 64 bits. Processors before AVX-512
make no such integers in lanes, so that LLVM converts one number after the other. Both conversions saturate (`emission.convert`): where the
value leaves 32 bits, it is beyond all that it is compared with, and no index. So between it and a comparison with a literal, an index, or
the two ends of a clamp there may be extrema, and nothing else: a sum would wrap elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from tensorlang.ir import Binary, Buffer, Cast, Compare, Const, Expr, Load, Nest
from tensorlang.ir.dtype import INT32, INT64
from tensorlang.ir.traverse import dtype_of, map_children, map_expressions

MOST: Final = 1 << 30
"""Literals, and extents, up to which 32 bits are surely enough."""


def short_indices(nest: Nest) -> Nest:
    """The nest with floats that become indices converted by way of 32 bits."""
    return replace(nest, body=map_expressions(nest.body, lambda expr: _Shortening().of(expr, ordered=False)))


@dataclass(frozen=True, slots=True)
class _Shortening:
    """What is made of the parts of an expression, each looked at once."""

    done: dict[tuple[int, bool], Expr] = field(default_factory=dict)

    def of(self, expr: Expr, *, ordered: bool) -> Expr:
        """A part with such conversions; `ordered`: of itself only its order beside small numbers counts."""
        key, found = (id(expr), ordered), expr
        if key in self.done:
            return self.done[key]
        match expr:  # here, since a call more for each level would be too many for the deepest expressions
            case Cast(value, kind) if ordered and kind == INT64 and dtype_of(value).is_floating:
                found = Cast(Cast(self.of(value, ordered=False), INT32), INT64)
            case Binary("min" | "max", _, _) if ordered or _is_clamp(expr):
                found = map_children(expr, lambda part: self.of(part, ordered=True))
            case Compare(_, left, right) if dtype_of(left) == INT64 and (_is_small(left) or _is_small(right)):
                found = map_children(expr, lambda part: self.of(part, ordered=True))
            case Load(buffer, index) if isinstance(buffer, Buffer) and all(map(_is_small, buffer.shape)):
                found = replace(expr, index=tuple(self.of(part, ordered=True) for part in index))
            case _:
                found = map_children(expr, lambda part: self.of(part, ordered=False))
        self.done[key] = found
        return found


def _is_clamp(expr: Binary) -> bool:
    """Does it keep a value between two literals?"""
    inner = next((part for part in (expr.left, expr.right) if isinstance(part, Binary) and {part.op, expr.op} == {"min", "max"}), None)
    return inner is not None and any(map(_is_small, (expr.left, expr.right))) and any(map(_is_small, (inner.left, inner.right)))


def _is_small(expr: Expr) -> bool:
    return isinstance(expr, Const) and isinstance(expr.value, int) and abs(expr.value) <= MOST
