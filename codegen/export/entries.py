"""The entries of an exported kernel as LLVM IR: they check a call, and pass it to the code of the kernel.

The tests are those of `interface`, in the order of the C source: dims, then pointers. A `DLTensor` entry first looks at what each tensor
is, reads the dims from shapes, then compares shapes, and calls the plain entry. An error goes to the hook, with the argument to blame, and
is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.cache.signature import Argument
from tensorlang.codegen.emission import arithmetic
from tensorlang.codegen.emission.frame import define
from tensorlang.codegen.emission.types import I8, I32, I64, POINTER, VOID, Builder, Value, external, literal
from tensorlang.codegen.export.interface import (
    BAD_DIM,
    BAD_POINTER,
    BAD_PROCESSOR,
    BAD_SHAPE,
    BAD_TENSOR,
    Interface,
    dlpack_type,
    holds_elements,
)
from tensorlang.codegen.target import Target
from tensorlang.errors import InternalError
from tensorlang.ir import Binary, Compare, Const, Dim, Expr, Unary
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.traverse import dtype_of

TENSOR: Final = llvm.LiteralStructType([POINTER, I32, I32, I32, I8, I8, llvm.IntType(16), POINTER, POINTER, I64])
"""`DLTensor`: data, device and its number, rank, type (code, bits, lanes), shape, strides, offset in bytes."""
DATA: Final = 0
SHAPE: Final = 7
OFFSET: Final = 9


class Entry:
    """A function being written: it ends with an error where a condition does not hold."""

    def __init__(self, module: llvm.Module, target: Target, interface: Interface, name: str, pointers: int, dims: Sequence[str]) -> None:
        self.function = define(module, target, name, I32, [POINTER] * pointers + [I64] * len(dims))
        self.builder = llvm.IRBuilder(self.function.append_basic_block("entry"))
        self.target, self.kernel = target, interface.name
        self.dims = dict(zip(dims, self.function.args[pointers:], strict=True))

    def value(self, expr: Expr) -> Value:
        """Arithmetic on dims."""
        match expr:
            case Const(value, dtype):
                return literal(llvm.IntType(1) if dtype == BOOL else I64, int(value))
            case Dim(name):
                return self.dims[name]
            case Unary(op, operand):
                return arithmetic.unary(self.builder, op, dtype_of(operand), self.value(operand))
            case Binary(op, left, right):
                return arithmetic.binary(self.builder, self.target, op, dtype_of(left), self.value(left), self.value(right))
            case Compare(op, left, right):
                return arithmetic.compare(self.builder, self.target, op, INT64, self.value(left), self.value(right))
            case _:
                raise InternalError(f"{expr!r} is no arithmetic on dims")

    def require(self, condition: Value, error: int, blamed: str) -> None:
        """Go on where a condition holds, else leave with an error."""
        with self.builder.if_then(self.builder.not_(condition), likely=False):
            self.fail(literal(I32, error), blamed)

    def fail(self, error: Value, blamed: str) -> None:
        """Tell the hook, and return the error."""
        report = external(self.builder.module, "tensorlang_error", VOID, [POINTER, I32, POINTER])
        self.builder.call(report, [string(self.builder.module, self.kernel), error, string(self.builder.module, blamed)])
        self.builder.ret(error)


def module(interface: Interface, target: Target, variants: Sequence[str], metadata: str, choose: str | None) -> str:
    """The module of the entries. `variants` are the functions that compute, `choose` gives the number of the one for this processor."""
    made = llvm.Module(name=interface.name, context=llvm.Context())
    made.triple = target.triple
    plain = _plain(made, target, interface, variants, choose)
    _dltensor(made, target, interface, plain)
    told = define(made, target, f"{interface.name}_metadata", POINTER, [])
    llvm.IRBuilder(told.append_basic_block("entry")).ret(string(made, metadata))
    return str(made)


def string(made: llvm.Module, text: str) -> Value:
    """A constant text, once in the module."""
    data = text.encode() + b"\0"
    name = f"text.{data.hex()[:48]}.{len(data)}"
    if name not in made.globals:
        _constant(made, name, data, 1)
    return made.globals[name]


def _constant(made: llvm.Module, name: str, data: bytes, align: int) -> Value:
    kind = llvm.ArrayType(I8, len(data))
    held = llvm.GlobalVariable(made, kind, name)
    held.linkage, held.global_constant, held.align = "internal", True, align
    held.initializer = llvm.Constant(kind, bytearray(data))
    return held


def _plain(made: llvm.Module, target: Target, interface: Interface, variants: Sequence[str], choose: str | None) -> Value:
    entry = Entry(made, target, interface, interface.name, len(interface.arguments), interface.dims)
    for blamed, condition in interface.dim_conditions():
        entry.require(entry.value(condition), BAD_DIM, blamed)
    builder = entry.builder
    for argument, pointer in zip(interface.arguments, entry.function.args, strict=False):
        pointer.name = interface.words[argument.name]
        address = builder.ptrtoint(pointer, I64)
        aligned = builder.icmp_unsigned("==", builder.and_(address, literal(I64, argument.dtype.bytes - 1)), literal(I64, 0))
        there = builder.or_(builder.icmp_unsigned("!=", address, literal(I64, 0)), builder.not_(entry.value(holds_elements(argument))))
        entry.require(builder.and_(aligned, there), BAD_POINTER, argument.name)
    passed = iter(entry.function.args[: len(interface.inputs)])
    inputs = [
        _constant(made, f"bound.{place}", interface.bound[argument.name].tobytes() or b"\0", 64)
        if argument.name in interface.bound
        else next(passed)
        for place, argument in enumerate(interface.all_inputs)
    ]
    operands = [*inputs, *entry.function.args[len(interface.inputs) :]]
    kernels = [external(made, name, I32, [operand.type if operand.type == I64 else POINTER for operand in operands]) for name in variants]
    if choose is None:
        _run(entry, kernels[0], operands)
        return entry.function
    chosen = builder.call(external(made, choose, I32, []), [])
    for number, kernel in enumerate(kernels):
        with builder.if_then(builder.icmp_signed("==", chosen, literal(I32, number))):
            _run(entry, kernel, operands)
    entry.fail(literal(I32, BAD_PROCESSOR), "")
    return entry.function


def _run(entry: Entry, kernel: Value, operands: list[Value]) -> None:
    status = entry.builder.call(kernel, operands)
    with entry.builder.if_then(entry.builder.icmp_signed("!=", status, literal(I32, 0)), likely=False):
        entry.fail(status, "")
    entry.builder.ret(status)


def _dltensor(made: llvm.Module, target: Target, interface: Interface, plain: Value) -> None:
    arguments, others = interface.arguments, interface.others
    entry = Entry(made, target, interface, f"{interface.name}_dltensor", len(arguments), others)
    builder, tensors = entry.builder, entry.function.args[: len(arguments)]
    is_form = external(made, "tensorlang.is_form", llvm.IntType(1), [POINTER, I32, I32, I32])
    for argument, tensor in zip(arguments, tensors, strict=True):
        tensor.name = interface.words[argument.name]
        form = (len(argument.shape), *dlpack_type(argument.dtype))
        entry.require(builder.call(is_form, [tensor, *(literal(I32, part) for part in form)]), BAD_TENSOR, argument.name)
    for dim, (place, axis) in interface.fixed.items():
        shape = _field(builder, tensors[place], SHAPE, POINTER)
        entry.dims[dim] = builder.load(builder.gep(shape, [literal(I64, axis)], source_etype=I64), typ=I64)
    for blamed, condition in interface.dim_conditions():
        entry.require(entry.value(condition), BAD_DIM, blamed)
    is_shape = external(made, "tensorlang.is_shape", llvm.IntType(1), [POINTER, POINTER, POINTER, I32])
    most = max((len(argument.shape) for argument in arguments), default=0)
    extents = builder.alloca(I64, size=max(most, 1))
    extents.type = POINTER
    for argument, tensor in zip(arguments, tensors, strict=True):
        _store_extents(entry, argument, extents, builder.gep)
        steps = _steps(made, argument) if argument.strides else llvm.Constant(POINTER, None)
        same = builder.call(is_shape, [tensor, extents, steps, literal(I32, len(argument.shape))])
        entry.require(same, BAD_SHAPE, argument.name)
    pointers = []
    for tensor in tensors:
        data, offset = _field(builder, tensor, DATA, POINTER), _field(builder, tensor, OFFSET, I64)
        pointers.append(builder.gep(data, [offset], source_etype=I8))
    builder.ret(builder.call(plain, [*pointers, *(entry.dims[dim] for dim in interface.dims)]))


def _steps(made: llvm.Module, argument: Argument) -> Value:
    name = f"strides.{'.'.join(map(str, argument.strides))}"
    if name not in made.globals:
        kind = llvm.ArrayType(I64, len(argument.strides))
        held = llvm.GlobalVariable(made, kind, name)
        held.linkage, held.global_constant = "internal", True
        held.initializer = llvm.Constant(kind, [literal(I64, step) for step in argument.strides])
    return made.globals[name]


def _store_extents(entry: Entry, argument: Argument, extents: Value, gep: Callable[..., Value]) -> None:
    for axis, extent in enumerate(argument.shape):
        entry.builder.store(entry.value(extent), gep(extents, [literal(I64, axis)], source_etype=I64))


def _field(builder: Builder, tensor: Value, place: int, kind: llvm.Type) -> Value:
    return builder.load(builder.gep(tensor, [literal(I32, 0), literal(I32, place)], source_etype=TENSOR), typ=kind)


CHECKS: Final = """
%DLTensor = type { ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }

define hidden i1 @tensorlang.is_form(ptr %tensor, i32 %rank, i32 %code, i32 %bits) nounwind {
  %none = icmp eq ptr %tensor, null
  br i1 %none, label %wrong, label %look
look:
  %device.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 1
  %rank.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 3
  %code.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 4
  %bits.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 5
  %lanes.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 6
  %shape.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 7
  %device = load i32, ptr %device.at
  %found.rank = load i32, ptr %rank.at
  %code.short = load i8, ptr %code.at
  %bits.short = load i8, ptr %bits.at
  %lanes = load i16, ptr %lanes.at
  %shape = load ptr, ptr %shape.at
  %found.code = zext i8 %code.short to i32
  %found.bits = zext i8 %bits.short to i32
  %is.cpu = icmp eq i32 %device, 1
  %is.rank = icmp eq i32 %found.rank, %rank
  %is.code = icmp eq i32 %found.code, %code
  %is.bits = icmp eq i32 %found.bits, %bits
  %is.scalar = icmp eq i16 %lanes, 1
  %has.shape = icmp ne ptr %shape, null
  %is.point = icmp eq i32 %rank, 0
  %shaped = or i1 %has.shape, %is.point
  %a = and i1 %is.cpu, %is.rank
  %b = and i1 %is.code, %is.bits
  %c = and i1 %is.scalar, %shaped
  %d = and i1 %a, %b
  %e = and i1 %c, %d
  ret i1 %e
wrong:
  ret i1 0
}

define hidden i1 @tensorlang.is_shape(ptr %tensor, ptr %extents, ptr %wanted, i32 %rank) nounwind {
  %shape.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 7
  %strides.at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 8
  %shape = load ptr, ptr %shape.at
  %strides = load ptr, ptr %strides.at
  %packed = icmp eq ptr %strides, null
  %ordered = icmp eq ptr %wanted, null
  %ordinary = alloca i64
  br label %same
same:
  %axis = phi i32 [ 0, %0 ], [ %axis.next, %same.next ]
  %empty = phi i1 [ 0, %0 ], [ %empty.next, %same.next ]
  %done = icmp eq i32 %axis, %rank
  br i1 %done, label %order, label %compare
compare:
  %told.at = getelementptr i64, ptr %extents, i32 %axis
  %found.at = getelementptr i64, ptr %shape, i32 %axis
  %told = load i64, ptr %told.at
  %found = load i64, ptr %found.at
  %equal = icmp eq i64 %told, %found
  br i1 %equal, label %same.next, label %wrong
same.next:
  %nothing = icmp eq i64 %found, 0
  %empty.next = or i1 %empty, %nothing
  %axis.next = add i32 %axis, 1
  br label %same
order:
  br i1 %empty, label %right, label %steps
steps:
  %place = phi i32 [ %rank, %order ], [ %last, %steps.next ]
  %step = phi i64 [ 1, %order ], [ %step.next, %steps.next ]
  %last = sub i32 %place, 1
  %over = icmp slt i32 %last, 0
  br i1 %over, label %right, label %stride
stride:
  %extent.at = getelementptr i64, ptr %shape, i32 %last
  %extent = load i64, ptr %extent.at
  store i64 %step, ptr %ordinary
  %stride.at = getelementptr i64, ptr %strides, i32 %last
  %due.at = getelementptr i64, ptr %wanted, i32 %last
  %given.at = select i1 %packed, ptr %ordinary, ptr %stride.at
  %asked.at = select i1 %ordered, ptr %ordinary, ptr %due.at
  %given = load i64, ptr %given.at
  %asked = load i64, ptr %asked.at
  %fits = icmp eq i64 %given, %asked
  %single = icmp eq i64 %extent, 1
  %good = or i1 %fits, %single
  br i1 %good, label %steps.next, label %wrong
steps.next:
  %step.next = mul i64 %step, %extent
  br label %steps
right:
  ret i1 1
wrong:
  ret i1 0
}
"""
