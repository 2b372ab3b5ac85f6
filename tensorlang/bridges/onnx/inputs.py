"""The inputs of a model as those of a graph, and which of them decide shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Coded, Held, ValueNeededError
from tensorlang.bridges.onnx.narrow import codes, is_narrow
from tensorlang.graph import Builder, Value
from tensorlang.graph.builder import identifier

DECIDING: Final = 64
"""Elements of inputs whose values may decide shapes."""
MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What Python and onnx raise for attributes and tensors that do not fit together."""


def element_type(onnx: Any, number: int, subject: str) -> np.dtype[Any]:
    """The element type that ONNX numbers so, as NumPy has it. Raises `GraphError`, whose message begins with `subject`."""
    if number not in onnx.TensorProto.DataType.values() or number == onnx.TensorProto.UNDEFINED:
        raise tl.GraphError(f"{subject} is of the element type {number}, which onnx {onnx.__version__} does not have")
    made: np.dtype[Any] = onnx.helper.tensor_dtype_to_np_dtype(number)
    return made


class Inputs:
    """The inputs of a model; `given` are arrays whose types inputs have that say none of their own."""

    def __init__(self, onnx: Any, builder: Builder, given: Mapping[str, Any]) -> None:
        self.onnx, self.builder, self.given = onnx, builder, given
        self.names: dict[str, str] = {}

    def input(self, entry: Any) -> Held:
        """An input of the user."""
        try:
            return self.typed(entry.name, entry.type, self.given.get(entry.name))
        except (tl.DefinitionError, *MALFORMED) as error:
            raise tl.GraphError(f"the input {entry.name!r} of the model: {error}") from None

    def known(self, entry: Any, array: np.ndarray[Any, Any]) -> Held:
        """An input whose value is given. Raises `GraphError` where the model says that it is of another type."""
        kind = entry.type.tensor_type
        wanted = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim] if kind.HasField("shape") else None
        fits = wanted is None or (
            len(wanted) == array.ndim and all(one in (None, extent) for one, extent in zip(wanted, array.shape, strict=True))
        )
        dtype = element_type(self.onnx, kind.elem_type, f"the input {entry.name!r}") if entry.type.HasField("tensor_type") else None
        if not fits or array.dtype != dtype:
            raise tl.GraphError(
                f"the value of the input {entry.name!r}, {array.dtype}{list(array.shape)}, is of another type than the model says"
            )
        return self.constant(array, str(entry.name))

    def typed(self, name: str, kind: Any, like: Any) -> Held:
        """An input of a type, which may be that of an array or a list of them."""
        if kind.HasField("optional_type"):
            if name not in self.given:
                raise ValueNeededError(f"the input {name!r} is optional: whether it is there decides what is computed", inputs=(name,))
            return None if like is None else self.typed(name, kind.optional_type.elem_type, like)
        if kind.HasField("sequence_type"):
            if like is None:
                raise ValueNeededError(f"the input {name!r} is a sequence: its length decides what is computed", inputs=(name,))
            return [self.tensor(name, one.shape, one.dtype) for one in like]
        tensor = kind.tensor_type
        if not kind.HasField("tensor_type"):
            raise tl.GraphError(f"the input {name!r} is no tensor")
        if like is not None:
            return self.tensor(name, like.shape, like.dtype)
        if not tensor.HasField("shape"):
            raise ValueNeededError(f"the input {name!r} is no tensor of a known number of axes", inputs=(name,))
        shape = [
            dim.dim_value if dim.HasField("dim_value") else tl.dim(identifier(dim.dim_param or f"{name}_{axis}"))
            for axis, dim in enumerate(tensor.shape.dim)
        ]
        return self.tensor(name, shape, element_type(self.onnx, tensor.elem_type, f"the input {name!r}"))

    def tensor(self, name: str, shape: Sequence[Any], dtype: Any) -> Held:
        """A tensor among the inputs."""
        if np.dtype(dtype) == object:
            raise tl.GraphError(f"the input {name!r} is of words, and tensors hold numbers and truth values")
        narrow = is_narrow(dtype)
        made = self.builder.input(shape, "uint8" if narrow else dtype, name)
        self.names[made.name] = name
        return Coded(made, dtype) if narrow else made

    def array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """The elements of a tensor of the model. Raises `GraphError` for one that a file beside it holds: no file is read here."""
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            raise tl.GraphError(
                f"the elements of {tensor.name!r} stand in a file of their own, which onnx.load(path) reads beside the model"
            )
        element_type(self.onnx, tensor.data_type, f"the tensor {tensor.name!r}")
        made: np.ndarray[Any, Any] = self.onnx.numpy_helper.to_array(tensor)
        return made

    def constant(self, array: np.ndarray[Any, Any], name: str) -> Held:
        """An array that is known."""
        if array.dtype == object:
            raise tl.GraphError(f"the constant {name!r} is of words, and tensors hold numbers and truth values")
        if is_narrow(array.dtype):
            return Coded(self.builder.constant(codes(array), name), array.dtype)
        return self.builder.constant(array, name)

    def needed(self, error: ValueNeededError, label: str) -> tl.GraphError:
        """A refusal for want of a value: one that names the inputs which make it, where they are few and small."""
        text = f"{error}" if f"{error}".startswith(label) else f"{label}: {error}"
        if error.inputs or error.value is None:
            return error
        roots: list[Value] = []
        seen: set[str] = set()
        waiting = [error.value]
        while waiting:
            value = waiting.pop()
            if value.name in seen:
                continue
            seen.add(value.name)
            node = self.builder.maker(value)
            if node is not None:
                waiting += node.read
            elif self.builder.array(value) is None:
                roots.append(value)
        sizes = [
            math.prod(extent for extent in value.shape if isinstance(extent, int)) if value.type.static else DECIDING + 1 for value in roots
        ]
        names = tuple(dict.fromkeys(self.names[value.name] for value in roots))
        if not names or sum(sizes) > DECIDING:
            return tl.GraphError(text)
        return ValueNeededError(f"{text}; from_onnx(model, values={{{names[0]!r}: ...}}) gives it", error.value, names)
