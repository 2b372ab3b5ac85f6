"""A histogram on several threads, none of which waits for another.

`tl.scatter` adds to the element that data names. Two values may name the same one, so iterations cannot simply run in parallel, and the
schedule says so. `rfactor` gives each block of values a histogram of its own and adds these up.

    python examples/histogram.py
"""

import numpy as np

import tensorlang as tl

N, BINS = 2_000_000, 64

data = tl.placeholder((N,), name="data")
r = tl.reduce_axis(N, name="r")
empty = tl.compute((BINS,), lambda i: tl.cast(0, "int64"), name="empty")
counts = tl.scatter(empty, r, lambda r: tl.cast(tl.clamp(data[r] * BINS, 0, BINS - 1), "int64"), lambda r: 1, name="counts")

values = np.random.default_rng(0).beta(2, 5, N).astype("float32")
want, _ = np.histogram(values, bins=BINS, range=(0, 1))

s = tl.Schedule(counts)
plain = tl.build(s)
np.testing.assert_array_equal(plain(values), want)

refused = s.can("parallel", "counts.r").error
assert refused is not None
print(f"parallel over the values is refused: {refused.reason}\n")

block, inside = s.split("counts.r", N // 8)
s.rfactor(block)
s.parallel("counts_rf.r_o")
print(s)
shared = tl.build(s)
np.testing.assert_array_equal(shared(values), want)

print()
for kernel, title in ((plain, "one histogram"), (shared, f"eight histograms, {tl.get_threads()} threads")):
    print(f"{title}: {1e3 * kernel.time(values, repeats=3).min:.2f} ms")
scale = 50 / want.max()
for start in range(0, BINS // 2, 4):
    print(f"{start / BINS:6.3f} {'#' * round(scale * want[start : start + 4].mean())}")
