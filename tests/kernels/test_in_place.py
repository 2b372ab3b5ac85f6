"""Results over operands: what is said to be read in time is, whatever the schedule; what is not is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.errors import BuildError, CallError, DefinitionError
from tensorlang.schedules.legality.in_place import overwritten
from tensorlang.schedules.schedule import Schedule
from tests.codegen.tables import Tensor

SPECS = {
    "relu": (kernels.Spec("relu", ((33, 50),)), "x"),
    "gelu": (kernels.Spec("gelu", ((5, 7, 9),)), "x"),
    "softmax": (kernels.Spec("softmax", ((33, 50),)), "x"),
}


def values(shape: tuple[int, ...], seed: int = 0) -> Any:
    """Numbers of both signs."""
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("level", ["O0", "default"])
@pytest.mark.parametrize("name", ["relu", "gelu", "softmax"])
def test_in_place_is_what_it_is_apart(name: str, level: str) -> None:
    spec, operand = SPECS[name]
    apart, kernel = kernels.compile(spec, level=level), kernels.compile(spec, level=level, over={name: operand})
    x = values(tuple(int(str(extent)) for extent in spec.shapes[0] or ()))
    expected = apart(x)
    for make in (np.array, np.array, lambda array: Tensor(np.array(array))):
        held = make(x)
        assert kernel(held, out=held) is held
        np.testing.assert_array_equal(getattr(held, "array", held), expected)
    np.testing.assert_array_equal(kernel(x), expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_write_in_place(threads: int) -> None:
    before = tl.get_threads()
    tl.set_threads(threads)
    try:
        x = values((700, 600))
        kernel = kernels.compile(kernels.Spec("softmax", ((700, 600),)), over={"softmax": "x"}, threads=threads)
        expected = kernel(x)
        kernel(x, out=x)
        np.testing.assert_array_equal(x, expected)
    finally:
        tl.set_threads(before)


def test_a_call_in_place_runs_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernels.compile(kernels.Spec("relu", ((33, 50),)), over={"relu": "x"})
    x = values((33, 50))
    expected = kernel(x)
    with monkeypatch.context() as patched:
        patched.setattr(Caller, "__call__", lambda *_, **__: pytest.fail("a careful call"))
        kernel(x, out=x)
    np.testing.assert_array_equal(x, expected)


def test_what_overlaps_otherwise_is_refused() -> None:
    """At another place, over another operand, or where nobody said so: outputs are untouched."""
    A, B = tl.placeholder((40,), name="A"), tl.placeholder((40,), name="B")
    kernel = kernels.compile(tl.compute((40,), lambda i: A[i] - 2.0 * B[i], name="C"), over={"C": "A"})
    block, b = values((120,)), values((40,), 1)
    before = block.copy()
    for _ in range(2):
        for first, second, out in (
            (block[:40], b, block[1:41]),
            (block[1:41], b, block[:40]),
            (b, block[:40], block[:40]),
            (block[:40], block[:40], block[:40]),
        ):
            with pytest.raises(CallError, match="overlaps"):
                kernel(first, second, out=out)
        np.testing.assert_array_equal(block, before)
    kernel(block[:40], b, out=block[:40])
    np.testing.assert_array_equal(block[:40], before[:40] - np.float32(2) * b)
    plain = kernels.compile(kernels.Spec("relu", ((40,),)))
    with pytest.raises(CallError, match="overlaps"):
        plain(b, out=b)


def test_in_place_with_rows_apart() -> None:
    kernel = kernels.compile(kernels.Spec("softmax", ((6, 10),)), strides={"x": (30, 1), "softmax": (30, 1)}, over={"softmax": "x"})
    whole = values((6, 30))
    before = whole.copy()
    kernel(whole[:, 10:20], out=whole[:, 10:20])
    np.testing.assert_allclose(whole[:, 10:20], kernels.compile(kernels.Spec("softmax", ((6, 10),)))(before[:, 10:20]), rtol=1e-6)
    whole[:, 10:20] = before[:, 10:20]
    np.testing.assert_array_equal(whole, before)


def test_a_saved_kernel_may_still_write_in_place(tmp_path: Path) -> None:
    kernel = kernels.compile(kernels.Spec("relu", ((33, 50),)), over={"relu": "x"})
    kernel.save(tmp_path / "k.tlk")
    loaded, x = tl.load(tmp_path / "k.tlk"), values((33, 50))
    expected = np.maximum(x, 0)
    assert loaded(x, out=x) is x
    np.testing.assert_array_equal(x, expected)
    assert "over x" in str(loaded.program.signature)


@pytest.mark.parametrize(
    ("shift", "legal"),
    [(0, True), (1, True), (2, True), (-1, False), (-2, False)],
)
def test_a_neighbour_may_be_read_until_it_is_overwritten(shift: int, legal: bool) -> None:
    """`C[i]` reads `A[i + shift]` in order of `i`: against NumPy where it is legal, refused where it is not."""
    A = tl.placeholder((20,), name="A")
    C = tl.compute(
        (20,), lambda i: tl.select((i + shift >= 0) & (i + shift < 20), A[tl.minimum(tl.maximum(i + shift, 0), 19)], 0.0) + A[i], name="C"
    )
    if not legal:
        with pytest.raises(BuildError, match=r"cannot write 'C' over 'A': .* may be written before it is read"):
            kernels.compile(C, level="O0", over={"C": "A"})
        return
    kernel, apart, a = kernels.compile(C, level="O0", over={"C": "A"}), kernels.compile(C, level="O0"), values((20,))
    expected = apart(a)
    kernel(a, out=a)
    np.testing.assert_array_equal(a, expected)


def test_the_proof_follows_the_schedule() -> None:
    """A row may be read before it is written; in the other order of loops, or with iterations at once, it is not."""
    A = tl.placeholder((16, 16), name="A")
    C = tl.compute((16, 16), lambda i, j: A[i, j] + tl.select(i < 15, A[tl.minimum(i + 1, 15), j], 0.0), name="C")
    plain = Schedule(C)
    assert overwritten(plain.nest, "C", "A") is None
    parallel = Schedule(C)
    parallel.parallel("i")
    assert overwritten(parallel.nest, "C", "A") is not None
    swapped = Schedule(C)
    swapped.reorder("j", "i")
    assert overwritten(swapped.nest, "C", "A") is None
    columns = Schedule(C)
    columns.parallel("j")
    assert overwritten(columns.nest, "C", "A") is None
    D = tl.compute((16, 16), lambda i, j: A[i, j] + A[j, i], name="D")
    assert overwritten(Schedule(D).nest, "D", "A") is not None


def test_a_product_over_its_operand_and_indices_from_it_are_refused() -> None:
    with pytest.raises(BuildError, match="cannot write 'matmul' over 'A'"):
        kernels.compile(kernels.Spec("matmul", ((130, 130), (130, 130))), over={"matmul": "A"})  # more than registers hold
    A = tl.placeholder((8,), "int32", name="A")
    with pytest.raises(BuildError, match="cannot write 'C' over 'A'"):
        kernels.compile(tl.compute((8,), lambda i: A[tl.minimum(tl.maximum(A[i], 0), 7)], name="C"), over={"C": "A"})


def test_a_result_lies_over_an_operand_by_its_name() -> None:
    for below in (["A"], 3, None, "Q"):
        with pytest.raises(tl.DefinitionError, match="over=: there is no operand "):
            kernels.compile(kernels.Spec("matmul", ((4, 4), (4, 4))), over={"matmul": below})


@pytest.mark.parametrize("given", [{"A": (3, 1)}, {"C": (3, 1)}, {"A": (3, 1), "C": (3, 1)}, {}])
def test_strides_of_c_order_may_be_given_or_not(given: Any) -> None:
    A = tl.placeholder((4, 3), "int8", name="A")
    f = kernels.compile(tl.compute((4, 3), lambda i, j: A[i, j] + 1, name="C"), over={"C": "A"}, strides=given)
    a = np.arange(12, dtype="i1").reshape(4, 3)
    f(a, out=a)
    np.testing.assert_array_equal(a, np.arange(1, 13).reshape(4, 3))


def test_a_product_over_an_operand_is_right_or_refused() -> None:
    """One tile of registers holds the whole of a small product before any of it is written."""
    taken = 0
    for size in (1, 3, 8, 16, 50):
        for operand in ("A", "B"):
            spec, given = kernels.Spec("matmul", ((size, size), (size, size))), {"A": values((size, size)), "B": values((size, size), 1)}
            try:
                kernel = kernels.compile(spec, over={"matmul": operand})
            except BuildError as error:
                assert "may be written before it is read" in str(error)  # noqa: PT017 - either is right
                continue
            expected = given["A"] @ given["B"]
            kernel(**given, out=given[operand])
            np.testing.assert_allclose(given[operand], expected, rtol=1e-4, atol=1e-5)
            taken += 1
    assert 0 < taken < 10


@pytest.mark.parametrize(
    ("over", "match"),
    [
        (3, "over= is a dict"),
        ({"D": "A"}, "no result 'D'"),
        ({"C": "D"}, "no operand 'D'"),
        ({"C": "B"}, "differ in shape"),
    ],
)
def test_what_cannot_lie_over_an_operand_is_refused(over: Any, match: str) -> None:
    A, B = tl.placeholder((8, 4), name="A"), tl.placeholder((4, 8), name="B")
    C = tl.compute((8, 4), lambda i, j: A[i, j] + B[j, i], name="C")
    with pytest.raises(DefinitionError, match=match):
        kernels.compile(C, over=over)
    with pytest.raises(DefinitionError, match="differ in shape"):
        kernels.compile(C, strides={"C": (1, 8)}, over={"C": "A"})


def test_a_result_over_an_operand_that_nothing_reads_is_refused() -> None:
    x, z = tl.placeholder((4,), name="X"), tl.placeholder((4,), name="Z")
    y = tl.compute((4,), lambda i: x[i] + 1, name="Y")
    with pytest.raises(tl.DefinitionError, match="nothing reads 'Z', so that 'Y' may lie there without"):
        kernels.compile(y, inputs=[x, z], over={"Y": "Z"})


@pytest.mark.parametrize("path", ["\0", "\ud800"])
def test_a_database_at_no_path_is_a_log_error(path: str) -> None:
    x = tl.placeholder((4,), name="X")
    with pytest.raises(tl.LogError):
        kernels.compile(tl.compute((4,), lambda i: x[i] + 1, name="Y"), database=path)
