"""Kernels as functions of `tvm-ffi`, the calling convention that torch, JAX and TVM share: machine code from end to end, no copies.

    int32_t call(void *handle, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result)

An argument is sixteen bytes: the number of its type, and its value, here a pointer to a `DLTensor` or to an object that holds one behind
its header. They are unpacked, looked at by the entry of exported kernels (`codegen/export/entries.py`), and compared with each other: an
output lies apart from every other argument. What is wrong is raised through the library, as `CallError`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any, Final

from tensorlang.bridges.packages import required
from tensorlang.bridges.passing import Passing
from tensorlang.codegen.export import entries
from tensorlang.codegen.export.interface import ERRORS, Interface, dlpack_type
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime import arrays
from tensorlang.errors import BuildError, CallError

_ENTRY: Final = "tensorlang.entry"
_CODE: Final = "tensorlang.code"
_RAISE: Final = "TVMFFIErrorSetRaisedFromCStrParts"
_CALL: Final = "tensorlang_call"
_OVERLAP: Final = len(ERRORS) + 1
_REASONS: Final = dict(ERRORS.values()) | {_OVERLAP: "an output overlaps another argument in memory"}


class _Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


def export(kernel: Kernel) -> Any:
    """A kernel as a `tvm_ffi.Function`: the inputs in order, then the outputs, which are written. It returns nothing.

    Tensors are row-major and contiguous, on the CPU, of the kernel's types and shapes, and outputs lie apart, or a call raises `CallError`
    and writes nothing. Raises `BuildError` where tvm-ffi is not installed, and for a kernel with a dim that is no axis of a tensor.
    """
    ffi = required("tvm_ffi", "tvm-ffi")
    passing, program = Passing.of(kernel), kernel.program
    signature = program.signature
    interface = Interface(
        _ENTRY, signature.inputs, signature.outputs, signature.inputs, {}, signature.dims, signature.limits, signature.products
    )
    if interface.others:
        raise BuildError(
            f"{passing.name}: the dim {interface.others[0]!r} is no axis of a tensor, by which a function of tvm-ffi would know it"
        )
    held = {
        argument.name: _tensor(program.bound[argument.name], argument.dtype)
        for argument in signature.inputs
        if argument.name in program.bound
    }
    places = {argument.name: place for place, argument in enumerate(passing.inputs)}
    operands = [
        f"inttoptr (i64 {ctypes.addressof(held[argument.name])} to ptr)" if argument.name in held else f"%t{places[argument.name]}"
        for argument in signature.inputs
    ]
    target = program.target
    parts = [
        entries.module(interface, target, [_CODE], "", None),
        entries.CHECKS,
        _stub(passing, operands),
    ]
    text = re.sub(r"^(define|declare) hidden ", r"\1 internal ", binding.linked(parts, target.triple), flags=re.MULTILINE)
    outside = {_CODE: kernel.address, _RAISE: ctypes.cast(getattr(ffi.LIB, _RAISE), ctypes.c_void_p).value or 0}
    library = binding.link(binding.compile_module(text, target.machine).object, (_CALL,), outside)
    ffi.register_error("CallError", CallError)
    return ffi.Function.__from_extern_c__(library.address(_CALL), keep_alive_object=(library, kernel, held))


def _tensor(array: Any, dtype: Any) -> _Tensor:
    """A fixed operand as the entry takes it."""
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    code, bits = dlpack_type(dtype)
    return _Tensor(arrays.address(array), 1, 0, array.ndim, code, bits, 1, ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0)


def _stub(passing: Passing, operands: Sequence[str]) -> str:
    """The function of the calling convention: it unpacks, looks for overlaps, and calls the entry."""
    names = [argument.name for argument in (*passing.inputs, *passing.outputs)]
    count = len(names)
    texts = {
        "wrong.count": f"{passing.name}: expected {count} tensors, inputs first, outputs last: {', '.join(names)}",
        "name": f"{passing.name}: argument '",
        "colon": "': ",
        **{f"argument.{place}": name for place, name in enumerate(names)},
        **{f"reason.{number}": reason for number, reason in _REASONS.items()},
        "kind": "CallError",
    }
    globals_ = "\n".join(f'@"text.{name}" = internal constant {_bytes(text)}' for name, text in texts.items())
    reasons = ", ".join(f'ptr @"text.reason.{number}"' if number in _REASONS else "ptr null" for number in range(_OVERLAP + 1))
    unpacked = "\n".join(
        f"  %a{place} = getelementptr i8, ptr %arguments, i64 {16 * place}\n  %t{place} = call ptr @tensorlang.unpacked(ptr %a{place})"
        for place in range(count)
    )
    apart, label = [], "unpack"
    for place in range(len(passing.inputs), count):
        for other in range(place):
            here = f"apart.{place}.{other}"
            apart.append(f"  %{here} = call i1 @tensorlang.apart(ptr %t{place}, ptr %t{other})")
            apart.append(f"  br i1 %{here}, label %after.{place}.{other}, label %over.{place}.{other}")
            apart.append(f"over.{place}.{other}:")
            apart.append(f'  call void @tensorlang_error(ptr null, i32 {_OVERLAP}, ptr @"text.argument.{place}")\n  ret i32 -1')
            label = f"after.{place}.{other}"
            apart.append(f"{label}:")
    passed = ", ".join(f"ptr {operand}" for operand in (*operands, *(f"%t{place}" for place in range(len(passing.inputs), count))))
    types = ", ".join(["ptr"] * (len(operands) + len(passing.outputs)))
    checks = "\n".join(apart)
    return f"""{globals_}
@reasons = internal constant [{_OVERLAP + 1} x ptr] [{reasons}]
declare i32 @"{_ENTRY}_dltensor"({types})
declare void @"{_RAISE}"(ptr, ptr, i32)

define i32 @{_CALL}(ptr %handle, ptr %arguments, i32 %count, ptr %result) {{
  %right = icmp eq i32 %count, {count}
  br i1 %right, label %unpack, label %wrong
wrong:
  %parts = alloca ptr
  store ptr @"text.wrong.count", ptr %parts
  call void @"{_RAISE}"(ptr @"text.kind", ptr %parts, i32 1)
  ret i32 -1
unpack:
{unpacked}
{checks}
  %status = call i32 @"{_ENTRY}_dltensor"({passed})
  %done = icmp eq i32 %status, 0
  %answer = select i1 %done, i32 0, i32 -1
  ret i32 %answer
}}

define void @tensorlang_error(ptr %kernel, i32 %error, ptr %argument) {{
  %at = getelementptr [{_OVERLAP + 1} x ptr], ptr @reasons, i32 0, i32 %error
  %reason = load ptr, ptr %at
  %parts = alloca [4 x ptr]
  store ptr @"text.name", ptr %parts
  %second = getelementptr ptr, ptr %parts, i32 1
  store ptr %argument, ptr %second
  %third = getelementptr ptr, ptr %parts, i32 2
  store ptr @"text.colon", ptr %third
  %fourth = getelementptr ptr, ptr %parts, i32 3
  store ptr %reason, ptr %fourth
  call void @"{_RAISE}"(ptr @"text.kind", ptr %parts, i32 4)
  ret void
}}
{_UNPACKING}"""


def _bytes(text: str) -> str:
    data = text.encode() + b"\0"
    return f'[{len(data)} x i8] c"' + "".join(f"\\{byte:02x}" for byte in data) + '"'


# A DLTensor is passed as it is (7), or behind the header of 24 bytes of an object (70). Numbers of types: tvm/ffi/c_api.h.
_UNPACKING: Final = """
%Tensor = type { ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }

define internal ptr @tensorlang.unpacked(ptr %argument) {
  %kind = load i32, ptr %argument
  %at = getelementptr i8, ptr %argument, i64 8
  %value = load ptr, ptr %at
  %behind = getelementptr i8, ptr %value, i64 24
  %is.plain = icmp eq i32 %kind, 7
  %is.object = icmp eq i32 %kind, 70
  %object = select i1 %is.object, ptr %behind, ptr null
  %found = select i1 %is.plain, ptr %value, ptr %object
  ret ptr %found
}

define internal i1 @tensorlang.apart(ptr %one, ptr %other) {
  %no.one = icmp eq ptr %one, null
  %no.other = icmp eq ptr %other, null
  %nothing = or i1 %no.one, %no.other
  br i1 %nothing, label %apart, label %compare
compare:
  %one.start = call i64 @tensorlang.start(ptr %one)
  %one.bytes = call i64 @tensorlang.bytes(ptr %one)
  %one.end = add i64 %one.start, %one.bytes
  %other.start = call i64 @tensorlang.start(ptr %other)
  %other.bytes = call i64 @tensorlang.bytes(ptr %other)
  %other.end = add i64 %other.start, %other.bytes
  %before = icmp ule i64 %one.end, %other.start
  %after = icmp ule i64 %other.end, %one.start
  %disjoint = or i1 %before, %after
  %one.empty = icmp eq i64 %one.bytes, 0
  %other.empty = icmp eq i64 %other.bytes, 0
  %empty = or i1 %one.empty, %other.empty
  %found = or i1 %disjoint, %empty
  ret i1 %found
apart:
  ret i1 1
}

define internal i64 @tensorlang.start(ptr %tensor) {
  %data = load ptr, ptr %tensor
  %offset.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 9
  %offset = load i64, ptr %offset.at
  %address = ptrtoint ptr %data to i64
  %start = add i64 %address, %offset
  ret i64 %start
}

define internal i64 @tensorlang.bytes(ptr %tensor) {
  %rank.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 3
  %bits.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 5
  %shape.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 7
  %rank = load i32, ptr %rank.at
  %bits = load i8, ptr %bits.at
  %shape = load ptr, ptr %shape.at
  %wide = zext i8 %bits to i64
  %round = add i64 %wide, 7
  %size = lshr i64 %round, 3
  br label %next
next:
  %axis = phi i32 [ 0, %0 ], [ %axis.next, %multiply ]
  %bytes = phi i64 [ %size, %0 ], [ %product, %multiply ]
  %over = icmp sge i32 %axis, %rank
  br i1 %over, label %done, label %multiply
multiply:
  %extent.at = getelementptr i64, ptr %shape, i32 %axis
  %extent = load i64, ptr %extent.at
  %product = mul i64 %bytes, %extent
  %axis.next = add i32 %axis, 1
  br label %next
done:
  ret i64 %bytes
}
"""
