"""A kernel as a function of JAX gives what the kernel gives, compiled or not, by XLA's call or by Python's."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.bridges import jax as bridge

jax = pytest.importorskip("jax")

pytestmark = [pytest.mark.extras("jax"), pytest.mark.filterwarnings("ignore")]  # JAX's own


@pytest.fixture(params=["direct", "callback"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "direct" and not all(map(importlib.util.find_spec, ("tvm_ffi", "jax_tvm_ffi"))):
        pytest.skip("jax-tvm-ffi is not installed")
    if request.param == "callback":
        monkeypatch.setattr("tensorlang.bridges.jax.find_spec", lambda name: None)
    return str(request.param)


def product(m: Any = 8, n: int = 7, k: int = 5) -> Any:
    return tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"))


@pytest.mark.usefixtures("way")
def test_a_function_runs_by_itself_and_inside_what_jax_compiles() -> None:
    call = bridge.function(kernels.compile(product(tl.dim("n", 1, 64))))
    compiled = jax.jit(lambda a, b: jax.numpy.tanh(call(a * 2, b)) + 1)
    rng = np.random.default_rng(0)
    for size in (8, 3):
        a, b = rng.random((size, 5), np.float32), rng.random((5, 7), np.float32)
        np.testing.assert_allclose(call(a, b), a @ b, rtol=1e-5)
        np.testing.assert_allclose(compiled(a, b), np.tanh(2 * a @ b) + 1, rtol=1e-5)


@pytest.mark.usefixtures("way")
def test_several_outputs_are_a_tuple_and_vmap_runs_once_for_each() -> None:
    X = tl.placeholder((6,), name="x")
    call = bridge.function(kernels.compile(tl.compute((6,), lambda i: (X[i] + 1.0, X[i] * 2.0), name="both")))
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for found in (jax.vmap(call)(x), jax.jit(jax.vmap(call))(x)):
        np.testing.assert_array_equal(found[0], x + 1)
        np.testing.assert_array_equal(found[1], x * 2)


def test_what_a_kernel_does_not_take_is_a_call_error_when_it_is_traced() -> None:
    call = bridge.function(kernels.compile(product()))
    with pytest.raises(tl.CallError, match=r"argument 'B': expected float32\[5, 7\], got float32\[5, 6\]"):
        jax.jit(call)(np.ones((8, 5), "f4"), np.ones((5, 6), "f4"))
    with pytest.raises(tl.CallError, match="expected 2 inputs, got 1"):
        call(np.ones((8, 5), "f4"))
    call = bridge.function(kernels.compile(product(tl.dim("n", 1, 64))))
    for asked in (call, jax.jit(call)):
        with pytest.raises(tl.CallError, match="the dim n is from 1 to 64, and not 65"):
            asked(np.ones((65, 5), "f4"), np.ones((5, 7), "f4"))
