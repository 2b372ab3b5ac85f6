"""Numbers that the mathematical functions are written with: one scalar or the lanes of a vector, with Python's operators.

A function such as `exponential.exp` is an ordinary function from `Real` to `Real`. What an operator does is decided by the
`LaneOperations` behind the value; the values themselves only give the operations a readable form.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.codegen.emission.math.lane_operations import Comparison, IntegerOp, LaneOperations, Raw


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A truth value per lane."""

    lanes: LaneOperations
    raw: Raw

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.lanes, self.lanes.mask("and", self.raw, other.raw))

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.lanes, self.lanes.mask("or", self.raw, other.raw))


@dataclass(frozen=True, slots=True, eq=False)
class Integer:
    """An integer per lane, as wide as the reals it is used with; its sign is a matter of the operation."""

    lanes: LaneOperations
    raw: Raw

    def _apply(self, op: IntegerOp, other: Integer | int) -> Integer:
        right = self.lanes.integer(other) if isinstance(other, int) else other.raw
        return Integer(self.lanes, self.lanes.whole(op, self.raw, right))

    def __add__(self, other: Integer | int) -> Integer:
        return self._apply("add", other)

    def __sub__(self, other: Integer | int) -> Integer:
        return self._apply("sub", other)

    def __and__(self, other: Integer | int) -> Integer:
        return self._apply("and", other)

    def __or__(self, other: Integer | int) -> Integer:
        return self._apply("or", other)

    def __xor__(self, other: Integer | int) -> Integer:
        return self._apply("xor", other)

    def __lshift__(self, count: int) -> Integer:
        return self._apply("shl", count)

    def __rshift__(self, count: int) -> Integer:
        """Arithmetic shift: the sign stays."""
        return self._apply("ashr", count)

    def logical_shift(self, count: int) -> Integer:
        """Shift right, filling with zeros."""
        return self._apply("lshr", count)

    def bit_set(self, bit: int) -> Mask:
        """Where that bit is one."""
        return Mask(self.lanes, self.lanes.nonzero((self & (1 << bit)).raw))

    def real(self) -> Real:
        """The real that these bits encode."""
        return Real(self.lanes, self.lanes.from_bits(self.raw))


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A floating-point number per lane. Plain numbers among the operands are rounded to its format."""

    lanes: LaneOperations
    raw: Raw

    def lift(self, other: Real | float) -> Raw:
        """The raw operand for a real or a plain number."""
        return other.raw if isinstance(other, Real) else self.lanes.constant(other)

    def constant(self, value: float) -> Real:
        """A number in the format of this one."""
        return Real(self.lanes, self.lanes.constant(value))

    def __add__(self, other: Real | float) -> Real:
        return Real(self.lanes, self.lanes.real("add", self.raw, self.lift(other)))

    def __radd__(self, other: float) -> Real:
        return Real(self.lanes, self.lanes.real("add", self.lift(other), self.raw))

    def __sub__(self, other: Real | float) -> Real:
        return Real(self.lanes, self.lanes.real("sub", self.raw, self.lift(other)))

    def __rsub__(self, other: float) -> Real:
        return Real(self.lanes, self.lanes.real("sub", self.lift(other), self.raw))

    def __mul__(self, other: Real | float) -> Real:
        return Real(self.lanes, self.lanes.real("mul", self.raw, self.lift(other)))

    def __rmul__(self, other: float) -> Real:
        return Real(self.lanes, self.lanes.real("mul", self.lift(other), self.raw))

    def __truediv__(self, other: Real | float) -> Real:
        return Real(self.lanes, self.lanes.real("div", self.raw, self.lift(other)))

    def __rtruediv__(self, other: float) -> Real:
        return Real(self.lanes, self.lanes.real("div", self.lift(other), self.raw))

    def __neg__(self) -> Real:
        return Real(self.lanes, self.lanes.negate(self.raw))

    def __abs__(self) -> Real:
        return (self.bits() & ((1 << (self.lanes.bits - 1)) - 1)).real()

    def compare(self, op: Comparison, other: Real | float) -> Mask:
        """A mask; with NaN only "!=" holds."""
        return Mask(self.lanes, self.lanes.compare(op, self.raw, self.lift(other)))

    def __lt__(self, other: Real | float) -> Mask:
        return self.compare("<", other)

    def __le__(self, other: Real | float) -> Mask:
        return self.compare("<=", other)

    def __gt__(self, other: Real | float) -> Mask:
        return self.compare(">", other)

    def __ge__(self, other: Real | float) -> Mask:
        return self.compare(">=", other)

    def bits(self) -> Integer:
        """The encoding."""
        return Integer(self.lanes, self.lanes.to_bits(self.raw))

    def sign_bit(self) -> Integer:
        """The encoding with all but the sign cleared."""
        return self.bits() & (1 << (self.lanes.bits - 1))

    def with_sign_of(self, other: Real) -> Real:
        """This number, which must not be negative, with the sign of another."""
        return (self.bits() | other.sign_bit()).real()

    def sqrt(self) -> Real:
        """Square root, correctly rounded."""
        return Real(self.lanes, self.lanes.sqrt(self.raw))

    def widen(self) -> Real:
        """As float64."""
        return Real(*self.lanes.widen(self.raw))

    def narrow(self) -> Real:
        """As float32."""
        return Real(*self.lanes.narrow(self.raw))


def select(mask: Mask, yes: Real, no: Real | float) -> Real:
    """`yes` where the mask holds, else `no`."""
    return Real(yes.lanes, yes.lanes.select(mask.raw, yes.raw, yes.lift(no)))


def fma(a: Real, b: Real | float, c: Real | float) -> Real:
    """a * b + c, with one rounding where the target can."""
    return Real(a.lanes, a.lanes.fma(a.raw, a.lift(b), a.lift(c)))
