"""What was built in this process is not built again, and nothing else is taken for it."""

import gc
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from bench.stages import chain, pointwise
from tensorlang.codegen.cache import program_key
from tensorlang.lowering import nests, program
from tensorlang.lowering.program import lower_program
from tensorlang.system.object_cache import ObjectCache
from tests.codegen.cached import product, scaled
from tests.work import work

pytestmark = pytest.mark.usefixtures("forgetful")


def test_the_same_definition_gives_the_same_kernel(compilations: Any) -> None:
    kernel = tl.build(scaled())
    assert tl.build(scaled()) is kernel
    assert tl.build((scaled(),)) is kernel
    assert tl.build(scaled(), target="native") is kernel
    assert compilations == ["y"]
    assert tl.compile(scaled()) is tl.compile(scaled())
    assert tl.compile(scaled()).provenance == "default"


def test_the_same_schedule_gives_the_same_kernel(compilations: Any) -> None:
    def schedule(factor: int) -> tl.Schedule:
        s = tl.Schedule(scaled())
        s.split("i", factor)
        return s

    assert tl.build(schedule(2)) is tl.build(schedule(2))
    assert tl.build(schedule(2)) is not tl.build(schedule(4))
    assert len(compilations) == 2


def test_whatever_decides_the_code_or_the_arguments_gives_another_kernel() -> None:
    a, b = tl.placeholder((4,), name="a"), tl.placeholder((4,), name="b")
    minus = tl.compute((4,), lambda i: a[i] - b[i], name="c")
    kernels = [
        tl.build(scaled()),
        tl.build(scaled(3.0)),
        tl.build(scaled(shape=(5, 4))),
        tl.build(scaled(2, dtype="int32")),
        tl.build(scaled(name="z")),
        tl.build(scaled(), name="other"),
        tl.build(scaled(), target="x86-64-v2"),
        tl.build(scaled(), target="x86-64-v3"),
        tl.compile(scaled()),
        tl.build(minus),
        tl.build(minus, inputs=[b, a]),
    ]
    assert len({id(kernel) for kernel in kernels}) == len(kernels)
    ones = np.ones(4, "f4")
    np.testing.assert_array_equal(kernels[-1](ones, 3 * ones), 2 * ones)


def test_zero_and_minus_zero_are_different_constants() -> None:
    x = tl.placeholder((1,), name="x")
    plus = tl.compute((1,), lambda i: tl.select(x[i] > 0, x[i], 0.0), name="c")
    minus = tl.compute((1,), lambda i: tl.select(x[i] > 0, x[i], -0.0), name="c")
    at = np.zeros(1, "f4")
    assert [bool(np.signbit(tl.build(one)(at))[0]) for one in (plus, minus)] == [False, True]


def test_the_default_schedule_of_other_threads_is_another_program(compilations: Any) -> None:
    before = tl.get_threads()
    try:
        kernels = []
        for threads in (1, 2, 1):
            tl.set_threads(threads)
            kernels.append(tl.build(product()))
    finally:
        tl.set_threads(before)
    assert kernels[0] is kernels[2] is not kernels[1]
    assert len(compilations) == 2


def test_ten_threads_that_ask_for_one_kernel_compile_it_once(compilations: Any) -> None:
    found: list[Any] = []
    ready = threading.Barrier(10)

    def work() -> None:
        ready.wait()
        found.append(tl.build(product(16)))

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    assert len({id(kernel) for kernel in found}) == 1
    assert len(compilations) == 1


def test_two_names_are_built_side_by_side_and_a_failure_leaves_nothing() -> None:
    cache: ObjectCache[int] = ObjectCache(2)
    inside = threading.Barrier(2)

    def make(value: int) -> int:
        inside.wait(10)
        return value

    threads = [threading.Thread(target=cache.get, args=(name, lambda n=n: make(n))) for n, name in enumerate("ab")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [cache.get(name, lambda: 9) for name in "ab"] == [0, 1]

    def fail() -> int:
        raise MemoryError

    with pytest.raises(MemoryError):
        cache.get("c", fail)
    assert cache.get("c", lambda: 7) == 7


def test_the_latest_used_are_kept() -> None:
    cache: ObjectCache[int] = ObjectCache(2)
    for name in ("a", "b", "a", "c"):
        cache.get(name, lambda: 0)
    assert len(cache) == 2
    assert [cache.get(name, lambda: 1) for name in "ac"] == [0, 0]
    assert cache.get("b", lambda: 1) == 1


def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not() -> None:
    code = """
import os, threading, time
from tensorlang.system.object_cache import ObjectCache
cache, started = ObjectCache(), threading.Event()
def slow():
    started.set()
    time.sleep(60)
threading.Thread(target=cache.get, args=("a", slow), daemon=True).start()
started.wait()
child = os.fork()
if child == 0:
    os._exit(cache.get("a", lambda: 5))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["5"]


def test_an_operand_that_is_bound_is_neither_mixed_up_nor_kept_alive(compilations: Any) -> None:
    def kernel(array: Any) -> tl.Kernel:
        w, x = tl.buffer(array, name="w"), tl.placeholder((4,), name="x")
        return tl.build(tl.compute((4,), lambda i: x[i] * w[i], name="y"))

    two, three = np.full(4, 2, "f4"), np.full(4, 3, "f4")
    ones, watch = np.ones(4, "f4"), weakref.ref(two)
    first, second = kernel(two), kernel(three)
    np.testing.assert_array_equal(first(ones), 2 * ones)
    np.testing.assert_array_equal(second(ones), 3 * ones)
    two[:] = 5
    np.testing.assert_array_equal(first(ones), 5 * ones)
    assert len(compilations) == 1
    del first, two
    gc.collect()
    assert watch() is None


def test_a_name_takes_work_in_proportion_to_the_nest() -> None:
    machine = tl.target()
    short, long = (lower_program((chain(pointwise, stages),)).nest for stages in (50, 200))
    assert work(lambda: program_key.digest(machine, long)) < 4.2 * work(lambda: program_key.digest(machine, short))


def test_the_name_is_that_of_the_structure_not_of_the_objects() -> None:
    one, other = (lower_program(product(8)).nest for _ in range(2))
    machine = tl.target()
    assert program_key.digest(machine, one) == program_key.digest(machine, other)
    assert program_key.digest(machine, one) != program_key.digest(machine, lower_program(product(9)).nest)
    assert program_key.digest(machine, "1") != program_key.digest(machine, 1)
    assert program_key.digest(machine, 1) != program_key.digest(machine, True)


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every program that is lowered from its definitions to loops."""
    found: list[object] = []
    real = nests.ProgramLowering

    def counted(*args: Any) -> object:
        found.append(args)
        return real(*args)

    monkeypatch.setattr(program, "ProgramLowering", counted)
    return found


def test_a_program_is_lowered_once_from_its_schedule_to_a_call_of_its_kernel(lowerings: Any) -> None:
    s = tl.Schedule(scaled())
    s.split("i", 2)
    kernel = tl.build(s, name="other")
    assert kernel(np.ones((4, 5), np.float32)).sum() == 40
    kernel.cost()
    assert tl.build(s) is not kernel
    assert tl.build(s.copy(), name="other") is kernel
    assert len(lowerings) == 1


def test_another_order_of_arguments_takes_no_other_lowering(lowerings: Any) -> None:
    a, b, unread = (tl.placeholder((4,), name=name) for name in ("a", "b", "unread"))
    s = tl.Schedule(tl.compute((4,), lambda i: a[i] - b[i], name="c"))
    kernel = tl.build(s, inputs=[unread, b, a])
    assert kernel(np.full(4, 9, np.float32), np.ones(4, np.float32), np.full(4, 3, np.float32)).tolist() == [2, 2, 2, 2]
    assert len(lowerings) == 1


@pytest.mark.parametrize("make", [tl.build, tl.compile])
def test_the_default_schedule_takes_no_other_lowering(lowerings: Any, make: Any) -> None:
    weights = tl.buffer(np.ones((8, 8), np.float32), name="W")
    kernel = make(tl.ops.matmul(tl.placeholder((8, 8)), weights))
    assert kernel(np.ones((8, 8), np.float32)).sum() == 512
    assert len(lowerings) == 1
