"""Linear forms of index arithmetic: `constant + sum(coefficient * atom)` over int64 atoms.

Indices, bounds and offsets are compared, added and classified in this form; an atom is any expression that is not itself a sum or a
multiple by a literal (an axis, a dim, a load, a floor division, ...).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorlang import ir
from tensorlang.ir import Axis, Binary, Compare, Const, Dim, Expr, Unary
from tensorlang.ir.dtype import INT64
from tensorlang.ir.integers import known_value
from tensorlang.ir.traverse import dtype_of
from tensorlang.system.frozen import frozen

LONG: Final = 64
"""Terms up to which a sum is written one after the other."""


@frozen
class Linear:
    """`constant + sum(coefficient * atom)`; no coefficient is zero."""

    constant: int = 0
    terms: dict[Expr, int] = field(default_factory=dict)

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """`self + factor * other`."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(self.constant + factor * other.constant, terms)

    def times(self, factor: int) -> Linear:
        """`factor * self`."""
        return Linear(factor * self.constant, {atom: factor * coefficient for atom, coefficient in self.terms.items()} if factor else {})

    @property
    def is_constant(self) -> bool:
        """Has it no atoms?"""
        return not self.terms


def linear(expr: Expr) -> Linear:
    """The linear form of an int64 expression."""
    terms: dict[Expr, int] = {}
    constant = _add(expr, 1, terms)
    return Linear(constant, {atom: factor for atom, factor in terms.items() if factor} if 0 in terms.values() else terms)


def _add(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Add `factor` times an expression to terms; what it adds to the constant."""
    match expr:
        case Axis():
            pass
        case Const():
            return factor * int(expr.value)
        case Binary():
            op = expr.op
            if op == "add":
                return _add(expr.left, factor, terms) + _add(expr.right, factor, terms)
            if op == "sub":
                return _add(expr.left, factor, terms) + _add(expr.right, -factor, terms)
            for one, other in ((expr.left, expr.right), (expr.right, expr.left)) if op == "mul" else ():
                form = linear(one)
                if form.is_constant:
                    return _add(other, factor * form.constant, terms) if form.constant else 0
        case Unary(op="neg"):
            return _add(expr.value, -factor, terms)
        case _:
            pass
    terms[expr] = terms.get(expr, 0) + factor
    return 0


def _balanced(terms: Sequence[tuple[Expr, int]]) -> Expr:
    """The sum of many terms, no deeper than it has to be: an expression is walked by recursion in many places."""
    if len(terms) <= LONG // 2:
        return expression(Linear(0, dict(terms)))
    half = len(terms) // 2
    return Binary("add", _balanced(terms[:half]), _balanced(terms[half:]))


def expression(form: Linear) -> Expr:
    """The expression of a linear form: positive terms first, in order of first appearance, the literal last."""
    result: Expr | None = None
    ordered = sorted(form.terms.items(), key=lambda term: term[1] < 0)
    if len(ordered) > LONG:
        result, ordered = _balanced(ordered), []
    for atom, coefficient in ordered:
        size = abs(coefficient)
        piece = atom if size == 1 else Binary("mul", ir.const(size), atom)
        if result is None:
            result = piece if coefficient > 0 else (Unary("neg", atom) if size == 1 else Binary("mul", ir.const(coefficient), atom))
        else:
            result = Binary("add" if coefficient > 0 else "sub", result, piece)
    if result is None:
        return ir.const(form.constant)
    if form.constant:
        result = Binary("add" if form.constant > 0 else "sub", result, ir.const(abs(form.constant)))
    return result


def bound_terms(expr: Expr, *, lower: bool) -> tuple[Linear, ...]:
    """The linear forms whose maximum is a lower bound, or whose minimum is an upper bound: `max(a, b) + c` gives `a + c` and `b + c`."""
    form = linear(expr)
    for atom, factor in form.terms.items():
        if isinstance(atom, Binary) and atom.op in ("min", "max") and (atom.op == "max") == (lower == (factor > 0)):
            rest = form.plus(Linear(0, {atom: factor}), -1)
            sides = (rest.plus(linear(side), factor) for side in (atom.left, atom.right))
            return tuple(term for side in sides for term in bound_terms(expression(side), lower=lower))
    return (form,)


def below_zero(condition: Expr) -> Linear | None:
    """What is below 0 where an order of two indices holds, and nowhere else; None for other conditions."""
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge") or dtype_of(condition.left) != INT64:
        return None
    less, more = (condition.left, condition.right) if condition.op in ("lt", "le") else (condition.right, condition.left)
    return linear(Binary("sub", less, more)).plus(Linear(-1 if condition.op in ("le", "ge") else 0))


@dataclass(frozen=True, slots=True)
class Quotient:
    """`(sum(scale * dim) + offset) // divisor`, the divisor at least 1; without terms, a constant."""

    terms: tuple[tuple[str, int], ...]
    offset: int
    divisor: int = 1

    @property
    def told(self) -> str | None:
        """The dim that a value of this tells; None where there are several or none, and where values of it share a quotient."""
        return self.terms[0][0] if len(self.terms) == 1 and self.divisor == 1 else None


def quotient(extent: Expr) -> Quotient | None:
    """An extent as one quotient of a sum of dims, as those of concatenations and of windows with strides are, else None."""
    form, divisor = linear(extent), 1
    while (inner := next((atom for atom in form.terms if not isinstance(atom, Dim)), None)) is not None:
        match inner:
            case Binary("floordiv", dividend, Const(by)) if by > 0 and form.terms[inner] == 1:
                form = linear(dividend).plus(form.plus(Linear(0, {inner: 1}), -1), int(by))
                divisor *= int(by)
            case _:
                return None
    return Quotient(tuple((dim.name, scale) for dim, scale in form.terms.items() if isinstance(dim, Dim)), form.constant, divisor)


def solve(extent: Expr, value: int, dims: Mapping[str, int]) -> tuple[str, int] | None:
    """The dim, and its value, that gives an extent the value `value`; None where more than one dim is unknown or none fits.

    `2 * n == 10` gives n = 5; `2 * n == 9` and `n // 2 == 4` give None: the first has no solution, the second has two.
    """
    form = quotient(_substituted(extent, dims))
    if form is None or form.told is None:
        return None
    solution, rest = divmod(value - form.offset, form.terms[0][1])
    return None if rest or solution < 0 else (form.told, solution)


def _substituted(extent: Expr, dims: Mapping[str, int]) -> Expr:
    """The extent with literals for what is known of it."""
    value = known_value(extent, dims)
    if value is not None:
        return ir.const(value)
    match extent:
        case Binary(op, left, right):
            return Binary(op, _substituted(left, dims), _substituted(right, dims))
        case Unary(op, operand):
            return Unary(op, _substituted(operand, dims))
        case _:
            return extent
