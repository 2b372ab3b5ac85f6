"""nGraph: a backend says whether it supports a node, with the reason, compiles it, saves it and loads it."""

import tempfile
from pathlib import Path

import numpy as np

import tensorlang as tl
from tensorlang import kernels

wrong = kernels.supports(kernels.Spec("conv2d", ((1, 8, 9, 9), (16, 7, 3, 3))))
assert not wrong
print(wrong.reason)

spec = kernels.Spec("relu", ((3, 4),))
assert kernels.supports(spec)
x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
with tempfile.TemporaryDirectory() as folder:
    kernel = tl.build(tl.ops.relu(tl.placeholder((3, 4))))
    kernel.save(Path(folder) / "relu.tlk")
    loaded = tl.load(Path(folder) / "relu.tlk")
assert np.array_equal(loaded(x), kernels.compile(spec)(x))
