"""A kernel in a program without Python: exported as an object, a header and C source, linked by a C compiler, or called through ctypes.

The plain entry takes pointers, then the extents that are known at run time, and gives 0 or the number of an error. It checks extents and
pointers; shapes are those of the declaration, and the caller answers for them.

    python examples/call_from_c.py
"""

import ctypes
import shutil
import subprocess
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

MAIN = """
#include <stdio.h>
#include "axpy.h"
int main(void) {
  float x[3] = {1, 2, 3}, y[3] = {1, 1, 1}, alpha = 0.5f, result[3];
  int status = axpy(x, y, &alpha, result, 3);
  printf("from C: %d, %g %g %g\\n", status, result[0], result[1], result[2]);
  return axpy(0, y, &alpha, result, 3) != TENSORLANG_BAD_POINTER;
}
"""

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    axpy.export(folder, formats=("o", "h", "c", "json"))
    print(*sorted(path.name for path in folder.iterdir()))
    if shutil.which("cc"):
        (folder / "main.c").write_text(MAIN)
        for code in ("axpy.o", "axpy.c"):  # machine code for this processor, or source for any
            subprocess.run(["cc", "-std=c99", "main.c", code, "-o", "main", "-lm"], cwd=folder, check=True)
            subprocess.run([folder / "main"], check=True)

    # A kernel outlives its process as a file too; another processor, or another version, builds it again from what the file says.
    axpy.save(folder / "axpy.tlk")
    again = tl.load(folder / "axpy.tlk")
    print(f"axpy.tlk: {(folder / 'axpy.tlk').stat().st_size} bytes, {again.signature == axpy.signature}")
    one = np.ones(3, "float32")
    np.testing.assert_array_equal(again(one, one, np.float32(2.0)), [3, 3, 3])
