"""LLVM IR that makes the output of a call where none is given, and IR that calls the kernel."""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.calling.entry_table import axis_extent, axis_words, extents, spec_word, word
from tensorlang.codegen.runtime import arrays

MAX_VALUES: Final = 16
"""Most arguments (arrays and dims) of a kernel that the entry can call."""
MOST_VALUES: Final = 1024
"""The same of a function that takes its words as an array, with their number."""
MAX_WORDS: Final = MAX_VALUES + 2
"""With those of a workspace: where it is, and for how many threads it suffices."""


def _allocate() -> str:
    """`allocate`: a new output of the shape that its spec has under the bound dims, else null."""
    return f"""
define internal ptr @allocate(ptr %spec, ptr %dims) {{
start:
  %pair = alloca [2 x ptr]
{spec_word("dtype", "ptr")}
{spec_word("itemsize", "i64")}
{spec_word("ndim", "i64")}
{spec_word("strides", "ptr")}
  %in.order = icmp eq ptr %strides, null
  br i1 %in.order, label %plain, label %fail
plain:
  %tuple = call ptr @PyTuple_New(i64 %ndim)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %fail, label %axes
axes:
  %axis = phi i64 [ 0, %plain ], [ %axis.next, %set ]
  %size = phi i64 [ %itemsize, %plain ], [ %size.next, %set ]
  %more = icmp slt i64 %axis, %ndim
  br i1 %more, label %extent, label %shaped
extent:
{axis_words()}
{axis_extent("value")}
  %negative = icmp slt i64 %value, 0
  br i1 %negative, label %drop, label %number
number:
  %boxed = call ptr @PyLong_FromLongLong(i64 %value)
  %no.box = icmp eq ptr %boxed, null
  br i1 %no.box, label %drop, label %set
set:
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %axis, ptr %boxed)
  %axis.next = add i64 %axis, 1
  %size.next = mul i64 %size, %value
  br label %axes
shaped:
  %small = icmp ult i64 %size, {arrays.LARGE}
  %maker = select i1 %small, ptr @numpy_empty, ptr @empty_aligned
  %pair.dtype = getelementptr ptr, ptr %pair, i64 1
  store ptr %tuple, ptr %pair
  store ptr %dtype, ptr %pair.dtype
  %array = call ptr @PyObject_Vectorcall(ptr %maker, ptr %pair, i64 2, ptr null)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %array
drop:
  call void @Py_DecRef(ptr %tuple)
  br label %fail
fail:
  ret ptr null
}}"""


def _invoke() -> str:
    """`invoke`: call the kernel with `count` words. Addresses and int64 are passed alike in the C conventions of x86-64 and Arm."""
    cases, blocks = [], []
    for count in range(MAX_WORDS + 1):
        cases.append(f"    i64 {count}, label %with{count}")
        loads = "\n".join(word(f"v{count}.{n}", "i64", "%values", n) for n in range(count))
        values = ", ".join(f"i64 %v{count}.{n}" for n in range(count))
        blocks.append(f"with{count}:\n{loads}\n  %r{count} = call i32 %function({values})\n  ret i32 %r{count}")
    return (
        "\ndefine internal i32 @invoke(ptr %function, ptr %values, i64 %count) {\n  switch i64 %count, label %never [\n"
        + "\n".join(cases)
        + "\n  ]\n"
        + "\n".join(blocks)
        + "\nnever:\n  unreachable\n}"
    )


_INVOKE_BY_ARRAY: Final = """
define internal i32 @invoke(ptr %function, ptr %values, i64 %count) {
  %status = call i32 %function(ptr %values, i64 %count)
  ret i32 %status
}"""


def functions(*, by_array: bool = False) -> str:
    """`extent`, `allocate` and `invoke`; `by_array`: of functions that take an array of words and their number."""
    return extents() + _allocate() + (_INVOKE_BY_ARRAY if by_array else _invoke())
