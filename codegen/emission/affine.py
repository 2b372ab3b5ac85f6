"""Index expressions as polynomials over loop variables, and what they do from lane to lane.

`polynomial` multiplies an int64 expression out into `constant + sum of coefficient * product of atoms`, which is exact because int64
arithmetic is a ring (it wraps). An atom is a loop variable, a run-time extent, the lane number of the vector loop, or any other
expression taken whole. The form answers two questions of code generation: what part of an address is constant (it goes into the
instruction), and how the address moves with the lane:

    Uniform < Strided(step) < Varying          the same in every lane; `step` elements further in each next lane; anything
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from tensorlang import ir
from tensorlang.algebra.conversions import quotient_in
from tensorlang.codegen.emission.constant_folding import fold
from tensorlang.codegen.emission.summands import Summands, summands
from tensorlang.codegen.emission.types import wrap
from tensorlang.ir.dtype import INT64, DType
from tensorlang.ir.integers import ARITHMETIC
from tensorlang.ir.traverse import axes_of, dtype_of, walk
from tensorlang.system.frozen import frozen

MAX_TERMS = 24  # a longer product stays one atom: addresses do not need it and text would explode


class Atom(NamedTuple):
    """An operand of a polynomial. `depth` is that of the innermost loop on which it depends, so sums can be built outside in."""

    depth: int
    name: str
    varying: bool = False


Monomial: TypeAlias = tuple[Atom, ...]

_NUMBER = frozenset({()})
_VARIES = attrgetter("varying")
_ONE: Final = (((), 1),)
_LIMIT = 1 << 63
_MODULUS = 1 << 64

LANE = Atom(1 << 20, "lane", varying=True)
_LOADED = 1 << 10


@frozen
class Polynomial:
    """A sum of products of atoms with int64 coefficients; the empty product stands for the constant."""

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms.get((), 0)

    @property
    def constant(self) -> int | None:
        """The value of a constant polynomial, else None."""
        return self.offset if not self.terms or self.terms.keys() == _NUMBER else None

    def __add__(self, other: Polynomial) -> Polynomial:
        return self._plus(other, 1)

    def _plus(self, other: Polynomial, factor: int) -> Polynomial:
        if not other.terms:
            return self
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor * coefficient
        return _clean(terms)

    def __mul__(self, other: Polynomial) -> Polynomial:
        if (factor := other.constant) is not None:
            return self._times(factor)
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = tuple(sorted((*left, *right)))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _clean(terms)

    def _times(self, factor: int) -> Polynomial:
        if factor == 1 or not self.terms:
            return self
        return _clean({monomial: factor * coefficient for monomial, coefficient in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self._plus(other, -1)

    def parted(self) -> tuple[Polynomial, Polynomial]:
        """The terms that are the same in every lane, and those that change with it."""
        fixed: dict[Monomial, int] = {}
        moving: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            (moving if any(map(_VARIES, monomial)) else fixed)[monomial] = factor
        return Polynomial(fixed), Polynomial(moving)

    def without_offset(self) -> Polynomial:
        """The terms but for the constant."""
        return self if () not in self.terms else Polynomial({m: c for m, c in self.terms.items() if m})


def _clean(terms: dict[Monomial, int]) -> Polynomial:
    for factor in terms.values():
        if not factor or not -_LIMIT <= factor < _LIMIT:
            break
    else:
        return Polynomial(terms)
    return Polynomial(
        {monomial: factor if -_LIMIT <= factor < _LIMIT else wrap(factor, 64) for monomial, factor in terms.items() if factor % _MODULUS}
    )


@lru_cache(maxsize=4096)
def number(value: int) -> Polynomial:
    """A constant."""
    return _clean({(): value})


def of(atom: Atom) -> Polynomial:
    """One atom."""
    return Polynomial({(atom,): 1})


@dataclass(frozen=True, slots=True)
class Uniform:
    """The same in every lane."""


@dataclass(frozen=True, slots=True)
class Strided:
    """Each lane is `step` beyond the one before."""

    step: int


@dataclass(frozen=True, slots=True)
class Varying:
    """Any value in any lane."""


Pattern: TypeAlias = Uniform | Strided | Varying


def classify(changing: Polynomial) -> Pattern:
    """How a value moves with the lane whose terms that change with it are these."""
    moving = changing.terms
    if not moving:
        return Uniform()
    return Strided(moving[LANE,]) if moving.keys() == {(LANE,)} else Varying()


def lane_step(changing: Polynomial) -> Polynomial | None:
    """How far each lane is beyond the one before, where that is the same for all of them; None where it is not."""
    step: dict[Monomial, int] = {}
    for monomial, factor in changing.terms.items():
        rest = tuple(atom for atom in monomial if atom != LANE)
        if len(rest) != len(monomial) - 1 or any(map(_VARIES, rest)):
            return None
        step[rest] = factor
    return Polynomial(step)


class _Facts(NamedTuple):
    """An expression, which has to live as long as it is known by its place; its axes; does it load?"""

    expr: ir.Expr
    axes: list[str]
    loaded: bool


@dataclass(slots=True)
class PolynomialScope:
    """The loop variables in scope, each as a polynomial, and the expressions that were taken whole.

    An expression that is taken whole is known by itself and by the bindings of its variables (`turns` counts them): the copies of an
    unrolled body hold the same expression, which means another number in each.
    """

    axes: dict[str, Polynomial] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    opaque: dict[str, ir.Expr] = field(default_factory=dict)
    names: dict[tuple[int, ...], str] = field(default_factory=dict)
    quotients: dict[tuple[frozenset[tuple[Monomial, int]], int], ir.Expr] = field(default_factory=dict)
    facts: dict[int, _Facts] = field(default_factory=dict)
    offsets: dict[tuple[int, int], tuple[object, object, Summands | None]] = field(default_factory=dict)
    depth: int = 0

    @contextmanager
    def scope(self) -> Iterator[None]:
        """The loop variables that come into scope inside go out of it again, and quotients of them."""
        depth, axes, quotients = self.depth, dict(self.axes), dict(self.quotients)
        yield
        kept = (key for key, found in self.quotients.items() if all(axes.get(name) is self.axes[name] for name in self._facts(found).axes))
        self.quotients = quotients | {key: self.quotients[key] for key in kept}
        self.depth, self.axes = depth, axes

    def within(self) -> PolynomialScope:
        """The same variables, for another function: what comes into scope there is not in scope here."""
        return replace(self, axes=dict(self.axes), quotients=dict(self.quotients))

    def loop(self, name: str) -> Atom:
        """A new loop variable, inside those in scope."""
        self.depth += 1
        atom = Atom(self.depth, name)
        self.bind(name, of(atom))
        return atom

    def bind(self, name: str, value: Polynomial) -> None:
        """Give a loop variable another value; a quotient that was written over the former one no longer stands for its dividend."""
        self.axes[name] = value
        self.turns[name] = self.turns.get(name, 0) + 1
        for key in [key for key, quotient in self.quotients.items() if name in self._facts(quotient).axes]:
            del self.quotients[key]

    def polynomial(self, expr: ir.Expr) -> Polynomial:
        """An int64 expression multiplied out."""
        match expr:
            case ir.Binary():
                return self._binary(expr, expr.left, expr.right)
            case ir.Const():
                return number(int(expr.value))
            case ir.Axis():
                return self.axes[expr.name]
            case ir.Dim():
                return of(Atom(0, ":" + expr.name))
            case ir.Unary(op="neg"):
                return self.polynomial(expr.value) * number(-1)
            case ir.Cast(ir.Binary("floordiv" | "mod" as op, ir.Cast(left, kind, True), ir.Const(by))) if dtype_of(left) == INT64:
                quotient = self.quotient(left, int(by), kind)  # what lowering divides in fewer bits, since they hold it
                return quotient if op == "floordiv" else self.polynomial(left) - quotient * number(int(by))
            case _:
                return self.whole(expr)

    def _binary(self, expr: ir.Binary, left: ir.Expr, right: ir.Expr) -> Polynomial:
        match expr.op:
            case "add":
                return self.polynomial(left) + self.polynomial(right)
            case "sub":
                return self.polynomial(left) - self.polynomial(right)
            case "mul":
                product = self.polynomial(left) * self.polynomial(right)
                return product if len(product.terms) <= MAX_TERMS else self.whole(expr)
            case "floordiv" if isinstance(right, ir.Const) and right.value > 0:
                return self.quotient(left, int(right.value))
            case "mod" if isinstance(right, ir.Const) and right.value > 0:
                divisor = int(right.value)
                return self.polynomial(left) - self.quotient(left, divisor) * number(divisor)
            case op if op in ARITHMETIC:
                a, b = self.polynomial(left).constant, self.polynomial(right).constant
                return self.whole(expr) if a is None or b is None else number(fold(op, INT64, a, b))
            case _:
                return self.whole(expr)

    def quotient(self, dividend: ir.Expr, divisor: int, kind: DType = INT64) -> Polynomial:
        """A floored quotient, taken in a type: one atom for equal dividends, so that the digits of a fused index add up to it again."""
        inside = self.polynomial(dividend)
        if inside.constant is not None:
            return number(inside.constant // divisor)
        key = (frozenset(inside.terms.items()), divisor)
        short = kind != INT64
        made = quotient_in(kind, "floordiv", dividend, divisor) if short else ir.Binary("floordiv", dividend, ir.Const(divisor, INT64))
        return self.whole(self.quotients.setdefault(key, made))

    def whole(self, expr: ir.Expr) -> Polynomial:
        """An expression as one atom; the same expression over the same bindings is the same atom."""
        _, axes, loaded = self._facts(expr)
        name = self.names.setdefault((id(expr), *(self.turns.get(axis, 0) for axis in axes)), f"?{len(self.names)}")
        self.opaque[name] = expr
        atoms = [atom for axis in axes for atom in self.atoms(self.axes[axis])]
        depth = max((atom.depth for atom in atoms if not atom.varying), default=0)
        return of(Atom(_LOADED + depth if loaded else depth, name, varying=any(atom.varying for atom in atoms)))

    def _facts(self, expr: ir.Expr) -> _Facts:
        """The axes of an expression, found once, and whether it loads."""
        known = self.facts.get(id(expr))
        if known is None:
            known = self.facts[id(expr)] = _Facts(expr, sorted(axes_of(expr)), any(isinstance(node, ir.Load) for node in walk(expr)))
        return known

    @staticmethod
    def atoms(polynomial: Polynomial) -> Iterable[Atom]:
        """The atoms of a polynomial."""
        return (atom for monomial in polynomial.terms for atom in monomial)

    def offset(self, index: tuple[ir.Expr, ...], shape: tuple[ir.Expr, ...]) -> Polynomial:
        """The linear offset of an element in a row-major buffer, in elements."""
        known = self.offsets.get((id(index), id(shape)))
        if known is None:
            known = self.offsets[id(index), id(shape)] = index, shape, summands(index, shape)
        if known[2] is not None:
            terms: dict[Monomial, int] = {}
            for name, factor in known[2]:
                for monomial, coefficient in self.axes[name].terms.items() if name else _ONE:
                    terms[monomial] = terms.get(monomial, 0) + factor * coefficient
            return _clean(terms)
        total = number(0)
        for place, extent in zip(index, shape, strict=True):
            total = total * self.polynomial(extent) + self.polynomial(place)
        return total
