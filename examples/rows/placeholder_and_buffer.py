"""Placeholders and pointers: an operand that a call passes, or an array that a kernel is bound to, read anew at each call."""

import numpy as np

import tensorlang as tl

table = np.array([1.0, 2.0, 4.0], "float32")
held, passed = tl.buffer(table, name="held"), tl.placeholder((3,), name="passed")
kernel = tl.build(tl.compute((3,), lambda i: held[i] + passed[i], name="both"))
ones = np.ones(3, "float32")
print(kernel(ones))
np.testing.assert_array_equal(kernel(ones), table + 1)
table[0] = 10  # nothing is compiled again
print(kernel(ones))
np.testing.assert_array_equal(kernel(ones), table + 1)
