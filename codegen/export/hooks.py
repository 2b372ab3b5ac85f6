"""What an exported kernel asks of the program around it: memory, threads, and where errors go.

    void *tensorlang_allocate(int64_t bytes, int64_t alignment)                            null where there is none
    void tensorlang_release(void *memory)
    int32_t tensorlang_threads(void)                                                       how many may run
    void tensorlang_parallel(void (*body)(void *data), void *data, int32_t threads)        run body(data) on so many threads
    void tensorlang_error(const char *kernel, int32_t error, const char *argument)

Every object defines those that it uses as weak symbols, with serial defaults: `malloc` and `free`, one thread, silence. A program that
defines one has its own used. `body` takes iterations from counters until none is left, so that it may be run by fewer threads than asked
for, and has to be run by one. It is not told which thread it is on: all begin with the first of their shares.

Compiled kernels take workspaces from the process's pool and give them back, call `GOMP_parallel`, ask it for the thread, and read
`tensorlang_num_threads`; `redirected` turns these towards the hooks.
"""

from __future__ import annotations

import re
from typing import Final

from tensorlang.codegen.emission.parallel import THREADS
from tensorlang.codegen.runtime import workspaces

_RENAMED: Final = {
    f'@"{workspaces.TAKE}"': '@"tensorlang.take"',
    f'@"{workspaces.GIVE}"': '@"tensorlang_release"',
    f'@"{workspaces.TAKE_WITHIN}"': '@"tensorlang.take.within"',
    f'@"{workspaces.GIVE_WITHIN}"': '@"tensorlang.give.within"',
    '@"GOMP_parallel"': '@"tensorlang.fork"',
    '@"omp_get_thread_num"': '@"tensorlang.thread"',
}
_READ_THREADS: Final = re.compile(rf'load i32, (?:ptr|i32\*) @"{THREADS}"(?:, align \d+)?')
_DECLARED_THREADS: Final = re.compile(rf'^@"{THREADS}" = external global i32.*$', re.MULTILINE)


def redirected(text: str) -> str:
    """The LLVM IR of a kernel, asking the hooks for memory and threads."""
    for theirs, ours in _RENAMED.items():
        text = text.replace(theirs, ours)
    text = _READ_THREADS.sub('call i32 @"tensorlang_threads"()', text)
    return _DECLARED_THREADS.sub('declare i32 @"tensorlang_threads"()', text)


def runtime(text: str, pointer_bits: int) -> str:
    """The hooks that the LLVM IR of a kernel asks for, and what stands between; `text` has been through `redirected`."""
    parts = [_ERROR]
    if "tensorlang.take" in text:
        limit = (1 << pointer_bits - 1) - 1
        parts += [_TAKE, _ALLOCATE.replace("SIZE", str(pointer_bits // 8)).replace("LIMIT", str(limit)), _MALLOC[pointer_bits]]
    if "tensorlang.fork" in text:
        parts += [_PARALLEL]
    return "\n".join(parts)


_ERROR: Final = """
define weak void @tensorlang_error(ptr %kernel, i32 %error, ptr %argument) nounwind {
  ret void
}
"""

_TAKE: Final = """
define hidden ptr @tensorlang.take(i64 %bytes, i64 %alignment) nounwind {
  %none = icmp eq i64 %bytes, 0
  %some = select i1 %none, i64 1, i64 %bytes
  %memory = call ptr @tensorlang_allocate(i64 %some, i64 %alignment)
  ret ptr %memory
}
define hidden ptr @tensorlang.take.within(ptr %none, i64 %offset, i64 %bytes, i64 %alignment) nounwind {
  %memory = call ptr @tensorlang.take(i64 %bytes, i64 %alignment)
  ret ptr %memory
}
define hidden void @tensorlang.give.within(ptr %none, ptr %memory) nounwind {
  call void @tensorlang_release(ptr %memory)
  ret void
}
"""

# The default keeps the address that malloc gave just below the aligned one.
_ALLOCATE: Final = """
define weak ptr @tensorlang_allocate(i64 %bytes, i64 %alignment) nounwind {
  %room = add i64 %alignment, SIZE
  %all = add i64 %bytes, %room
  %negative = icmp slt i64 %bytes, 0
  %beyond = icmp ugt i64 %all, LIMIT
  %refused = or i1 %negative, %beyond
  br i1 %refused, label %without, label %asked
asked:
  %base = call ptr @tensorlang.malloc(i64 %all)
  %none = icmp eq ptr %base, null
  br i1 %none, label %without, label %found
found:
  %address = ptrtoint ptr %base to i64
  %end = add i64 %address, %room
  %mask = sub i64 0, %alignment
  %aligned = and i64 %end, %mask
  %memory = inttoptr i64 %aligned to ptr
  %kept = getelementptr i8, ptr %memory, i64 -SIZE
  store ptr %base, ptr %kept
  ret ptr %memory
without:
  ret ptr null
}
define weak void @tensorlang_release(ptr %memory) nounwind {
  %kept = getelementptr i8, ptr %memory, i64 -SIZE
  %base = load ptr, ptr %kept
  call void @free(ptr %base)
  ret void
}
declare void @free(ptr)
"""

_MALLOC: Final = {
    64: """
define internal ptr @tensorlang.malloc(i64 %bytes) nounwind {
  %memory = call ptr @malloc(i64 %bytes)
  ret ptr %memory
}
declare ptr @malloc(i64)
""",
    32: """
define internal ptr @tensorlang.malloc(i64 %bytes) nounwind {
  %size = trunc i64 %bytes to i32
  %memory = call ptr @malloc(i32 %size)
  ret ptr %memory
}
declare ptr @malloc(i32)
""",
}

_PARALLEL: Final = """
define hidden i32 @tensorlang.thread() nounwind {
  ret i32 0
}
define hidden void @tensorlang.fork(ptr %body, ptr %data, i32 %threads, i32 %flags) nounwind {
  call void @tensorlang_parallel(ptr %body, ptr %data, i32 %threads)
  ret void
}
define weak i32 @tensorlang_threads() nounwind {
  ret i32 1
}
define weak void @tensorlang_parallel(ptr %body, ptr %data, i32 %threads) nounwind {
  call void %body(ptr %data)
  ret void
}
"""
