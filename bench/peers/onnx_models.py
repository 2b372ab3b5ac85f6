"""The operators as ONNX models: what ONNX Runtime and OpenVINO are given. Operands that stay are initializers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from bench.peers import plain
from bench.peers.workload import Array, Workload

OPSET: Final = 20
IR: Final = 9


class Model:
    """A graph under construction; `add` gives the name of what a node makes."""

    def __init__(self, workload: Workload, operands: Sequence[Array]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.names = [f"operand{place}" for place in range(len(operands))]
        for place in workload.constants:
            self.constant(operands[place], self.names[place])

    def constant(self, array: Array, name: str = "") -> str:
        """An initializer."""
        from onnx import helper  # noqa: PLC0415 - an optional peer

        name = name or f"constant{len(self.constants)}"
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.constants.append(helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        return name

    def add(self, operator: str, *inputs: str | float, **attributes: Any) -> str:
        """A node with one result; numbers among the inputs become float32 constants."""
        from onnx import helper  # noqa: PLC0415 - an optional peer

        given = [part if isinstance(part, str) else self.constant(np.array(part, "float32")) for part in inputs]
        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, given, [name], **attributes))
        return name


def convolution(model: Model, workload: Workload) -> str:
    """Dense, or with a group for each channel; of bytes, to int32."""
    pad, stride = workload.attributes["padding"], workload.attributes["stride"]
    groups = workload.shapes[0][1] if workload.operator == "depthwise" else 1
    return model.add("ConvInteger" if workload.in_bytes else "Conv", *model.names, pads=[pad] * 4, strides=[stride] * 2, group=groups)


def other_convolution(model: Model, workload: Workload) -> str:
    """Grouped, dilated, transposed, of one dimension."""
    at, rank = workload.attributes, len(workload.shapes[0]) - 2
    kind = "ConvTranspose" if workload.operator == "convolution_transposed" else "Conv"
    dilations, strides, pads = ([at.get(name, 1)] * rank for name in ("dilation", "stride", "padding"))
    return model.add(kind, *model.names, pads=pads * 2, strides=strides, dilations=dilations, group=at.get("groups", 1))


def matmul(model: Model, workload: Workload) -> str:
    """Of floating point numbers or of bytes."""
    return model.add("MatMulInteger" if workload.types[0] == "uint8" else "MatMul", *model.names)


def chain(model: Model, _: Workload) -> str:
    """Four operations on each element."""
    (x,) = model.names
    return model.add("Mul", model.add("Relu", model.add("Add", model.add("Mul", x, 1.5), 0.25)), x)


def attention(model: Model, workload: Workload) -> str:
    """Two products around a softmax."""
    q, k, v = model.names
    turned = model.add("Transpose", k, perm=[0, 1, 3, 2])
    scores = model.add("Mul", model.add("MatMul", q, turned), 1 / math.sqrt(workload.shapes[0][-1]))
    return model.add("MatMul", model.add("Softmax", scores, axis=-1), v)


OPERATORS: Final[Mapping[str, Callable[[Model, Workload], str]]] = {
    "matmul": matmul,
    "add": lambda model, _: model.add("Add", *model.names),
    "transpose": lambda model, _: model.add("Transpose", *model.names, perm=[1, 0]),
    "conv2d": convolution,
    "depthwise": convolution,
    "convolution": other_convolution,
    "convolution_transposed": other_convolution,
    "convolution_1d": other_convolution,
    "softmax": lambda model, _: model.add("Softmax", *model.names, axis=-1),
    "layer_norm": lambda model, _: model.add("LayerNormalization", *model.names, axis=-1, epsilon=plain.EPSILON),
    "gelu": lambda model, _: model.add("Gelu", *model.names),
    "chain": chain,
    "attention": attention,
}


def model_of(workload: Workload, operands: Sequence[Array], shape: tuple[int, ...], kind: str) -> bytes:
    """The model, whose result has this shape and type."""
    from onnx import helper  # noqa: PLC0415 - an optional peer

    model = Model(workload, operands)
    result = OPERATORS[workload.operator](model, workload)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for place, (name, array) in enumerate(zip(model.names, operands, strict=True))
        if place not in workload.constants
    ]
    output = helper.make_tensor_value_info(result, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
    graph = helper.make_graph(model.nodes, workload.operator, inputs, [output], model.constants)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    serialised: bytes = whole.SerializeToString()
    return serialised
