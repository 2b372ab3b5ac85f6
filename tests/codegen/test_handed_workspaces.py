"""Memory that a caller hands over for intermediates: used and nothing else, or refused before anything is written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorlang as tl
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.codegen.runtime.workspaces import kept_workspaces
from tensorlang.errors import CallError

POISON = 0xFF
MARGIN = 4096
Bytes = npt.NDArray[np.uint8]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    threads = tl.get_threads()
    tl.release_workspaces()
    yield
    tl.set_threads(threads)


def memory(size: int) -> tuple[Bytes, Bytes]:
    """So many bytes from a cache line on, and what they are a part of."""
    whole = np.full(size + 64 + MARGIN, POISON, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size], whole


def mirrored(rows: object = 48, columns: int = 9000) -> Any:
    """A stage that is read from behind, so that a row of it is there whole."""
    A = tl.placeholder((rows, columns), name="A")
    twice = tl.compute((rows, columns), lambda i, j: A[i, j] * 2.0, name="twice")
    return tl.compute((rows, columns), lambda i, j: twice[i, j] + twice[i, columns - 1 - j], name="both")


def in_rows(*, parallel: bool, rows: object = 48) -> Any:
    """A row of 36 KB at a time, for each thread one."""
    schedule = tl.Schedule(mirrored(rows))
    schedule.compute_at("twice", "both.i")
    if parallel:
        schedule.parallel("both.i")
    return tl.build(schedule)


def whole(rows: object = 48) -> Any:
    """All of it, 1.7 MB."""
    return tl.build(tl.Schedule(mirrored(rows)))


def staged() -> Any:
    """A stage that is there whole, and rows of another one for each thread."""
    A = tl.placeholder((32, 9000), name="A")
    first = tl.compute((32, 9000), lambda i, j: A[31 - i, j] + 1.0, name="first")
    second = tl.compute((32, 9000), lambda i, j: first[31 - i, 8999 - j] * 2.0, name="second")
    schedule = tl.Schedule(tl.compute((32, 9000), lambda i, j: second[i, j] + second[i, 8999 - j], name="third"))
    schedule.compute_at("second", "third.i")
    schedule.parallel("third.i")
    return tl.build(schedule)


KERNELS = {
    "whole": (whole, 48),
    "in rows": (lambda: in_rows(parallel=False), 48),
    "a row for each thread": (lambda: in_rows(parallel=True), 48),
    "both": (staged, 32),
    "bounded": (lambda: whole(tl.dim("n", 1, 64)), 5),
    "bounded, in rows": (lambda: in_rows(parallel=True, rows=tl.dim("n", 1, 64)), 7),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_intermediates_lie_in_the_memory_and_nowhere_else(name: str, threads: int) -> None:
    make, rows = KERNELS[name]
    kernel, a = make(), np.random.default_rng(0).random((rows, 9000), "f4")
    tl.set_threads(threads)
    want = kernel(a)
    out, (given, around) = np.empty_like(want), memory(kernel.workspace_bytes)
    assert given.size > 9000 * 4
    tl.release_workspaces()
    for handed in (given, memoryview(given), given[: given.size // 8 * 8].view("f8")):
        for keywords in ({}, {"out": out}):
            around[...] = POISON
            np.testing.assert_array_equal(kernel(a, **keywords, workspace=handed), want)
            start = given.ctypes.data - around.ctypes.data
            assert (given != POISON).any()
            assert (around[:start] == POISON).all() and (around[start + given.size :] == POISON).all()
    assert kept_workspaces() == 0  # nothing came from the process's pool


def test_the_memory_of_a_bounded_dim_serves_every_size() -> None:
    kernel = whole(tl.dim("n", 1, 64))
    given, _ = memory(kernel.workspace_bytes)
    for rows in (1, 63, 64):
        a = np.random.default_rng(rows).random((rows, 9000), "f4")
        np.testing.assert_array_equal(kernel(a, workspace=given), kernel(a))
    assert kernel.workspace_bytes == 64 * 9000 * 4 + 64


def test_what_no_size_bounds_is_found_by_the_kernel_itself() -> None:
    kernel, a = whole(tl.dim("n")), np.ones((9, 9000), "f4")
    assert kernel.workspace_bytes == 0
    np.testing.assert_array_equal(kernel(a, workspace=np.empty(0, "u1")), np.full_like(a, 4.0))


def refusals(kernel: Any, a: Any, out: Any) -> Iterator[tuple[str, Any]]:
    given, around = memory(kernel.workspace_bytes)
    start = given.ctypes.data - around.ctypes.data
    frozen = given.view()
    frozen.flags.writeable = False
    needs = f"a call needs {kernel.workspace_bytes}"
    yield rf"{kernel.workspace_bytes - 1} bytes \(uint8\[{kernel.workspace_bytes - 1}\]\); {needs}", given[:-1]
    yield rf"{needs}, from an address that is a multiple of 64", around[start + 4 : start + 4 + given.size]
    yield rf"{needs}, writable, and this is read-only", frozen
    yield "0 bytes", np.empty(0, "u1")
    yield "contiguous", np.empty(2 * given.size, "u1")[::2]
    yield "holds objects", np.empty(given.size, object)
    yield "takes memory, a buffer", 5
    yield "expected an array", "memory"
    yield "overlap 'A' in memory", a.view("u1").reshape(-1)[: given.size]
    if out is not None:
        yield "overlap 'both' in memory", out.view("u1").reshape(-1)[: given.size]


@pytest.mark.parametrize("with_out", [False, True])
def test_other_memory_is_refused_by_name_and_nothing_is_written(with_out: bool) -> None:
    kernel = in_rows(parallel=False)
    a, out = (memory(48 * 9000 * 4)[0].view("f4").reshape(48, 9000) for _ in range(2))
    a[...], out[...] = 1.0, 7.0
    keywords = {"out": out} if with_out else {}
    for message, given in refusals(kernel, a, out if with_out else None):
        for _ in range(2):
            with pytest.raises(CallError, match=f"^both: workspace=.*{message}"):
                kernel(a, **keywords, workspace=given)
            with pytest.raises(CallError, match=f"^both: workspace=.*{message}"):
                kernel.bind(a, **keywords, workspace=given)
    assert (out == 7.0).all() and (a == 1.0).all()


def test_a_call_with_memory_is_machine_code_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, a = in_rows(parallel=True), np.ones((48, 9000), "f4")
    given, _ = memory(kernel.workspace_bytes)
    kernel(a)

    def careful(*_: Any, **__: Any) -> Any:
        raise AssertionError("the careful path")

    monkeypatch.setattr(Caller, "__call__", careful)
    out = np.empty_like(a)
    for keywords in ({"workspace": given}, {"out": out, "workspace": given}, {"workspace": None}, {"workspace": given, "out": out}):
        assert (kernel(a, **keywords) == 4.0).all()
    assert (kernel.bind(a, out=out, workspace=given)() == 4.0).all()


def test_a_kernel_without_intermediates_takes_any_memory_and_leaves_it() -> None:
    A = tl.placeholder((8,), name="A")
    kernel, given = tl.build(tl.compute((8,), lambda i: A[i] + 1.0, name="B")), np.full(3, POISON, "u1")
    assert kernel.workspace_bytes == 0
    for _ in range(2):
        np.testing.assert_array_equal(kernel(np.zeros(8, "f4"), workspace=given), np.ones(8, "f4"))
    assert (given == POISON).all()


def test_an_operand_may_be_called_workspace() -> None:
    A = tl.placeholder((8,), name="workspace")
    kernel = tl.build(tl.compute((8,), lambda i: A[i] + 1.0, name="B"))
    for _ in range(2):
        np.testing.assert_array_equal(kernel(workspace=np.ones(8, "f4")), np.full(8, 2.0, "f4"))


def test_threads_beyond_those_that_the_memory_suffices_for_do_not_run() -> None:
    """The bound call knows the memory of one thread; then the process gets three."""
    kernel, a = in_rows(parallel=True), np.random.default_rng(3).random((48, 9000), "f4")
    tl.set_threads(1)
    given, around = memory(kernel.workspace_bytes)
    caller = kernel._linked
    invocation = caller.prepared((a,), {"workspace": given})
    tl.set_threads(3)
    np.testing.assert_array_equal(caller.run(invocation), kernel(a))
    start = given.ctypes.data - around.ctypes.data
    assert (around[start + given.size :] == POISON).all()
    with pytest.raises(CallError, match="a call on 3 threads needs"):
        kernel(a, workspace=given)


def test_kernels_of_files_and_views_take_memory(tmp_path: Path) -> None:
    kernel, a = in_rows(parallel=False), np.ones((48, 9000), "f4")
    given, _ = memory(kernel.workspace_bytes)
    kernel.save(tmp_path / "both.tlk")
    again = tl.load(tmp_path / "both.tlk")
    signature = kernel.program.signature
    other = kernel.under(signature.under("other", ("data",), ("result",), (0,)))
    tl.release_workspaces()
    for one in (again, other):
        assert one.workspace_bytes == given.size
        given[...] = POISON
        assert (one(a, workspace=given) == 4.0).all() and (given != POISON).any()
    assert kept_workspaces() == 0


@pytest.mark.extras("torch")
def test_tensors_of_other_libraries_are_memory() -> None:
    import torch

    kernel, a = in_rows(parallel=False), np.ones((48, 9000), "f4")
    given, _ = memory(kernel.workspace_bytes)
    tensor = torch.from_numpy(given)
    for _ in range(2):
        given[...] = POISON
        assert (kernel(a, workspace=tensor) == 4.0).all() and (given != POISON).any()
