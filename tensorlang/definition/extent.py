"""Extents: ints, and arithmetic on `dim`s, which are known only at run time; and the names that users may give."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.definition.expr import Expr, ExprLike, as_expr, binary
from tensorlang.errors import DefinitionError
from tensorlang.ir.integers import known_value
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import walk

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\Z")
RESERVED: Final = frozenset({*keyword.kwlist, "inf", "nan"})
"""What no dim is called: a call could not give it by name, and texts of definitions and graphs read it as something else."""
MAX_AXES: Final = 64
"""Of a tensor: as many as NumPy's arrays have."""
MAX_EXTENT: Final = ir.MOST


class Dim:
    """An extent known only at run time, or arithmetic on such extents.

    `==` compares extents by structure and is a bool: whether two are the same extent, not whether they have one value. With an index
    expression on either side it is a condition.
    """

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
        if isinstance(other, Expr):
            return NotImplemented
        return isinstance(other, Dim) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def __bool__(self) -> bool:
        raise DefinitionError(f"the extent {self!r} is known only at run time; compare it inside tl.select or where=")

    @property
    def dims(self) -> dict[str, tuple[int, int]]:
        """The dims that it is made of, by name in order of appearance, with their bounds."""
        return {name: (node.least, node.most) for name, node in dims_in((self.node,)).items()}

    def at(self, /, **sizes: int) -> int:
        """The extent where dims have these sizes. Raises `DefinitionError` where one is missing."""
        found = known_value(self.node, sizes)
        if found is None:
            missing = ", ".join(name for name in self.dims if name not in sizes)
            raise DefinitionError(f"the extent {self!r} is known where {missing} is given, as in extent.at({missing}=8)")
        return found

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
Bound: TypeAlias = "int | Dim | Expr"


def dim(name: str, least: int = 0, most: int = MAX_EXTENT) -> Dim:
    """An extent known only at run time (int64), `least <= dim <= most`: proofs rely on the bounds, and a call beyond them is refused.

    Equal names are the same extent, so one program gives a name one pair of bounds. Raises `DefinitionError` for a name that is a word of
    Python, and for bounds that are not `0 <= least <= most <= 2**48`.
    """
    label = checked_name(name, "a dim")
    if label in RESERVED:
        raise DefinitionError(f"{label!r} cannot name a dim: texts and calls read it as a word of Python; call it {label}_, say")
    for bound in (least, most):
        if not isinstance(bound, (int, np.integer)) or isinstance(bound, (bool, np.bool_)):
            raise DefinitionError(f"a bound of the dim {label} must be an int, not {bound!r:.60}")
    if not 0 <= least <= most <= MAX_EXTENT:
        raise DefinitionError(f"the dim {label} cannot be from {least} to {most}; its bounds are 0 <= least <= most <= 2**48")
    return Dim(ir.Dim(label, int(least), int(most)))


def dims_in(exprs: Iterable[ir.Expr]) -> dict[str, ir.Dim]:
    """The dims in expressions by name, in order of appearance. Raises `DefinitionError` where two of one name differ in their bounds."""
    found: dict[str, ir.Dim] = {}
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, ir.Dim):
                same = found.setdefault(node.name, node)
                if (same.least, same.most) != (node.least, node.most):
                    raise DefinitionError(
                        f"the dim {node.name} is given two pairs of bounds, {dim_text(same)} and {dim_text(node)}; "
                        "equal names are the same dim, so make it once and use it everywhere"
                    )
    return found


def dim_text(node: ir.Dim) -> str:
    """How a dim is made, as Python."""
    bounds = f", {node.least}" if node.least or node.most < MAX_EXTENT else ""
    return f"tl.dim({node.name!r}{bounds}{f', {node.most}' if node.most < MAX_EXTENT else ''})"


def limits(dims: Iterable[ir.Dim]) -> tuple[ir.Limit, ...]:
    """The bounds of those dims that have any."""
    return tuple((node.name, node.least, node.most) for node in dims if node.least or node.most < MAX_EXTENT)


def products(exprs: Iterable[ir.Expr]) -> tuple[ir.Expr, ...]:
    """The products of dims in extents and in bounds of loops, and what is made of them.

    These may leave the range of extents where no dim does.
    """
    found: dict[ir.Expr, None] = {}
    for expr in filter(_is_extent, exprs):
        parts = [node for node in walk(expr) if _multiplies(node)][::-1]  # what is inside comes first, as it is computed
        found.update(dict.fromkeys([*parts, expr] if parts else []))
    return tuple(found)


def _is_extent(expr: ir.Expr) -> bool:
    return all(isinstance(node, (ir.Const, ir.Dim, ir.Binary, ir.Unary)) for node in walk(expr))


def _multiplies(node: ir.Expr) -> bool:
    return isinstance(node, ir.Binary) and node.op == "mul" and not any(isinstance(side, ir.Const) for side in (node.left, node.right))


def beyond(name: str, value: int, bounds: Iterable[ir.Limit]) -> str | None:
    """What is wrong with the value of a dim, as the end of a sentence; None if nothing is."""
    least, most = next(((least, most) for dim, least, most in bounds if dim == name), (0, MAX_EXTENT))
    if least <= value <= most:
        return None
    wanted = f"at least {least}" if most == MAX_EXTENT and value < least else f"from {least} to {most}"
    return f"the dim {name} is {wanted}, and not {value}"


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
    raise DefinitionError(f"{name!r} cannot name {what}; use letters, digits and _, at most 200")


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
    if len(shape) > MAX_AXES:
        raise DefinitionError(f"{what} has {len(shape)} axes; a tensor has at most {MAX_AXES}, as arrays do")
    nodes = tuple(extent_node(entry, f"an extent of {what}") for entry in shape)
    for node in nodes:
        if isinstance(node, ir.Const) and node.value < 0:
            raise DefinitionError(f"an extent of {what} is {node.value}; extents are at least 0")
    return nodes
