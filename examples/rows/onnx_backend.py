"""ONNX: its own interface to backends, `Backend.prepare(model).run(inputs)`; a model as it is written elsewhere becomes a graph."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tensorlang import graph
from tensorlang.bridges.onnx import Backend

rng = np.random.default_rng(0)
w, b, x = (rng.standard_normal(shape).astype("f4") for shape in ((5, 4), (5,), (3, 4)))
nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["y"])]
kind = onnx.TensorProto.FLOAT
inputs, outputs = ([helper.make_tensor_value_info(name, kind, ("n", size))] for name, size in (("x", 4), ("y", 5)))
weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
model = helper.make_model(helper.make_graph(nodes, "layer", inputs, outputs, weights))

print(graph.from_onnx(model))
(found,) = Backend.prepare(model).run([x])
np.testing.assert_allclose(found, np.maximum(x @ w.T + b, 0), rtol=1e-5, atol=1e-6)
