"""A kernel as a C function: what a program without Python has in hand.

A kernel is a function of pointers, then of the extents that are known at run time, and gives 0 or the number of an error. Here ctypes
plays the part of the C program. Nothing is checked on this path: shapes and types are those of the declaration, and the caller answers for
them.

    python examples/call_from_c.py
"""

import ctypes
import tempfile
from pathlib import Path

import numpy as np

import tensorlang as tl

n = tl.dim("n")
x, y, alpha = tl.placeholder((n,), name="x"), tl.placeholder((n,), name="y"), tl.placeholder((), name="alpha")
axpy = tl.build(tl.compute((n,), lambda i: alpha[()] * x[i] + y[i], name="result"), name="axpy")
print(axpy.signature)

# The declaration says what to pass: inputs in the order in which they were made, results, extents.
pointer = ctypes.POINTER(ctypes.c_float)
function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, pointer, pointer, ctypes.c_int64)(axpy.address)

size = 1000
xs, ys, result = (ctypes.c_float * size)(*range(size)), (ctypes.c_float * size)(*[1.0] * size), (ctypes.c_float * size)()
status = function(xs, ys, ctypes.c_float(0.5), result, size)
assert status == 0
np.testing.assert_array_equal(np.array(result[:]), 0.5 * np.arange(size, dtype="float32") + 1)
print(f"returned {status}; result[999] = {result[999]}")

# A kernel outlives its process as a file: machine code with a checksum, refused where it does not fit.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "axpy.tlk"
    axpy.save(path)
    again = tl.load(path)
    print(f"{path.name}: {path.stat().st_size} bytes, {again.signature == axpy.signature}")
    one = np.ones(3, "float32")
    np.testing.assert_array_equal(again(one, one, np.float32(2.0)), [3, 3, 3])
