"""Kernels written by hand in LLVM IR that follow the convention of generated code, and signatures to call them by."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from tensorlang import ir
from tensorlang.codegen.cache.interface_symbol import with_interface
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.target import target
from tensorlang.errors import CallError
from tensorlang.ir.dtype import DType

ADD_16 = """
define i32 @add(ptr %a, ptr %b, ptr %out) {
  %x = load <16 x float>, ptr %a, align 4
  %y = load <16 x float>, ptr %b, align 4
  %z = fadd <16 x float> %x, %y
  store <16 x float> %z, ptr %out, align 4
  ret i32 0
}"""

COPY = """
declare void @llvm.memcpy(ptr, ptr, i64, i1)
define i32 @copy({pointers}{dims}) {{
  %elements = {count}
  %bytes = mul i64 %elements, {size}
  call void @llvm.memcpy(ptr %out, ptr %a, i64 %bytes, i1 false)
  ret i32 0
}}"""

FAILS = """
define i32 @fails(ptr %a, ptr %out) {
  ret i32 1
}"""

TWO = """
define i32 @two(ptr %a, ptr %sum, ptr %difference) {
  %second = getelementptr float, ptr %a, i64 1
  %x = load float, ptr %a
  %y = load float, ptr %second
  %s = fadd float %x, %y
  %d = fsub float %x, %y
  store float %s, ptr %sum
  store float %d, ptr %difference
  ret i32 0
}"""

TEAM = """
@tensorlang_num_threads = external global i32
%job = type { ptr, i32, i32 }
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @sched_yield()
define internal void @body(ptr %job) {
start:
  %threads.at = getelementptr %job, ptr %job, i32 0, i32 1
  %arrived.at = getelementptr %job, ptr %job, i32 0, i32 2
  %out = load ptr, ptr %job
  %threads = load i32, ptr %threads.at
  %id = atomicrmw add ptr %arrived.at, i32 1 seq_cst
  %at = getelementptr i32, ptr %out, i32 %id
  store i32 %threads, ptr %at
  br label %wait
wait:
  %arrived = load atomic i32, ptr %arrived.at seq_cst, align 4
  %all = icmp sge i32 %arrived, %threads
  %status = call i32 @sched_yield()
  br i1 %all, label %done, label %wait
done:
  ret void
}
define i32 @team(ptr %a, ptr %out) {
  %job = alloca %job
  store ptr %out, ptr %job
  %threads = load i32, ptr @tensorlang_num_threads
  %threads.at = getelementptr %job, ptr %job, i32 0, i32 1
  store i32 %threads, ptr %threads.at
  %arrived.at = getelementptr %job, ptr %job, i32 0, i32 2
  store i32 0, ptr %arrived.at
  call void @GOMP_parallel(ptr @body, ptr %job, i32 %threads, i32 0)
  ret i32 0
}"""
"""Each thread writes how many were asked for, and waits until all have come."""

WAIT = """
define i32 @wait(ptr %flag, ptr %out) {
start:
  br label %spin
spin:
  %count = phi i64 [ 0, %start ], [ %next, %spin ]
  %value = load volatile float, ptr %flag
  %set = fcmp une float %value, 0.0
  %next = add i64 %count, 1
  %late = icmp ugt i64 %next, 10000000000
  %leave = or i1 %set, %late
  br i1 %leave, label %done, label %spin
done:
  store float %value, ptr %out
  ret i32 0
}"""


def argument(name: str, *shape: int | str | ir.Expr, dtype: str = "float32") -> Argument:
    """An argument; a string is a dim."""
    return Argument(name, tuple(_extent(part) for part in shape), DType(dtype))


def _extent(part: int | str | ir.Expr) -> ir.Expr:
    return ir.const(part) if isinstance(part, int) else ir.Dim(part) if isinstance(part, str) else part


@cache
def build(text: str, signature: Signature, on: str = "native", **facts: Any) -> Kernel:
    """A kernel from LLVM IR."""
    machine = target(on)
    compiled = binding.compile_module(with_interface(text, signature, machine), machine.machine)
    return Kernel(Program(signature, machine, compiled, nest="for i in range(16): ...", **facts))


def add() -> Kernel:
    """`C = A + B` on 16 floats."""
    signature = Signature("add", (argument("A", 16), argument("B", 16)), (argument("C", 16),))
    return build(ADD_16, signature, flops=ir.const(16), bytes=ir.const(192))


def copy(
    *shape: int | str | ir.Expr, dtype: str = "float32", dims: tuple[str, ...] = (), out: tuple[int | str | ir.Expr, ...] | None = None
) -> Kernel:
    """`C = A` over a shape; with dims, the first of them is the number of elements that are copied."""
    signature = Signature("copy", (argument("A", *shape, dtype=dtype),), (argument("C", *(out or shape), dtype=dtype),), dims)
    count = 1
    for part in shape:
        count *= part if isinstance(part, int) else 1
    text = COPY.format(
        pointers="ptr %a, ptr %out",
        dims="".join(f", i64 %{name}" for name in dims),
        count=f"mul i64 %{dims[0]}, {count}" if dims else f"add i64 0, {count}",
        size=DType(dtype).bytes,
    )
    return build(text, signature)


def vector(name: str, text: str, dtype: str = "float32", size: int = 16) -> Kernel:
    """A kernel from one array of 16 to another."""
    return build(text, Signature(name, (argument("A", size, dtype=dtype),), (argument("C", size, dtype=dtype),)))


class Exporter:
    """A tensor of another library: `__dlpack__` only."""

    def __init__(self, array: Any, device: Any = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        if self.device[0] != 1:
            raise BufferError("not on the CPU")
        return self.array.__dlpack__(**keywords)


class Bfloat16Tensor:
    """What torch exports for bfloat16: a type that NumPy's own import refuses."""

    def __init__(self, bits: Any, shape: Any, strides: Any = None) -> None:
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*(strides or shape))
        pointers = (ctypes.addressof(self.shape), ctypes.addressof(self.strides) if strides else 0)
        self.bits, self.struct = bits, struct.pack("=QiiiBBHQQQ", bits.ctypes.data, 1, 0, len(shape), 4, 16, 1, *pointers, 0)

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        if keywords:
            raise TypeError("an old exporter takes no keywords")
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(self.struct, b"dltensor", None)


def random_calls(kernel: Any, dtypes: list[str], called: Callable[[Any, Any, Any], Any]) -> Iterator[list[bytes | str]]:
    """What a kernel of float32[n, 3] makes of operands that it may take or not, natively and carefully: bytes, or why it refuses."""
    rng = np.random.default_rng(0)
    base = rng.random(4000).astype("f4")

    def operand() -> Any:
        rows, columns = int(rng.integers(0, 5)), int(rng.choice([1, 2, 3, 3, 3, 3, 3, 4]))
        start = int(rng.integers(0, 30))
        array = base[start : start + rows * columns].reshape(rows, columns)
        match int(rng.integers(0, 9)):
            case 0:
                return array.T
            case 1:
                return array[::-1]
            case 2:
                return array.astype(rng.choice(dtypes))
            case 3:
                return array.ravel()
            case 4:
                return array.copy()
            case _:
                return array

    for _ in range(1500):
        x, out = operand(), operand()
        if rng.random() < 0.5:
            out = base[200 : 200 + x.size].reshape(x.shape)
        answers, before = list[bytes | str](), base.copy()
        for call in (kernel, kernel._linked):
            try:
                answers.append(called(call, x, out).tobytes())
            except CallError as error:
                answers.append(str(error))
                np.testing.assert_array_equal(base, before)
            base[:] = before
        yield answers
