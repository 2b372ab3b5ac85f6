"""A forked child builds and calls kernels like its parent, whatever the parent's other threads were doing; it never waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tensorlang.system.lazy import cached_property

ROOT = Path(__file__).resolve().parents[1]

PRELUDE = """
import os, sys, threading, time, warnings
import numpy as np
import tensorlang as tl
warnings.simplefilter("ignore")

def child(work):
    '''The exit code of a child that does this: 0 where it went well.'''
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def threaded(rows=512, name="team"):
    '''A kernel with a parallel loop, whose sums depend on their order.'''
    a = tl.placeholder((rows, 64), name="a")
    k = tl.reduce_axis((0, 64), "k")
    s = tl.Schedule(tl.compute((rows,), lambda i: tl.sum(tl.exp(a[i, k]), k), name="b"))
    s.parallel("i")
    return tl.build(s, name=name)

DATA = np.linspace(-1, 1, 512 * 64, dtype="f4").reshape(512, 64)

def os_threads():
    return len(os.listdir("/proc/self/task"))
"""


def run(code: str, **environment: str) -> str:
    """What a fresh process prints; it has to end well and in time."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TENSORLANG_NUM_THREADS": "3", "TENSORLANG_CACHE": "off", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_children_and_grandchildren_call_parallel_kernels_with_threads_of_their_own() -> None:
    told = run("""
        kernel = threaded()
        before = kernel(DATA)

        def again():
            assert os_threads() == 1
            assert np.array_equal(kernel(DATA), before)
            assert os_threads() == tl.get_threads() == 3

        def both():
            again()
            assert child(again) == 0
            again_in_parent = kernel(DATA)
            assert np.array_equal(again_in_parent, before)

        print(child(both), child(both), np.array_equal(kernel(DATA), before), os_threads())
    """)
    assert told.split() == ["0", "0", "True", "3"]


def test_a_pool_of_forked_processes_calls_and_builds() -> None:
    told = run("""
        import multiprocessing

        kernel = threaded()
        want = kernel(DATA)

        def work(rows):
            assert np.array_equal(kernel(DATA), want)
            return float(threaded(rows, f"team{rows}")(DATA[:rows]).sum()) == float(want[:rows].sum())

        with multiprocessing.get_context("fork").Pool(3) as pool:
            print(pool.map(work, range(100, 112), chunksize=1))
    """)
    assert told.split() == str([True] * 12).split()


def test_a_child_forked_while_a_thread_calls_parallel_kernels_calls_them_too() -> None:
    told = run("""
        kernel, stop = threaded(), threading.Event()
        want = kernel(DATA)

        def busy():
            while not stop.is_set():
                kernel(DATA)

        thread = threading.Thread(target=busy)
        thread.start()

        def work():
            assert np.array_equal(kernel(DATA), want)

        print([child(work) for _ in range(20)])
        stop.set()
        thread.join()
    """)
    assert told.split() == str([0] * 20).split()


@pytest.mark.parametrize(
    ("cache", "children"), [("off", 4), ("on", 2), *(pytest.param(cache, 16, marks=pytest.mark.slow) for cache in ("off", "on"))]
)
def test_a_child_forked_while_threads_build_builds_too(cache: str, children: int, tmp_path: Path) -> None:
    told = run(
        """
        from tensorlang.codegen.kernel import kernel
        kernel._kernels.size = 2  # kernels are unloaded all the time
        stop = threading.Event()

        def product(n, factor):
            a = tl.placeholder((n, n), name="a")
            return tl.build(tl.compute((n, n), lambda i, j: a[i, j] * factor + a[j, i], name="b"))

        def busy(seed):
            factor = float(seed)
            while not stop.is_set():
                factor += 2
                product(8, factor)

        threads = [threading.Thread(target=busy, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()

        def work():
            x = np.ones((9, 9), "f4")
            assert product(9, 2.0)(x).sum() == 3 * 81
            assert product(8, 4.0)(x[:8, :8].copy()).sum() == 5 * 64

        found = []
        for wait in range(CHILDREN):
            time.sleep(0.011 * wait)
            found.append(child(work))
        print(found)
        stop.set()
        for thread in threads:
            thread.join()
        """.replace("CHILDREN", str(children)),
        TENSORLANG_CACHE="off" if cache == "off" else str(tmp_path),
    )
    assert told.split() == str([0] * children).split()


def test_a_child_forked_while_a_thread_loads_the_compiler_loads_it_too() -> None:
    told = run("""
        def first():
            a = tl.placeholder((4,), name="a")
            assert tl.build(tl.compute((4,), lambda i: a[i] + 1.0, name="b"))(np.ones(4, "f4")).sum() == 8

        threading.Thread(target=first, daemon=True).start()
        time.sleep(0.03)
        print(child(first), flush=True)
        os._exit(0)
    """)
    assert told.split() == ["0"]


def test_a_child_forked_while_a_thread_reads_a_log_reads_it_too(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    told = run(f"""
        from tensorlang.autotune.log.database import Database

        database, reading = Database({str(tmp_path / "log.jsonl")!r}), threading.Event()

        def slow(*_):
            reading.set()
            time.sleep(100)

        Database._take, quick = slow, Database._take
        threading.Thread(target=database.refresh, daemon=True).start()
        reading.wait()
        Database._take = quick
        print(child(database.refresh), flush=True)
        os._exit(0)
    """)
    assert told.split() == ["0"]


GRAPH = """
    from tensorlang.graph import Builder
    from tensorlang.graph.execution import compiled as module

    b = Builder("g")
    weight = b.constant(np.eye(4, dtype="f4"), "weight")
    g = b.finish(b("linear", b.input((tl.dim("n", 1, 8), 4), name="x"), weight))
    compiled, begun = g.compile(threads=1), threading.Event()
    x = np.arange(12, dtype="f4").reshape(3, 4)

    def never_ending(*_):
        begun.set()
        time.sleep(100)
"""


@pytest.mark.parametrize(
    ("name", "work", "result"),
    [
        ("assembled", "lambda: compiled(x)", "x"),
        ("with_weights", 'lambda: compiled.load_weights({"weight": 2 * np.eye(4, dtype="f4")})', "2 * x"),
    ],
)
def test_a_child_forked_while_a_thread_prepares_a_graph_prepares_it_too(name: str, work: str, result: str) -> None:
    told = run(
        textwrap.dedent(GRAPH)
        + textwrap.dedent(f"""
        work, quick, module.{name} = {work}, module.{name}, never_ending
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
        module.{name} = quick

        def again():
            work()
            assert np.array_equal(compiled(x)[0], {result})

        print(child(again), flush=True)
        os._exit(0)
        """)
    )
    assert told.split() == ["0"]


def test_a_child_forked_while_a_thread_folds_a_frozen_graph_folds_it_too() -> None:
    told = run(
        textwrap.dedent(GRAPH)
        + textwrap.dedent("""
        from tensorlang.bridges.torch_frozen import Frozen

        frozen = Frozen(g, (), None, None)
        quick, Frozen._fold = Frozen._fold, never_ending
        threading.Thread(target=frozen, args=((),), daemon=True).start()
        begun.wait()
        Frozen._fold = quick

        def again():
            assert np.array_equal(frozen(())(x)[0], x)

        print(child(again), flush=True)
        os._exit(0)
        """)
    )
    assert told.split() == ["0"]


def test_no_lock_is_made_while_a_fork_holds_those_that_there_are() -> None:
    told = run("""
        from tensorlang.system import forks

        class Owner:
            def renew(self):
                pass

        owner, kept = Owner(), []
        threads = [threading.Thread(target=lambda: kept.append(forks.short_lock())), threading.Thread(target=forks.anew, args=(owner,))]
        forks._before()
        for thread in threads:
            thread.start()
            thread.join(0.1)
        print(*(thread.is_alive() for thread in threads), kept)
        forks._after()
        for thread in threads:
            thread.join()
        print(kept[0] in forks._short, owner in forks._renewed)
    """)
    assert told.split() == ["True", "True", "[]", "True", "True"]


def test_a_child_that_nobody_announced_does_without_threads() -> None:
    """Of `fork` as C calls it the child believes in the threads of its parent: they do not come, and what they were given is taken back."""
    told = run("""
        import ctypes, signal

        kernel = threaded()
        want = kernel(DATA)
        pid = ctypes.CDLL(None).fork()
        if pid == 0:
            signal.alarm(60)
            good = all(np.array_equal(kernel(DATA), want) for _ in range(3))
            os._exit(0 if good and os_threads() == 1 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), np.array_equal(kernel(DATA), want))
    """)
    assert told.split() == ["0", "True"]


def test_one_object_does_not_wait_for_what_another_makes() -> None:
    started, go_on = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self) -> int:
            """It takes its time."""
            if threading.current_thread() is not threading.main_thread():
                started.set()
                go_on.wait()
            return 3

    one, other = Slow(), Slow()
    thread = threading.Thread(target=lambda: one.value)
    thread.start()
    started.wait()
    assert other.value == 3
    assert vars(other) == {"value": 3}
    go_on.set()
    thread.join()
    assert Slow.value.__doc__ == "It takes its time."
