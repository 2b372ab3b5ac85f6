"""Index expressions as the user writes them: Python operators that build, check and type `ir` nodes.

An `Expr` wraps one `ir` node, so that the node stays plain data with structural equality while `==`, `<` and `&` on the surface make
new expressions. Python and NumPy scalars are *weak*: they take the type of the other operand. Types promote within a kind; mixing
kinds, `int / int` and arithmetic on bool are refused with the cast that would be meant.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, Union

import numpy as np

from tensorlang import ir
from tensorlang.definition import hints
from tensorlang.definition.literals import retyped
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import BOOL, FLOAT32, INT64, DType, dtype, promote
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import dtype_of, sizes_and_depths, walk

MAX_DEPTH = 250
MAX_SIZE = 1 << 15
SHORTER: Final[ContextVar[Callable[[ir.Expr], ir.Expr] | None]] = ContextVar("SHORTER", default=None)
"""What makes an expression shorter that is too large, in the body that is being written."""

Scalar: TypeAlias = "bool | int | float | np.generic"
ExprLike: TypeAlias = Union["Expr", "Scalar"]


class Expr(hints.Single):
    """An index expression: one value for each point of the axes it mentions."""

    __slots__ = ("depth", "node", "size", "weak")

    def __init__(self, node: ir.Expr, operands: tuple[Expr, ...] = (), *, weak: bool = False) -> None:
        self.node = node
        self.weak = weak
        self.size: int = 1 + sum(operand.size for operand in operands)
        self.depth: int = 1 + max((operand.depth for operand in operands), default=0)
        if self.depth > MAX_DEPTH or self.size > MAX_SIZE:
            self._shorten()

    def _shorten(self) -> None:
        shorter = SHORTER.get()
        if shorter is not None:
            self.node = shorter(self.node)
            self.size, self.depth = sizes_and_depths(self.node)[id(self.node)]
        if self.depth > MAX_DEPTH or self.size > MAX_SIZE:
            raise DefinitionError(
                f"an expression of {self.size} nodes, {self.depth} deep, is too large (at most {MAX_SIZE} and {MAX_DEPTH}); "
                "make a part of it a tensor with tl.compute, or write the repetition as a reduction, as steps of tl.scan, "
                "or as a further axis of a recurrence"
            )

    @property
    def dtype(self) -> DType:
        """The type of the value."""
        return dtype_of(self.node)

    def __repr__(self) -> str:
        return text(self.node)

    def __bool__(self) -> bool:
        ordered = isinstance(self.node, ir.Compare) and self.node.op not in ("eq", "ne")
        extrema = "tl.maximum(a, b) and tl.minimum(a, b) instead of `max` and `min`, " if ordered else ""
        raise DefinitionError(
            f"the truth of {self!r} is not known while the operator is defined; "
            f"write tl.select(cond, a, b) instead of `if`, {extrema}and & | ~ instead of `and`, `or`, `not`"
        )

    def __index__(self) -> NoReturn:
        raise DefinitionError(
            f"{self!r} has no value while the operator is defined, so Python cannot use it as an integer; "
            "to read a list or an array at it, make that an operand first: table = tl.buffer(array), then table[i]"
        )

    def __float__(self) -> NoReturn:
        raise DefinitionError(
            f"{self!r} has no value while the operator is defined, so Python cannot use it as a number; "
            "for the functions of math write those of tensorlang: tl.exp, tl.sqrt, ..."
        )

    if not TYPE_CHECKING:  # a type checker goes by what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise hints.no_attribute(self, name)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **_: Any) -> Any:
        return hints.apply(ufunc, method, operands, repr(self))

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        hints.no_array(repr(self))

    __hash__ = object.__hash__

    def __add__(self, other: ExprLike) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("div", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return binary("floordiv", other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("mod", self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return binary("mod", other, self)

    def __pow__(self, other: ExprLike) -> Expr:
        return power(self, other)

    def __rpow__(self, other: ExprLike) -> Expr:
        return power(other, self)

    def __and__(self, other: ExprLike) -> Expr:
        return binary("and", self, other)

    def __rand__(self, other: ExprLike) -> Expr:
        return binary("and", other, self)

    def __or__(self, other: ExprLike) -> Expr:
        return binary("or", self, other)

    def __ror__(self, other: ExprLike) -> Expr:
        return binary("or", other, self)

    def __xor__(self, other: ExprLike) -> Expr:
        return binary("xor", self, other)

    def __rxor__(self, other: ExprLike) -> Expr:
        return binary("xor", other, self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return binary("shl", self, other)

    def __rlshift__(self, other: ExprLike) -> Expr:
        return binary("shl", other, self)

    def __rshift__(self, other: ExprLike) -> Expr:
        return binary("shr", self, other)

    def __rrshift__(self, other: ExprLike) -> Expr:
        return binary("shr", other, self)

    def __lt__(self, other: ExprLike) -> Expr:
        return compare("lt", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return compare("le", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return compare("gt", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return compare("ge", self, other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return compare("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return compare("ne", self, other)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return unary("abs", self)

    def __invert__(self) -> Expr:
        return unary("not", self)


def as_expr(value: object) -> Expr:
    """`value` as an expression; scalars become weak literals. Raises `DefinitionError`, also for an int that no type holds."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return Expr(ir.Const(bool(value), BOOL), weak=True)
    if isinstance(value, (int, np.integer)):
        return Expr(ir.Const(int(value), _holding(int(value))), weak=True)
    if isinstance(value, (float, np.floating)):
        return Expr(ir.Const(float(value), FLOAT32), weak=True)
    as_extent = getattr(value, "as_expr", None)
    if as_extent is not None:
        return as_extent()  # type: ignore[no-any-return]
    hint = ""
    if hasattr(value, "shape"):
        axes = ", ".join("ijklmn"[: len(value.shape)])
        hint = f"; index it, as in A[{axes}]" if axes else "; its one element is m[()]"
    elif isinstance(value, list):
        hint = "; several values are a tuple"
    raise DefinitionError(f"{_spelling(value)} cannot stand in an index expression{hint}")


def _holding(literal: int) -> DType:
    """The type that an integer literal has by itself. Raises `DefinitionError`."""
    for kind in (INT64, dtype("uint64")):
        if kind.lowest <= literal <= kind.highest:
            return kind
    shown = str(literal) if literal.bit_length() < 256 else f"an integer of {literal.bit_length()} bits"
    raise DefinitionError(f"{shown} fits no type; the widest are int64 and uint64")


def _spelling(value: object) -> str:
    name = getattr(value, "name", None)
    return f"tensor {name!r}" if isinstance(name, str) and hasattr(value, "shape") else f"a {type(value).__name__} ({value!r:.60})"


def convert(value: Expr, to: DType) -> Expr:
    """`value` with type `to`, which promotion has chosen: literals are retyped, other values widened."""
    if value.dtype == to:
        return Expr(value.node, (value,)) if value.weak else value
    if isinstance(value.node, ir.Const) and value.weak:
        literal = value.node.value
        if to.is_floating:
            return Expr(ir.Const(float(literal), to))
        if to.is_integer and not to.lowest <= literal <= to.highest:
            raise DefinitionError(f"{literal} does not fit {to}; write tl.cast to compute in a wider type")
        return Expr(ir.Const(literal, to))
    return Expr((retyped(value.node, to) if value.weak else None) or ir.Cast(value.node, to), (value,))


def cast(value: ExprLike, to: str | DType) -> Expr:
    """`value` converted to a type: saturating from floating point (NaN becomes 0), wrapping between integers."""
    operand, target = as_expr(value), dtype(to)
    if isinstance(operand.node, ir.Const) and operand.weak:
        literal = operand.node.value
        if target.is_floating:
            return Expr(ir.Const(float(literal), target))
        if target.is_integer and not isinstance(literal, float) and target.lowest <= literal <= target.highest:
            return Expr(ir.Const(int(literal), target))
        if target == BOOL and not isinstance(literal, float):
            return Expr(ir.Const(bool(literal), BOOL))
    if operand.weak and (literals := retyped(operand.node, target)) is not None:
        return Expr(literals, (operand,))
    return Expr(operand.node, (operand,)) if operand.dtype == target else Expr(ir.Cast(operand.node, target), (operand,))


def common(operation: str, *values: ExprLike) -> tuple[list[Expr], bool]:
    """The operands of one operation in their common type, and whether that type is still weak.

    Raises `DefinitionError` where the operands' kinds differ.
    """
    operands = [as_expr(value) for value in values]
    strong = [operand for operand in operands if not operand.weak]
    if any(operand.dtype.is_floating for operand in strong):  # a dim is there what the literal would be that it stands for
        strong = [operand for operand in strong if operand.dtype.is_floating or not _is_extent(operand)]
    rank = {"bool": 0, "signed": 1, "unsigned": 1, "floating": 2}
    if not strong:
        to = max((operand.dtype for operand in operands), key=lambda kind: rank[kind.kind])
    else:
        to = strong[0].dtype
        for operand in strong[1:]:
            wider = promote(to, operand.dtype)
            if wider is None:
                raise _mixed_kinds(operation, operands, to, operand.dtype)
            to = wider
        for operand in operands:
            kind = operand.dtype.kind
            if operand.weak and (rank[kind] > rank[to.kind] or (kind == "bool") != (to.kind == "bool")):
                raise _mixed_kinds(
                    operation, operands, to, DType("bool") if kind == "bool" else DType("float32" if kind == "floating" else "int64")
                )
    weak = not strong
    converted = [convert(operand, to) for operand in operands]
    return converted, weak


def _is_extent(operand: Expr) -> bool:
    """Is this arithmetic on dims and literals, and on at least one dim?"""
    leaves = [node for node in walk(operand.node) if not isinstance(node, (ir.Binary, ir.Unary))]
    return any(isinstance(node, ir.Dim) for node in leaves) and all(isinstance(node, (ir.Dim, ir.Const)) for node in leaves)


def _mixed_kinds(operation: str, operands: list[Expr], left: DType, right: DType) -> DefinitionError:
    wanted = max(left, right, key=lambda kind: (kind.kind == "floating", kind.bits))
    other = next((operand for operand in operands if operand.dtype.kind != wanted.kind), operands[0])
    return DefinitionError(
        f"{operation} of {' and '.join(f'{operand!r} ({operand.dtype})' for operand in operands)}: "
        f'the kinds differ; convert one side, for example tl.cast({other!r}, "{wanted}")'
    )


_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
}
_BITWISE = ("and", "or", "xor")


def binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    """`left op right` in the operands' common type."""
    symbol = _SYMBOLS.get(op, {"min": "minimum", "max": "maximum"}.get(op, op))
    (a, b), weak = common(symbol, left, right)
    kind = a.dtype.kind
    if kind == "bool" and op not in _BITWISE:
        raise DefinitionError(f'{symbol} of {a!r} and {b!r}: there is no arithmetic on bool; write tl.cast(..., "int32") or use & | ~')
    if kind == "floating" and op in (*_BITWISE, "shl", "shr"):
        raise DefinitionError(f'{symbol} of {a!r} and {b!r}: bits are for integers and bool; write tl.cast(..., "int32")')
    if kind == "floating" and op in ("floordiv", "mod"):
        floor = "tl.floor(a / b)" if op == "floordiv" else "a - tl.floor(a / b) * b"
        raise DefinitionError(f"{a!r} {symbol} {b!r}: // and % are for integers; write {floor}, or tl.cast to an integer")
    if kind in ("signed", "unsigned") and op == "div":
        raise DefinitionError(f'{a!r} / {b!r} divides integers; write // for the floor, or tl.cast(..., "float32") to divide exactly')
    return Expr(ir.Binary(op, a.node, b.node), (a, b), weak=weak)


def compare(op: str, left: object, right: object) -> Expr:
    """A comparison, of type bool."""
    (a, b), _ = common("a comparison", left, right)  # type: ignore[arg-type]
    if a.dtype == BOOL and op not in ("eq", "ne"):
        raise DefinitionError(f"{a!r} and {b!r} are bool and have no order; compare with == or combine with & | ~")
    return Expr(ir.Compare(op, a.node, b.node), (a, b))


def unary(op: str, value: ExprLike) -> Expr:
    """`-x`, `abs(x)` or `~x`."""
    operand = as_expr(value)
    kind = operand.dtype.kind
    if (kind == "bool" and op != "not") or (kind == "floating" and op == "not"):
        raise DefinitionError(f"{op} of {operand!r} ({operand.dtype}) has no meaning; use ~ for bool, - and abs for numbers")
    if isinstance(operand.node, ir.Const) and operand.weak and op == "neg":
        return Expr(ir.Const(-operand.node.value, operand.dtype), weak=True)
    if op == "abs" and kind == "unsigned":
        return operand
    return Expr(ir.Unary(op, operand.node), (operand,), weak=operand.weak)


def power(base: ExprLike, exponent: ExprLike) -> Expr:
    """`base ** exponent`: products for a small non-negative integer exponent, else `tl.pow` of floating-point values."""
    if isinstance(exponent, (int, np.integer)) and not isinstance(exponent, bool) and 1 <= exponent <= 4:
        value = as_expr(base)
        result = value if value.dtype != BOOL else binary("mul", value, value)  # which is refused
        for _ in range(int(exponent) - 1):
            result = binary("mul", result, value)
        return result
    (a, b), weak = common("**", base, exponent)
    if not a.dtype.is_floating:
        other = "1 << n for a power of 2, or " if isinstance(base, (int, np.integer)) and base == 2 else ""
        hint = f'write {other}tl.cast(..., "float32")'
        raise DefinitionError(f"{a!r} ** {b!r}: an integer power is defined for the exponents 1 to 4; {hint}")
    return Expr(ir.Call("pow", (a.node, b.node), a.dtype), (a, b), weak=weak)


def condition(value: object, what: str) -> Expr:
    """`value` as a bool expression. Raises `DefinitionError` for anything else."""
    cond = as_expr(value)
    if cond.dtype != BOOL:
        raise DefinitionError(f"{what} must be a condition (bool), not {cond!r} ({cond.dtype}); compare it with something")
    return cond
