"""Workspaces stay between calls: no page is touched for the first time twice, all kernels together keep no more than the limit."""

import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.emission.storage import SPARE
from tensorlang.codegen.runtime import workspaces
from tensorlang.codegen.runtime.workspaces import LEAST, get_workspace_limit, kept_workspaces

N = 128
resource = pytest.importorskip("resource")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = get_workspace_limit()
    tl.release_workspaces()
    yield
    tl.set_workspace_limit(before)


def take(size: int, alignment: int = 64) -> int | None:
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(workspaces.address(workspaces.TAKE))
    found: int | None = call(size, alignment)
    return found


def give(block: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(workspaces.address(workspaces.GIVE))(block)


def sums(n: int, name: str = "S", stages: int = 4) -> Any:
    """Stages that are computed whole, one after the other, and so stand in workspaces."""
    found = tl.placeholder((n, n), name="A")
    for stage in range(stages):

        def body(i: Any, j: Any, last: Any = found) -> Any:
            return last[tl.clamp(i - 1, 0, n - 1), j] + last[tl.clamp(i + 1, 0, n - 1), j]

        found = tl.compute((n, n), body, name=f"{name}{stage}")
    schedule = tl.Schedule(found)
    return tl.build(schedule)


def expected(a: Any, stages: int = 4) -> Any:
    for _ in range(stages):
        a = np.concatenate([a[:1], a[:-1]]) + np.concatenate([a[1:], a[-1:]])
    return a


def test_later_calls_touch_no_page_for_the_first_time() -> None:
    kernel = sums(512)
    a = np.ones((512, 512), "f4")
    call = kernel.bind(a, out=np.empty_like(a))
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        call()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < kernel.workspace_bytes // 4096  # of ten calls
    assert kept_workspaces() >= kernel.workspace_bytes


def test_every_thread_of_a_parallel_loop_is_counted() -> None:
    """A row of 400 KB for each thread: what is taken together is never more than said."""
    A = tl.placeholder((64, 100_000), name="A")
    twice = tl.compute((64, 100_000), lambda i, j: A[i, j] * 2.0, name="twice")
    schedule = tl.Schedule(tl.compute((64, 100_000), lambda i, j: twice[i, j] + twice[i, 99_999 - j], name="both"))
    schedule.compute_at("twice", "both.i")
    schedule.parallel("both.i")
    kernel, a = tl.build(schedule), np.random.default_rng(0).random((64, 100_000), "f4")
    before, row = tl.get_threads(), 400_000
    try:
        for threads in (1, 2, 3):
            tl.set_threads(threads)
            tl.release_workspaces()
            assert kernel.workspace_bytes == threads * row + SPARE
            np.testing.assert_allclose(kernel(a), 2 * a + 2 * a[:, ::-1], rtol=1e-6)
            assert row <= kept_workspaces() <= kernel.workspace_bytes + (threads - 1) * SPARE
    finally:
        tl.set_threads(before)


def test_many_kernels_together_keep_no_more_than_the_limit() -> None:
    tl.set_workspace_limit(3 * N * N * 4)
    a = np.random.default_rng(1).random((N, N), "f4")
    kernels = [sums(N, name=f"T{n}_", stages=3 + n) for n in range(4)]
    for n, kernel in enumerate(kernels):
        assert kernel.workspace_bytes > 0
        np.testing.assert_array_equal(kernel(a), expected(a, 3 + n))
        assert kept_workspaces() <= get_workspace_limit()
    assert kept_workspaces() > 0


def test_a_limit_of_zero_keeps_nothing() -> None:
    tl.set_workspace_limit(0)
    a = np.ones((N, N), "f4")
    np.testing.assert_array_equal(sums(N)(a), expected(a))
    assert kept_workspaces() == 0


def test_what_is_kept_goes_when_asked_and_when_a_kernel_that_uses_it_dies() -> None:
    a = np.ones((N, N), "f4")
    kernel = tl.Kernel(sums(N, name="U").program)  # `build` holds on to its own
    kernel(a)
    assert kept_workspaces() > 0
    tl.release_workspaces()
    assert kept_workspaces() == 0
    kernel(a)
    assert kept_workspaces() > 0
    del kernel
    assert kept_workspaces() == 0


def test_calls_from_many_threads_share_no_workspace() -> None:
    rng = np.random.default_rng(2)
    kernels = [sums(N, name=f"V{n}_", stages=3 + n) for n in range(2)]
    wrong: list[str] = []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).random((N, N), "f4")
        out = np.empty_like(a)
        for turn in range(60):
            which = (seed + turn) % 2
            kernels[which](a, out=out)
            if not np.array_equal(out, expected(a, 3 + which)):
                wrong.append(f"{seed} {turn}")
            if turn % 20 == seed:
                tl.release_workspaces()

    threads = [threading.Thread(target=work, args=(int(seed),)) for seed in rng.permutation(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert kept_workspaces() <= get_workspace_limit()


def test_a_forked_child_goes_on_and_changes_nothing_in_its_parent() -> None:
    a = np.random.default_rng(3).random((N, N), "f4")
    kernel = sums(N, name="W")
    kernel(a)
    kept = kept_workspaces()
    child = os.fork()
    if child == 0:  # pragma: no cover - coverage ends with the child
        same = np.array_equal(kernel(a), expected(a))
        tl.release_workspaces()
        os._exit(0 if same and kept_workspaces() == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert kept_workspaces() == kept
    np.testing.assert_array_equal(kernel(a), expected(a))


def test_memory_that_cannot_be_had_is_a_null_pointer_and_what_was_kept_goes_back_first() -> None:
    block = take(LEAST)
    assert block is not None
    give(block)
    assert kept_workspaces() == LEAST
    assert take(1 << 62) is None
    assert take(-1) is None
    assert kept_workspaces() == 0


requests = st.tuples(st.integers(0, 6 * LEAST), st.sampled_from([64, 128, 4096]))


@given(st.lists(st.one_of(requests, st.integers(0, 30)), max_size=150), st.sampled_from([0, LEAST, 10 * LEAST, 1 << 30]))
def test_blocks_in_use_are_whole_aligned_and_apart(steps: list[Any], limit: int) -> None:
    tl.set_workspace_limit(limit)
    live: list[tuple[int, int, int]] = []
    for mark, step in enumerate(steps):
        if isinstance(step, int):
            if live:
                block, size, filled = live.pop(step % len(live))
                assert ctypes.string_at(block, size) == bytes([filled]) * size
                give(block)
                assert kept_workspaces() <= limit
        else:
            size, alignment = step
            block = take(size, alignment) or 0
            assert block
            assert block % alignment == 0
            ctypes.memset(block, mark % 251, size)
            live.append((block, size, mark % 251))
    for block, size, filled in live:
        assert ctypes.string_at(block, size) == bytes([filled]) * size
        give(block)


@pytest.mark.parametrize("size", [-1, 1 << 62, 2.0, "1", None, True])
def test_a_wrong_limit_is_refused_and_the_old_one_stays(size: Any) -> None:
    tl.set_workspace_limit(12345)
    with pytest.raises(tl.errors.CallError, match=r"set_workspace_limit: expected a number of bytes from 0 to 2\*\*62"):
        tl.set_workspace_limit(size)
    assert get_workspace_limit() == 12345
