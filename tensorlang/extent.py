"""Extents: ints, and arithmetic on `dim`s, which are known only at run time; and the names that users may give."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tensorlang import ir
from tensorlang.errors import DefinitionError
from tensorlang.expr import Expr, ExprLike, as_expr, binary
from tensorlang.printer import text
from tensorlang.simplify import simplify

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MAX_EXTENT: Final = 1 << 48


class Dim:
    """An extent known only at run time, or arithmetic on such extents. `==` compares by structure and is a bool."""

    __array_ufunc__ = None
    __slots__ = ("node",)

    def __init__(self, node: ir.Expr) -> None:
        self.node = simplify(node)

    def as_expr(self) -> Expr:
        """The extent as an int64 value of an index expression."""
        return Expr(self.node)

    def __repr__(self) -> str:
        return text(self.node)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, np.integer)):
            return self.node == ir.const(int(other))
        return isinstance(other, Dim) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def __bool__(self) -> bool:
        raise DefinitionError(f"the extent {self!r} is known only at run time; compare it inside tl.select or where=")

    def _with(self, op: str, left: object, right: object) -> Any:
        if all(isinstance(side, (Dim, int, np.integer)) and not isinstance(side, bool) for side in (left, right)):
            return extent(ir.Binary(op, extent_node(left, "an extent"), extent_node(right, "an extent")))
        return binary(op, as_expr(left), as_expr(right))

    def __add__(self, other: object) -> Any:
        return self._with("add", self, other)

    def __radd__(self, other: object) -> Any:
        return self._with("add", other, self)

    def __sub__(self, other: object) -> Any:
        return self._with("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return self._with("sub", other, self)

    def __mul__(self, other: object) -> Any:
        return self._with("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self._with("mul", other, self)

    def __floordiv__(self, other: object) -> Any:
        return self._with("floordiv", self, other)

    def __mod__(self, other: object) -> Any:
        return self._with("mod", self, other)

    def __truediv__(self, other: object) -> Any:
        return binary("div", self.as_expr(), as_expr(other))

    def __rtruediv__(self, other: object) -> Any:
        return binary("div", as_expr(other), self.as_expr())

    def __lt__(self, other: ExprLike) -> Expr:
        return self.as_expr() < as_expr(other)

    def __le__(self, other: ExprLike) -> Expr:
        return self.as_expr() <= as_expr(other)

    def __gt__(self, other: ExprLike) -> Expr:
        return self.as_expr() > as_expr(other)

    def __ge__(self, other: ExprLike) -> Expr:
        return self.as_expr() >= as_expr(other)


Extent: TypeAlias = "int | Dim"


def dim(name: str) -> Dim:
    """An extent known only at run time (int64, >= 0). Equal names are the same extent."""
    return Dim(ir.Dim(checked_name(name, "a dim")))


def extent(node: ir.Expr) -> Extent:
    """An extent from its node: an int where it is a literal."""
    plain = simplify(node)
    return int(plain.value) if isinstance(plain, ir.Const) else Dim(plain)


def extent_node(value: object, what: str) -> ir.Expr:
    """An extent from an int or a dim. Raises `DefinitionError`."""
    if isinstance(value, Dim):
        return value.node
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        if not -MAX_EXTENT <= value <= MAX_EXTENT:
            raise DefinitionError(f"{what} of {value} is out of range (at most 2**48)")
        return ir.const(int(value))
    raise DefinitionError(f"{what} must be an int or a tl.dim, not {value!r:.60}")


def checked_name(name: object, what: str) -> str:
    """`name`, if it can name a tensor, an axis or a dim. Raises `DefinitionError`."""
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise DefinitionError(f"{name!r} cannot name {what}; use letters, digits and _")


def optional_name(name: object, what: str) -> str | None:
    """`name`, if it is None or can name something. Raises `DefinitionError`."""
    return None if name is None else checked_name(name, what)


def choice(value: object, what: str, known: Sequence[str]) -> str:
    """`value`, if it is one of the words `known`. Raises `DefinitionError`."""
    if isinstance(value, str) and value in known:
        return value
    raise DefinitionError(f"{what} {value!r:.60} is not one of {', '.join(map(repr, known))}")


def shape_nodes(shape: object, what: str) -> tuple[ir.Expr, ...]:
    """The extents of a shape. Raises `DefinitionError`."""
    if isinstance(shape, (int, np.integer, Dim)):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)):
        raise DefinitionError(f"the shape of {what} must be a tuple of ints and dims, not {shape!r:.60}")
    nodes = tuple(extent_node(entry, f"an extent of {what}") for entry in shape)
    for node in nodes:
        if isinstance(node, ir.Const) and node.value < 0:
            raise DefinitionError(f"an extent of {what} is {node.value}; extents are at least 0")
    return nodes
