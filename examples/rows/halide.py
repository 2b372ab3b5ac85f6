"""Halide: what is computed and when are two things; a blur whose first stage is computed in a window of each row of tiles."""

import numpy as np

import tensorlang as tl

N = 66
image = tl.placeholder((N, N), name="image")
across = tl.compute((N, N - 2), lambda y, x: (image[y, x] + image[y, x + 1] + image[y, x + 2]) / 3, name="across")
blur = tl.compute((N - 2, N - 2), lambda y, x: (across[y, x] + across[y + 1, x] + across[y + 2, x]) / 3, name="blur")

s = tl.Schedule(blur)
outer, _ = s.split("blur.y", 16)
s.compute_at("across", outer)
s.vectorize(s.split("blur.x", 8)[1])
s.parallel(outer)
print(s)

a = np.random.default_rng(0).random((N, N), np.float32)
rows = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) / 3
np.testing.assert_allclose(tl.build(s)(a), (rows[:-2] + rows[1:-1] + rows[2:]) / 3, rtol=1e-5)
