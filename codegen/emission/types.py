"""LLVM types and constants: how a tensorlang value looks in memory and in a register.

In memory an element is its NumPy bytes: bool is `i8`, float16 and bfloat16 are `i16`. In a register a bool is `i1` and both half
types stay `i16` bit patterns: arithmetic widens them, so no LLVM `half` reaches a target that would call the C library for it. A value
is a scalar (the same in every lane) or a vector (one element for each lane of the vector loop); its LLVM type says which, so that
whatever is uniform stays scalar until it meets something that varies. Integer constants fold here, while the text is written.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final, TypeAlias

from llvmlite import ir as llvm

from tensorlang.ir.dtype import DType

Value: TypeAlias = "llvm.Value"
Builder: TypeAlias = "llvm.IRBuilder"
Type: TypeAlias = "llvm.Type"

# llvmlite fills its table of escaped letters at the first string, without a lock: of threads whose first kernels were emitted side by side
# one found it half full, and raised KeyError. An import has a lock.
llvm.MetaDataString(llvm.Module(), "").get_reference()

I1: Final = llvm.IntType(1)
I8: Final = llvm.IntType(8)
I16: Final = llvm.IntType(16)
I32: Final = llvm.IntType(32)
I64: Final = llvm.IntType(64)
F32: Final = llvm.FloatType()
F64: Final = llvm.DoubleType()
POINTER: Final = llvm.PointerType()
VOID: Final = llvm.VoidType()

HALVES: Final = ("float16", "bfloat16")


@cache
def in_memory(dtype: DType) -> Type:
    """The type of an element in memory."""
    if dtype in HALVES:
        return I16
    if dtype.is_floating:
        return F32 if dtype.bits == 32 else F64
    return llvm.IntType(dtype.bits)


def in_register(dtype: DType) -> Type:
    """The type of a scalar value."""
    return I1 if dtype.kind == "bool" else in_memory(dtype)


def lanes_of(value: Value) -> int:
    """Lanes of a vector value; 0 for a scalar."""
    return value.type.count if isinstance(value.type, llvm.VectorType) else 0


def element_of(value: Value) -> Type:
    """The scalar type of a value."""
    return value.type.element if isinstance(value.type, llvm.VectorType) else value.type


@lru_cache(maxsize=1024)
def shaped(element: Type, lanes: int) -> Type:
    """`element`, or a vector of it where `lanes` is not 0: one for both, since a type spells itself once."""
    return llvm.VectorType(element, lanes) if lanes else element


def literal(kind: Type, number: float | tuple[int, ...]) -> Value:
    """A constant of a scalar type, or for a tuple a vector of it; integers wrap. Equal lanes give a scalar."""
    if isinstance(kind, llvm.IntType):
        return _integer(kind.width, number)
    if isinstance(number, tuple):
        if len(set(number)) == 1:
            return literal(kind, number[0])
        return llvm.Constant(shaped(kind, len(number)), [literal(kind, lane) for lane in number])
    return llvm.Constant(kind, float(number))


@lru_cache(maxsize=4096)
def _integer(bits: int, number: float | tuple[int, ...]) -> Value:
    """An integer constant: kept, since every address and every mask is made of a few, and each then spells itself once."""
    kind = llvm.IntType(bits)
    if not isinstance(number, tuple):
        return llvm.Constant(kind, wrap(int(number), bits))
    if len(set(number)) == 1:
        return _integer(bits, number[0])
    return IntegerLanes(shaped(kind, len(number)), [_integer(bits, lane) for lane in number])


def wrap(number: int, bits: int, *, signed: bool = True) -> int:
    """`number` modulo `2 ** bits`, as a signed or unsigned value; one bit counts as unsigned."""
    if 0 <= number < 1 << bits - 1:
        return number
    number &= (1 << bits) - 1
    return number - (1 << bits) if signed and bits > 1 and number >> (bits - 1) else number


def constant(dtype: DType, number: float) -> Value:
    """The literal of a type, rounded to it once."""
    if dtype in HALVES:
        return literal(I16, int(dtype.rounded(number).view("int16")))
    if dtype == "bool":
        return literal(I1, int(bool(number)))
    return literal(in_register(dtype), number)


def known(value: Value) -> int | tuple[int, ...] | None:
    """The number of an integer constant, the numbers of a constant vector, else None. An `i1` is 0 or 1."""
    if not isinstance(value, llvm.Constant) or not isinstance(element_of(value), llvm.IntType):
        return None
    if isinstance(value, IntegerLanes):
        return value.numbers
    if isinstance(value.type, llvm.VectorType):
        return None if isinstance(value, Poison) else tuple([int(lane.constant) for lane in value.constant])
    return int(value.constant) if isinstance(value.constant, int) else None


def is_beyond(value: Value, bits: int) -> bool:
    """Is it a constant, of which no lane is an integer of so many bits, with a sign or without?"""
    numbers = known(value)
    lanes = (numbers,) if isinstance(numbers, int) else numbers or ()
    return bool(lanes) and not any(-(1 << bits - 1) <= number < 1 << bits for number in lanes)


def splat(builder: Builder, value: Value, lanes: int) -> Value:
    """A scalar in every lane; a vector as it is."""
    if not lanes or lanes_of(value):
        return value
    kind = shaped(value.type, lanes)
    if isinstance(value, llvm.Constant):
        return Splat(kind, value)
    first = builder.insert_element(Poison(kind), value, literal(I32, 0))
    return builder.shuffle_vector(first, Poison(kind), filled(shaped(I32, lanes), 0), name="splat")


def matched(builder: Builder, *values: Value) -> list[Value]:
    """The values, scalars spread over the lanes of the vectors among them."""
    lanes = max(map(lanes_of, values))
    return [splat(builder, value, lanes) for value in values]


def filled(value_type: Type, number: float) -> Value:
    """A constant of a scalar or vector type, the same in every lane."""
    if isinstance(value_type, llvm.VectorType):
        return Splat(value_type, literal(value_type.element, number))
    return literal(value_type, number)


class IntegerLanes(llvm.Constant):  # type: ignore[misc] # llvmlite has no types
    """A constant vector of integers that are told without asking every lane."""

    def __init__(self, kind: Type, lanes: list[Value]) -> None:
        super().__init__(kind, lanes)
        self.numbers = tuple([int(lane.constant) for lane in lanes])


class Splat(llvm.Constant):  # type: ignore[misc] # llvmlite has no types
    """A constant vector with equal lanes, written in short."""

    def __init__(self, kind: Type, lane: Value) -> None:
        super().__init__(kind, lane)

    def _get_reference(self) -> str:
        lane = self.constant[0]
        return f"splat ({lane.type} {lane.get_reference()})"


class Poison(llvm.Constant):  # type: ignore[misc] # llvmlite has no types
    """A vector whose lanes are filled in one after the other."""

    def __init__(self, kind: Type) -> None:
        super().__init__(kind, llvm.Undefined)
        self.constant = llvm.Undefined

    def _get_reference(self) -> str:
        return "poison"


def mangled(kind: Type) -> str:
    """A type in the name of an intrinsic."""
    if isinstance(kind, llvm.VectorType):
        return f"v{kind.count}{mangled(kind.element)}"
    return str(kind.intrinsic_name)


def intrinsic(
    builder: Builder,
    name: str,
    result: Type,
    args: list[Value],
    overloads: list[Type],
    align: dict[int, int] | None = None,
    flags: tuple[str, ...] = (),
) -> Value:
    """A call of `llvm.<name>` with its overloaded types, declared on first use.

    `align` states the alignment of pointer arguments, `flags` what LLVM may assume of floating point.
    """
    full = ".".join(["llvm", name, *map(mangled, overloads)])
    call = builder.call(external(builder.module, full, result, [arg.type for arg in args]), args, fastmath=flags)
    for place, amount in (align or {}).items():
        attributes = llvm.values.ArgumentAttributes()
        attributes.align = amount
        call.arg_attributes[place] = attributes
    return call


def external(module: llvm.Module, name: str, result: Type, args: list[Type]) -> Value:
    """The declaration of a function, made on first use."""
    known_function = module.globals.get(name)
    return known_function or llvm.Function(module, llvm.FunctionType(result, args), name)


def freeze(builder: Builder, value: Value) -> Value:
    """The value with undefined bits fixed: a divisor may stem from an element that no lane has written."""
    instruction = llvm.Instruction(builder.block, value.type, "freeze", [value])
    builder._insert(instruction)  # noqa: SLF001 - llvmlite has no builder method for this instruction
    return instruction


def bitcast(builder: Builder, value: Value, element: Type) -> Value:
    """The bits of a value as another type of the same width."""
    return builder.bitcast(value, shaped(element, lanes_of(value)))
