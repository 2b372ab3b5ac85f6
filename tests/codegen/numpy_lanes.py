"""The operations behind the mathematical functions as NumPy has them: what the emitted instructions have to mean."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NumpyLanes:
    """The meaning of the operations, for arrays."""

    bits: int
    has_round: bool
    has_fma: bool = False
    has_scale: bool = False

    @property
    def kind(self):
        return np.dtype(f"f{self.bits // 8}").type

    @property
    def signed(self):
        return np.dtype(f"i{self.bits // 8}").type

    def constant(self, value):
        return self.kind(value)

    def integer(self, value):
        return np.array(value % (1 << self.bits), f"u{self.bits // 8}").view(self.signed)[()]

    def real(self, op, left, right):
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op](left, right)

    def negate(self, value):
        return -value

    def fma(self, a, b, c):
        return a * b + c

    def sqrt(self, value):
        return np.sqrt(value)

    def round(self, mode, value):
        return {"even": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}[mode](value)

    def compare(self, op, left, right):
        table = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}
        return table[op](left, right)

    def whole(self, op, left, right):
        if op == "lshr":
            unsigned = f"u{self.bits // 8}"
            return (np.asarray(left).view(unsigned) >> np.asarray(right).view(unsigned)).view(self.signed)
        table = {"add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
        return (table | {"shl": np.left_shift, "ashr": np.right_shift})[op](left, right)

    def nonzero(self, value):
        return value != 0

    def to_bits(self, value):
        return np.asarray(value).view(self.signed)[()]

    def from_bits(self, value):
        return np.asarray(value).view(self.kind)[()]

    def mask(self, op, left, right):
        return {"and": np.logical_and, "or": np.logical_or}[op](left, right)

    def select(self, mask, yes, no):
        return np.where(mask, yes, no)

    def widen(self, value):
        return NumpyLanes(64, self.has_round), value.astype(np.float64)

    def narrow(self, value):
        return NumpyLanes(32, self.has_round), value.astype(np.float32)

    def lookup(self, name, table, index):
        assert name
        return np.array(table)[index]

    def where_rare(self, name, mask, operand, compute, otherwise):
        assert name
        return tuple(np.where(mask, yes, no) for yes, no in zip(compute(self, operand), otherwise, strict=True))
