"""Parallel loops: every iteration runs once, whatever the number of threads, and a thread without memory fails the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.target import target
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Const, Dim, Load, Nest, Param, Reducer, const
from tensorlang.ir.dtype import FLOAT32, INT64
from tests.codegen.nests import ZERO, Run, arg, index, loop, operands, store, tile_nest

THREADS = pytest.mark.parametrize("threads", [1, 2, 5], indirect=True)


@THREADS
@pytest.mark.usefixtures("threads")
def test_a_parallel_loop_computes_what_the_serial_one_does(run: Run) -> None:
    a, b = operands((36, 9), (9, 40))
    serial, found = np.empty((36, 40), np.float32), np.zeros((36, 40), np.float32)
    run(tile_nest(36, 40, 9, rows=6, lanes=32, mask=True), a, b, serial)
    assert run(tile_nest(36, 40, 9, rows=6, lanes=32, mask=True, parallel=True), a, b, found) == 0
    assert found.tobytes() == serial.tobytes()


@THREADS
@pytest.mark.usefixtures("threads")
def test_every_iteration_of_a_parallel_loop_runs_once(run: Run) -> None:
    n = Dim("n")
    y = arg("Y", n, 3, dtype=INT64)
    count = Reducer("sum", (Const(0),), (Binary("add", Param("a0", INT64), Param("b0", INT64)),))
    scratch = Buffer("T", (const(4),), INT64, "heap")
    one = (const(1),)
    body = Alloc((scratch,), Block((store(scratch, one, index("i", 1)), store(y, (Axis("i"), const(1)), Load(scratch, one), count))))
    nest = Nest("f", (), (y,), ("n",), loop("o", 2, loop("i", n, body, "parallel"), lo=0))
    for size in (0, 1, 2, 7, 1000):
        found = np.zeros((size, 3), np.int64)
        assert run(nest, found, dims=(size,)) == 0
        assert np.array_equal(found[:, 1], 2 * np.arange(1, size + 1))
        assert not found[:, ::2].any()


def test_a_parallel_loop_inside_another_is_serial(run: Run) -> None:
    y = arg("Y", 6, 5, dtype=INT64)
    body = store(y, (Axis("i"), Axis("j")), index((10, "i"), "j"))
    nest = Nest("f", (), (y,), (), loop("i", 6, loop("j", 5, body, "parallel"), "parallel"))
    assert emit(nest, target("native"), name="f").count('call void @"GOMP_parallel"') == 1
    found = np.zeros((6, 5), np.int64)
    assert run(nest, found) == 0
    assert np.array_equal(found, 10 * np.arange(6)[:, None] + np.arange(5))


@pytest.mark.parametrize("parallel", [False, True])
def test_a_kernel_that_finds_no_memory_says_so(run: Run, parallel: bool) -> None:
    n = Dim("n")
    y, first, second = arg("Y", 8), Buffer("T", (const(100),), FLOAT32, "heap"), Buffer("U", (n, n), FLOAT32)
    corner = (const(0), const(0))
    inner = Alloc((first,), Alloc((second,), Block((store(second, corner, ZERO), store(y, (Axis("i"),), Load(second, corner))))))
    nest = Nest("f", (), (y,), ("n",), loop("i", 8, inner, "parallel" if parallel else "serial"))
    found = np.ones(8, np.float32)
    for size in (1 << 30, 1 << 61, (1 << 63) - 1):
        assert run(nest, found, dims=(size,)) == 1
    assert found.all()
    assert run(nest, found, dims=(4,)) == 0
    assert not found.any()
