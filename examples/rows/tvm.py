"""TVM: a kernel of ours is a function of its foreign interface, inputs first, outputs last; torch, JAX and TVM call the same symbol."""

import numpy as np
import tvm_ffi

import tensorlang as tl
from tensorlang import kernels
from tensorlang.bridges import tvm_ffi as bridge

A, B = tl.placeholder((8, 5), name="A"), tl.placeholder((5, 7), name="B")
call = bridge.export(kernels.compile(tl.ops.matmul(A, B), inputs=("A", "B")))

rng = np.random.default_rng(0)
a, b, c = rng.random((8, 5), np.float32), rng.random((5, 7), np.float32), np.zeros((8, 7), np.float32)
call(*(tvm_ffi.from_dlpack(array) for array in (a, b, c)))  # no copies: c is written
np.testing.assert_allclose(c, a @ b, rtol=1e-5)
print("tvm-ffi wrote", c.shape)
