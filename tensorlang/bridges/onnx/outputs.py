"""What a model declares of its outputs, held against what its nodes make: no declaration may be wrong, one may leave anything open."""

from __future__ import annotations

from typing import Any

import tensorlang as tl
from tensorlang.bridges.onnx.call import Coded, Held
from tensorlang.bridges.onnx.inputs import element_type
from tensorlang.graph import Value


def require_declared(onnx: Any, entry: Any, held: Held) -> None:
    """Raises `GraphError` where an output is made of another type or shape than the model declares."""
    if not isinstance(held, Value | Coded) or not entry.type.HasField("tensor_type"):
        return
    declared, subject = entry.type.tensor_type, f"the output {entry.name!r} of the model"
    shape, dtype = (held.shape, held.dtype.numpy) if isinstance(held, Value) else (held.value.shape, held.dtype)
    if declared.elem_type:
        wanted = element_type(onnx, declared.elem_type, subject)
        if wanted != dtype:
            raise tl.GraphError(f"{subject} is declared as {wanted}, and its nodes make {dtype}; declare what is made, or Cast it")
    if not declared.HasField("shape"):
        return
    extents = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in declared.shape.dim)
    open_ends = [isinstance(one, str) or not isinstance(made, int) for one, made in zip(extents, shape, strict=False)]
    if len(extents) != len(shape) or any(one != made for one, made, free in zip(extents, shape, open_ends, strict=True) if not free):
        spelled = "[" + ", ".join(map(str, extents)) + "]"
        raise tl.GraphError(f"{subject} is declared with the shape {spelled}, and its nodes make {list(shape)}; declare what is made")
