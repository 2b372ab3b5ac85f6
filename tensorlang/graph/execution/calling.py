"""From what a caller passes to arrays: checked against the inputs of the graph, under its own names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.graph.definition import shape_at
from tensorlang.graph.ir import Array, Graph, Value


def bind_inputs(graph: Graph, inputs: Sequence[object]) -> tuple[list[Array], dict[str, int]]:
    """The inputs as arrays without copies, and the sizes of the dims that they show. Raises `CallError`."""
    if len(inputs) != len(graph.inputs):
        names = ", ".join(map(str, graph.inputs))
        raise tl.CallError(f"{graph.name} takes {len(graph.inputs)} inputs ({names}), and {len(inputs)} were passed")
    arrays = [_array(graph, value, given) for value, given in zip(graph.inputs, inputs, strict=True)]
    sizes: dict[str, int] = {}
    for value, array in zip(graph.inputs, arrays, strict=True):
        for extent, size in zip(value.shape, array.shape, strict=True):
            if isinstance(extent, tl.Dim) and repr(extent) in extent.dims:
                _fix(graph, value, repr(extent), extent.dims[repr(extent)], size, sizes)
    for value, array in zip(graph.inputs, arrays, strict=True):
        wanted = shape_at(value, sizes)
        if array.shape != wanted:
            raise tl.CallError(f"{graph.name}: input {value}: expected shape {wanted}, got {array.shape}")
    return arrays, sizes


def _fix(graph: Graph, value: Value, name: str, bounds: tuple[int, int], size: int, sizes: dict[str, int]) -> None:
    least, most = bounds
    if not least <= size <= most:
        raise tl.CallError(f"{graph.name}: input {value}: the dim {name} is from {least} to {most}, and not {size}")
    if sizes.setdefault(name, size) != size:
        raise tl.CallError(f"{graph.name}: input {value}: the dim {name} is {size} here, and {sizes[name]} elsewhere")


def _array(graph: Graph, value: Value, given: object) -> Array:
    subject = f"{graph.name}: input {value}"
    found = as_array(subject, given)
    if found.dtype != value.dtype.numpy:
        raise tl.CallError(f"{subject}: expected {value.dtype}, got {found.dtype}")
    if found.ndim != len(value.shape):
        raise tl.CallError(f"{subject}: expected {len(value.shape)} axes, got shape {found.shape}")
    return found


def as_array(subject: str, given: Any) -> Array:
    """An array of what a caller passes, without a copy. Raises `CallError`, whose message begins with `subject`."""
    try:
        if str(getattr(given, "dtype", "")) == "torch.bfloat16":  # NumPy takes these bits as those of integers alone
            given = given.view(sys.modules["torch"].int16)
            return np.from_dlpack(given).view(tl.dtype("bfloat16").numpy)
        shares = hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray)
        return np.from_dlpack(given) if shares else np.asarray(given)
    except (TypeError, AttributeError, KeyError, ValueError, RuntimeError, BufferError) as error:
        raise tl.CallError(f"{subject}: a {type(given).__name__} cannot be read as an array: {error}") from None
