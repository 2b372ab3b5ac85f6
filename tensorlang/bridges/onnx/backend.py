"""`Backend`: ONNX's own interface to whoever runs models.

Importing this needs onnx, whose classes these extend; `tensorlang.graph.from_onnx` needs it when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Coded, Held, ValueNeededError
from tensorlang.bridges.onnx.importing import read, require_model
from tensorlang.bridges.onnx.narrow import codes
from tensorlang.bridges.onnx.scope import Imported
from tensorlang.bridges.packages import required
from tensorlang.graph import CompiledGraph, Value
from tensorlang.graph.passes import apply, common_subexpressions, fold_batch_norm, fold_constants
from tensorlang.system.object_cache import ObjectCache

_base: Any = required("onnx.backend.base", "onnx")

KEPT: Final = 16
"""Compiled graphs that a model keeps where values of inputs decide shapes."""


class Prepared(_base.BackendRep):  # type: ignore[misc]  # onnx says no types
    """A model that is compiled; where the values of inputs decide shapes, for each such value when it is met first."""

    def __init__(self, model: Any) -> None:
        require_model(required("onnx", "onnx"), model, "Backend.prepare")
        self.model = model
        self.names = [entry.name for entry in model.graph.input if entry.name not in {one.name for one in model.graph.initializer}]
        self.deciding: dict[str, None] = {}
        self._made: ObjectCache[tuple[Imported, CompiledGraph]] = ObjectCache(KEPT)
        try:
            self._compiled({}, {})
        except ValueNeededError as error:
            self.deciding |= dict.fromkeys(error.inputs)
            if not error.inputs:
                raise

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[Any, ...]:
        """The outputs for inputs in order, or by name. Raises `CallError`, and `GraphError` for shapes without a translation."""
        given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(self.names, inputs, strict=False))
        if len(given) < len(self.names) or len(inputs) > len(self.names):
            raise tl.CallError(f"the model takes {len(self.names)} inputs ({', '.join(self.names)}), not {len(inputs)}")
        arrays = {name: _arrays(value) for name, value in given.items()}
        imported, compiled = self._for(arrays)
        flat = [one for name, held in imported.inputs.items() for one in _matching(name, arrays[name], held)]
        results = iter(compiled(*flat))
        return tuple(_nested(held, results) for held in imported.outputs)

    def _for(self, arrays: Mapping[str, Any]) -> tuple[Imported, CompiledGraph]:
        """The graph for inputs; those that are met to decide shapes do so from then on."""
        for _ in range(len(self.names) + 1):
            try:
                return self._compiled({name: arrays[name] for name in self.deciding}, arrays if self.deciding else {})
            except ValueNeededError as error:
                new = [name for name in error.inputs if name not in self.deciding]
                if not new:
                    raise
                self.deciding |= dict.fromkeys(new)
        raise tl.InternalError("each round adds an input")

    def _compiled(self, known: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[Imported, CompiledGraph]:
        """The graph where inputs have values that are known, and the types of arrays."""
        key = tuple((name, _spelled(value, name in known)) for name, value in arrays.items())

        def made() -> tuple[Imported, CompiledGraph]:
            values = {name: value for name, value in known.items() if isinstance(value, np.ndarray) and self._typed(name)}
            imported = read(self.model, values, {name: value for name, value in arrays.items() if name not in values})
            return imported, apply(imported.graph, fold_constants, common_subexpressions, fold_batch_norm).compile()

        return self._made.get(key, made)

    def _typed(self, name: str) -> bool:
        """Does the model say the shape of an input, so that what is wanted of it is its value?"""
        (kind,) = (entry.type for entry in self.model.graph.input if entry.name == name)
        return bool(kind.HasField("tensor_type") and kind.tensor_type.HasField("shape"))


class Backend(_base.Backend):  # type: ignore[misc]  # as above
    """Models of ONNX on kernels of this machine."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **_: Any) -> bool:
        """Has every node of the model a translation, as far as that is known before a call?"""
        try:
            read(model, {})
        except ValueNeededError as error:
            return bool(error.inputs) and cls.supports_device(device)
        except tl.TensorlangError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **_: Any) -> Prepared:
        """Compile a model. Raises `GraphError` for what has no translation, `BuildError` for another device."""
        if not cls.supports_device(device):
            raise tl.BuildError(f"kernels run on the device 'CPU', not on {device!r:.60}")
        return Prepared(model)

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


def _arrays(value: Any) -> Any:
    return None if value is None else [_arrays(one) for one in value] if isinstance(value, list | tuple) else np.asarray(value)


def _spelled(value: Any, known: bool) -> object:
    """What a graph is kept by: types, and elements of what is known."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes() if known else None
    return None if value is None else tuple((one.dtype.str, one.shape) for one in value)


def _matching(name: str, value: Any, held: Held) -> list[Any]:
    if isinstance(held, Value):
        return [value]
    if isinstance(held, Coded):
        return [codes(value)]
    if not isinstance(held, list):
        return []
    if not isinstance(value, list) or len(value) != len(held):
        raise tl.CallError(f"the input {name!r} is a sequence of {len(held)} tensors")
    return value


def _nested(held: Held, results: Any) -> Any:
    if isinstance(held, list):
        return [_nested(one, results) for one in held]
    return next(results).view(held.dtype) if isinstance(held, Coded) else next(results)
