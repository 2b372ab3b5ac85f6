"""What a machine must offer for the mathematical functions: a protocol of operations on numbers, one or many at a time.

The functions are written over `values`, whose operators call these operations. `llvm.LlvmLanes` emits an instruction for each, on scalars
or vectors; the NumPy implementation in the tests computes. So each function exists once: the vector body and the scalar tail of a loop
run the same operations in the same order and agree bit for bit.

No operation looks at a neighbouring lane. `Lanes.where_rare` alone may skip work, and what it skips is selected per lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

Raw: TypeAlias = Any
"""What an implementation computes with: an LLVM value, a NumPy array."""

RealOp = Literal["add", "sub", "mul", "div"]
IntegerOp = Literal["add", "sub", "and", "or", "xor", "shl", "lshr", "ashr"]
Comparison = Literal["<", "<=", ">", ">=", "==", "!="]
RoundingMode = Literal["even", "floor", "ceil", "trunc"]


class LaneOperations(Protocol):
    """The operations of one floating-point format (32 or 64 bits) and of the integers of the same width."""

    @property
    def bits(self) -> int:
        """Width of a lane: 32 or 64."""

    @property
    def has_fma(self) -> bool:
        """Is a * b + c one instruction with one rounding? If not, `fma` rounds twice."""

    @property
    def has_round(self) -> bool:
        """Is rounding to an integral value one instruction? If not, `round` must not be used."""

    @property
    def has_scale(self) -> bool:
        """Is a product with a power of two, rounded once, one instruction? If not, `scale` must not be used."""

    def constant(self, value: float) -> Raw:
        """The number in every lane, rounded to the format."""

    def integer(self, value: int) -> Raw:
        """The integer (modulo 2 ** bits) in every lane."""

    def real(self, op: RealOp, left: Raw, right: Raw) -> Raw:
        """IEEE 754 arithmetic, to nearest, halves to even."""

    def negate(self, value: Raw) -> Raw:
        """Flip the sign bit."""

    def fma(self, a: Raw, b: Raw, c: Raw) -> Raw:
        """a * b + c."""

    def sqrt(self, value: Raw) -> Raw:
        """Square root, correctly rounded."""

    def round(self, mode: RoundingMode, value: Raw) -> Raw:
        """To an integral value."""

    def scale(self, value: Raw, exponent: Raw) -> Raw:
        """value * 2 ** exponent, a real that is an integer; rounded once."""

    def compare(self, op: Comparison, left: Raw, right: Raw) -> Raw:
        """A mask of one bit per lane; with NaN only "!=" holds."""

    def whole(self, op: IntegerOp, left: Raw, right: Raw) -> Raw:
        """Wrapping integer arithmetic; shift counts are below the width."""

    def nonzero(self, value: Raw) -> Raw:
        """A mask of the integers that are not 0."""

    def to_bits(self, value: Raw) -> Raw:
        """The encoding of a real as an integer."""

    def from_bits(self, value: Raw) -> Raw:
        """The real that an integer encodes."""

    def mask(self, op: Literal["and", "or"], left: Raw, right: Raw) -> Raw:
        """Logic on masks."""

    def select(self, mask: Raw, yes: Raw, no: Raw) -> Raw:
        """`yes` where the mask holds, else `no`."""

    def widen(self, value: Raw) -> tuple[LaneOperations, Raw]:
        """float32 to float64, exactly."""

    def narrow(self, value: Raw) -> tuple[LaneOperations, Raw]:
        """float64 to float32, rounded to nearest."""

    def lookup(self, name: str, table: Sequence[float], index: Raw) -> Raw:
        """`table[index]` in each lane; every index must be inside the table, whatever the lane holds."""

    def where_rare(
        self, name: str, mask: Raw, operand: Raw, compute: Callable[[LaneOperations, Raw], tuple[Raw, ...]], otherwise: tuple[Raw, ...]
    ) -> tuple[Raw, ...]:
        """Per lane `compute(lanes, operand)` where the mask holds, else `otherwise`.

        Meant for long computations that few lanes need: they may be skipped, and may run on one lane after the other, with lanes of
        their own, in a function of this `name` that all uses share.
        """
