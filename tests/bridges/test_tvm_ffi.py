"""A kernel as a function of tvm-ffi: inputs first, outputs last, no copies; what is wrong is a CallError, and nothing is written."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.bridges import tvm_ffi as bridge

tvm_ffi = pytest.importorskip("tvm_ffi")
pytestmark = pytest.mark.extras("tvm_ffi")

rng = np.random.default_rng(0)


def product(m: Any = 8, n: int = 7, k: int = 5, dtype: str = "float32") -> Any:
    return tl.ops.matmul(tl.placeholder((m, k), dtype, name="A"), tl.placeholder((k, n), dtype, name="B"), name="C")


def operands(m: int = 8) -> list[Any]:
    return [rng.random((m, 5), np.float32), rng.random((5, 7), np.float32), np.zeros((m, 7), np.float32)]


def passed(*values: Any) -> list[Any]:
    return [tvm_ffi.from_dlpack(value) if isinstance(value, np.ndarray) else value for value in values]


def test_outputs_are_written_in_place() -> None:
    a, b, c = operands()
    assert bridge.export(kernels.compile(product()))(*passed(a, b, c)) is None
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_arguments_are_in_the_callers_order_and_constants_are_not_among_them() -> None:
    B = tl.placeholder((5, 7), name="B")
    kernel = kernels.compile(tl.ops.matmul(tl.placeholder((8, 5), name="A"), B))
    a, b, c = operands()
    bridge.export(kernel)(*passed(b, a, c))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    c[...] = 0
    bridge.export(kernel.prepack(B=b))(*passed(a, c))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_one_function_serves_every_size_within_the_bounds() -> None:
    call = bridge.export(kernels.compile(product(tl.dim("n", 1, 64))))
    for size in (1, 7, 64):
        a, b, c = operands(size)
        call(*passed(a, b, c))
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    with pytest.raises(tl.CallError, match="argument 'n': an extent is outside its bounds"):
        call(*passed(*operands(65)))


def test_what_a_kernel_does_not_take_is_a_call_error_and_nothing_is_written() -> None:
    call = bridge.export(kernels.compile(product()))
    a, b, c = operands()
    room = np.zeros(120, np.float32)
    inside = room[:40].reshape(8, 5)
    for arguments, message in (
        ((a, b), "expected 3 tensors, inputs first, outputs last: A, B, C"),
        ((a, b, c, c), "expected 3 tensors"),
        ((a, b, 3), "argument 'C': a DLTensor is null"),
        ((a, b, None), "argument 'C': a DLTensor is null"),
        ((a.astype("f8"), b, c), "argument 'A': .* of another type or rank"),
        ((a, b[:, :6], c), "argument 'B': .* another shape"),
        ((a, b, np.zeros((7, 8), "f4").T), "argument 'C': .* lies otherwise in memory"),
        ((inside, b, room[16:72].reshape(8, 7)), "argument 'C': an output overlaps another argument"),
    ):
        with pytest.raises(tl.CallError, match=message):
            call(*passed(*arguments))
    assert not c.any() and not room.any()


def test_outputs_lie_apart_from_each_other() -> None:
    X = tl.placeholder((6,), name="x")
    call = bridge.export(kernels.compile(tl.compute((6,), lambda i: (X[i] + 1.0, X[i] * 2.0), name="both")))
    x, room = rng.random(6, np.float32), np.zeros(12, np.float32)
    call(*passed(x, room[:6], room[6:]))
    np.testing.assert_array_equal(room, np.concatenate([x + 1, x * 2]))
    with pytest.raises(tl.CallError, match="overlaps"):
        call(*passed(x, room[:6], room[5:11]))


def test_a_function_outlives_its_kernel_and_is_called_from_many_threads() -> None:
    call = bridge.export(kernels.compile(product(33, 29, 31), threads=1))
    a, b = rng.random((33, 31), np.float32), rng.random((31, 29), np.float32)
    wrong = []

    def work() -> None:
        c = np.zeros((33, 29), np.float32)
        arguments = passed(a, b, c)
        for _ in range(200):
            c[...] = 0
            call(*arguments)
            if not np.allclose(c, a @ b, rtol=1e-4):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_dim_that_no_tensor_shows_is_refused() -> None:
    n = tl.dim("n")
    X = tl.placeholder((8,), name="x")
    k = tl.reduce_axis(n, name="k")
    total = tl.compute((), lambda: tl.sum(X[tl.clamp(k, 0, 7)], axis=k), name="total")
    with pytest.raises(tl.BuildError, match="the dim 'n' is no axis of a tensor"):
        bridge.export(tl.build(total))


def test_a_kernel_with_strides_of_its_own_is_refused() -> None:
    with pytest.raises(tl.BuildError, match="lie in C order and apart"):
        bridge.export(kernels.compile(product(), strides={"B": (1, 5)}))
