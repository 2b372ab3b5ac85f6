"""LLVM IR that takes one argument of a call apart: a plain NumPy array by its fields, a NumPy scalar, a tensor of others by DLPack.

`accept` gives the address of the data where the spec of the argument allows the object, else null, and says nothing about why: whatever
it does not know goes the careful path. A type of another library is known once `runtime.exchange` has met it. Its tensors come as
managed ones, which hold the memory until the call is over: another thread may drop what the caller passed.
"""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.calling.entry_table import HEADER, SPEC, array_field, axis_extent, axis_words, field, spec_word, word
from tensorlang.codegen.runtime import exchange

_MANAGED: Final = {"version": 0, "deleter": 16, "flags": 24}
_TENSOR: Final = {"data": 32, "device": 40, "ndim": 48, "dtype": 52, "shape": 56, "strides": 64, "byte_offset": 72}
"""Where `DLManagedTensorVersioned` has its fields, in bytes."""


def _managed(name: str, kind: str) -> str:
    return field(name, kind, "%managed", (_MANAGED | _TENSOR)[name])


def _fits() -> str:
    """`fits`: whether a shape is what a spec says; binds dims, and gives the number of bytes."""
    return f"""
define internal i1 @fits(ptr %spec, ptr %shape, i64 %rank, ptr %dims, ptr %bytes) alwaysinline {{
start:
{spec_word("itemsize", "i64")}
  br label %axes
axes:
  %axis = phi i64 [ 0, %start ], [ %axis.next, %matches ]
  %size = phi i64 [ %itemsize, %start ], [ %size.next, %matches ]
  %more = icmp slt i64 %axis, %rank
  br i1 %more, label %extent, label %accepted
extent:
{word("found", "i64", "%shape", "%axis")}
{axis_words()}
  %fixed = icmp slt i64 %slot, 0
  br i1 %fixed, label %compare, label %dim
dim:
{word("dim.value", "i64", "%dims", "%slot")}
  %unbound = icmp slt i64 %dim.value, 0
  %single = icmp slt i64 %slot.2, 0
  br i1 %unbound, label %alone, label %other
other:
  br i1 %single, label %compare, label %another
another:
{word("dim.other", "i64", "%dims", "%slot.2")}
  %unknown = icmp slt i64 %dim.other, 0
  br i1 %unknown, label %refuse, label %compare
compare:
{axis_extent("expected")}
  %agrees = icmp eq i64 %found, %expected
  br i1 %agrees, label %matches, label %refuse
alone:
  %whole = icmp eq i64 %divisor, 1
  %tells = and i1 %single, %whole
  br i1 %tells, label %bind, label %refuse
bind:
  %variable = sub i64 %found, %offset
  %solution = sdiv i64 %variable, %scale
  %exact = mul i64 %solution, %scale
  %divides = icmp eq i64 %exact, %variable
  %enough = icmp sge i64 %solution, %least
  %within = icmp sle i64 %solution, %most
  %bounded = and i1 %enough, %within
  %solved = and i1 %divides, %bounded
  br i1 %solved, label %store, label %refuse
store:
  store i64 %solution, ptr %dim.value.at
  br label %matches
matches:
  %axis.next = add i64 %axis, 1
  %size.next = mul i64 %size, %found
  br label %axes
accepted:
  store i64 %size, ptr %bytes
  ret i1 true
refuse:
  ret i1 false
}}"""


def _accept() -> str:
    """`accept`: the data address of an argument that its spec allows, else null; what has to be released goes to `held`."""
    return f"""
define internal ptr @accept(ptr %spec, ptr %object, ptr %dims, ptr %bytes, ptr %held) alwaysinline {{
{field("type", "ptr", "%object", HEADER - 8)}
  %plain = icmp eq ptr %type, @numpy_ndarray
  br i1 %plain, label %layout, label %other
other:
{spec_word("scalar", "ptr")}
  %single = icmp eq ptr %type, %scalar
  br i1 %single, label %number, label %foreign
number:
{word("of.one", "i64", "%spec", SPEC.index("itemsize"))}
  store i64 %of.one, ptr %bytes
  %value = getelementptr i8, ptr %object, i64 {HEADER}
  ret ptr %value
foreign:
  %tensor = call ptr @exchange(ptr %spec, ptr %object, ptr %type, ptr %dims, ptr %bytes, ptr %held)
  ret ptr %tensor
layout:
{array_field("data", "ptr")}
{array_field("ndim", "i32")}
{array_field("shape", "ptr")}
{array_field("dtype", "ptr")}
{array_field("flags", "i32")}
{spec_word("dtype", "ptr")}
{spec_word("flags", "i64")}
{spec_word("ndim", "i64")}
  %has = sext i32 %array.flags to i64
  %rank = sext i32 %array.ndim to i64
  %common = and i64 %has, %flags
  %good.dtype = icmp eq ptr %array.dtype, %dtype
  %good.flags = icmp eq i64 %common, %flags
  %good.rank = icmp eq i64 %rank, %ndim
  %good.two = and i1 %good.dtype, %good.flags
  %good = and i1 %good.two, %good.rank
  br i1 %good, label %axes, label %refuse
axes:
  %fit = call i1 @fits(ptr %spec, ptr %array.shape, i64 %rank, ptr %dims, ptr %bytes)
  br i1 %fit, label %placed, label %refuse
placed:
{spec_word("strides", "ptr")}
{spec_word("itemsize", "i64")}
  %in.order = icmp eq ptr %strides, null
  br i1 %in.order, label %accepted, label %strided
strided:
{array_field("strides", "ptr")}
  %lying = call i1 @lies(ptr %array.shape, ptr %array.strides, ptr %strides, i64 %itemsize, i64 %rank, i64 %itemsize, ptr %bytes)
  br i1 %lying, label %accepted, label %refuse
accepted:
  ret ptr %array.data
refuse:
  ret ptr null
}}"""


def _dense() -> str:
    """`dense`: whether strides, in elements, are those of an array in C order; null means so."""
    return f"""
define internal i1 @dense(ptr %shape, ptr %strides, i64 %rank) {{
start:
  %implied = icmp eq ptr %strides, null
  br i1 %implied, label %yes, label %axes
axes:
  %axis = phi i64 [ %rank, %start ], [ %before, %agrees ]
  %step = phi i64 [ 1, %start ], [ %step.next, %agrees ]
  %done = icmp eq i64 %axis, 0
  br i1 %done, label %yes, label %extent
extent:
  %before = sub i64 %axis, 1
{word("found", "i64", "%shape", "%before")}
{word("stride", "i64", "%strides", "%before")}
  %single = icmp eq i64 %found, 1
  %equal = icmp eq i64 %stride, %step
  %good = or i1 %single, %equal
  br i1 %good, label %agrees, label %no
agrees:
  %step.next = mul i64 %step, %found
  br label %axes
yes:
  ret i1 true
no:
  ret i1 false
}}"""


def _lies() -> str:
    """`lies`: whether strides, in elements or bytes as `unit` says, are those wanted, in elements; gives the bytes from end to end."""
    return f"""
define internal i1 @lies(ptr %shape, ptr %strides, ptr %wanted, i64 %unit, i64 %rank, i64 %itemsize, ptr %bytes) {{
start:
  %implied = icmp eq ptr %strides, null
  br i1 %implied, label %no, label %axes
axes:
  %axis = phi i64 [ 0, %start ], [ %axis.next, %agrees ]
  %last = phi i64 [ 0, %start ], [ %last.next, %agrees ]
  %empty = phi i1 [ false, %start ], [ %empty.next, %agrees ]
  %more = icmp slt i64 %axis, %rank
  br i1 %more, label %extent, label %yes
extent:
{word("found", "i64", "%shape", "%axis")}
{word("stride", "i64", "%strides", "%axis")}
{word("step", "i64", "%wanted", "%axis")}
  %expected = mul i64 %step, %unit
  %single = icmp eq i64 %found, 1
  %equal = icmp eq i64 %stride, %expected
  %good = or i1 %single, %equal
  br i1 %good, label %agrees, label %no
agrees:
  %none = icmp eq i64 %found, 0
  %empty.next = or i1 %empty, %none
  %before = sub i64 %found, 1
  %further = mul i64 %before, %step
  %last.next = add i64 %last, %further
  %axis.next = add i64 %axis, 1
  br label %axes
yes:
  %count = add i64 %last, 1
  %whole = mul i64 %count, %itemsize
  %size = select i1 %empty, i64 0, i64 %whole
  store i64 %size, ptr %bytes
  ret i1 true
no:
  ret i1 false
}}"""


def _exchange() -> str:
    """`exchange`: what `accept` does, of an object whose type exports DLPack tensors through a table of functions."""
    row = len(exchange.ROW)
    return f"""
define internal ptr @exchange(ptr %spec, ptr %object, ptr %type, ptr %dims, ptr %bytes, ptr %held) noinline {{
start:
  %taken.at = alloca ptr
  %self = alloca ptr
  br label %search
search:
  %place = phi i64 [ 0, %start ], [ %place.next, %other ]
  %first = mul i64 %place, {row}
  %exporter = getelementptr i64, ptr @exporters, i64 %first
{word("kind", "ptr", "%exporter", exchange.ROW.index("type"))}
  %unknown = icmp eq ptr %kind, null
  br i1 %unknown, label %refuse, label %compare
compare:
  %place.next = add i64 %place, 1
  %same = icmp eq ptr %kind, %type
  br i1 %same, label %found, label %other
other:
  br label %search
found:
{word("function", "ptr", "%exporter", exchange.ROW.index("function"))}
{word("attribute", "ptr", "%exporter", exchange.ROW.index("attribute"))}
{word("method", "ptr", "%exporter", exchange.ROW.index("method"))}
  %free = icmp eq ptr %attribute, null
  br i1 %free, label %second, label %attached
attached:
  %value = call ptr @PyObject_GetAttr(ptr %object, ptr %attribute)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %clear, label %valued
valued:
  call void @Py_DecRef(ptr %value)
  %detached = icmp eq ptr %value, @py_false
  br i1 %detached, label %second, label %refuse
second:
  %direct = icmp eq ptr %method, null
  br i1 %direct, label %take, label %lazy
lazy:
  store ptr %object, ptr %self
  %answer = call ptr @PyObject_VectorcallMethod(ptr %method, ptr %self, i64 1, ptr null)
  %no.answer = icmp eq ptr %answer, null
  br i1 %no.answer, label %clear, label %answered
answered:
  call void @Py_DecRef(ptr %answer)
  %settled = icmp eq ptr %answer, @py_false
  br i1 %settled, label %take, label %refuse
take:
  store ptr null, ptr %taken.at
  %status = call i32 %function(ptr %object, ptr %taken.at)
  %managed = load ptr, ptr %taken.at
  %good.status = icmp eq i32 %status, 0
  %some = icmp ne ptr %managed, null
  %exported = and i1 %good.status, %some
  br i1 %exported, label %taken, label %clear
clear:
  call void @PyErr_Clear()
  ret ptr null
taken:
{_managed("version", "i32")}
  %known = icmp eq i32 %version, {exchange.MAJOR}
  br i1 %known, label %look, label %drop
look:
{_managed("flags", "i64")}
{_managed("data", "ptr")}
{_managed("device", "i32")}
{_managed("ndim", "i32")}
{_managed("dtype", "i32")}
{_managed("shape", "ptr")}
{_managed("strides", "ptr")}
{_managed("byte_offset", "i64")}
{spec_word("exchanged", "i64")}
{spec_word("forbidden", "i64")}
{spec_word("itemsize", "i64")}
{word("wanted", "i64", "%spec", SPEC.index("ndim"))}
  %start.data = getelementptr i8, ptr %data, i64 %byte_offset
  %address = ptrtoint ptr %start.data to i64
  %mask = sub i64 %itemsize, 1
  %low = and i64 %address, %mask
  %bad.flags = and i64 %flags, %forbidden
  %kind.found = zext i32 %dtype to i64
  %rank = sext i32 %ndim to i64
  %good.data = icmp ne ptr %data, null
  %aligned = icmp eq i64 %low, 0
  %allowed = icmp eq i64 %bad.flags, 0
  %good.dtype = icmp eq i64 %kind.found, %exchanged
  %good.rank = icmp eq i64 %rank, %wanted
  %cpu = icmp eq i32 %device, {exchange.CPU}
  %pinned = icmp eq i32 %device, {exchange.PINNED}
  %here = or i1 %cpu, %pinned
  %all.1 = and i1 %good.data, %aligned
  %all.2 = and i1 %all.1, %allowed
  %all.3 = and i1 %all.2, %good.dtype
  %all.4 = and i1 %all.3, %good.rank
  %all.5 = and i1 %all.4, %here
  br i1 %all.5, label %strided, label %drop
strided:
  %fit = call i1 @fits(ptr %spec, ptr %shape, i64 %rank, ptr %dims, ptr %bytes)
  br i1 %fit, label %shaped, label %drop
shaped:
{word("steps", "ptr", "%spec", SPEC.index("strides"))}
  %plain = icmp eq ptr %steps, null
  br i1 %plain, label %ordered, label %placed
ordered:
  %in.order = call i1 @dense(ptr %shape, ptr %strides, i64 %rank)
  br i1 %in.order, label %hold, label %drop
placed:
  %lying = call i1 @lies(ptr %shape, ptr %strides, ptr %steps, i64 1, i64 %rank, i64 %itemsize, ptr %bytes)
  br i1 %lying, label %hold, label %drop
hold:
  %count = load i64, ptr %held
  %count.next = add i64 %count, 1
  %slot = getelementptr ptr, ptr %held, i64 %count.next
  store ptr %managed, ptr %slot
  store i64 %count.next, ptr %held
  ret ptr %start.data
drop:
  call void @delete(ptr %managed)
  br label %refuse
refuse:
  ret ptr null
}}"""


def _release() -> str:
    """`release`: give back the tensors of `held`, a count and so many pointers."""
    return f"""
define internal void @delete(ptr %managed) {{
{_managed("deleter", "ptr")}
  %none = icmp eq ptr %deleter, null
  br i1 %none, label %done, label %some
some:
  call void %deleter(ptr %managed)
  br label %done
done:
  ret void
}}

define internal void @release(ptr %held) alwaysinline {{
start:
  %count = load i64, ptr %held
  br label %next
next:
  %at = phi i64 [ %count, %start ], [ %before, %one ]
  %done = icmp eq i64 %at, 0
  br i1 %done, label %end, label %one
one:
  %slot = getelementptr ptr, ptr %held, i64 %at
  %managed = load ptr, ptr %slot
  call void @delete(ptr %managed)
  %before = sub i64 %at, 1
  br label %next
end:
  ret void
}}"""


def functions() -> str:
    """`accept` and `release`, with what they call."""
    return "\n".join(part() for part in (_fits, _accept, _dense, _lies, _exchange, _release))
