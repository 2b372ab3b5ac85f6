"""A matrix product scheduled by hand, one step at a time, with the loop nest after each.

The definition never changes, and neither does the result: each schedule below is compiled, compared with NumPy and timed. What changes is
the order in which the same multiply-adds are made.

    python examples/matmul_by_hand.py
"""

import numpy as np

import tensorlang as tl

M, N, K = 192, 256, 128
tl.set_threads(1)

A, B = tl.placeholder((M, K), name="A"), tl.placeholder((K, N), name="B")
k = tl.reduce_axis(K, name="k")
C = tl.compute((M, N), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C")

a, b = np.random.default_rng(0).random((M, K), "float32"), np.random.default_rng(1).random((K, N), "float32")


def show(title: str, schedule: tl.Schedule) -> None:
    """Print a step, compile it, compare it with NumPy, time it."""
    multiply = tl.build(schedule)
    np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-4)
    speed = 2e-9 * M * N * K / multiply.time(a, b, repeats=3).min
    print(f"\n== {title}: {speed:.1f} GFLOP/s\n{schedule}")


# What the definition means: for each element, one product after another. Each addition waits for the one before it.
s = tl.Schedule(C)
show("the plain nest", s)

# With j innermost, neighbouring elements of a row of B meet neighbouring elements of C: a vector at a time.
s = tl.Schedule(C)
j_o, j_i = s.split("C.j", 32)
s.reorder("C.i", j_o, "C.k", j_i)
s.vectorize(j_i)
show("vectors along the rows", s)

# The row of C that k adds to is loaded and stored for every k. Keep it in registers while k runs.
s.accumulate("C", at=j_o)
show("a row of C in registers", s)

# A vector of B that is loaded once can serve several rows of C. Four rows by 32 columns fit the registers.
s = tl.Schedule(C)
i_o, j_o, i_i, j_i = s.tile("C.i", "C.j", 4, 32)
s.reorder(i_o, j_o, "C.k", i_i, j_i)
s.accumulate("C", at=j_o)
s.vectorize(j_i)
s.unroll(i_i)
show("a tile of C in registers", s)

# What a tile reads of B lies in K rows, N elements apart. Copy it side by side, once for all tiles below each other.
s = tl.Schedule(C)
i_o, j_o, i_i, j_i = s.tile("C.i", "C.j", 4, 32)
s.reorder(j_o, i_o, "C.k", i_i, j_i)
s.pack("B", at=j_o)
s.accumulate("C", at=i_o)
s.vectorize("B_pack.j_i")
s.vectorize("C.j_i")
s.unroll("C.i_i")
show("panels of B packed", s)

# The steps are data: they print as the Python that makes them, and are replayed from JSON anywhere.
print(f"\n{s!r}")
assert str(tl.Schedule.from_json(C, s.to_json())) == str(s)
