"""`LaneOperations` that emit LLVM instructions, on a scalar or a vector.

Only instructions and those intrinsics are emitted that the target lowers to instructions: an object made from them has no undefined
symbol. No instruction carries fast-math flags, so LLVM neither contracts nor reorders, and vector and scalar code agree bit for bit.
Intrinsics are declared by their full names, as llvmlite's `declare_intrinsic` does not know vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from llvmlite import ir

from tensorlang.codegen.emission.math import rare_paths
from tensorlang.codegen.emission.math.lane_operations import Comparison, IntegerOp, LaneOperations, Raw, RealOp, RoundingMode

_ROUND = {"even": "roundeven", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}
_REGISTERS = (128, 256, 512)
_CURRENT_ROUNDING = 4
_REAL = {32: ir.FloatType(), 64: ir.DoubleType()}


def intrinsic(builder: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
    """Call `llvm.<name>` overloaded on the type of the first operand, which all operands and the result share."""
    kind = operands[0].type
    count, element = (kind.count, kind.element) if isinstance(kind, ir.VectorType) else (None, kind)
    suffix = "f64" if isinstance(element, ir.DoubleType) else "f32"
    full = f"llvm.{name}.{suffix}" if count is None else f"llvm.{name}.v{count}{suffix}"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(operands)), full)
    return builder.call(function, operands)


@dataclass(frozen=True, slots=True)
class LlvmLanes:
    """Lanes of `bits` bits, `count` of them in a vector (None: a scalar), emitted at the builder's position."""

    builder: ir.IRBuilder
    bits: int
    count: int | None
    has_fma: bool
    has_round: bool
    may_scale: bool = False

    def _shape(self, element: ir.Type) -> ir.Type:
        return element if self.count is None else ir.VectorType(element, self.count)

    def _splat(self, element: ir.Type, value: float) -> ir.Constant:
        scalar = ir.Constant(element, value)
        return scalar if self.count is None else ir.Constant(self._shape(element), [scalar] * self.count)

    @property
    def real_type(self) -> ir.Type:
        """The LLVM type of a real."""
        return self._shape(_REAL[self.bits])

    @property
    def integer_type(self) -> ir.Type:
        """The LLVM type of an integer."""
        return self._shape(ir.IntType(self.bits))

    def constant(self, value: float) -> Raw:
        """The number in every lane."""
        return self._splat(_REAL[self.bits], float(value))

    def integer(self, value: int) -> Raw:
        """The integer in every lane."""
        return self._splat(ir.IntType(self.bits), value % (1 << self.bits))

    def real(self, op: RealOp, left: Raw, right: Raw) -> Raw:
        """One of fadd, fsub, fmul, fdiv."""
        return getattr(self.builder, f"f{op}")(left, right)

    def negate(self, value: Raw) -> Raw:
        """Instruction fneg."""
        return self.builder.fneg(value)

    def fma(self, a: Raw, b: Raw, c: Raw) -> Raw:
        """llvm.fma where it is one instruction."""
        if self.has_fma:
            return intrinsic(self.builder, "fma", a, b, c)
        return self.builder.fadd(self.builder.fmul(a, b), c)

    def sqrt(self, value: Raw) -> Raw:
        """llvm.sqrt."""
        return intrinsic(self.builder, "sqrt", value)

    def round(self, mode: RoundingMode, value: Raw) -> Raw:
        """llvm.roundeven, floor, ceil or trunc."""
        return intrinsic(self.builder, _ROUND[mode], value)

    @property
    def has_scale(self) -> bool:
        """Whether the target has `vscalef` and these lanes fill a register."""
        return self.may_scale and self.count is not None and self.count * self.bits in _REGISTERS

    def scale(self, value: Raw, exponent: Raw) -> Raw:
        """AVX-512's `vscalef`, which `llvm.ldexp` reaches by way of an integer only."""
        builder, kind, mask = self.builder, self.real_type, ir.IntType(max(8, self.count or 1))
        size = (self.count or 1) * self.bits
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if self.bits == 32 else 'pd'}.{size}"
        rounding = [] if size < _REGISTERS[-1] else [ir.Constant(ir.IntType(32), _CURRENT_ROUNDING)]
        given = [value, exponent, ir.Constant(kind, ir.Undefined), ir.Constant(mask, -1), *rounding]
        known = builder.module.globals.get(name)
        function = known or ir.Function(builder.module, ir.FunctionType(kind, [operand.type for operand in given]), name)
        return builder.call(function, given)

    def compare(self, op: Comparison, left: Raw, right: Raw) -> Raw:
        """Ordered fcmp, but unordered for "!="."""
        if op == "!=":
            return self.builder.fcmp_unordered(op, left, right)
        return self.builder.fcmp_ordered(op, left, right)

    def whole(self, op: IntegerOp, left: Raw, right: Raw) -> Raw:
        """Integer instruction."""
        name = {"and": "and_", "or": "or_"}.get(op, op)
        return getattr(self.builder, name)(left, right)

    def nonzero(self, value: Raw) -> Raw:
        """Icmp against 0."""
        return self.builder.icmp_unsigned("!=", value, self.integer(0))

    def to_bits(self, value: Raw) -> Raw:
        """Bitcast."""
        return self.builder.bitcast(value, self.integer_type)

    def from_bits(self, value: Raw) -> Raw:
        """Bitcast."""
        return self.builder.bitcast(value, self.real_type)

    def mask(self, op: Literal["and", "or"], left: Raw, right: Raw) -> Raw:
        """Logic on i1."""
        return self.whole(op, left, right)

    def select(self, mask: Raw, yes: Raw, no: Raw) -> Raw:
        """Instruction select."""
        return self.builder.select(mask, yes, no)

    def _scalar(self, builder: ir.IRBuilder) -> LlvmLanes:
        """The same for one lane, in another function."""
        return LlvmLanes(builder, self.bits, None, self.has_fma, self.has_round, self.may_scale)

    def _of_bits(self, bits: int) -> LlvmLanes:
        return LlvmLanes(self.builder, bits, self.count, self.has_fma, self.has_round, self.may_scale)

    def widen(self, value: Raw) -> tuple[LaneOperations, Raw]:
        """Instruction fpext."""
        wide = self._of_bits(64)
        return wide, self.builder.fpext(value, wide.real_type)

    def narrow(self, value: Raw) -> tuple[LaneOperations, Raw]:
        """Instruction fptrunc."""
        narrow = self._of_bits(32)
        return narrow, self.builder.fptrunc(value, narrow.real_type)

    def lookup(self, name: str, table: Sequence[float], index: Raw) -> Raw:
        """One load per lane from a constant private to the module."""
        builder = self.builder
        full = f"tensorlang.table.{name}"
        variable = builder.module.globals.get(full)
        if variable is None:
            kind = ir.ArrayType(_REAL[self.bits], len(table))
            variable = ir.GlobalVariable(builder.module, kind, full)
            variable.linkage = "internal"
            variable.global_constant = True
            variable.initializer = ir.Constant(kind, list(table))
        zero = ir.Constant(ir.IntType(self.bits), 0)
        if self.count is None:
            return builder.load(builder.gep(variable, [zero, index]))
        value = ir.Constant(self.real_type, ir.Undefined)
        for lane in range(self.count):
            position = ir.Constant(ir.IntType(32), lane)
            address = builder.gep(variable, [zero, builder.extract_element(index, position)])
            value = builder.insert_element(value, builder.load(address), position)
        return value

    def where_rare(
        self, name: str, mask: Raw, operand: Raw, compute: Callable[[LaneOperations, Raw], tuple[Raw, ...]], otherwise: tuple[Raw, ...]
    ) -> tuple[Raw, ...]:
        """A branch around a call of what the module has once, then phi nodes; the builder ends in a new block."""
        builder = self.builder
        before = builder.block
        with builder.if_then(self._any(mask), likely=False):
            given = builder.sext(mask, self.integer_type), operand, *otherwise
            found = rare_paths.called(builder, f"{name}.{self.bits}", given, lambda inner, x: compute(self._scalar(inner), x))
            inside = builder.block
        results = []
        for yes, no in zip(found, otherwise, strict=True):
            phi = builder.phi(no.type)
            phi.add_incoming(no, before)
            phi.add_incoming(yes, inside)
            results.append(phi)
        return tuple(results)

    def _any(self, mask: Raw) -> Raw:
        if self.count is None:
            return mask
        packed = self.builder.bitcast(mask, ir.IntType(self.count))
        return self.builder.icmp_unsigned("!=", packed, ir.Constant(packed.type, 0))
