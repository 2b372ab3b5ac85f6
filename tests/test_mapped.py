"""Pages of a file are given back and read again; memory that has no file is left alone. Constants that stay are not copied."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph import Builder, Graph
from tensorlang.graph.ir import Array
from tensorlang.graph.passes import fold_constants, folding
from tensorlang.system.mapped import Room, give_back, give_back_freed, in_pages

N, K = 96, 200


@pytest.fixture
def weight(tmp_path: Path) -> Path:
    np.save(tmp_path / "weight.npy", np.random.default_rng(0).random((N, K), np.float32))
    return tmp_path / "weight.npy"


def test_what_is_given_back_is_read_again(weight: Path) -> None:
    array, want = np.load(weight, mmap_mode="r"), np.load(weight)
    for view in (array, array[3:5], array.T, np.asarray(array)[::2, 5:], array[:, 7]):
        assert give_back(view)
        np.testing.assert_array_equal(array, want)


def test_memory_that_could_be_written_to_is_left_alone(weight: Path) -> None:
    changed = np.load(weight, mmap_mode="c")
    changed[0, 0] = 7
    fixed = changed.view()
    fixed.flags.writeable = False
    plain = np.ones((N, K))
    for array in (changed, fixed, plain, plain[:0], np.float32(3), np.load(weight, mmap_mode="r")[::-1]):
        assert not give_back(np.asarray(array))
    assert changed[0, 0] == 7 and plain.sum() == N * K


@pytest.mark.skipif(not Path("/proc/self/statm").exists() or not give_back_freed(), reason="no glibc, or nobody who tells pages")
def test_what_was_freed_is_given_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    blocks = [bytearray(64 << 10) for _ in range(512)]  # small enough to come from the heap
    kept = bytearray(64 << 10)
    full = resident()
    del blocks
    give_back_freed()
    assert full - resident() > 16 << 20 and len(kept) == 64 << 10


def test_a_constant_that_cannot_be_written_to_is_not_copied(weight: Path) -> None:
    table = np.load(weight, mmap_mode="r")
    b = Builder("rows")
    g = b.finish(b("embedding", b.input((5,), "int64", name="i"), b.constant(table, "table")))
    compiled = g.compile(threads=1)
    (bound,) = compiled.kernels[0].program.bound.values()
    assert np.shares_memory(bound, table)
    np.testing.assert_array_equal(compiled(np.arange(5))[0], table[:5])


def test_a_transposed_weight_is_packed_from_where_it_lies(weight: Path) -> None:
    """The same elements in the same order, of memory in another order, give the same kernel's operand."""
    spec, x = kernels.Spec("matmul", ((64, K), (K, N))), np.random.default_rng(1).random((64, K), np.float32)
    turned = np.load(weight, mmap_mode="r").T
    one, other = (kernels.compile(spec, constants={"B": array}, threads=1) for array in (turned, np.ascontiguousarray(turned)))
    (first,), (second,) = (kernel.program.bound.values() for kernel in (one, other))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(one(x), x @ turned, rtol=1e-4)


def test_a_folded_view_of_a_large_weight_stays_where_it_lies(weight: Path) -> None:
    table = np.load(weight, mmap_mode="r")
    b = Builder("turned")
    x = b.input((3, K), name="x")
    g = fold_constants(b.finish(b("matmul", x, b("permute", b.constant(table, "w"), dims=(1, 0)))))
    (constant,) = g.constants
    assert np.shares_memory(constant.array, table)
    given = np.ones((3, K), np.float32)
    compiled = g.compile(threads=1)
    np.testing.assert_allclose(compiled(given)[0], given @ table.T, rtol=1e-4)
    compiled.load_weights({constant.value.name: np.ascontiguousarray(table.T * 2)})
    np.testing.assert_allclose(compiled(given)[0], 2 * given @ table.T, rtol=1e-4)
    np.testing.assert_allclose(compiled.graph.run(given)[0], 2 * given @ table.T, rtol=1e-4)


def test_a_view_of_what_can_be_written_to_is_fixed_as_it_was() -> None:
    """Of vectors nothing is packed; a read-only view says nothing of who else writes there."""
    w, x = np.ones(9, np.float32), np.ones(9, np.float32)
    fixed = w.view()
    fixed.flags.writeable = False
    read, other = tl.placeholder((9,), name="X"), tl.placeholder((9,), name="W")
    kernel = kernels.compile(tl.compute((9,), lambda i: read[i] + other[i]), constants={"W": fixed})
    w[:] = 5
    np.testing.assert_array_equal(kernel(x), x + 1)


def test_a_constant_array_that_is_written_to_later_is_packed_as_it_was() -> None:
    b, x = np.ones((K, N), np.float32), np.ones((64, K), np.float32)
    kernel = kernels.compile(kernels.Spec("matmul", (x.shape, b.shape)), constants={"B": b}, threads=1)
    b[:] = 0
    np.testing.assert_allclose(kernel(x), np.full((64, N), float(K)), rtol=1e-5)


def test_a_room_holds_arrays_in_a_file_that_goes_with_them(tmp_path: Path) -> None:
    arrays = [
        np.arange(count, dtype=dtype).reshape(shape) for count, dtype, shape in ((6, "f4", (2, 3)), (4097, "i1", (-1,)), (0, "f8", (0,)))
    ]
    room = Room(tmp_path / "new", sum(in_pages(array.nbytes) for array in arrays))
    moved = [room.moved(array) for array in arrays]
    del room
    for array, wanted in zip(moved, arrays, strict=True):
        assert give_back(array) == bool(array.size)
        np.testing.assert_array_equal(array, wanted)
        assert array.dtype == wanted.dtype and not array.flags.writeable
    assert not list((tmp_path / "new").iterdir())


def scaled(rows: int) -> tuple[Graph, Array, Array]:
    """A large weight whose rows are scaled by constants."""
    w, s = np.random.default_rng(2).random((rows, 512), np.float32), np.random.default_rng(3).random((rows, 1), np.float32)
    b = Builder("scaled")
    return b.finish(b("linear", b.input((3, 512), name="x"), b("mul", b.constant(w, "w"), b.constant(s, "s")))), w, s


@pytest.mark.parametrize("rows", [2100, 9000])  # by the evaluator, by a kernel
def test_what_is_folded_goes_to_a_file_and_is_packed_from_there(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_CACHE", str(tmp_path))
    g, w, s = scaled(rows)
    folded = fold_constants(g)
    (constant,) = folded.constants
    assert give_back(constant.array)
    np.testing.assert_allclose(constant.array, w * s, rtol=1e-6)
    x = np.random.default_rng(4).random((3, 512), np.float32)
    np.testing.assert_allclose(folded.compile(threads=1)(x)[0], x @ (w * s).T, rtol=1e-4)


def test_what_is_folded_stays_in_memory_where_no_file_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g, w, s = scaled(2100)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    def folded() -> Array:
        (constant,) = fold_constants(g).constants
        assert not give_back(constant.array)
        return constant.array

    monkeypatch.setenv("TENSORLANG_CACHE", "off")
    np.testing.assert_allclose(folded(), w * s, rtol=1e-6)
    monkeypatch.setenv("TENSORLANG_CACHE", str(tmp_path))
    for call in ("pwrite", "posix_fallocate"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            np.testing.assert_allclose(folded(), w * s, rtol=1e-6)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENSORLANG_CACHE", str(tmp_path / "file"))
    np.testing.assert_allclose(folded(), w * s, rtol=1e-6)
    assert w.nbytes > folding.FILED
