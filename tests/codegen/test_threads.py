"""One number of threads for the process, or one of a call's own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.runtime import arrays
from tensorlang.codegen.runtime.threads import get_threads, set_threads
from tensorlang.errors import CallError
from tests.codegen import handmade


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def in_a_child(code: Any, **environment: Any) -> Any:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_parallel_loop_uses_the_number_that_was_set(count: Any) -> None:
    kernel = handmade.vector("team", handmade.TEAM, dtype="int32")
    out = np.zeros(16, "i4")
    set_threads(count)
    kernel(np.zeros(16, "i4"), out=out)
    assert out.tolist() == [count] * count + [0] * (16 - count)
    assert get_threads() == count


@pytest.mark.parametrize("count", [0, -1, 2.0, "2", None, True, 10**6, 2**40])
def test_a_wrong_number_is_refused_and_the_old_one_stays(count: Any) -> None:
    set_threads(3)
    with pytest.raises(CallError, match="set_threads: expected a number of threads from 1 to 1024"):
        set_threads(count)
    assert get_threads() == 3


def test_numpy_integers_are_numbers_of_threads() -> None:
    set_threads(np.int64(2))
    assert get_threads() == 2


@pytest.mark.parametrize("count", [1, 2, np.int64(5)])
def test_a_call_may_have_a_number_of_its_own(count: Any) -> None:
    kernel = handmade.vector("team", handmade.TEAM, dtype="int32")
    out, bound = np.zeros(16, "i4"), np.zeros(16, "i4")
    set_threads(3)
    assert kernel(np.zeros(16, "i4"), out=out, threads=count) is out
    kernel.bind(np.zeros(16, "i4"), out=bound, threads=count)()
    assert out.tolist() == bound.tolist() == [count] * count + [0] * (16 - count)
    assert kernel(out)[0] == kernel(out, threads=None)[0] == get_threads() == 3


@pytest.mark.parametrize("count", [0, -1, 2.0, "2", True, 10**6])
def test_a_call_on_a_wrong_number_of_threads_is_refused_before_anything_is_written(count: Any) -> None:
    kernel, out = handmade.vector("team", handmade.TEAM, dtype="int32"), np.zeros(16, "i4")
    with pytest.raises(CallError, match="team: threads: expected a number of threads from 1 to 1024"):
        kernel(np.zeros(16, "i4"), out=out, threads=count)
    assert not out.any()


def test_a_bound_call_on_its_own_threads_takes_what_has_to_be_copied() -> None:
    kernel, source = handmade.vector("team", handmade.TEAM, dtype="int32"), np.zeros(32, "i4")
    call = kernel.bind(source[::2], threads=2)
    assert call()[:2].tolist() == [2, 2]


def test_an_operand_named_threads_is_meant_first() -> None:
    operand = tl.placeholder((8,), name="threads")
    twice = tl.build(tl.compute((8,), lambda i: operand[i] * 2.0, name="twice"))
    assert twice(threads=np.ones(8, "f4")).tolist() == [2.0] * 8


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_a_call_has_the_same_bits_on_any_number_of_threads(rows: int) -> None:
    A = tl.placeholder((rows, 300), name="A")
    k = tl.reduce_axis(300, "k")
    schedule = tl.Schedule(tl.compute((rows,), lambda i: tl.sum(tl.exp(A[i, k]), axis=k), name="sums"))
    schedule.parallel("sums.i")
    kernel, data = tl.build(schedule), np.random.default_rng(0).standard_normal((rows, 300), "f4")
    wanted = kernel(data, threads=1).tobytes()
    assert all(kernel(data, threads=count).tobytes() == wanted for count in (2, 3, 16))


def test_a_workspace_suffices_for_the_threads_of_the_call() -> None:
    A = tl.placeholder((48, 9000), name="A")
    first = tl.compute((48, 9000), lambda i, j: A[i, j] * 2.0, name="first")
    schedule = tl.Schedule(tl.compute((48, 9000), lambda i, j: first[i, j] + first[i, 8999 - j], name="both"))
    schedule.compute_at("first", "both.i")
    schedule.parallel("both.i")
    kernel, data = tl.build(schedule), np.ones((48, 9000), "f4")
    set_threads(1)
    small = arrays.empty_aligned((kernel.workspace_bytes,), np.dtype("uint8"))
    with pytest.raises(CallError, match="a call on 2 threads needs"):
        kernel(data, workspace=small, threads=2)
    assert (kernel(data, workspace=small, threads=1) == 4.0).all()


def test_the_environment_gives_the_default() -> None:
    code = "from tensorlang.codegen.runtime.threads import get_threads; print(get_threads())"
    assert in_a_child(code, TENSORLANG_NUM_THREADS="7").stdout == "7\n"
    assert in_a_child(code, TENSORLANG_NUM_THREADS="").stdout == f"{len(os.sched_getaffinity(0))}\n"


@pytest.mark.parametrize("text", ["0", "-2", "many", "1e3", "99999999999999999999"])
def test_a_wrong_environment_is_a_call_error(text: Any) -> None:
    done = in_a_child("from tensorlang.codegen.runtime.threads import get_threads; get_threads()", TENSORLANG_NUM_THREADS=text)
    assert done.returncode == 1
    assert "CallError: TENSORLANG_NUM_THREADS: expected a number of threads" in done.stderr
