"""The bounds of a reduction axis as a user gives them: extents, or integer expressions over axes and elements of tensors."""

from __future__ import annotations

from typing import Any

from tensorlang import ir
from tensorlang.algebra.ranges import is_near
from tensorlang.definition.expr import Expr, binary, convert
from tensorlang.definition.extent import extent_node
from tensorlang.definition.tensor import Itself
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import walk


def bounds_of(domain: object, within: object) -> tuple[Expr, Expr]:
    """The bounds of an axis over `domain` that never leaves `within`, unless that is None. Raises `DefinitionError`."""
    lo, hi = (axis_bound(bound) for bound in _pair(domain))
    if within is not None:
        least, most = (Expr(extent_node(bound, "within= of a reduction axis")) for bound in _pair(within))
        lo, hi = binary("max", lo, least), binary("min", hi, most)
        lo, hi = lo if is_near(lo.node) else binary("min", lo, most), hi if is_near(hi.node) else binary("max", hi, least)
    return lo, hi


def _pair(domain: Any) -> tuple[Any, ...]:
    pair = tuple(domain) if isinstance(domain, (tuple, list)) else (0, domain)
    if len(pair) != 2:
        raise DefinitionError(f"a reduction axis runs over an extent or a pair (lo, hi), not {domain!r}")
    return pair


def axis_bound(value: object) -> Expr:
    """A bound of a reduction axis, as int64. Raises `DefinitionError` for what is none."""
    if not isinstance(value, Expr):
        return Expr(extent_node(value, "a bound of a reduction axis"))
    if not value.dtype.is_integer:
        raise DefinitionError(f"a bound of a reduction axis is {value!r} ({value.dtype}); bounds are integers: use tl.cast")
    for node in walk(value.node):
        if isinstance(node, ir.Reduce) or (isinstance(node, ir.Load) and isinstance(node.buffer, Itself)):
            what = "holds a reduction" if isinstance(node, ir.Reduce) else "reads the recurrence itself"
            raise DefinitionError(f"a bound of a reduction axis, {value!r}, {what}; compute it as a tensor of its own and read that")
    return convert(value, INT64)
