"""Kernels as functions of JAX, inside `jax.jit` too.

With the packages `jax-tvm-ffi` and `apache-tvm-ffi` XLA calls the kernel's machine code; without them it calls back into Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from tensorlang.bridges import tvm_ffi
from tensorlang.bridges.packages import required
from tensorlang.bridges.passing import Passing
from tensorlang.codegen.kernel.kernel import Kernel

_numbers: Final = itertools.count()


def function(kernel: Kernel) -> Callable[..., Any]:
    """A kernel as a function of JAX's arrays on the CPU: its inputs in order, and by keyword dims that no axis of an input is.

    It may be traced and compiled by `jax.jit`, runs once for each element under `jax.vmap`, and has no gradient. Raises `BuildError` where
    JAX is not installed; a call raises `CallError` when it is traced, for shapes and types that the kernel does not take.
    """
    jax = required("jax", "jax")
    passing = Passing.of(kernel)
    direct = not passing.told and all(find_spec(name) for name in ("tvm_ffi", "jax_tvm_ffi"))
    target = f"tensorlang.{next(_numbers)}.{passing.name}"
    if direct:
        required("jax_tvm_ffi", "jax").register_ffi_target(target, tvm_ffi.export(kernel), platform="cpu")
    types = [argument.dtype.numpy for argument in passing.outputs]

    def call(*arrays: Any, **dims: int) -> Any:
        arrays = tuple(map(jax.numpy.asarray, arrays))
        told = [dims[name] for name in passing.told if name in dims]
        shapes = passing.result_shapes([array.shape for array in arrays], [str(array.dtype) for array in arrays], told)
        wanted = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, types, strict=True))
        results = wanted if len(wanted) > 1 else wanted[0]
        if direct:
            return jax.ffi.ffi_call(target, results, vmap_method="sequential")(*arrays)
        return jax.pure_callback(lambda *given: kernel(*map(np.asarray, given), **dims), results, *arrays, vmap_method="sequential")

    return call
