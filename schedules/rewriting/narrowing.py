"""Integers in as few bits as hold them, of which a vector has twice as many: intervals say where sums of bytes are the same in 16 bits.

    int32(x[i]) - int32(x[i + 1])        ->        int32(int16(x[i]) - int16(x[i + 1]))

A type holds an expression where no value on the way leaves it, so that its arithmetic is that of whole numbers in both types. What an
index reads, and what axes alone say, stays as it is: it is computed once for all lanes. Bytes are computed in 16 bits, since processors
have neither products nor shifts of less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.interval import Interval, inside, union, whole
from tensorlang.ir import Axis, Binary, Buffer, Cast, Compare, Const, Expr, For, Load, Nest, Select, Store, Unary
from tensorlang.ir.dtype import DType
from tensorlang.ir.relations import sides
from tensorlang.ir.traverse import dtype_of, map_children, nodes, reads_data, statements

TYPES: Final = tuple(DType(name) for name in ("int16", "uint16", "int32", "uint32"))
"""Those that arithmetic may be narrowed to, in the order in which they are tried."""
_EXACT: Final = ("add", "sub", "mul", "min", "max", "and", "or", "xor")
"""Operators whose operands are of the type of the result."""


def narrowest(values: Interval, of: DType) -> DType:
    """The first type of fewer bits that holds all values; the type itself where there is none."""
    return next((kind for kind in TYPES if kind.bits < of.bits and inside(values, whole(kind))), of)


def axes_known(nest: Nest) -> dict[Expr, Interval]:
    """The values of axes that are loops with literal ends, in all versions of the nest."""
    found: dict[Expr, Interval] = {}
    unknown: set[Expr] = {Axis(name) for relation in nest.relations for name in sides(relation)[1]}
    for loop in (part for part in statements(nest.body) if isinstance(part, For)):
        match loop.lo, loop.hi:
            case Const(lo), Const(hi):
                own = int(lo), max(int(lo), int(hi) - 1)
                found[Axis(loop.loop)] = union(found.get(Axis(loop.loop), own), own)
            case _:
                unknown.add(Axis(loop.loop))
    return {axis: values for axis, values in found.items() if axis not in unknown}


class Ranges:
    """What the elements of integer intermediates can be, by name; of what is summed up, or computed from itself, all that its type has."""

    def __init__(self, nest: Nest) -> None:
        self.axes = axes_known(nest)
        self._stores: dict[str, list[tuple[Buffer, Store, Expr]]] = {}
        self._found: dict[str, Interval] = {}
        for store in statements(nest.body):
            if isinstance(store, Store):
                for buffer, value in zip(store.buffers, store.values, strict=True):
                    self._stores.setdefault(buffer.name, []).append((buffer, store, value))

    def of(self, buffer: Buffer) -> Interval:
        """What the elements of a buffer can be."""
        if buffer.name not in self._found:
            self._found[buffer.name] = whole(buffer.dtype)  # where it is asked for on the way
            written = self._stores.get(buffer.name, ())
            parts = [
                self.narrowing(value).bounds.values(value) if store.reducer is None else whole(own.dtype) for own, store, value in written
            ]
            self._found[buffer.name] = reduce(union, parts) if parts else whole(buffer.dtype)
        return self._found[buffer.name]

    def narrowing(self, *exprs: Expr) -> Narrowing:
        """What some expressions are in fewer bits."""
        loads = {node for expr in exprs for node in nodes(expr) if isinstance(node, Load)}
        read: dict[Expr, Interval] = {
            load: self.of(load.buffer) for load in loads if isinstance(load.buffer, Buffer) and load.buffer.dtype.is_integer
        }
        return Narrowing(Bounds({**self.axes, **read}))


@dataclass(frozen=True)
class Narrowing:
    """What expressions are in fewer bits, by what is known of the elements of intermediates and of axes."""

    bounds: Bounds
    _held: dict[tuple[int, DType], bool] = field(default_factory=dict)
    _counted: dict[tuple[int, DType], tuple[int, int]] = field(default_factory=dict)
    _made: dict[tuple[int, DType | None], Expr] = field(default_factory=dict)

    def narrowed(self, expr: Expr) -> Expr:
        """The expression, of the same type and value, whose parts are computed in fewer bits where that is the same."""
        found = self._made.get((id(expr), None))
        if found is not None:
            return found
        match expr:  # here, since a call more for each level would be too many for the deepest expressions
            case Load() | Const() | Axis():
                return expr
            case Cast(value, to) if is_wide(value) and (kind := self._kind(value)) is not None:
                found = Cast(self._within(value, kind), to)
            case Compare(op, left, right) if is_wide(left) and reads_data(expr):
                kind = next((kind for kind in TYPES if self._pays(kind, left, right)), None)
                found = None if kind is None else Compare(op, self._within(left, kind), self._within(right, kind))
            case _ if is_wide(expr) and (kind := self._kind(expr)) is not None:
                found = Cast(self._within(expr, kind), dtype_of(expr))
            case _:
                pass
        found = self._made[id(expr), None] = map_children(expr, self.narrowed) if found is None else found
        return found

    def _kind(self, expr: Expr) -> DType | None:
        """The type of fewer bits in which an expression is worth being computed."""
        return next((kind for kind in TYPES if self._pays(kind, expr)), None)

    def _pays(self, kind: DType, *exprs: Expr) -> bool:
        """Does a type hold all of some expressions, and are there more operations in them than values that have to be cut?"""
        if not all(kind.bits < dtype_of(expr).bits and self._is_held(expr, kind) for expr in exprs):
            return False
        found = [self._count(expr, kind) for expr in exprs]
        return sum(operations for operations, _ in found) > sum(cut for _, cut in found)

    def _count(self, expr: Expr, kind: DType) -> tuple[int, int]:
        """The operations of an expression in a type, and the values that have to be cut for them, as often as they are used."""
        key = id(expr), kind
        if key not in self._counted:
            parts = _operands(expr, kind)
            cut = parts is None and not isinstance(expr, Const) and dtype_of(_uncast(expr)).bits > kind.bits
            found = [(int(parts is not None), int(cut)), *(self._count(part, kind) for part in parts or ())]
            self._counted[key] = sum(operations for operations, _ in found), sum(cut for _, cut in found)
        return self._counted[key]

    def _is_held(self, expr: Expr, kind: DType) -> bool:
        key = id(expr), kind
        if key not in self._held:
            found = self.bounds.interval(expr)
            parts = _operands(expr, kind)
            self._held[key] = found is not None and inside(found, whole(kind)) and all(self._is_held(part, kind) for part in parts or ())
        return self._held[key]

    def _within(self, expr: Expr, kind: DType) -> Expr:
        """An expression that a type holds, in it."""
        if (id(expr), kind) not in self._made:
            self._made[id(expr), kind] = self._of_kind(expr, kind)
        return self._made[id(expr), kind]

    def _of_kind(self, expr: Expr, kind: DType) -> Expr:
        match expr:
            case Const(value, _):
                return Const(value, kind)
            case Select(cond, yes, no):
                return Select(self.narrowed(cond), self._within(yes, kind), self._within(no, kind))
            case _ if (parts := _operands(expr, kind)) is not None:
                new = iter([self._within(part, kind) for part in parts])
                return map_children(expr, lambda _: next(new))
            case _:
                inner = self.narrowed(_uncast(expr))
                return inner if dtype_of(inner) == kind else Cast(inner, kind)


def is_wide(expr: Expr) -> bool:
    """Is it an integer of more bits than the least that arithmetic has, which data tell?"""
    kind = dtype_of(expr)
    return kind.is_integer and kind.bits > TYPES[0].bits and reads_data(expr)


def _uncast(expr: Expr) -> Expr:
    """What an integer is widened from."""
    return expr.value if isinstance(expr, Cast) and dtype_of(expr.value).is_integer else expr


def _operands(expr: Expr, kind: DType) -> tuple[Expr, ...] | None:
    """The operands that are of a type where an operation is computed in it; None of what is no operation."""
    match expr:
        case Binary(op, left, right) if op in _EXACT:
            return left, right
        case Binary("shl" | "shr", left, Const(by) as right) if 0 <= by < kind.bits:
            return left, right
        case Binary("floordiv" | "mod", left, Const(by) as right) if by > 0:
            return left, right
        case Unary("neg" | "abs", value):
            return (value,)
        case Select(_, yes, no):
            return yes, no
        case _:
            return None
