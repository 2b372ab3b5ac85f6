"""A blur of two stages: where should the first be computed?

Whole in front of the second it is written to memory and read back. Inside the second it is computed again and again. Between the two there
are strips, and a window that slides. The choices are those of Halide (Ragan-Kelley et al., PLDI 2013); every one of them gives the result
that SciPy gives, and they differ in arithmetic, in storage and in what may run in parallel.

    python examples/blur_by_hand.py
"""

import numpy as np
from scipy import ndimage

import tensorlang as tl

H, W = 256, 384
tl.set_threads(1)

X = tl.placeholder((H + 2, W + 2), name="X")
across = tl.compute((H + 2, W), lambda y, x: (X[y, x] + X[y, x + 1] + X[y, x + 2]) / 3, name="across")
blur = tl.compute((H, W), lambda y, x: (across[y, x] + across[y + 1, x] + across[y + 2, x]) / 3, name="blur")

image = np.random.default_rng(0).random((H + 2, W + 2), "float32")
want = ndimage.uniform_filter(image, 3)[1:-1, 1:-1]


def show(title: str, schedule: tl.Schedule, *, parallel: str) -> None:
    """Print a choice: its nest, the storage that it takes, its time once the rows are made of vectors."""
    print(f"\n== {title}\n{schedule}")
    rows = "may" if schedule.can("parallel", parallel) else "may not"
    for stage in schedule.stages():
        schedule.vectorize(schedule.split(f"{stage}.x", 16)[1])
    kernel = tl.build(schedule)
    np.testing.assert_allclose(kernel(image), want, rtol=1e-5)
    microseconds = 1e6 * kernel.time(image, repeats=3).min
    print(f"{kernel.workspace_bytes} bytes on the heap, {microseconds:.0f} us in vectors; {parallel} {rows} run in parallel")


# As it is defined: all of `across`, then all of `blur`. Nothing is computed twice, all of it goes through memory.
s = tl.Schedule(blur)
show("root", s, parallel="blur.y")

# Written into its uses: no storage, and every element of `across` is computed three times.
s = tl.Schedule(blur)
s.compute_inline("across")
show("inlined", s, parallel="blur.y")

# For a strip of eight rows at a time: ten rows of `across` for eight of `blur`, small enough for the nearest cache.
s = tl.Schedule(blur)
strip, row = s.split("blur.y", 8)
s.compute_at("across", strip)
show("strips", s, parallel=strip)

# Computed row by row, stored outside the rows: what a row needs of the rows before it is there already, only one row is new.
# Now each row needs the one before, so they cannot run in parallel. Three rows of storage, used in turn, are enough.
s = tl.Schedule(blur)
s.compute_at("across", "blur.y")
s.store_root("across")
s.fold_storage("across", 0, 3)
show("a sliding window", s, parallel="blur.y")

# Both: strips that may run in parallel, and a window that slides in each of them.
s = tl.Schedule(blur)
strip, row = s.split("blur.y", 32)
s.compute_at("across", row)
s.store_at("across", strip)
s.fold_storage("across", 0, 3)
show("a window in each strip", s, parallel=strip)
