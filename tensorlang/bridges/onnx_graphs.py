"""An ONNX model as a graph: initializers become constants, dims without a number are dims by name.

What exporters write about shapes (`Shape`, `Gather`, `Concat`, ...) reads constants alone and is computed while it is read, so that
`Reshape` and its like know their attributes. A node is translated by the table in `onnx_operators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx_operators import TRANSLATIONS, Call
from tensorlang.bridges.packages import required
from tensorlang.errors import did_you_mean
from tensorlang.graph import Builder, Graph, Origin, Value
from tensorlang.graph.builder import identifier
from tensorlang.graph.passes import dead_code
from tensorlang.graph.passes.folding import evaluated, worth

LEAST_OPSET: Final = 13
"""Since then axes and splits are operands, and softmax is along one axis."""


def graph_of(model: Any) -> Graph:
    """The graph of a `ModelProto`. Raises `GraphError`, naming the node, for what has no translation."""
    onnx = required("onnx", "onnx")
    if not isinstance(model, onnx.ModelProto):
        raise tl.GraphError(f"from_onnx takes an onnx.ModelProto, as onnx.load gives it, not a {type(model).__name__}")
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if opset < LEAST_OPSET:
        raise tl.GraphError(f"the model is of opset {opset}, and at least {LEAST_OPSET} is needed; onnx.version_converter converts it")
    return _Import(onnx, model.graph).graph()


class _Folding(Builder):
    """A graph that grows, in which what reads constants alone is computed when it is added."""

    def node(self, *arguments: Any, **options: Any) -> tuple[Value, ...]:
        """The results of a node, constants where they are known. Raises as a `Builder` does."""
        made = super().node(*arguments, **options)
        node = self.maker(made[0])
        assert node is not None
        arrays = [None if value is None else self.array(value) for value in node.inputs]
        known = [array for array in arrays if array is not None]
        if len(known) < len(node.read) or not worth(node, known):
            return made
        return tuple(self.constant(array, value.name) for array, value in zip(evaluated(node, arrays), made, strict=True))


class _Import:
    """A model that is read, node by node."""

    def __init__(self, onnx: Any, proto: Any) -> None:
        self.onnx, self.proto = onnx, proto
        self.builder = _Folding(proto.name or "model")
        self.held: dict[str, Value] = {}

    def graph(self) -> Graph:
        """All of it."""
        for tensor in self.proto.initializer:
            self.held[tensor.name] = self.builder.constant(self.onnx.numpy_helper.to_array(tensor), tensor.name)
        for entry in self.proto.input:
            if entry.name not in self.held:
                self.held[entry.name] = self.input(entry)
        for node in self.proto.node:
            self.node(node)
        missing = [entry.name for entry in self.proto.output if entry.name not in self.held]
        if missing:
            raise tl.GraphError(f"the output {missing[0]!r} of the model is made by no node")
        return dead_code(self.builder.finish(*(self.held[entry.name] for entry in self.proto.output)))

    def input(self, entry: Any) -> Value:
        """An input of the user."""
        kind = entry.type.tensor_type
        if not entry.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise tl.GraphError(f"the input {entry.name!r} is no tensor of a known number of axes")
        shape = [
            dim.dim_value if dim.HasField("dim_value") else tl.dim(identifier(dim.dim_param or f"{entry.name}_{axis}"))
            for axis, dim in enumerate(kind.shape.dim)
        ]
        try:
            return self.builder.input(shape, self.onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type), entry.name)
        except (tl.DefinitionError, KeyError, TypeError) as error:
            raise tl.GraphError(f"the input {entry.name!r} of the model: {error}") from None

    def node(self, node: Any) -> None:
        """Translate a node."""
        label = f"{node.op_type} {node.name or ', '.join(node.output)}"
        translation = TRANSLATIONS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if translation is None:
            raise tl.GraphError(f"{label}: {node.domain + '.' * bool(node.domain)}{node.op_type} has no translation{self.near(node)}")
        for name in node.input:
            if name and name not in self.held:
                raise tl.GraphError(f"{label}: the operand {name!r} is made by no node before")
        operands = [self.held[name] if name else None for name in node.input]
        self.builder.origins = (Origin(scope=label),)
        try:
            attributes = {entry.name: self.attribute(entry) for entry in node.attribute}
            made = translation(Call(self.builder, node.op_type, operands, attributes, str(node.output[0]), len(node.output)))
            results: Sequence[Value] = made if isinstance(made, tuple) else (made,)
            for name, value in zip(node.output, results, strict=False):
                self.held[name] = value
        except tl.TensorlangError as error:
            raise tl.GraphError(f"{label}: {error}") from None
        unmade = [name for name in list(node.output)[len(results) :] if name]
        if unmade:
            raise tl.GraphError(f"{label}: the result {unmade[0]!r} has no translation")

    def attribute(self, entry: Any) -> Any:
        """An attribute as Python: words for bytes, arrays for tensors."""
        value = self.onnx.helper.get_attribute_value(entry)
        if isinstance(value, self.onnx.TensorProto):
            return self.onnx.numpy_helper.to_array(value)
        if entry.name in ("to", "dtype"):
            return str(tl.dtype(np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(value))))
        return value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value

    @staticmethod
    def near(node: Any) -> str:
        """The nearest operators that have one."""
        return did_you_mean(node.op_type, TRANSLATIONS) or "; tensorlang.bridges.onnx_operators lists what has"
