"""LLVM IR of the driver: many calls of kernels, one after the other or side by side, as one native call that a table tells what to do.

The driver is compiled once for all tables. A table is a sequence of 64-bit words:

    arena, failed, counter, stages, then for each stage
        lanes, the word after this stage, where each lane begins
        lane = calls, then for each call: function, convention, number, words, (base, offset) for each word

A word of a call is `bases[base] + offset`: base 0 is zero, so that its offset is a number or an address that stays; base 1 is the arena, of
so many bytes, which each run takes from the workspaces of the process and gives back; from base 2 on stand the values that are passed, in
order. One table thus serves any number of runs at once.

Every function returns 0, else the run ends after this stage, `failed` is the number of the call (-1: there was no arena), and the run
returns 1. Lanes of one stage are taken from a counter by as many threads as the number at the address `counter` says. Parallel loops of
kernels in them are serial then, as any inside another.
"""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.calling.entry_table import word
from tensorlang.codegen.calling.results_ir import MAX_VALUES
from tensorlang.ir.machine import LINE_BYTES

ARENA, FAILED, COUNTER, STAGES, HEAD = range(5)
CALL: Final = 4
"""Words of a call before those that are passed."""
USUAL: Final = (6, 8, 12, 16, 24, 32, 64)
"""Numbers of words with which functions are called. One that takes fewer does not look at the rest: on x86-64 and Arm the caller clears
the stack."""
CONVENTIONS: Final = (*USUAL, 128, 256, 512, 1026)
"""Those of a driver that takes longer to compile, for the few functions of so many words."""


def convention(words: int) -> int:
    """The place of the first convention that has so many words."""
    return next(place for place, most in enumerate(CONVENTIONS) if words <= most)


def entry_symbol(values: int) -> str:
    """The symbol of the entry that takes a table and so many values."""
    return f"run.{values}"


def _invoke(conventions: tuple[int, ...]) -> str:
    cases = "\n".join(f"    i64 {place}, label %with{most}" for place, most in enumerate(conventions))
    blocks = []
    for most in conventions:
        loads = "\n".join(word(f"v{most}.{n}", "i64", "%words", n) for n in range(most))
        passed = ", ".join(f"i64 %v{most}.{n}" for n in range(most))
        blocks.append(f"with{most}:\n{loads}\n  %r{most} = call i32 %function({passed})\n  ret i32 %r{most}")
    return f"""
define internal i32 @invoke(ptr %function, i64 %convention, ptr %words) {{
  switch i64 %convention, label %never [
{cases}
  ]
{chr(10).join(blocks)}
never:
  unreachable
}}"""


def _lane(conventions: tuple[int, ...]) -> str:
    """`lane`: the calls of one lane; 0, or 1 where one failed, whose number is written down."""
    return f"""
define internal i32 @lane(ptr %table, i64 %begin, ptr %bases) {{
start:
  %words = alloca [{conventions[-1]} x i64], align {LINE_BYTES}
{word("calls", "i64", "%table", "%begin")}
  %first = add i64 %begin, 1
  br label %next
next:
  %done = phi i64 [ 0, %start ], [ %done.next, %called ]
  %at = phi i64 [ %first, %start ], [ %end, %called ]
  %more = icmp slt i64 %done, %calls
  br i1 %more, label %one, label %finish
one:
  %call = getelementptr i64, ptr %table, i64 %at
{word("function", "ptr", "%call", 0)}
{word("convention", "i64", "%call", 1)}
{word("number", "i64", "%call", 2)}
{word("count", "i64", "%call", 3)}
  %pairs = getelementptr i64, ptr %call, i64 {CALL}
  br label %fill
fill:
  %n = phi i64 [ 0, %one ], [ %n.next, %put ]
  %fill.more = icmp slt i64 %n, %count
  br i1 %fill.more, label %put, label %invoke
put:
  %pair = shl i64 %n, 1
  %pair.second = or i64 %pair, 1
{word("base", "i64", "%pairs", "%pair")}
{word("offset", "i64", "%pairs", "%pair.second")}
{word("start.of", "i64", "%bases", "%base")}
  %value = add i64 %start.of, %offset
  %value.at = getelementptr i64, ptr %words, i64 %n
  store i64 %value, ptr %value.at
  %n.next = add i64 %n, 1
  br label %fill
invoke:
  %status = call i32 @invoke(ptr %function, i64 %convention, ptr %words)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %called, label %fail
called:
  %length = shl i64 %count, 1
  %behind = add i64 %at, {CALL}
  %end = add i64 %behind, %length
  %done.next = add i64 %done, 1
  br label %next
fail:
  %failed.at = getelementptr i64, ptr %table, i64 {FAILED}
  store atomic i64 %number, ptr %failed.at monotonic, align 8
  ret i32 1
finish:
  ret i32 0
}}"""


_TEAM: Final = f"""
%team = type {{ ptr, ptr, ptr, i64, i64 }}
define internal void @member(ptr %data) {{
start:
{word("table", "ptr", "%data", 0)}
{word("stage", "ptr", "%data", 1)}
{word("bases", "ptr", "%data", 2)}
  %turn.at = getelementptr i64, ptr %data, i64 3
  %status.at = getelementptr i64, ptr %data, i64 4
{word("lanes", "i64", "%stage", 0)}
  br label %next
next:
  %turn = atomicrmw add ptr %turn.at, i64 1 monotonic
  %more = icmp slt i64 %turn, %lanes
  br i1 %more, label %one, label %finish
one:
  %place = add i64 %turn, 2
{word("begin", "i64", "%stage", "%place")}
  %status = call i32 @lane(ptr %table, i64 %begin, ptr %bases)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %next, label %fail
fail:
  store atomic i64 1, ptr %status.at monotonic, align 8
  br label %next
finish:
  ret void
}}

define internal i32 @together(ptr %table, ptr %stage, ptr %bases) {{
start:
  %data = alloca %team, align {LINE_BYTES}
  store ptr %table, ptr %data
  %data.stage = getelementptr i64, ptr %data, i64 1
  store ptr %stage, ptr %data.stage
  %data.bases = getelementptr i64, ptr %data, i64 2
  store ptr %bases, ptr %data.bases
  %data.turn = getelementptr i64, ptr %data, i64 3
  store i64 0, ptr %data.turn
  %data.status = getelementptr i64, ptr %data, i64 4
  store i64 0, ptr %data.status
{word("lanes", "i64", "%stage", 0)}
{word("counter", "ptr", "%table", COUNTER)}
  %threads = load i32, ptr %counter
  %wanted = trunc i64 %lanes to i32
  %few = icmp slt i32 %threads, %wanted
  %team.size = select i1 %few, i32 %threads, i32 %wanted
  %alone = icmp sle i32 %team.size, 1
  br i1 %alone, label %serial, label %parallel
serial:
  call void @member(ptr %data)
  br label %finish
parallel:
  call void @GOMP_parallel(ptr @member, ptr %data, i32 %team.size, i32 0)
  br label %finish
finish:
  %failed = load i64, ptr %data.status
  %status = trunc i64 %failed to i32
  ret i32 %status
}}"""


_RUN: Final = f"""
define i32 @run(ptr %table, ptr %values, i64 %count) {{
start:
  %room = add i64 %count, 2
  %bases = alloca i64, i64 %room, align {LINE_BYTES}
  %passed = getelementptr i64, ptr %bases, i64 2
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy(ptr %passed, ptr %values, i64 %bytes, i1 false)
  store i64 0, ptr %bases
  %arena.at = getelementptr i64, ptr %bases, i64 1
  store i64 0, ptr %arena.at
{word("size", "i64", "%table", ARENA)}
{word("stages", "i64", "%table", STAGES)}
  %none = icmp eq i64 %size, 0
  br i1 %none, label %next, label %take
take:
  %arena = call ptr @tensorlang_take(i64 %size, i64 {LINE_BYTES})
  %missing = icmp eq ptr %arena, null
  br i1 %missing, label %refuse, label %taken
taken:
  store ptr %arena, ptr %arena.at
  br label %next
refuse:
  %failed.at = getelementptr i64, ptr %table, i64 {FAILED}
  store atomic i64 -1, ptr %failed.at monotonic, align 8
  ret i32 1
next:
  %done = phi i64 [ 0, %start ], [ 0, %taken ], [ %done.next, %ran ]
  %at = phi i64 [ {HEAD}, %start ], [ {HEAD}, %taken ], [ %end, %ran ]
  %more = icmp slt i64 %done, %stages
  br i1 %more, label %stage, label %leave
stage:
  %stage.at = getelementptr i64, ptr %table, i64 %at
{word("lanes", "i64", "%stage.at", 0)}
{word("end", "i64", "%stage.at", 1)}
  %single = icmp eq i64 %lanes, 1
  br i1 %single, label %one, label %several
one:
{word("begin", "i64", "%stage.at", 2)}
  %status.one = call i32 @lane(ptr %table, i64 %begin, ptr %bases)
  br label %ran
several:
  %status.several = call i32 @together(ptr %table, ptr %stage.at, ptr %bases)
  br label %ran
ran:
  %status = phi i32 [ %status.one, %one ], [ %status.several, %several ]
  %good = icmp eq i32 %status, 0
  %done.next = add i64 %done, 1
  br i1 %good, label %next, label %leave
leave:
  %result = phi i32 [ 0, %next ], [ 1, %ran ]
  br i1 %none, label %finish, label %give
give:
  %taken.arena = load ptr, ptr %arena.at
  call void @tensorlang_give(ptr %taken.arena)
  br label %finish
finish:
  ret i32 %result
}}"""


def _entries() -> str:
    """For each number of values that a call in machine code may have, a function that takes the table and these."""
    made = []
    for count in range(MAX_VALUES):
        parameters = "".join(f", i64 %v{n}" for n in range(count))
        stores = "\n".join(f"  %at{n} = getelementptr i64, ptr %values, i64 {n}\n  store i64 %v{n}, ptr %at{n}" for n in range(count))
        made.append(f"""
define i32 @{entry_symbol(count)}(ptr %table{parameters}) {{
  %values = alloca [{max(count, 1)} x i64]
{stores}
  %status = call i32 @run(ptr %table, ptr %values, i64 {count})
  ret i32 %status
}}""")
    return "".join(made)


MANY: Final = "run.many"
"""The symbol of the entry that takes these in an array, with their number."""

_MANY: Final = f"""
define i32 @{MANY}(ptr %words, i64 %count) {{
{word("table", "ptr", "%words", 0)}
  %values = getelementptr i64, ptr %words, i64 1
  %passed = sub i64 %count, 1
  %status = call i32 @run(ptr %table, ptr %values, i64 %passed)
  ret i32 %status
}}"""


def _moves() -> str:
    """`move`: the loops over one axis whose elements do not follow each other, by their size."""
    cases, blocks = [], []
    for bits in (8, 16, 32, 64):
        cases.append(f"    i64 {bits // 8}, label %b{bits}")
        blocks.append(f"""
b{bits}:
  %n{bits} = phi i64 [ 0, %start ], [ %next{bits}, %b{bits} ]
  %from{bits} = mul i64 %n{bits}, %source.step
  %to{bits} = mul i64 %n{bits}, %target.step
  %read{bits} = getelementptr i8, ptr %source, i64 %from{bits}
  %write{bits} = getelementptr i8, ptr %target, i64 %to{bits}
  %element{bits} = load i{bits}, ptr %read{bits}, align 1
  store i{bits} %element{bits}, ptr %write{bits}, align 1
  %next{bits} = add i64 %n{bits}, 1
  %more{bits} = icmp slt i64 %next{bits}, %extent
  br i1 %more{bits}, label %b{bits}, label %done""")
    return f"""
define internal void @move(ptr %source, ptr %target, i64 %extent, i64 %source.step, i64 %target.step, i64 %size) {{
start:
  switch i64 %size, label %done [
{chr(10).join(cases)}
  ]{"".join(blocks)}
done:
  ret void
}}"""


_COPY: Final = f"""
define internal void @axis(ptr %source, ptr %target, ptr %axes, i64 %rank, i64 %size) {{
start:
{word("extent", "i64", "%axes", 0)}
{word("source.step", "i64", "%axes", 1)}
{word("target.step", "i64", "%axes", 2)}
  %rest = sub i64 %rank, 1
  %inner = getelementptr i64, ptr %axes, i64 3
  %empty = icmp sle i64 %extent, 0
  br i1 %empty, label %done, label %some
some:
  %last = icmp eq i64 %rest, 0
  br i1 %last, label %row, label %next
row:
  %dense.source = icmp eq i64 %source.step, %size
  %dense.target = icmp eq i64 %target.step, %size
  %dense = and i1 %dense.source, %dense.target
  br i1 %dense, label %block, label %apart
block:
  %bytes = mul i64 %extent, %size
  call void @llvm.memcpy(ptr %target, ptr %source, i64 %bytes, i1 false)
  ret void
apart:
  call void @move(ptr %source, ptr %target, i64 %extent, i64 %source.step, i64 %target.step, i64 %size)
  ret void
next:
  %n = phi i64 [ 0, %some ], [ %n.next, %next ]
  %from = mul i64 %n, %source.step
  %to = mul i64 %n, %target.step
  %source.n = getelementptr i8, ptr %source, i64 %from
  %target.n = getelementptr i8, ptr %target, i64 %to
  call void @axis(ptr %source.n, ptr %target.n, ptr %inner, i64 %rest, i64 %size)
  %n.next = add i64 %n, 1
  %more = icmp slt i64 %n.next, %extent
  br i1 %more, label %next, label %done
done:
  ret void
}}

define i32 @copy(ptr %source, ptr %target, ptr %form) {{
{word("size", "i64", "%form", 0)}
{word("rank", "i64", "%form", 1)}
  %axes = getelementptr i64, ptr %form, i64 2
  call void @axis(ptr %source, ptr %target, ptr %axes, i64 %rank, i64 %size)
  ret i32 0
}}"""
"""`copy`: elements of `form` = size, rank from 1 on, (extent, step of the source, step of the target) for each axis, all in bytes."""


def copying() -> str:
    """`copy` and what it calls."""
    return _moves() + _COPY


EXPORTS: Final = ("run", "copy", MANY, *(entry_symbol(count) for count in range(MAX_VALUES)))

_DECLARED: Final = """
declare void @llvm.memcpy(ptr, ptr, i64, i1)
declare ptr @tensorlang_take(i64, i64)
declare void @tensorlang_give(ptr)
declare void @GOMP_parallel(ptr, ptr, i32, i32)"""


def module(conventions: tuple[int, ...] = USUAL) -> str:
    """The module of the driver."""
    parts = (_DECLARED, _invoke(conventions), _lane(conventions), _TEAM, _RUN, _entries(), _MANY, copying())
    return "\n".join(parts)
