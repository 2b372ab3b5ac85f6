"""Threads of parallel loops: those that come take part, nobody waits for one who has not begun, and results are right in any case."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime import c_library, workers
from tests.codegen import handmade

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """
import os, resource, time
import numpy as np
import tensorlang as tl

a = tl.placeholder((64, 256), name="a")
s = tl.Schedule(tl.compute((64, 256), lambda i, j: tl.exp(a[i, j]), name="b"))
s.parallel("i")
kernel = tl.build(s)
data = np.linspace(-1, 1, 64 * 256, dtype="f4").reshape(64, 256)
out = kernel(data, threads=1)
want = out.tobytes()
"""


def run(code: str) -> str:
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", KERNEL + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TENSORLANG_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_threads_on_one_core_take_little_more_than_one() -> None:
    """Waiting for a thread that has not got the core would take a slice of the scheduler, some milliseconds, in each call."""
    told = run("""
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        kernel(data, out=out)
        begin = time.process_time()
        for _ in range(400):
            kernel(data, out=out)
        print(time.process_time() - begin < 0.4, out.tobytes() == want)
    """)
    assert told.split() == ["True", "True"]


def test_threads_that_cannot_be_made_are_done_without() -> None:
    told = run("""
        tall = tl.placeholder((5000, 16), name="tall")
        many = tl.Schedule(tl.compute((5000, 16), lambda i, j: tall[i, j] + 1.0, name="more"))
        many.parallel("i")
        more, ones, found = tl.build(many), np.ones((5000, 16), "f4"), np.zeros((5000, 16), "f4")
        more(ones, out=found, threads=2)
        tl.set_threads(1000)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20), resource.RLIM_INFINITY))
        more(ones, out=found)
        print((found == 2.0).all(), len(os.listdir("/proc/self/task")) < 1000)
    """)
    assert told.split() == ["True", "True"]


def test_idle_threads_use_no_processor() -> None:
    told = run("""
        kernel(data, out=out)
        time.sleep(0.1)
        begin = time.process_time()
        time.sleep(0.5)
        print(time.process_time() - begin < 0.05)
    """)
    assert told == "True\n"


@pytest.mark.parametrize("threads", [2, 7])
def test_callers_share_the_threads_and_each_has_its_own_result(threads: int) -> None:
    A = tl.placeholder((40, 300), name="A")
    k = tl.reduce_axis(300, "k")
    schedule = tl.Schedule(tl.compute((40,), lambda i: tl.sum(tl.exp(A[i, k]), axis=k), name="sums"))
    schedule.parallel("sums.i")
    kernel = tl.build(schedule)
    data = np.random.default_rng(1).standard_normal((6, 40, 300), "f4")
    wanted = [kernel(rows, threads=1).tobytes() for rows in data]
    together, wrong = Barrier(len(data)), list[int]()

    def call(n: int) -> None:
        out = np.empty(40, "f4")
        together.wait()
        for _ in range(300):
            out[:] = np.nan
            kernel(data[n], out=out, threads=threads)
            if out.tobytes() != wanted[n]:
                wrong.append(n)

    callers = [Thread(target=call, args=(n,)) for n in range(len(data))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_a_loop_inside_another_runs_on_the_thread_that_it_is_met_by() -> None:
    """Each of three threads meets a loop for eight, whose body counts: it runs once for each."""
    text = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
define internal void @count(ptr %out) {
  %once = atomicrmw add ptr %out, i32 1 seq_cst
  ret void
}
define internal void @body(ptr %out) {
  %before = call i32 @omp_get_thread_num()
  call void @GOMP_parallel(ptr @count, ptr %out, i32 8, i32 0)
  %after = call i32 @omp_get_thread_num()
  %moved = icmp ne i32 %before, %after
  %one = zext i1 %moved to i32
  %wrong.at = getelementptr i32, ptr %out, i32 1
  %wrong = atomicrmw add ptr %wrong.at, i32 %one seq_cst
  %came.at = getelementptr i32, ptr %out, i32 2
  %came = atomicrmw add ptr %came.at, i32 1 seq_cst
  ret void
}
define i32 @nested(ptr %a, ptr %out) {
  call void @GOMP_parallel(ptr @body, ptr %out, i32 3, i32 0)
  %outside = call i32 @omp_get_thread_num()
  %at = getelementptr i32, ptr %out, i32 3
  store i32 %outside, ptr %at
  ret i32 0
}"""
    kernel = handmade.vector("nested", text, dtype="int32")
    for _ in range(50):
        out = np.zeros(16, "i4")
        kernel(np.zeros(16, "i4"), out=out)
        counted, wrong, came, outside = out[:4].tolist()
        assert counted == came and 1 <= came <= 3 and not wrong and outside == 0


def test_without_threads_a_parallel_loop_runs_once() -> None:
    text = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
define internal void @body(ptr %out) {
  %thread = call i32 @omp_get_thread_num()
  %number = add i32 %thread, 1
  %at = getelementptr i32, ptr %out, i32 %thread
  %sum = atomicrmw add ptr %at, i32 %number seq_cst
  ret void
}
define i32 @team(ptr %out) {
  call void @GOMP_parallel(ptr @body, ptr %out, i32 8, i32 0)
  ret i32 0
}"""
    alone = workers.alone()
    symbols = {name: alone.address(name) for name in workers.SYMBOLS}
    library = binding.link(binding.compile_module(text, binding.host()).object, ("team",), symbols)
    out = np.zeros(16, "i4")
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(library.address("team"))(out.ctypes.data)
    assert out.tolist() == [1] + [0] * 15


@pytest.mark.parametrize("missing", ["sched_getcpu", "pthread_create"])
def test_a_system_that_lacks_what_threads_need_has_none(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def address(name: str) -> int:
        if name == missing:
            raise tl.BuildError(f"the machine code calls {name!r}, which this system's C library does not have")
        return c_library.address(name)

    monkeypatch.setattr(workers, "c_library", type("C", (), {"address": staticmethod(address)}))
    assert not workers.workers.make().together
