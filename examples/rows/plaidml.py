"""PlaidML: a contraction with constraints on its indices; what lies outside of the image is not there, and no padded copy is written."""

import numpy as np
from scipy.signal import correlate2d

import tensorlang as tl

image, window = tl.placeholder((12, 10), name="image"), tl.placeholder((3, 3), name="window")
r, s = tl.reduce_axis(3, name="r"), tl.reduce_axis(3, name="s")


def inside(y: tl.Expr, x: tl.Expr) -> tl.Expr:
    """The image where it is, else zero."""
    within = (y >= 0) & (y < 12) & (x >= 0) & (x < 10)
    return tl.select(within, image[tl.clamp(y, 0, 11), tl.clamp(x, 0, 9)], 0.0)


filtered = tl.compute((12, 10), lambda y, x: tl.sum(inside(y + r - 1, x + s - 1) * window[r, s], axis=(r, s)), name="filtered")
rng = np.random.default_rng(0)
a, w = rng.standard_normal((12, 10), np.float32), rng.standard_normal((3, 3), np.float32)
kernel = tl.build(filtered)
np.testing.assert_allclose(kernel(a, w), correlate2d(a, w, mode="same"), rtol=1e-4, atol=1e-5)
print(kernel.signature)
