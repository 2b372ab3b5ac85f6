"""Which thread runs what: every iteration once, whatever the bounds, the threads, and how many of them come."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime.symbols import load_object
from tensorlang.codegen.target import target
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Const, Load, Nest, Param, Reducer, const
from tensorlang.ir.dtype import INT64
from tests.codegen.nests import Run, arg, loop, store

COUNT = Reducer("sum", (Const(0),), (Binary("add", Param("a0", INT64), Param("b0", INT64)),))


THREADS = pytest.mark.parametrize("threads", [1, 2, 3, 70], indirect=True)
"""Among them more than there are shares."""


@THREADS
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("extent", [2, 3, 7, 16, 17, 63, 64, 65, 200, 1001])
def test_every_iteration_of_a_run_is_of_one_share(run: Run, extent: int) -> None:
    y = arg("Y", extent, dtype=INT64)
    nest = Nest("f", (), (y,), (), loop("i", extent, store(y, (Axis("i"),), const(1), COUNT), "parallel"))
    found = np.zeros(extent, np.int64)
    assert run(nest, found) == 0
    assert np.array_equal(found, np.ones(extent))


@THREADS
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("rows", "tiles", "behind"), [(5, 40, 2), (3, 3, 1), (64, 4, 1), (90, 200, 3)])
def test_every_iteration_of_a_loop_that_moves_is_of_one_share(run: Run, rows: int, tiles: int, behind: int) -> None:
    """Waves, and the same counted from below 0: blocks are counted from there on, too."""
    y = arg("Y", rows, tiles, dtype=INT64)
    wave, row = Axis("w"), Axis("t")
    first = Binary("max", const(0), Binary("floordiv", Binary("add", wave, const(behind - tiles)), const(behind)))
    end = Binary("min", const(rows), Binary("add", Binary("floordiv", wave, const(behind)), const(1)))
    for shift in (0, -7):
        moved = lambda bound: Binary("add", bound, const(shift))  # noqa: B023, E731 - used at once
        at = Binary("sub", row, const(shift))
        place = (at, Binary("sub", wave, Binary("mul", at, const(behind))))
        body = loop("t", moved(end), store(y, place, const(1), COUNT), "parallel", lo=moved(first))
        nest = Nest("f", (), (y,), (), loop("w", tiles + behind * (rows - 1), body))
        found = np.zeros((rows, tiles), np.int64)
        assert run(nest, found) == 0
        assert np.array_equal(found, np.ones((rows, tiles)))


def test_loops_that_run_one_after_the_other_have_the_same_counters() -> None:
    """Those of a program of a hundred parallel loops would be 400 KB of stack."""
    y = arg("Y", 100, dtype=INT64)
    first, second = (loop(name, 100, store(y, (Axis(name),), const(1), COUNT), "parallel") for name in "ij")
    text = emit(Nest("f", (), (y,), (), Block((first, second))), target("native"), name="f")
    assert len(re.findall(r'%"?counters[^=]*= alloca', text)) == 1


STUBS = """
define void @"GOMP_parallel"(ptr %body, ptr %data, i32 %threads, i32 %flags) {{
  call void %body(ptr %data)
  ret void
}}
define i32 @"omp_get_thread_num"() {{
  ret i32 {thread}
}}
"""


def on_one_of_four(nest: Nest, thread: int) -> Any:
    """The nest by an OpenMP runtime that gives one thread of four that are asked for, and calls it by a number."""
    machine = target("native")
    text = emit(nest, machine, name="kernel")
    text = re.sub(
        r'^@"tensorlang_num_threads" = external global i32.*$', '@"tensorlang_num_threads" = constant i32 4', text, flags=re.MULTILINE
    )
    text = re.sub(r'^declare \w+ @"(GOMP_parallel|omp_get_thread_num)"\(.*$', "", text, flags=re.MULTILINE) + STUBS.format(thread=thread)
    library = load_object(binding.compile_module(text, machine.machine, handwritten=True).object, ("kernel",))
    return library, ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(library.address("kernel"))


@pytest.mark.parametrize("thread", [0, 1, 3, 9])
@pytest.mark.parametrize("extent", [2, 5, 40, 333])
def test_a_thread_runs_the_shares_of_those_that_do_not_come(thread: int, extent: int) -> None:
    """It begins with its own: what comes first says which that is."""
    turn, y = Buffer("turn", (const(1),), INT64, "heap"), arg("Y", extent, dtype=INT64)
    body = Block((store(turn, (const(0),), const(1), COUNT), store(y, (Axis("i"),), Load(turn, (const(0),)), COUNT)))
    nest = Nest("f", (), (y,), (), Alloc((turn,), Block((store(turn, (const(0),), const(0)), loop("i", extent, body, "parallel")))))
    library, kernel = on_one_of_four(nest, thread)
    found = np.zeros(extent, np.int64)
    assert kernel(found.ctypes.data) == 0
    assert sorted(found) == list(range(1, extent + 1)), library
    first = (thread % min(4, extent)) * -(-extent // min(4, extent))
    assert found.tolist().index(1) == (first if first < extent else 0)  # the last share has nothing where few are left
