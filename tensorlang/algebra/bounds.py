"""What values an expression can have: one interval, from its structure, its type, and what is known of its parts.

`values` is total: every integer or bool expression has an interval, at worst that of its type, and it holds for all data and for all axes
within what is `known`. `interval` is for those who compute with the expression as with the integer that it spells: it is None where a sum
or a product in it could wrap. `assume` reads what conditions say of the expressions that they compare.

The tables are in `interval`. A `select` is taken apart under its condition. A reduction that chooses (`min`, `argmax`, `any`) has the
values of its operand, and its identity only where the domain may be empty; a sum has as many terms as its axes have values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Final, TypeAlias

from tensorlang.algebra.interval import (
    BINARY,
    BIT,
    Floats,
    Interval,
    float_binary,
    float_call,
    inside,
    inverted,
    magnitude,
    meet,
    truncated,
    union,
    whole,
    within,
)
from tensorlang.ir import Axis, Binary, Call, Cast, Compare, Const, Dim, Expr, Load, Param, Reduce, Reducer, Select, Unary
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.traverse import dtype_of, map_children

INDEX_LIMIT: Final = 1 << 48
Ranges: TypeAlias = Mapping[Expr, Interval]
NOTHING: Final[Ranges] = MappingProxyType({})
_NO_NUMBERS: Final[Mapping[Expr, Floats]] = MappingProxyType({})
_SPREAD: Final = (-INDEX_LIMIT, INDEX_LIMIT)
_LINEAR: Final = ("add", "sub", "mul")
_MAX_NESTED: Final = 2
"""Choices inside the conditions of others that are taken apart: each takes several times what is inside it."""
NEGATED: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def values(expr: Expr, known: Ranges = NOTHING) -> Interval:
    """Bounds on an integer or bool expression that hold for all data, and for all axes within what is `known`."""
    return Bounds(known).values(expr)


def interval(expr: Expr, known: Ranges = NOTHING) -> Interval | None:
    """Bounds on an integer expression whose value is that of exact arithmetic; None where it could wrap."""
    return Bounds(known).interval(expr)


def negated(expr: Expr) -> Expr:
    """The condition that holds where this one does not, comparisons turned."""
    match expr:
        case Unary("not", value):
            return value
        case Compare(op, left, right) if not dtype_of(left).is_floating:
            return Compare(NEGATED[op], left, right)
        case Binary("and" | "or" as op, left, right):
            return Binary("or" if op == "and" else "and", negated(left), negated(right))
        case _:
            return Unary("not", expr)


@dataclass(slots=True)
class Bounds:
    """The intervals of expressions under what is known; each node is looked at once.

    The arithmetic of those in `exact`, and of their parts, is known not to wrap: they are extents of tensors that exist. `nested` counts
    the choices around whose conditions hold.
    """

    known: Ranges = field(default_factory=lambda: NOTHING)
    exact: frozenset[Expr] = frozenset()
    numbers: Mapping[Expr, Floats] = field(default_factory=lambda: _NO_NUMBERS)
    nested: int = 0
    deep: bool = field(init=False, default=False)
    _found: dict[int, tuple[Expr, Interval]] = field(default_factory=dict)
    _wrapping: dict[int, tuple[Expr, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.deep = bool(self.exact) or any(not isinstance(part, (Axis, Dim)) for part in self.known)

    def under(self, conditions: Iterable[Expr]) -> Bounds:
        """What is known where conditions hold as well."""
        parts = conjuncts(conditions)
        numbers = self._numbers(parts)
        known = assume(self.known, parts, self.exact, self.nested + 1)
        return self if known is self.known and numbers is self.numbers else Bounds(known, self.exact, numbers, self.nested + 1)

    def values(self, expr: Expr) -> Interval:
        """As the function of this name."""
        match expr:
            case Const(value, _):
                return int(value), int(value)
            case Axis():
                return self.known.get(expr, _SPREAD)
            case Dim():
                return self.known.get(expr, (expr.least, expr.most))
            case _:
                pass
        seen = self._found.get(id(expr))
        if seen is not None:
            return seen[1]
        found = self._compound(expr)
        if self.deep:
            if (told := self.known.get(expr)) is not None:
                found = meet(found, told)
            if expr in self.exact:
                found = meet(found, (0, INDEX_LIMIT))
        self._found[id(expr)] = (expr, found)
        return found

    def interval(self, expr: Expr) -> Interval | None:
        """As the function of this name."""
        return None if not dtype_of(expr).is_integer or self.wraps(expr) else self.values(expr)

    def wraps(self, expr: Expr) -> bool:
        """Could the sums, multiples and extrema that an expression is made of leave its type?"""
        match expr:
            case Binary("add" | "sub" | "mul" | "min" | "max", _, _) | Unary("neg", _):
                pass
            case _:
                return False
        seen = self._wrapping.get(id(expr))
        if seen is None:
            seen = self._wrapping[id(expr)] = (expr, self._wraps(expr))
        return seen[1]

    def _wraps(self, expr: Expr) -> bool:
        match expr:
            case Binary(op, left, right):
                if self.wraps(left) or self.wraps(right):
                    return True
                if op not in _LINEAR or inside(BINARY[op](self.values(left), self.values(right), 0), whole(dtype_of(left))):
                    return False
                return expr not in self.exact
            case Unary("neg", value):
                low, high = self.values(value)
                return self.wraps(value) or not inside((-high, -low), whole(dtype_of(value)))
            case _:
                return False

    def _compound(self, expr: Expr) -> Interval:
        match expr:
            case Load(buffer, _):
                return whole(buffer.dtype)
            case Call():
                return BIT
            case Compare(op, left, right):
                return BIT if dtype_of(left).is_floating else comparison_interval(op, self.values(left), self.values(right))
            case Binary("xor" | "sub" | "mod" | "floordiv" as op, left, right) if left == right:
                return (0, 1) if op == "floordiv" else (0, 0)
            case Binary("and" | "or" as op, left, right) if dtype_of(left) == BOOL:
                a, b, of_both = self.values(left), self.values(right), min if op == "and" else max
                return of_both(a[0], b[0]), of_both(a[1], b[1])
            case Binary(op, left, right):
                of = dtype_of(left)
                return within(BINARY[op](self.values(left), self.values(right), of.bits), of)
            case Unary(op, value):
                of, a = dtype_of(value), self.values(value)
                if op == "neg":
                    return within((-a[1], -a[0]), of)
                if op == "abs":
                    return within(magnitude(a), of)
                return inverted(a) if of.kind == "signed" else (whole(of)[1] - a[1], whole(of)[1] - a[0])
            case Cast(value, to):
                return self._cast(value, to == BOOL, expr)
            case Select(cond, yes, no):
                chosen = self.values(cond)
                found = [self._under(part, test) for part, test, at in ((yes, cond, 1), (no, negated(cond), 0)) if inside((at, at), chosen)]
                return union(found[0], found[-1])
            case Reduce():
                return self._reduction(expr)
            case _:
                return whole(dtype_of(expr))

    def _under(self, expr: Expr, condition: Expr) -> Interval:
        if isinstance(expr, Const):
            return int(expr.value), int(expr.value)
        return (self if self.nested >= _MAX_NESTED else self.under((condition,))).values(expr)

    def _cast(self, value: Expr, truth: bool, expr: Cast) -> Interval:
        if dtype_of(value).is_floating:
            return BIT if truth else truncated(self.floats(value), expr.dtype)
        found = self.values(value)
        if truth:
            return (int(found[0] > 0 or found[1] < 0), int(found != (0, 0)))
        return within(found, expr.dtype)

    def _reduction(self, node: Reduce) -> Interval:
        inner, sizes = self.domain(node)
        value = node.values[node.component]
        identity = int(node.reducer.identities[node.component].value)
        if chooses(node.reducer, node.component):
            found = inner.values(value)
            if node.where is None and all(low > 0 for low, _ in sizes) and identity_loses(node.reducer, node.component, found):
                return found
            return union(found, (identity, identity))
        if node.reducer.name == "sum" and is_single(node.reducer, "add"):
            low, high = inner.values(value)
            most = 1
            for _, size in sizes:
                most *= max(size, 0)
            return within((min(low * most, 0), max(high * most, 0)), dtype_of(node))
        return whole(dtype_of(node))

    def domain(self, node: Reduce) -> tuple[Bounds, list[Interval]]:
        """What is known inside a reduction, and the sizes of its axes."""
        inner: dict[Expr, Interval] = dict(self.known)
        sizes = []
        for axis in node.axes:
            low, high = self.values(axis.lo), self.values(axis.hi)
            inner[Axis(axis.name)] = (low[0], max(high[1] - 1, low[0]))
            sizes.append((high[0] - low[1], high[1] - low[0]))
        within_axes = Bounds(inner, self.exact, self.numbers, self.nested)
        return within_axes if node.where is None else within_axes.under((node.where,)), sizes

    def _numbers(self, parts: Iterable[Expr]) -> Mapping[Expr, Floats]:
        """What comparisons say of floating-point expressions; where one holds, both sides are numbers, and where it fails, perhaps not."""
        found = self.numbers
        for part in parts:
            match part:
                case Compare(op, left, right) if op != "ne" and dtype_of(left).is_floating:
                    nan = False
                case Unary("not", Compare(op, left, right)) if op != "eq" and dtype_of(left).is_floating:
                    op, nan = NEGATED[op], True
                case _:
                    continue
            if op in ("gt", "ge"):
                op, left, right = {"gt": "lt", "ge": "le"}[op], right, left
            here = Bounds(self.known, self.exact, found, self.nested + 1)
            a, b = here.floats(left), here.floats(right)
            most = b.high if op != "lt" else math.nextafter(b.high, -math.inf)
            least = a.low if op != "lt" else math.nextafter(a.low, math.inf)
            ends = (max(a.low, b.low), min(a.high, b.high)) if op == "eq" else (a.low, b.high)
            for side, low, high, was in ((left, ends[0], min(a.high, most), a.nan), (right, max(b.low, least), ends[1], b.nan)):
                if low <= high and not isinstance(side, Const):
                    found = {**found, side: Floats(low, high, nan and was)}
        return found

    def floats(self, expr: Expr) -> Floats:
        """What is known of a floating-point expression."""
        found = self._floats(expr)
        told = self.numbers.get(expr) if self.numbers else None
        if told is None:
            return found
        low, high = max(found.low, told.low), min(found.high, told.high)
        return Floats(low, high, found.nan and told.nan) if low <= high else found

    def _floats(self, expr: Expr) -> Floats:
        of = dtype_of(expr)
        match expr:
            case Const(value, _):
                number = float(value)
                return Floats() if number != number else Floats(number, number, nan=False)  # noqa: PLR0124 - NaN
            case Cast(value, _) if dtype_of(value).is_floating:
                found = self.floats(value)
                return found if dtype_of(value).bits < of.bits else found.rounded(of)
            case Cast(value, _):
                low, high = self.values(value)
                return Floats(float(low), float(high), nan=False).rounded(of)
            case Binary("sub", left, Call("floor", (right,), _)) if left == right:
                return Floats(0.0, 1.0)  # 1 of what is below 0 by less than its place, and NaN of what is infinite
            case Binary(op, left, right):
                return float_binary(op, self.floats(left), self.floats(right), of)
            case Unary("neg", value):
                return Floats(-(found := self.floats(value)).high, -found.low, found.nan)
            case Unary("abs", value):
                found = self.floats(value)
                ends = abs(found.low), abs(found.high)
                return Floats(0.0 if found.low <= 0 <= found.high else min(ends), max(ends), found.nan)
            case Select(cond, yes, no):
                a, b = self.under((cond,)).floats(yes), self.under((negated(cond),)).floats(no)
                return Floats(min(a.low, b.low), max(a.high, b.high), a.nan or b.nan)
            case Call(function, (value,), _):
                return float_call(function, self.floats(value))
            case _:
                return Floats()


# Reducers ------------------------------------------------------------------------------------------------------------------------


def is_single(reducer: Reducer, op: str) -> bool:
    """Is a reducer `a0 op b0`?"""
    match reducer.results:
        case (Binary(found, Param("a0", _), Param("b0", _)),):
            return found == op
        case _:
            return False


@cache
def chooses(reducer: Reducer, component: int) -> bool:
    """Is what a component combines to always one of the two, as of `min` and of the position of an `argmax`?"""

    def chosen(expr: Expr) -> bool:
        match expr:
            case Param(name, _):
                return name in (f"a{component}", f"b{component}")
            case Select(_, yes, no):
                return chosen(yes) and chosen(no)
            case Binary("min" | "max" | "fmin" | "fmax", left, right):
                return chosen(left) and chosen(right)
            case Binary("and" | "or", left, right):
                return dtype_of(left) == BOOL and chosen(left) and chosen(right)
            case _:
                return False

    return not reducer.identities[component].dtype.is_floating and chosen(reducer.results[component])


@cache
def identity_loses(reducer: Reducer, component: int, of: Interval) -> bool:
    """Does a value within `of` always win over the identity? Then the identity is the result of an empty domain alone.

    A component that chooses, and stays within `of` where the identity is not, has chosen the value.
    """
    if inside((int(reducer.identities[component].value),) * 2, of):
        return False
    start = {}
    for side in "ab":
        start[side] = {f"{side}{n}": identity for n, identity in enumerate(reducer.identities)}
    for side, other in ("ab", "ba"):
        left = _given(reducer.results[component], start[side])
        value = Param(f"{other}{component}", reducer.identities[component].dtype)
        if not inside(values(left, {value: of}), of):
            return False
    return True


def _given(expr: Expr, params: dict[str, Const]) -> Expr:
    if isinstance(expr, Param):
        return params.get(expr.name, expr)
    return map_children(expr, lambda part: _given(part, params))


def comparison_interval(op: str, a: Interval, b: Interval) -> Interval:
    """The truth of a comparison of values within two intervals."""
    match op:
        case "lt" | "ge":
            always, never = a[1] < b[0], a[0] >= b[1]
        case "le" | "gt":
            always, never = a[1] <= b[0], a[0] > b[1]
        case _:
            always, never = a[0] == a[1] == b[0] == b[1], a[1] < b[0] or b[1] < a[0]
    if op in ("ge", "gt", "ne"):
        always, never = never, always
    return int(always), int(not never)


# Conditions ----------------------------------------------------------------------------------------------------------------------


def conjuncts(conditions: Iterable[Expr]) -> list[Expr]:
    """The parts of conditions that hold together."""
    found, waiting = list[Expr](), list(conditions)[::-1]
    while waiting:
        match waiting.pop():
            case Binary("and", left, right) if dtype_of(left) == BOOL:
                waiting += (right, left)
            case Unary("not", Unary() | Compare() | Binary() as value) if (turned := negated(value)) != Unary("not", value):
                waiting.append(turned)
            case part:
                found.append(part)
    return found


def assume(known: Ranges, conditions: Iterable[Expr], exact: frozenset[Expr] = frozenset(), nested: int = 0) -> Ranges:
    """What is known where conditions hold as well: bounds on the expressions that they compare; `known` itself if that is nothing new."""
    parts = conjuncts(conditions)
    comparisons = [part for part in parts if isinstance(part, Compare) and part.op != "ne" and dtype_of(part.left).is_integer]
    found = known
    for _ in range(2):  # a bound may be over what is bounded later
        before = found
        for comparison in comparisons:
            op, left, right = comparison.op, comparison.left, comparison.right
            if op in ("gt", "ge"):
                op, left, right = {"gt": "lt", "ge": "le"}[op], right, left
            here, apart = Bounds(found, exact, nested=nested), int(op == "lt")
            a, b = here.values(left), here.values(right)
            at_most, at_least = (a[0], min(a[1], b[1] - apart)), (max(b[0], a[0] + apart), b[1])
            if op == "eq":
                at_most = at_least = (max(a[0], b[0]), min(a[1], b[1]))
            for part, was, now in ((left, a, at_most), (right, b, at_least)):
                if now != was and now[0] <= now[1] and not isinstance(part, Const):
                    found = {**found, part: now}
        if found is before:
            break
    return found
