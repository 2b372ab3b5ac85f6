"""Small models of ONNX, written node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper: Any = onnx.helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def arrays(values: Any) -> list[np.ndarray]:
    return [onnx.numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else np.asarray(one) for one in values]


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any], opset: int = 20) -> Any:
    given = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    held = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    return helper.make_model(helper.make_graph(nodes, "net", given, made, held), opset_imports=[helper.make_opsetid("", opset)])
