"""Glow: a model is compiled ahead of time to an object, a header and C that need neither Python nor this package."""

import tempfile

import numpy as np

import tensorlang as tl

x, w = tl.placeholder((16,), name="x"), tl.placeholder((10, 16), name="w")
k = tl.reduce_axis(16, name="k")
layer = tl.build(tl.compute((10,), lambda i: tl.max(tl.maximum(x[k] * w[i, k], 0), axis=k), name="scores"), name="layer")

with tempfile.TemporaryDirectory() as folder:
    files = layer.export(folder, formats=("o", "h", "c", "json"))
    for kind, path in files.items():
        print(f"{kind}: {path.name}, {path.stat().st_size} bytes")
    assert "int32_t layer(const float *x, const float *w, float *scores);" in files["h"].read_text()
    assert "malloc" not in files["c"].read_text()

rng = np.random.default_rng(0)
given, weights = rng.standard_normal(16, np.float32), rng.standard_normal((10, 16), np.float32)
np.testing.assert_allclose(layer(given, weights), np.maximum(given * weights, 0).max(1), rtol=1e-6)
