"""LLVM IR of the fast way into a kernel: a call from Python with no Python frame.

One function in machine code, shared by all kernels of the process, has the signature of CPython's vectorcall. It reads a table that
describes one kernel, takes plain `numpy.ndarray` arguments apart through the fields that NumPy's C interface fixes, checks type,
layout and every extent, binds the dims, checks that the output is apart from the inputs, allocates it where `out=` is not given,
releases the interpreter lock and calls the kernel. At the first thing that is not plain it gives the whole call to
`arguments.prepare` instead, which converts or refuses it: the entry itself never guesses, and raises only where the kernel failed.
Kernels with several outputs always take the careful path.

A table is a sequence of 64-bit words:

    function, slow, failed, positional, inputs, dims, the address of the spec of each input and of the output
    spec = the bound array or 0, its place among the arguments of a call, dtype object, required flags, itemsize, ndim,
           (scale, offset, slot, least, most) for each axis

and an axis has the extent `scale * dims[slot] + offset`, or `offset` where its slot is negative; a dim is from `least` to `most`.
"""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.runtime import arrays

MAX_VALUES: Final = 16
"""Most arguments (arrays and dims) of a kernel that the entry can call."""

HEADER: Final = object.__basicsize__
"""Size of the head of every Python object; its type is the last word of it."""

FIELDS: Final = {"data": 0, "ndim": 8, "shape": 16, "dtype": 40, "flags": 48}
"""Where NumPy's C interface puts the fields of an array, in bytes after the head."""

WORDS: Final = ("function", "slow", "failed", "positional", "inputs", "dims", "specs")
AXIS: Final = ("scale", "offset", "slot", "least", "most")
SPEC: Final = ("bound", "place", "dtype", "flags", "itemsize", "ndim", "axes")

PYTHON_FUNCTIONS: Final = {
    "PyObject_Vectorcall": "ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "PyEval_SaveThread": "ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "void @PyEval_RestoreThread(ptr)",
    "PyErr_Clear": "void @PyErr_Clear()",
    "PyTuple_New": "ptr @PyTuple_New(i64)",
    "PyTuple_Size": "i64 @PyTuple_Size(ptr)",
    "PyTuple_GetItem": "ptr @PyTuple_GetItem(ptr, i64)",
    "PyTuple_SetItem": "i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "PyLong_FromLongLong": "ptr @PyLong_FromLongLong(i64)",
    "Py_IncRef": "void @Py_IncRef(ptr)",
    "Py_DecRef": "void @Py_DecRef(ptr)",
}
"""The functions of CPython that the entry calls."""

PYTHON_OBJECTS: Final = ("numpy_ndarray", "numpy_empty", "empty_aligned", "out_name")
"""Symbols whose addresses are Python objects: `numpy.ndarray`, `numpy.empty`, `arrays.empty_aligned`, "out"."""


def _word(name: str, kind: str, table: str, at: int | str) -> str:
    """IR that loads word `at` of a table."""
    return f"  %{name}.at = getelementptr i64, ptr {table}, i64 {at}\n  %{name} = load {kind}, ptr %{name}.at"


def _table(name: str, kind: str) -> str:
    return _word(name, kind, "%table", WORDS.index(name))


def _spec(name: str, kind: str) -> str:
    return _word(name, kind, "%spec", SPEC.index(name))


def _axis() -> str:
    """IR that loads the description of axis `%axis` of a spec."""
    parts = [f"  %{name}.word = add i64 %axis.start, {SPEC.index('axes') + at}" for at, name in enumerate(AXIS)]
    words = [_word(name, "i64", "%spec", f"%{name}.word") for name in AXIS]
    return "\n".join([f"  %axis.start = mul i64 %axis, {len(AXIS)}", *parts, *words])


def _field(name: str, kind: str, array: str, at: int) -> str:
    """IR that loads a field of a Python object, `at` bytes from its start."""
    return f"  %{name}.at = getelementptr i8, ptr {array}, i64 {at}\n  %{name} = load {kind}, ptr %{name}.at"


def _array(name: str, kind: str) -> str:
    return _field(f"array.{name}", kind, "%object", HEADER + FIELDS[name])


def _accept() -> str:
    """`accept`: the data address of an argument that its spec allows, else null; binds dims, and gives the number of bytes."""
    return f"""
define internal ptr @accept(ptr %spec, ptr %object, ptr %dims, ptr %bytes) alwaysinline {{
{_field("type", "ptr", "%object", HEADER - 8)}
  %plain = icmp eq ptr %type, @numpy_ndarray
  br i1 %plain, label %layout, label %refuse
layout:
{_array("data", "ptr")}
{_array("ndim", "i32")}
{_array("shape", "ptr")}
{_array("dtype", "ptr")}
{_array("flags", "i32")}
{_spec("dtype", "ptr")}
{_spec("flags", "i64")}
{_spec("itemsize", "i64")}
{_spec("ndim", "i64")}
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
  %axis = phi i64 [ 0, %layout ], [ %axis.next, %matches ]
  %size = phi i64 [ %itemsize, %layout ], [ %size.next, %matches ]
  %more = icmp slt i64 %axis, %rank
  br i1 %more, label %extent, label %accepted
extent:
  %found.at = getelementptr i64, ptr %array.shape, i64 %axis
  %found = load i64, ptr %found.at
{_axis()}
  %variable = sub i64 %found, %offset
  %fixed = icmp slt i64 %slot, 0
  br i1 %fixed, label %constant, label %dim
constant:
  %equal = icmp eq i64 %variable, 0
  br i1 %equal, label %matches, label %refuse
dim:
  %dim.at = getelementptr i64, ptr %dims, i64 %slot
  %dim.value = load i64, ptr %dim.at
  %unbound = icmp slt i64 %dim.value, 0
  br i1 %unbound, label %bind, label %compare
compare:
  %expected = mul i64 %dim.value, %scale
  %agrees = icmp eq i64 %variable, %expected
  br i1 %agrees, label %matches, label %refuse
bind:
  %solution = sdiv i64 %variable, %scale
  %exact = mul i64 %solution, %scale
  %divides = icmp eq i64 %exact, %variable
  %enough = icmp sge i64 %solution, %least
  %within = icmp sle i64 %solution, %most
  %bounded = and i1 %enough, %within
  %solved = and i1 %divides, %bounded
  br i1 %solved, label %store, label %refuse
store:
  store i64 %solution, ptr %dim.at
  br label %matches
matches:
  %axis.next = add i64 %axis, 1
  %size.next = mul i64 %size, %found
  br label %axes
accepted:
  store i64 %size, ptr %bytes
  ret ptr %array.data
refuse:
  ret ptr null
}}"""


def _allocate() -> str:
    """`allocate`: a new output of the shape that its spec has under the bound dims, else null."""
    return f"""
define internal ptr @allocate(ptr %spec, ptr %dims) {{
start:
  %pair = alloca [2 x ptr]
{_spec("dtype", "ptr")}
{_spec("itemsize", "i64")}
{_spec("ndim", "i64")}
  %tuple = call ptr @PyTuple_New(i64 %ndim)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %fail, label %axes
axes:
  %axis = phi i64 [ 0, %start ], [ %axis.next, %set ]
  %size = phi i64 [ %itemsize, %start ], [ %size.next, %set ]
  %more = icmp slt i64 %axis, %ndim
  br i1 %more, label %extent, label %shaped
extent:
{_axis()}
  %fixed = icmp slt i64 %slot, 0
  %safe = select i1 %fixed, i64 0, i64 %slot
  %dim.at = getelementptr i64, ptr %dims, i64 %safe
  %dim.value = load i64, ptr %dim.at
  %part = mul i64 %dim.value, %scale
  %sum = add i64 %part, %offset
  %value = select i1 %fixed, i64 %offset, i64 %sum
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
    for count in range(MAX_VALUES + 1):
        cases.append(f"    i64 {count}, label %with{count}")
        loads = "\n".join(_word(f"v{count}.{n}", "i64", "%values", n) for n in range(count))
        values = ", ".join(f"i64 %v{count}.{n}" for n in range(count))
        blocks.append(f"with{count}:\n{loads}\n  %r{count} = call i32 %function({values})\n  ret i32 %r{count}")
    return (
        "\ndefine internal i32 @invoke(ptr %function, ptr %values, i64 %count) {\n  switch i64 %count, label %never [\n"
        + "\n".join(cases)
        + "\n  ]\n"
        + "\n".join(blocks)
        + "\nnever:\n  unreachable\n}"
    )


def _vectorcall(table_offset: int) -> str:
    """`entry`: vectorcall. Blocks in order: keywords, the inputs one by one, the output, the call, the careful path."""
    return f"""
define ptr @entry(ptr %callable, ptr %args, i64 %nargsf, ptr %names) {{
  %values = alloca [{MAX_VALUES} x ptr]
  %ends = alloca [{MAX_VALUES} x ptr]
  %dims = alloca [{MAX_VALUES} x i64]
  %bytes = alloca i64
{_field("table", "ptr", "%callable", table_offset)}
{_table("function", "ptr")}
{_table("slow", "ptr")}
{_table("failed", "ptr")}
{_table("positional", "i64")}
{_table("inputs", "i64")}
{_word("count", "i64", "%table", WORDS.index("dims"))}
  %specs = getelementptr i64, ptr %table, i64 {WORDS.index("specs")}
  %nargs = and i64 %nargsf, {2**63 - 1}
  %arity = icmp eq i64 %nargs, %positional
  br i1 %arity, label %keywords, label %careful
keywords:
  %fresh = icmp eq ptr %names, null
  br i1 %fresh, label %unbind, label %named
named:
  %names.size = call i64 @PyTuple_Size(ptr %names)
  %one.name = icmp eq i64 %names.size, 1
  br i1 %one.name, label %spelled, label %careful
spelled:
  %keyword = call ptr @PyTuple_GetItem(ptr %names, i64 0)
  %is.out = icmp eq ptr %keyword, @out_name
  br i1 %is.out, label %unbind, label %careful
unbind:
  %slot = phi i64 [ 0, %keywords ], [ 0, %spelled ], [ %slot.next, %unbind.one ]
  %slot.more = icmp slt i64 %slot, %count
  br i1 %slot.more, label %unbind.one, label %next
unbind.one:
  %slot.at = getelementptr i64, ptr %dims, i64 %slot
  store i64 -1, ptr %slot.at
  %slot.next = add i64 %slot, 1
  br label %unbind
next:
  %input = phi i64 [ 0, %unbind ], [ %input.next, %accepted ]
  %spec.at = getelementptr ptr, ptr %specs, i64 %input
  %spec = load ptr, ptr %spec.at
  %input.more = icmp slt i64 %input, %inputs
  br i1 %input.more, label %argument, label %output
argument:
{_spec("bound", "ptr")}
  %passed = icmp eq ptr %bound, null
  br i1 %passed, label %positional.one, label %either
positional.one:
{_spec("place", "i64")}
  %arg.at = getelementptr ptr, ptr %args, i64 %place
  %arg = load ptr, ptr %arg.at
  br label %either
either:
  %object = phi ptr [ %arg, %positional.one ], [ %bound, %argument ]
  %data = call ptr @accept(ptr %spec, ptr %object, ptr %dims, ptr %bytes)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %careful, label %accepted
accepted:
  %value.at = getelementptr ptr, ptr %values, i64 %input
  store ptr %data, ptr %value.at
  %size = load i64, ptr %bytes
  %end = getelementptr i8, ptr %data, i64 %size
  %end.at = getelementptr ptr, ptr %ends, i64 %input
  store ptr %end, ptr %end.at
  %input.next = add i64 %input, 1
  br label %next
output:
  br i1 %fresh, label %make, label %given
make:
  %made = call ptr @allocate(ptr %spec, ptr %dims)
  %no.memory = icmp eq ptr %made, null
  br i1 %no.memory, label %clear, label %made.fields
made.fields:
{_field("made.data", "ptr", "%made", HEADER + FIELDS["data"])}
  br label %run
clear:
  call void @PyErr_Clear()
  br label %careful
given:
  %out.at = getelementptr ptr, ptr %args, i64 %nargs
  %out = load ptr, ptr %out.at
  %out.data = call ptr @accept(ptr %spec, ptr %out, ptr %dims, ptr %bytes)
  %out.bad = icmp eq ptr %out.data, null
  br i1 %out.bad, label %careful, label %apart
apart:
  %out.size = load i64, ptr %bytes
  %out.end = getelementptr i8, ptr %out.data, i64 %out.size
  br label %apart.next
apart.next:
  %other = phi i64 [ 0, %apart ], [ %other.next, %apart.one ]
  %other.more = icmp slt i64 %other, %inputs
  br i1 %other.more, label %apart.one, label %run
apart.one:
  %other.at = getelementptr ptr, ptr %values, i64 %other
  %other.data = load ptr, ptr %other.at
  %other.end.at = getelementptr ptr, ptr %ends, i64 %other
  %other.end = load ptr, ptr %other.end.at
  %before = icmp ult ptr %out.data, %other.end
  %after = icmp ult ptr %other.data, %out.end
  %overlap = and i1 %before, %after
  %other.next = add i64 %other, 1
  br i1 %overlap, label %careful, label %apart.next
run:
  %result = phi ptr [ %made, %made.fields ], [ %out, %apart.next ]
  %result.data = phi ptr [ %made.data, %made.fields ], [ %out.data, %apart.next ]
  %result.at = getelementptr ptr, ptr %values, i64 %inputs
  store ptr %result.data, ptr %result.at
  %dims.start = getelementptr ptr, ptr %result.at, i64 1
  %dims.size = mul i64 %count, 8
  call void @llvm.memcpy(ptr %dims.start, ptr %dims, i64 %dims.size, i1 false)
  %arrays = add i64 %inputs, 1
  %total = add i64 %arrays, %count
  %state = call ptr @PyEval_SaveThread()
  %status = call i32 @invoke(ptr %function, ptr %values, i64 %total)
  call void @PyEval_RestoreThread(ptr %state)
  %done = icmp eq i32 %status, 0
  br i1 %done, label %return, label %raise
return:
  br i1 %fresh, label %return.fresh, label %return.given
return.given:
  call void @Py_IncRef(ptr %result)
  ret ptr %result
return.fresh:
  ret ptr %result
raise:
  br i1 %fresh, label %drop, label %fail
drop:
  call void @Py_DecRef(ptr %result)
  br label %fail
fail:
  %raised = call ptr @PyObject_Vectorcall(ptr %failed, ptr %values, i64 0, ptr null)
  ret ptr %raised
careful:
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %args, i64 %nargsf, ptr %names)
  ret ptr %answer
}}"""


def entry_module(table_offset: int) -> str:
    """The module of `entry`; a callable object holds the address of its table `table_offset` bytes from its start."""
    declared = [f"declare {prototype}" for prototype in PYTHON_FUNCTIONS.values()]
    objects = [f"@{name} = external global i8" for name in PYTHON_OBJECTS]
    memcpy = "declare void @llvm.memcpy(ptr, ptr, i64, i1)"
    return "\n".join([*declared, *objects, memcpy, _accept(), _allocate(), _invoke(), _vectorcall(table_offset)])
