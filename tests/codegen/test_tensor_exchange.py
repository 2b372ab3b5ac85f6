"""Tensors of libraries with DLPack's table of functions: taken in machine code, held while the kernel runs, refused as ever."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from tensorlang.codegen.runtime import exchange
from tensorlang.errors import CallError
from tensorlang.ir.dtype import DTYPES, DType
from tests.codegen import handmade, tables
from tests.codegen.tables import Tensor

a, b = np.arange(16, dtype="f4"), np.linspace(0, 1, 16, dtype="f4")


@pytest.fixture(scope="module")
def add() -> Any:
    """A sum whose entry knows the type."""
    kernel = handmade.add()
    kernel(Tensor(a), b)
    assert kernel._fast
    return kernel


def exported(call: Any) -> int:
    """How many tensors a call took in machine code; all of them were given back."""
    before = tables.made[0]
    call()
    assert tables.alive() == 0
    return tables.made[0] - before


def test_tensors_are_taken_without_a_copy_and_given_back(add: Any) -> None:
    out = Tensor(np.zeros(16, "f4"))
    first = Tensor(a.copy())
    assert exported(lambda: add(first, Tensor(b, offset=64), out=out)) == 3
    np.testing.assert_array_equal(out.array, a + b)
    assert add(first, b, out=out) is out
    first.array[:] = 0
    assert exported(lambda: add(first, Tensor(b, implied=True), out=out)) == 3
    np.testing.assert_array_equal(out.array, b)
    np.testing.assert_array_equal(add(A=Tensor(a), B=b), a + b)


@pytest.mark.parametrize(
    ("tensor", "match"),
    [
        (Tensor(a, (2, 0)), "CPU memory"),
        (Tensor(a, fails=True), "got .*Tensor"),
        (Tensor(a, requires_grad=True), "got .*Tensor"),
        (Tensor(a, negative=True), "read negated; resolve that"),
        (Tensor(a.astype("f8")), "expected dtype float32, got float64"),
        (Tensor(a.astype("i4")), "expected dtype float32, got int32"),
        (Tensor(a[:15]), r"expected shape \(16,\), got \(15,\)"),
        (Tensor(a.reshape(4, 4)), "expected 1 dimensions, got 2"),
    ],
)
def test_a_wrong_tensor_is_named_and_the_output_untouched(add: Any, tensor: Any, match: str) -> None:
    out = np.full(16, 5, "f4")
    with pytest.raises(CallError, match=match):
        add(b, tensor, out=out)
    assert (out == 5).all()
    assert tables.alive() == 0


@pytest.mark.parametrize("tensor", [Tensor(np.repeat(a, 2)[::2]), Tensor(a[::-1].copy()[::-1]), Tensor(a, major=2)])
def test_what_the_entry_does_not_take_goes_the_careful_path(add: Any, tensor: Any) -> None:
    np.testing.assert_array_equal(add(tensor, b), a + b)
    assert tables.alive() == 0


def test_a_read_only_tensor_is_no_output(add: Any) -> None:
    frozen = np.full(16, 5, "f4")
    frozen.flags.writeable = False
    with pytest.raises(CallError, match=r"(?s)'C'.*Tensor|read-only"):
        add(a, b, out=Tensor(frozen))
    assert (frozen == 5).all()
    np.testing.assert_array_equal(add(Tensor(frozen), b), frozen + b)


def test_an_output_tensor_lies_apart_from_the_inputs(add: Any) -> None:
    block = np.arange(40, dtype="f4")
    before = block.copy()
    with pytest.raises(CallError, match="output 'C' overlaps 'A'"):
        add(Tensor(block[:16]), b, out=Tensor(block[8:24]))
    np.testing.assert_array_equal(block, before)
    assert exported(lambda: add(Tensor(block[:16]), b, out=Tensor(block[16:32]))) == 2
    np.testing.assert_array_equal(block[16:32], before[:16] + b)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bfloat16"])
def test_every_type_is_told_by_its_word(dtype: DType) -> None:
    kernel = handmade.copy(16, dtype=str(dtype))
    values = (np.arange(16) % 2).astype(dtype.numpy)
    kernel(Tensor(values))
    assert exported(lambda: np.testing.assert_array_equal(kernel(Tensor(values)), values)) == 1
    others = [other for other in DTYPES if other not in (dtype, "bfloat16")]
    for other in others:
        with pytest.raises(CallError, match="expected dtype"):
            kernel(Tensor(np.zeros(16, other.numpy)))
    assert len({exchange.type_word(each) for each in DTYPES}) == len(DTYPES)


def test_a_failed_kernel_gives_tensors_back() -> None:
    kernel = handmade.vector("fails", handmade.FAILS)
    for _ in range(3):
        with pytest.raises(CallError, match="workspace could not be allocated"):
            kernel(Tensor(a))
        assert tables.alive() == 0


def test_calls_of_tensors_keep_nothing(add: Any) -> None:
    out, first = Tensor(np.zeros(16, "f4")), Tensor(a)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(500):
        add(first, b, out=out)
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    assert tables.alive() == 0


def test_a_class_that_inherits_the_table_is_not_taken_by_it(add: Any) -> None:
    class Derived(Tensor):
        """It may have no memory."""

    np.testing.assert_array_equal(add(Derived(a), b), a + b)
    assert exported(lambda: add(Derived(a), b)) == 0


@pytest.mark.parametrize(
    "odd",
    [None, 3, tables.capsule(b"dltensor"), tables.capsule(table=(ctypes.c_uint64 * 7)(2)), "text"],
    ids=["none", "a number", "a capsule of another name", "a table of another version", "text"],
)
def test_an_odd_table_is_left_alone(add: Any, odd: Any) -> None:
    kind = type("Odd", (handmade.Exporter,), {"__dlpack_c_exchange_api__": odd})
    for _ in range(2):
        np.testing.assert_array_equal(add(kind(a), b), a + b)


def test_random_tensors_mean_the_same_natively_and_carefully() -> None:
    """The two paths agree on what is taken and on what comes out."""
    kernel = handmade.copy("n", 3, dims=("n",))
    kernel(Tensor(np.zeros((1, 3), "f4")))
    taken = 0
    for natively, carefully in handmade.random_calls(kernel, ["f8", "i4"], lambda call, x, out: call(Tensor(x), out=Tensor(out)).array):
        assert natively == carefully
        assert tables.alive() == 0
        taken += isinstance(natively, bytes)
    assert taken > 200


@pytest.mark.extras("torch")
def test_tensors_of_torch_are_taken_by_their_table() -> None:
    import torch

    kernel = handmade.add()
    first, second, out = torch.arange(16.0), torch.linspace(0, 1, 16), torch.zeros(16)
    for _ in range(3):
        assert kernel(first, B=second, out=out) is out
        assert torch.equal(out, first + second)
    assert torch.Tensor in exchange._met
    with pytest.raises(CallError, match="require gradient"):
        kernel(first.requires_grad_(), second, out=out)
    with pytest.raises(CallError, match="read negated"):
        kernel(torch._neg_view(second), second)
    fake = __import__("torch._subclasses.fake_tensor", fromlist=["FakeTensorMode"]).FakeTensorMode()
    with fake:
        ghost = torch.zeros(16)
    with pytest.raises(CallError):
        kernel(ghost, second)
    with pytest.raises(CallError, match="overlaps"):
        kernel(out, second, out=out)
    parameter = torch.nn.Parameter(second, requires_grad=False)
    np.testing.assert_array_equal(kernel(parameter, second), second.numpy() * 2)
