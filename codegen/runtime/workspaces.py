"""Memory of intermediates, kept between the calls of all kernels: from the system a page costs a fault at its first touch, each time.

A kernel that needs heap storage calls `tensorlang_take`, and `tensorlang_give` when it is done. What is given is kept in one of `SLOTS`
slots for the whole process, for the next call of this kernel or another one, as long as the kept blocks together stay within a limit;
beyond it those go back to the system that have been kept for longest. So any number of kernels keep no more than the limit between calls.
Blocks below `LEAST` bytes go to the C library, which keeps these itself.

A slot is claimed by exchanging its pointer for null, and filled by exchanging null for a pointer. Whoever has the pointer owns the block,
so there is no lock: calls may come from any thread, from inside of each other, and from a child that was forked off in the middle of one
(which then inherits, and at worst loses, what was in flight). A block is taken for what needs at least half of it.

Kept blocks go back when a kernel that uses them is unloaded, on demand (`release_workspaces`), and when the system has no more memory
for a kernel.
"""

from __future__ import annotations

import ctypes
import operator
import os
import weakref
from typing import Final, SupportsIndex

from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.binding import Library
from tensorlang.codegen.llvm.linked_once import LinkedOnce
from tensorlang.codegen.llvm.pipelines import Passes
from tensorlang.codegen.runtime import c_library
from tensorlang.errors import CallError
from tensorlang.ir.machine import LINE_BYTES

TAKE: Final = "tensorlang_take"
GIVE: Final = "tensorlang_give"
TAKE_WITHIN: Final = "tensorlang_take_within"
GIVE_WITHIN: Final = "tensorlang_give_within"
SYMBOLS: Final = (TAKE, GIVE, TAKE_WITHIN, GIVE_WITHIN)
"""The entry points that generated code uses: `ptr take(i64 bytes, i64 alignment)`, null where there is no memory, and `give(ptr)`.

`ptr take_within(ptr memory, i64 offset, i64 bytes, i64 alignment)` and `give_within(ptr memory, ptr)` are the same where there is no
`memory`, else a place in it, and nothing.
"""

SUFFIX: Final = ".within"
"""What the name of the function that takes memory of its caller's has more than that of the kernel."""

SLOTS: Final = 32
LEAST: Final = 32 << 10
"""Bytes below which a block is not kept."""
SHARE: Final = 32
"""By default the kept blocks take one part of so many of the machine's memory, at most `MOST` bytes."""
MOST: Final = 256 << 20

_RELEASE: Final = "tensorlang_release"
_HELD: Final = "tensorlang_held"
_LIMIT: Final = "tensorlang_workspace_limit"

# A block begins `alignment` bytes before what is handed out. The last 16 of these hold its capacity and its own address.
_POOL: Final = f"""
@slots = internal global [{SLOTS} x ptr] zeroinitializer, align {LINE_BYTES}
@sizes = internal global [{SLOTS} x i64] zeroinitializer, align {LINE_BYTES}
@held = internal global i64 0, align {LINE_BYTES}
@hand = internal global i64 0, align 8
@{_LIMIT} = external global i64
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)

define internal i64 @capacity(ptr %block) {{
  %place = getelementptr i8, ptr %block, i64 -16
  %size = load i64, ptr %place
  ret i64 %size
}}

define internal void @drop(ptr %block) {{
  %place = getelementptr i8, ptr %block, i64 -8
  %base = load ptr, ptr %place
  call void @free(ptr %base)
  ret void
}}

define internal ptr @claim(i64 %n) {{
  %slot = getelementptr ptr, ptr @slots, i64 %n
  %block = atomicrmw xchg ptr %slot, ptr null acq_rel
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %found
found:
  %size = call i64 @capacity(ptr %block)
  %before = atomicrmw sub ptr @held, i64 %size monotonic
  br label %done
done:
  ret ptr %block
}}

define internal i1 @evict(i64 %n) {{
  %block = call ptr @claim(i64 %n)
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %found
found:
  call void @drop(ptr %block)
  br label %done
done:
  %some = xor i1 %none, true
  ret i1 %some
}}

define void @{_RELEASE}() {{
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %following, %next ]
  %some = call i1 @evict(i64 %n)
  %following = add i64 %n, 1
  %more = icmp ult i64 %following, {SLOTS}
  br i1 %more, label %next, label %done
done:
  ret void
}}

define i64 @{_HELD}() {{
  %size = load atomic i64, ptr @held monotonic, align 8
  ret i64 %size
}}

define internal ptr @fresh(i64 %size, i64 %alignment) {{
  %slot = alloca ptr
  %whole = call {{ i64, i1 }} @llvm.uadd.with.overflow.i64(i64 %size, i64 %alignment)
  %bytes = extractvalue {{ i64, i1 }} %whole, 0
  %over = extractvalue {{ i64, i1 }} %whole, 1
  br i1 %over, label %none, label %ask
ask:
  %status = call i32 @posix_memalign(ptr %slot, i64 %alignment, i64 %bytes)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %made, label %none
made:
  %base = load ptr, ptr %slot
  %block = getelementptr i8, ptr %base, i64 %alignment
  %first = getelementptr i8, ptr %block, i64 -16
  store i64 %size, ptr %first
  %second = getelementptr i8, ptr %block, i64 -8
  store ptr %base, ptr %second
  ret ptr %block
none:
  ret ptr null
}}
declare {{ i64, i1 }} @llvm.uadd.with.overflow.i64(i64, i64)

define ptr @{TAKE}(i64 %size, i64 %alignment) {{
entry:
  %small = icmp ult i64 %size, {LEAST}
  br i1 %small, label %new, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %following, %pass ]
  %hint = getelementptr i64, ptr @sizes, i64 %n
  %likely = load atomic i64, ptr %hint monotonic, align 8
  %shortest = lshr i64 %likely, 1
  %holds = icmp uge i64 %likely, %size
  %tight = icmp ule i64 %shortest, %size
  %fits = and i1 %holds, %tight
  br i1 %fits, label %try, label %pass
try:
  %block = call ptr @claim(i64 %n)
  %gone = icmp eq ptr %block, null
  br i1 %gone, label %pass, label %look
look:
  %capacity = call i64 @capacity(ptr %block)
  %half = lshr i64 %capacity, 1
  %enough = icmp uge i64 %capacity, %size
  %near = icmp ule i64 %half, %size
  %suits = and i1 %enough, %near
  %place = ptrtoint ptr %block to i64
  %mask = sub i64 %alignment, 1
  %low = and i64 %place, %mask
  %aligned = icmp eq i64 %low, 0
  %good = and i1 %suits, %aligned
  br i1 %good, label %kept, label %other
kept:
  ret ptr %block
other:
  call void @{GIVE}(ptr %block)
  br label %pass
pass:
  %following = add i64 %n, 1
  %more = icmp ult i64 %following, {SLOTS}
  br i1 %more, label %next, label %new
new:
  %made = call ptr @fresh(i64 %size, i64 %alignment)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %again, label %done
again:
  call void @{_RELEASE}()
  %last = call ptr @fresh(i64 %size, i64 %alignment)
  ret ptr %last
done:
  ret ptr %made
}}

define void @{GIVE}(ptr %block) {{
entry:
  %size = call i64 @capacity(ptr %block)
  %limit = load atomic i64, ptr @{_LIMIT} monotonic, align 8
  %small = icmp ult i64 %size, {LEAST}
  %large = icmp ugt i64 %size, %limit
  %passing = or i1 %small, %large
  br i1 %passing, label %drop, label %room
drop:
  call void @drop(ptr %block)
  ret void
room:
  %turn = phi i64 [ 0, %entry ], [ %turned, %evict ]
  %held = load atomic i64, ptr @held monotonic, align 8
  %both = add i64 %held, %size
  %over = icmp sgt i64 %both, %limit
  %patient = icmp ult i64 %turn, {SLOTS}
  %make = and i1 %over, %patient
  br i1 %make, label %evict, label %search
evict:
  %oldest = atomicrmw add ptr @hand, i64 1 monotonic
  %at = urem i64 %oldest, {SLOTS}
  %some = call i1 @evict(i64 %at)
  %turned = add i64 %turn, 1
  br label %room
search:
  %counted = atomicrmw add ptr @held, i64 %size monotonic
  br label %next
next:
  %n = phi i64 [ 0, %search ], [ %following, %pass ]
  %slot = getelementptr ptr, ptr @slots, i64 %n
  %there = load atomic ptr, ptr %slot monotonic, align 8
  %empty = icmp eq ptr %there, null
  br i1 %empty, label %put, label %pass
put:
  %hint = getelementptr i64, ptr @sizes, i64 %n
  store atomic i64 %size, ptr %hint monotonic, align 8
  %exchanged = cmpxchg ptr %slot, ptr null, ptr %block acq_rel monotonic
  %stored = extractvalue {{ ptr, i1 }} %exchanged, 1
  br i1 %stored, label %done, label %pass
pass:
  %following = add i64 %n, 1
  %more = icmp ult i64 %following, {SLOTS}
  br i1 %more, label %next, label %full
full:
  %last = atomicrmw add ptr @hand, i64 1 monotonic
  %which = urem i64 %last, {SLOTS}
  %taken = getelementptr ptr, ptr @slots, i64 %which
  %known = getelementptr i64, ptr @sizes, i64 %which
  store atomic i64 %size, ptr %known monotonic, align 8
  %old = atomicrmw xchg ptr %taken, ptr %block acq_rel
  %nothing = icmp eq ptr %old, null
  br i1 %nothing, label %done, label %replaced
replaced:
  %freed = call i64 @capacity(ptr %old)
  %left = atomicrmw sub ptr @held, i64 %freed monotonic
  call void @drop(ptr %old)
  br label %done
done:
  ret void
}}

define ptr @{TAKE_WITHIN}(ptr %memory, i64 %offset, i64 %size, i64 %alignment) {{
  %none = icmp eq ptr %memory, null
  br i1 %none, label %own, label %given
own:
  %block = call ptr @{TAKE}(i64 %size, i64 %alignment)
  ret ptr %block
given:
  %start = getelementptr i8, ptr %memory, i64 %offset
  %address = ptrtoint ptr %start to i64
  %mask = sub i64 %alignment, 1
  %before = sub i64 0, %address
  %short = and i64 %before, %mask
  %place = getelementptr i8, ptr %start, i64 %short
  ret ptr %place
}}

define void @{GIVE_WITHIN}(ptr %memory, ptr %block) {{
  %none = icmp eq ptr %memory, null
  br i1 %none, label %own, label %given
own:
  call void @{GIVE}(ptr %block)
  ret void
given:
  ret void
}}
"""

_limit: Final = ctypes.c_int64(-1)


@LinkedOnce
def _pool() -> Library:
    """The pool of this process."""
    get_workspace_limit()
    outside = {name: c_library.address(name) for name in ("posix_memalign", "free")}
    made = binding.compile_module(_POOL, binding.host(), Passes(level=0))  # optimising this takes longer than it will ever save
    return binding.link(made.object, (*SYMBOLS, _RELEASE, _HELD), {**outside, _LIMIT: ctypes.addressof(_limit)})


def address(name: str) -> int:
    """Where an entry point is."""
    return _pool().address(name)


def released_with(library: Library) -> None:
    """Give kept memory back when this library, which takes some, is unloaded."""
    weakref.finalize(library, release_workspaces).atexit = False


def release_workspaces() -> None:
    """Give the memory that kernels keep between calls back to the system. Calls that run go on; later ones take new memory."""
    if _pool.is_made():
        ctypes.CFUNCTYPE(None)(address(_RELEASE))()


def kept_workspaces() -> int:
    """Bytes that kernels keep between calls now, all together."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(address(_HELD))()) if _pool.is_made() else 0


def set_workspace_limit(size: SupportsIndex) -> None:
    """Let kernels keep at most `size` bytes of workspace between calls, all together; 0 keeps nothing.

    The default is a 32nd of the machine's memory, at most 256 MiB. What is kept now goes back. Raises `CallError` for anything but a
    number of bytes; the limit stays as it was.
    """
    try:
        wanted = None if isinstance(size, bool) else operator.index(size)
    except TypeError:
        wanted = None
    if wanted is None or not 0 <= wanted < 1 << 62:
        raise CallError(f"set_workspace_limit: expected a number of bytes from 0 to 2**62, got {size!r:.60}")
    _limit.value = wanted
    release_workspaces()


def get_workspace_limit() -> int:
    """The bytes of workspace that kernels keep between calls at most, all together."""
    if _limit.value < 0:
        _limit.value = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // SHARE, MOST)
    return _limit.value
