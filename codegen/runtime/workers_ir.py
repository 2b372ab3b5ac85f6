"""LLVM IR of the threads of parallel loops (see `workers`): slots in which jobs are left, who takes them, and how each waits for the other.

A slot holds null where its thread is idle, a job that was left, or the address of `@busy` while one runs. Whoever exchanges one for the
next has done that step, so there is no lock. One who sleeps says so first and then looks once more; one who has something to tell looks
after it whether anybody sleeps: all of these in one order of the whole process (`seq_cst`), or each could miss the other.

A job is on the stack of its caller, who does not return while somebody may look at it: the last thing that a worker does is to count
itself as done. Of a thread, the value of the key `@inside` is 0 outside of parallel loops, else its number in them + 1.
"""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.runtime.threads import MAX_THREADS
from tensorlang.ir.machine import LINE_BYTES

PARALLEL: Final = "GOMP_parallel"
THREAD: Final = "omp_get_thread_num"
BEGIN: Final = "tensorlang_workers_begin"
"""`i32 begin(i64 cores)`, called once; 0 where all went well."""
FORGET: Final = "tensorlang_workers_forget"
"""`void forget()`: believe in no threads."""

OUTSIDE: Final = (
    "clock_gettime",
    "pthread_create",
    "pthread_detach",
    "pthread_getspecific",
    "pthread_key_create",
    "pthread_setspecific",
    "sched_getcpu",
    "syscall",
)
"""What is called of the C library."""

SPIN: Final = 1_000_000
"""Nanoseconds for which one who waits does not sleep: the kernels of a model follow each other that closely. Waking a thread takes 50 us
on a guest of a Zen 4, and a spin of a few times that would be right for work that comes at any time (Karlin et al., "Empirical studies
of competitive spinning for a shared-memory multiprocessor", SOSP 1991)."""
_ROUND: Final = 64
"""Looks at a word between two looks at the clock."""

FUTEX: Final = {"x86_64": 202, "aarch64": 98}
"""The number of Linux's system call, by architecture."""
_PAUSE: Final = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.hint(i32 1)"}
_MONOTONIC, _WAIT, _WAKE = 1, 128, 129  # CLOCK_MONOTONIC; FUTEX_WAIT and FUTEX_WAKE, for threads of one process

_SLOTS: Final = MAX_THREADS - 1
_SLOT: Final = 2 * LINE_BYTES
"""Bytes of a slot: processors fetch lines in pairs."""

ALONE: Final = f"""
define void @{PARALLEL}(ptr %body, ptr %data, i32 %threads, i32 %flags) {{
  call void %body(ptr %data)
  ret void
}}
define i32 @{THREAD}() {{
  ret i32 0
}}
"""
"""The entry points where there are no threads."""


def module(arch: str) -> str:
    """The module, for an architecture of `FUTEX`."""
    return f"""
%slot = type {{ ptr, i32, i32, i32, i32, [{_SLOT - 24} x i8] }} ; job, asleep, core of the caller, core of the worker, made
%job = type {{ ptr, ptr, i64 }} ; body, data, how many are done
@slots = internal global [{_SLOTS} x %slot] zeroinitializer, align {_SLOT}
@busy = internal global i64 0 ; its address marks a slot
@inside = internal global i32 0
@cores = internal global i64 1
@waiting = internal global i32 0, align {LINE_BYTES}
@finished = internal global i32 0, align {LINE_BYTES}
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @pthread_getspecific(i32)
declare void @{_PAUSE[arch].replace("i32 1", "i32")}

define i32 @{BEGIN}(i64 %cores) {{
  store i64 %cores, ptr @cores
  %status = call i32 @pthread_key_create(ptr @inside, ptr null)
  ret i32 %status
}}

define void @{FORGET}() {{
  call void @llvm.memset(ptr @slots, i8 0, i64 {_SLOTS * _SLOT}, i1 false)
  store i32 0, ptr @waiting
  ret void
}}
declare void @llvm.memset(ptr, i8, i64, i1)

define internal i64 @now() {{
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 {_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}

define internal void @wait(ptr %word, i32 %value) {{
  %status = call i64 (i64, ...) @syscall(i64 {FUTEX[arch]}, ptr %word, i64 {_WAIT}, i32 %value, ptr null, ptr null, i64 0)
  ret void
}}

define internal void @wake(ptr %word, i32 %most) {{
  %status = call i64 (i64, ...) @syscall(i64 {FUTEX[arch]}, ptr %word, i64 {_WAKE}, i32 %most, ptr null, ptr null, i64 0)
  ret void
}}

define i32 @{THREAD}() {{
  %inside = call i64 @place()
  %none = icmp eq i64 %inside, 0
  %less = sub i64 %inside, 1
  %number = select i1 %none, i64 0, i64 %less
  %thread = trunc i64 %number to i32
  ret i32 %thread
}}

define internal i64 @place() {{
  %key = load i32, ptr @inside
  %value = call ptr @pthread_getspecific(i32 %key)
  %place = ptrtoint ptr %value to i64
  ret i64 %place
}}

define internal void @stand(i64 %place) {{
  %key = load i32, ptr @inside
  %value = inttoptr i64 %place to ptr
  %status = call i32 @pthread_setspecific(i32 %key, ptr %value)
  ret void
}}

define internal ptr @next(ptr %slot) {{
start:
  %asleep = getelementptr %slot, ptr %slot, i64 0, i32 1
  %caller.at = getelementptr %slot, ptr %slot, i64 0, i32 2
  br label %awake
awake:
  %began = call i64 @now()
  br label %spin
spin:
  %n = phi i64 [ 0, %awake ], [ %again, %none ], [ 0, %patient ]
  call void @{_PAUSE[arch]}
  %job = load atomic ptr, ptr %slot acquire, align 8
  %some = icmp ne ptr %job, null
  br i1 %some, label %found, label %none
none:
  %again = add i64 %n, 1
  %more = icmp ult i64 %again, {_ROUND}
  br i1 %more, label %spin, label %look
look:
  %here = call i32 @sched_getcpu()
  %caller = load atomic i32, ptr %caller.at monotonic, align 4
  %same = icmp eq i32 %here, %caller
  br i1 %same, label %sleep, label %patient
patient:
  %time = call i64 @now()
  %spent = sub i64 %time, %began
  %long = icmp sgt i64 %spent, {SPIN}
  br i1 %long, label %sleep, label %spin
sleep:
  store atomic i32 1, ptr %asleep seq_cst, align 4
  %last = load atomic ptr, ptr %slot seq_cst, align 8
  %nothing = icmp eq ptr %last, null
  br i1 %nothing, label %wait, label %woken
wait:
  call void @wait(ptr %asleep, i32 1)
  br label %woken
woken:
  store atomic i32 0, ptr %asleep seq_cst, align 4
  br label %awake
found:
  ret ptr %job
}}

define internal ptr @worker(ptr %slot) {{
  %own.at = getelementptr %slot, ptr %slot, i64 0, i32 3
  %address = ptrtoint ptr %slot to i64
  %offset = sub i64 %address, ptrtoint (ptr @slots to i64)
  %number = udiv i64 %offset, {_SLOT}
  %place = add i64 %number, 2
  call void @stand(i64 %place)
  br label %next
next:
  %job = call ptr @next(ptr %slot)
  %begun = cmpxchg ptr %slot, ptr %job, ptr @busy seq_cst monotonic
  %mine = extractvalue {{ ptr, i1 }} %begun, 1
  br i1 %mine, label %run, label %next
run:
  %here = call i32 @sched_getcpu()
  store atomic i32 %here, ptr %own.at monotonic, align 4
  %body = load ptr, ptr %job
  %data.at = getelementptr %job, ptr %job, i64 0, i32 1
  %data = load ptr, ptr %data.at
  call void %body(ptr %data)
  store atomic ptr null, ptr %slot release, align 8
  %done.at = getelementptr %job, ptr %job, i64 0, i32 2
  %before = atomicrmw add ptr %done.at, i64 1 seq_cst
  %waiting = load atomic i32, ptr @waiting seq_cst, align 4
  %quiet = icmp eq i32 %waiting, 0
  br i1 %quiet, label %next, label %tell
tell:
  %told = atomicrmw add ptr @finished, i32 1 seq_cst
  call void @wake(ptr @finished, i32 {2**31 - 1})
  br label %next
}}

define internal i1 @made(ptr %slot) {{
  %thread = alloca i64
  %made.at = getelementptr %slot, ptr %slot, i64 0, i32 4
  %claimed = cmpxchg ptr %made.at, i32 0, i32 1 seq_cst monotonic
  %mine = extractvalue {{ i32, i1 }} %claimed, 1
  br i1 %mine, label %make, label %there
make:
  %status = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %slot)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %free, label %fail
free:
  %made = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %made)
  br label %there
fail:
  store atomic i32 0, ptr %made.at seq_cst, align 4
  ret i1 false
there:
  ret i1 true
}}

define internal i1 @handed(ptr %slot, ptr %job, i32 %here) {{
  %asleep = getelementptr %slot, ptr %slot, i64 0, i32 1
  %caller.at = getelementptr %slot, ptr %slot, i64 0, i32 2
  %there = load atomic ptr, ptr %slot monotonic, align 8
  %free = icmp eq ptr %there, null
  br i1 %free, label %try, label %no
try:
  %left = cmpxchg ptr %slot, ptr null, ptr %job seq_cst monotonic
  %mine = extractvalue {{ ptr, i1 }} %left, 1
  br i1 %mine, label %wake, label %no
wake:
  store atomic i32 %here, ptr %caller.at monotonic, align 4
  %sleeps = load atomic i32, ptr %asleep seq_cst, align 4
  %up = icmp eq i32 %sleeps, 0
  br i1 %up, label %yes, label %rouse
rouse:
  store atomic i32 0, ptr %asleep seq_cst, align 4
  call void @wake(ptr %asleep, i32 1)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

define void @{PARALLEL}(ptr %body, ptr %data, i32 %threads, i32 %flags) {{
start:
  %job = alloca %job, align {LINE_BYTES}
  %place = call i64 @place()
  %nested = icmp ne i64 %place, 0
  br i1 %nested, label %alone, label %outside
alone:
  call void %body(ptr %data)
  ret void
outside:
  store ptr %body, ptr %job
  %data.at = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %data, ptr %data.at
  %done.at = getelementptr %job, ptr %job, i64 0, i32 2
  store atomic i64 0, ptr %done.at release, align 8
  %wanted = sext i32 %threads to i64
  %others = sub i64 %wanted, 1
  %cores = load i64, ptr @cores
  %few = icmp slt i64 %wanted, %cores
  %either = select i1 %few, i64 %cores, i64 %wanted
  %room = sub i64 %either, 1
  %over = icmp sgt i64 %room, {_SLOTS}
  %most = select i1 %over, i64 {_SLOTS}, i64 %room
  %here = call i32 @sched_getcpu()
  br label %next
next:
  %n = phi i64 [ 0, %outside ], [ %following, %tried ]
  %handed = phi i64 [ 0, %outside ], [ %more, %tried ]
  %enough = icmp sge i64 %handed, %others
  %last = icmp sge i64 %n, %most
  %stop = or i1 %enough, %last
  br i1 %stop, label %run, label %try
try:
  %slot = getelementptr %slot, ptr @slots, i64 %n
  %made = call i1 @made(ptr %slot)
  br i1 %made, label %hand, label %run
hand:
  %took = call i1 @handed(ptr %slot, ptr %job, i32 %here)
  br label %tried
tried:
  %one = zext i1 %took to i64
  %more = add i64 %handed, %one
  %following = add i64 %n, 1
  br label %next
run:
  call void @stand(i64 1)
  call void %body(ptr %data)
  call void @stand(i64 0)
  br label %take
take:
  %m = phi i64 [ 0, %run ], [ %after, %taking ]
  %begun = phi i64 [ %handed, %run ], [ %left, %taking ]
  %all = icmp sge i64 %m, %n
  br i1 %all, label %rest, label %taking
taking:
  %given = getelementptr %slot, ptr @slots, i64 %m
  %back = cmpxchg ptr %given, ptr %job, ptr null seq_cst monotonic
  %idle = extractvalue {{ ptr, i1 }} %back, 1
  %fewer = zext i1 %idle to i64
  %left = sub i64 %begun, %fewer
  %after = add i64 %m, 1
  br label %take
rest:
  call void @join(ptr %done.at, i64 %begun, i64 %n)
  ret void
}}

define internal i1 @shares_core(i64 %slots) {{
start:
  %here = call i32 @sched_getcpu()
  br label %next
next:
  %n = phi i64 [ 0, %start ], [ %following, %look ]
  %more = icmp slt i64 %n, %slots
  br i1 %more, label %look, label %no
look:
  %slot = getelementptr %slot, ptr @slots, i64 %n
  %own.at = getelementptr %slot, ptr %slot, i64 0, i32 3
  %job = load atomic ptr, ptr %slot monotonic, align 8
  %own = load atomic i32, ptr %own.at monotonic, align 4
  %busy = icmp eq ptr %job, @busy
  %same = icmp eq i32 %own, %here
  %both = and i1 %busy, %same
  %following = add i64 %n, 1
  br i1 %both, label %yes, label %next
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal void @join(ptr %done.at, i64 %begun, i64 %slots) {{
  %at.once = load atomic i64, ptr %done.at acquire, align 8
  %already = icmp eq i64 %at.once, %begun
  br i1 %already, label %leave, label %awake
awake:
  %began = call i64 @now()
  br label %spin
spin:
  %n = phi i64 [ 0, %awake ], [ %again, %wait ], [ 0, %patient ]
  call void @{_PAUSE[arch]}
  %done = load atomic i64, ptr %done.at acquire, align 8
  %over = icmp eq i64 %done, %begun
  br i1 %over, label %leave, label %wait
wait:
  %again = add i64 %n, 1
  %more = icmp ult i64 %again, {_ROUND}
  br i1 %more, label %spin, label %look
look:
  %shared = call i1 @shares_core(i64 %slots)
  br i1 %shared, label %sleep, label %patient
patient:
  %time = call i64 @now()
  %spent = sub i64 %time, %began
  %long = icmp sgt i64 %spent, {SPIN}
  br i1 %long, label %sleep, label %spin
sleep:
  %known = atomicrmw add ptr @waiting, i32 1 seq_cst
  br label %still
still:
  %seen = load atomic i32, ptr @finished seq_cst, align 4
  %now.done = load atomic i64, ptr %done.at seq_cst, align 8
  %ended = icmp eq i64 %now.done, %begun
  br i1 %ended, label %up, label %doze
doze:
  call void @wait(ptr @finished, i32 %seen)
  br label %still
up:
  %fewer = atomicrmw sub ptr @waiting, i32 1 seq_cst
  br label %leave
leave:
  ret void
}}
"""
