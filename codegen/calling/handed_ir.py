"""LLVM IR that looks at memory which a call hands over, by the rules of `handed`: what is not plain bytes goes the careful path.

It is a function of its own, seldom called, so that a call without a workspace has the registers for itself.
"""

from __future__ import annotations

from tensorlang.codegen.calling.entry_table import table_word, word
from tensorlang.codegen.calling.handed import ALIGNMENT


def function() -> str:
    """`memory`: with a workspace behind the words of a call, how many there are: as before where none is needed, -1 if it is not plain."""
    return f"""
define internal i64 @memory(ptr %table, ptr %object, ptr %values, ptr %ends, i64 %arrays, i64 %total, ptr %held) noinline cold {{
start:
  %size = alloca i64
  %bytes = alloca i64
{table_word("within", "ptr")}
{table_word("workspace", "ptr")}
{table_word("single", "i64")}
{table_word("share", "i64")}
{table_word("counter", "ptr")}
  store i64 -1, ptr %size
  %data = call ptr @accept(ptr %workspace, ptr %object, ptr %size, ptr %bytes, ptr %held)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %no, label %taken
taken:
  %threads.now = load atomic i32, ptr %counter monotonic, align 4
  %threads = sext i32 %threads.now to i64
  %further = sub i64 %threads, 1
  %shares = mul i64 %further, %share
  %needed = add i64 %single, %shares
  %there = load i64, ptr %bytes
  %short = icmp slt i64 %there, %needed
  br i1 %short, label %no, label %suffices
suffices:
  %idle = icmp eq i64 %needed, 0
  br i1 %idle, label %unused, label %used
unused:
  ret i64 %total
used:
  %address = ptrtoint ptr %data to i64
  %low = and i64 %address, {ALIGNMENT - 1}
  %aligned = icmp eq i64 %low, 0
  %there.is = icmp ne ptr %within, null
  %good = and i1 %aligned, %there.is
  %end = getelementptr i8, ptr %data, i64 %needed
  br i1 %good, label %apart, label %no
apart:
  %at = phi i64 [ 0, %used ], [ %next, %one ]
  %more = icmp slt i64 %at, %arrays
  br i1 %more, label %one, label %hand
one:
{word("other", "ptr", "%values", "%at")}
{word("other.end", "ptr", "%ends", "%at")}
  %before = icmp ult ptr %other, %end
  %after = icmp ult ptr %data, %other.end
  %touch = and i1 %before, %after
  %next = add i64 %at, 1
  br i1 %touch, label %no, label %apart
hand:
  %place = getelementptr ptr, ptr %values, i64 %total
  store ptr %data, ptr %place
  %second = getelementptr ptr, ptr %place, i64 1
  store i64 %threads, ptr %second
  %words = add i64 %total, 2
  ret i64 %words
no:
  ret i64 -1
}}"""
