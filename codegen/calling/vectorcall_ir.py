"""LLVM IR of the fast way into a kernel: a call from Python with no Python frame.

One function in machine code, shared by all kernels of the process, has the signature of CPython's vectorcall. It reads a table that
describes one kernel (`entry_table`), finds each input by position or by name, takes it apart (`accept_ir`) with a check of type, layout
and every extent, binds the dims, checks that outputs are apart from everything else, makes them where `out=` is not given (`results_ir`),
looks at the memory that `workspace=` hands over (`handed_ir`), releases the interpreter lock and calls the kernel. At the first thing that
is not plain it gives the whole call to `arguments.prepare` instead, which converts or refuses it: the entry itself never guesses, and
raises only where the kernel failed.

Keywords are compared as objects: the interpreter shares one string for all that are written in programs. Dims by keyword, lists for
`out=` and whatever else is rare go the careful path.
"""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.calling import accept_ir, handed_ir, results_ir
from tensorlang.codegen.calling.entry_table import FIELDS, HEADER, SPEC, WORDS, field, spec_word, table_word, word
from tensorlang.codegen.calling.results_ir import MAX_VALUES, MOST_VALUES

PYTHON_FUNCTIONS: Final = {
    "PyObject_Vectorcall": "ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "PyObject_VectorcallMethod": "ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)",
    "PyObject_GetAttr": "ptr @PyObject_GetAttr(ptr, ptr)",
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

PYTHON_OBJECTS: Final = (
    "numpy_ndarray", "numpy_empty", "empty_aligned", "out_name", "workspace_name", "python_tuple", "py_false", "py_none",
)  # fmt: skip
"""Symbols whose addresses are Python objects: `numpy.ndarray`, `numpy.empty`, `arrays.empty_aligned`, two keywords, `tuple`, ..."""

EXPORTERS: Final = "exporters"
"""The symbol of the table in `runtime.exchange`."""


def _entry(table_offset: int, most: int) -> str:
    """`entry`: vectorcall. It keeps the memory of other libraries in `held` until the call is over, whichever way it goes."""
    return f"""
define ptr @entry(ptr %callable, ptr %args, i64 %nargsf, ptr %names) {{
  %held = alloca [{most + 2} x ptr]
  %fast = call i32 @attempt(ptr %callable, ptr %args, i64 %nargsf, ptr %names, ptr %held)
{field("table", "ptr", "%callable", table_offset)}
  switch i32 %fast, label %careful [
    i32 {_DONE}, label %finish
    i32 {_FAILED}, label %raise
  ]
finish:
{word("result", "ptr", "%held", 0)}
  ret ptr %result
raise:
{table_word("failed", "ptr")}
  %raised = call ptr @PyObject_Vectorcall(ptr %failed, ptr %held, i64 0, ptr null)
  ret ptr %raised
careful:
{table_word("slow", "ptr")}
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %args, i64 %nargsf, ptr %names)
  ret ptr %answer
}}"""


_CAREFUL: Final = 0
_DONE: Final = 1
_FAILED: Final = 2


def _inputs() -> str:
    """`inputs`: the object of each input that is passed to `given`, those of `out=` and `workspace=` to `out`; whether all is plain."""
    return f"""
define internal i1 @inputs(ptr %table, ptr %args, i64 %nargs, ptr %names, ptr %given, ptr %out) {{
start:
{table_word("passed", "i64")}
{table_word("inputs", "i64")}
{table_word("outputs", "i64")}
  %handed.at = getelementptr ptr, ptr %out, i64 1
  store ptr null, ptr %out
  store ptr null, ptr %handed.at
  %short = icmp ule i64 %nargs, %passed
  br i1 %short, label %by.place, label %no
by.place:
  %at = phi i64 [ 0, %start ], [ %at.next, %put.place ]
  %at.more = icmp slt i64 %at, %passed
  br i1 %at.more, label %one, label %by.name
one:
  %present = icmp slt i64 %at, %nargs
  br i1 %present, label %load, label %put.place
load:
{word("arg", "ptr", "%args", "%at")}
  br label %put.place
put.place:
  %positional = phi ptr [ null, %one ], [ %arg, %load ]
  %given.at = getelementptr ptr, ptr %given, i64 %at
  store ptr %positional, ptr %given.at
  %at.next = add i64 %at, 1
  br label %by.place
by.name:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %finish, label %named
named:
  %count = call i64 @PyTuple_Size(ptr %names)
  %arrays = add i64 %inputs, %outputs
  %labels.start = add i64 %arrays, {WORDS.index("specs")}
  %labels = getelementptr i64, ptr %table, i64 %labels.start
  br label %keyword
keyword:
  %key = phi i64 [ 0, %named ], [ %key.next, %is.out ], [ %key.next, %is.workspace ], [ %key.next, %put ]
  %key.more = icmp slt i64 %key, %count
  br i1 %key.more, label %spelled, label %finish
spelled:
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 %key)
  %value.place = add i64 %nargs, %key
  %key.next = add i64 %key, 1
{word("value", "ptr", "%args", "%value.place")}
  %out.named = icmp eq ptr %name, @out_name
  br i1 %out.named, label %is.out, label %search
is.out:
  %none = icmp eq ptr %value, @py_none
  %wanted = select i1 %none, ptr null, ptr %value
  store ptr %wanted, ptr %out
  br label %keyword
search:
  %label = phi i64 [ %nargs, %spelled ], [ %label.next, %other ]
  %label.more = icmp slt i64 %label, %passed
  br i1 %label.more, label %compare, label %unknown
unknown:
  %memory.named = icmp eq ptr %name, @workspace_name
  br i1 %memory.named, label %is.workspace, label %no
is.workspace:
  %nothing = icmp eq ptr %value, @py_none
  %memory = select i1 %nothing, ptr null, ptr %value
  store ptr %memory, ptr %handed.at
  br label %keyword
compare:
{word("known", "ptr", "%labels", "%label")}
  %same = icmp eq ptr %known, %name
  br i1 %same, label %put, label %other
other:
  %label.next = add i64 %label, 1
  br label %search
put:
  %put.at = getelementptr ptr, ptr %given, i64 %label
  store ptr %value, ptr %put.at
  br label %keyword
finish:
  %last = phi i64 [ 0, %by.name ], [ 0, %keyword ], [ %last.next, %there ]
  %last.more = icmp slt i64 %last, %passed
  br i1 %last.more, label %check, label %yes
check:
{word("object", "ptr", "%given", "%last")}
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %no, label %there
there:
  %last.next = add i64 %last, 1
  br label %finish
yes:
  ret i1 true
no:
  ret i1 false
}}"""


def _attempt(table_offset: int, most: int) -> str:
    """`attempt`: the call, if all of it is plain; its result goes to the first word of `held`. Everything else is as it was before."""
    return f"""
define internal i32 @attempt(ptr %callable, ptr %args, i64 %nargsf, ptr %names, ptr %held) alwaysinline {{
  %values = alloca [{most + 2} x ptr]
  %ends = alloca [{most} x ptr]
  %dims = alloca [{most} x i64]
  %given = alloca [{most} x ptr]
  %bytes = alloca i64
  %out.at = alloca [2 x ptr]
{field("table", "ptr", "%callable", table_offset)}
{table_word("function", "ptr")}
{table_word("inputs", "i64")}
{table_word("outputs", "i64")}
{word("count", "i64", "%table", WORDS.index("dims"))}
  %specs = getelementptr i64, ptr %table, i64 {WORDS.index("specs")}
  %arrays = add i64 %inputs, %outputs
  %several = icmp ne i64 %outputs, 1
  %nargs = and i64 %nargsf, {2**63 - 1}
  store i64 0, ptr %held
  %found = call i1 @inputs(ptr %table, ptr %args, i64 %nargs, ptr %names, ptr %given, ptr %out.at)
  br i1 %found, label %unbind, label %never
never:
  ret i32 {_CAREFUL}
unbind:
  %slot = phi i64 [ 0, %0 ], [ %slot.next, %unbind.one ]
  %slot.more = icmp slt i64 %slot, %count
  br i1 %slot.more, label %unbind.one, label %next
unbind.one:
  %slot.at = getelementptr i64, ptr %dims, i64 %slot
  store i64 -1, ptr %slot.at
  %slot.next = add i64 %slot, 1
  br label %unbind
next:
  %input = phi i64 [ 0, %unbind ], [ %input.next, %accepted ]
{word("spec", "ptr", "%specs", "%input")}
  %input.more = icmp slt i64 %input, %inputs
  br i1 %input.more, label %argument, label %results
argument:
{spec_word("bound", "ptr")}
  %passed = icmp eq ptr %bound, null
  br i1 %passed, label %passed.one, label %either
passed.one:
{spec_word("place", "i64")}
{word("arg", "ptr", "%given", "%place")}
  br label %either
either:
  %object = phi ptr [ %arg, %passed.one ], [ %bound, %argument ]
  %data = call ptr @accept(ptr %spec, ptr %object, ptr %dims, ptr %bytes, ptr %held)
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
results:
  %out = load ptr, ptr %out.at
  %fresh = icmp eq ptr %out, null
  br i1 %fresh, label %container, label %whole
container:
  br i1 %several, label %tuple, label %output
tuple:
  %made.tuple = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %made.tuple, null
  br i1 %no.tuple, label %clear, label %output
whole:
  br i1 %several, label %listed, label %output
listed:
{field("out.type", "ptr", "%out", HEADER - 8)}
  %is.tuple = icmp eq ptr %out.type, @python_tuple
  br i1 %is.tuple, label %sized, label %careful
sized:
  %out.size = call i64 @PyTuple_Size(ptr %out)
  %complete = icmp eq i64 %out.size, %outputs
  br i1 %complete, label %output, label %careful
output:
  %result = phi ptr [ null, %container ], [ %made.tuple, %tuple ], [ %out, %whole ], [ %out, %sized ], [ %result.next, %ready ]
  %index = phi i64 [ %inputs, %container ], [ %inputs, %tuple ], [ %inputs, %whole ], [ %inputs, %sized ], [ %index.next, %ready ]
  %output.more = icmp slt i64 %index, %arrays
  br i1 %output.more, label %one, label %run
one:
  %number = sub i64 %index, %inputs
{word("result.spec", "ptr", "%specs", "%index")}
  br i1 %fresh, label %make, label %given.one
make:
  %made = call ptr @allocate(ptr %result.spec, ptr %dims)
  %no.memory = icmp eq ptr %made, null
  br i1 %no.memory, label %drop, label %keep
keep:
{field("made.data", "ptr", "%made", HEADER + FIELDS["data"])}
  br i1 %several, label %insert, label %ready
insert:
  call i32 @PyTuple_SetItem(ptr %result, i64 %number, ptr %made)
  br label %ready
given.one:
  br i1 %several, label %item, label %check
item:
  %listed.one = call ptr @PyTuple_GetItem(ptr %out, i64 %number)
  br label %check
check:
  %written = phi ptr [ %out, %given.one ], [ %listed.one, %item ]
  %out.data = call ptr @accept(ptr %result.spec, ptr %written, ptr %dims, ptr %bytes, ptr %held)
  %out.bad = icmp eq ptr %out.data, null
  br i1 %out.bad, label %careful, label %apart
apart:
  %out.bytes = load i64, ptr %bytes
  %out.end = getelementptr i8, ptr %out.data, i64 %out.bytes
  %out.end.at = getelementptr ptr, ptr %ends, i64 %index
  store ptr %out.end, ptr %out.end.at
{word("over", "i64", "%result.spec", SPEC.index("over"))}
  br label %apart.next
apart.next:
  %other = phi i64 [ 0, %apart ], [ %other.next, %apart.one ]
  %other.more = icmp slt i64 %other, %index
  br i1 %other.more, label %apart.one, label %ready
apart.one:
{word("other.data", "ptr", "%values", "%other")}
{word("other.end", "ptr", "%ends", "%other")}
  %before = icmp ult ptr %out.data, %other.end
  %after = icmp ult ptr %other.data, %out.end
  %is.below = icmp eq i64 %other, %over
  %at.start = icmp eq ptr %other.data, %out.data
  %in.place = and i1 %is.below, %at.start
  %apart.else = xor i1 %in.place, true
  %touch = and i1 %before, %after
  %overlap = and i1 %touch, %apart.else
  %other.next = add i64 %other, 1
  br i1 %overlap, label %careful, label %apart.next
ready:
  %result.next = phi ptr [ %made, %keep ], [ %result, %insert ], [ %result, %apart.next ]
  %address = phi ptr [ %made.data, %keep ], [ %made.data, %insert ], [ %out.data, %apart.next ]
  %address.at = getelementptr ptr, ptr %values, i64 %index
  store ptr %address, ptr %address.at
  %index.next = add i64 %index, 1
  br label %output
run:
  %dims.start = getelementptr ptr, ptr %values, i64 %arrays
  %dims.size = mul i64 %count, 8
  call void @llvm.memcpy(ptr %dims.start, ptr %dims, i64 %dims.size, i1 false)
  %total = add i64 %arrays, %count
  %handed.at = getelementptr ptr, ptr %out.at, i64 1
  %handed = load ptr, ptr %handed.at
  %own = icmp eq ptr %handed, null
  br i1 %own, label %invoke, label %memory
memory:
  %checked = select i1 %fresh, i64 %inputs, i64 %arrays
  %handed.words = call i64 @memory(ptr %table, ptr %handed, ptr %values, ptr %ends, i64 %checked, i64 %total, ptr %held)
  %refused = icmp slt i64 %handed.words, 0
  br i1 %refused, label %undo, label %taken
taken:
{table_word("within", "ptr")}
  %idle = icmp eq i64 %handed.words, %total
  %other.function = select i1 %idle, ptr %function, ptr %within
  br label %invoke
undo:
  br i1 %fresh, label %drop, label %careful
invoke:
  %called = phi ptr [ %function, %run ], [ %other.function, %taken ]
  %passed.words = phi i64 [ %total, %run ], [ %handed.words, %taken ]
  %state = call ptr @PyEval_SaveThread()
  %status = call i32 @invoke(ptr %called, ptr %values, i64 %passed.words)
  call void @PyEval_RestoreThread(ptr %state)
  call void @release(ptr %held)
  %done = icmp eq i32 %status, 0
  br i1 %done, label %return, label %raise
return:
  store ptr %result, ptr %held
  br i1 %fresh, label %return.fresh, label %return.given
return.given:
  call void @Py_IncRef(ptr %result)
  ret i32 {_DONE}
return.fresh:
  ret i32 {_DONE}
raise:
  br i1 %fresh, label %raise.fresh, label %raise.given
raise.fresh:
  call void @Py_DecRef(ptr %result)
  ret i32 {_FAILED}
raise.given:
  ret i32 {_FAILED}
drop:
  call void @PyErr_Clear()
  %partial = icmp eq ptr %result, null
  br i1 %partial, label %careful, label %drop.tuple
drop.tuple:
  call void @Py_DecRef(ptr %result)
  br label %careful
clear:
  call void @PyErr_Clear()
  br label %careful
careful:
  call void @release(ptr %held)
  ret i32 {_CAREFUL}
}}"""


def entry_module(table_offset: int, *, by_array: bool = False) -> str:
    """The module of `entry`; a callable object holds the address of its table `table_offset` bytes from its start.

    `by_array`: its function takes an array of words and their number.
    """
    most = MOST_VALUES if by_array else MAX_VALUES
    declared = [f"declare {prototype}" for prototype in PYTHON_FUNCTIONS.values()]
    objects = [f"@{name} = external global i8" for name in (*PYTHON_OBJECTS, EXPORTERS)]
    memcpy = "declare void @llvm.memcpy(ptr, ptr, i64, i1)"
    own = [_inputs(), handed_ir.function(), _attempt(table_offset, most), _entry(table_offset, most)]
    return "\n".join([*declared, *objects, memcpy, accept_ir.functions(), results_ir.functions(by_array=by_array), *own])
