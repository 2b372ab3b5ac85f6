"""`Backend`: ONNX's own interface to whoever runs models.

Importing this needs onnx, whose classes these extend; `tensorlang.graph.from_onnx` needs it when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx_graphs import graph_of
from tensorlang.bridges.packages import required
from tensorlang.graph import CompiledGraph
from tensorlang.graph.passes import apply, common_subexpressions, fold_batch_norm, fold_constants

_base: Any = required("onnx.backend.base", "onnx")


class Prepared(_base.BackendRep):  # type: ignore[misc]  # onnx says no types
    """A model that is compiled."""

    def __init__(self, compiled: CompiledGraph) -> None:
        self.compiled = compiled

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[Any, ...]:
        """The outputs for inputs in order. Raises `CallError`."""
        return self.compiled(*inputs)


class Backend(_base.Backend):  # type: ignore[misc]  # as above
    """Models of ONNX on kernels of this machine."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **_: Any) -> bool:
        """Has every node of the model a translation?"""
        try:
            graph_of(model)
        except tl.TensorlangError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **_: Any) -> Prepared:
        """Compile a model. Raises `GraphError` for what has no translation, `BuildError` for another device."""
        if not cls.supports_device(device):
            raise tl.BuildError(f"kernels run on the device 'CPU', not on {device!r:.60}")
        return Prepared(apply(graph_of(model), fold_constants, common_subexpressions, fold_batch_norm).compile())

    @classmethod
    def run_node(cls, node: Any, inputs: Sequence[Any], device: str = "CPU", **_: Any) -> tuple[Any, ...]:
        """The outputs of one node. Raises as `prepare` does."""
        helper, names = import_module("onnx.helper"), [name for name in node.input if name]
        arrays = [np.asarray(array) for array in inputs]
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output]
        return cls.prepare(helper.make_model(helper.make_graph([node], node.op_type, given, results)), device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Is it the CPU?"""
        return device == "CPU"
