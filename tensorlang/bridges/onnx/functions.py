"""What ONNX defines by other operators: the body of a schema, at the opset of the model and the types of the operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorlang.bridges.onnx.call import Coded, Extents, Held
from tensorlang.graph import Value


def schema_of(onnx: Any, domain: str, name: str, opset: int) -> Any:
    """The schema of an operator at an opset; None where there is none."""
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


def defaults(onnx: Any, schema: Any) -> dict[str, Any]:
    """The attributes of a schema that have a default, as messages."""
    if schema is None:
        return {}
    undefined = onnx.AttributeProto.UNDEFINED
    return {name: entry.default_value for name, entry in schema.attributes.items() if entry.default_value.type != undefined}


def body_of(onnx: Any, schema: Any, node: Any, operands: Sequence[Held], opset: int) -> Any:
    """The function that defines an operator, for a node with its attributes; None where ONNX has none that fits."""
    if schema is None:
        return None
    versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
    try:
        if versions:
            types = [type_of(onnx, one).SerializeToString() for one in operands]
            text = schema.get_context_dependent_function_with_opset_version(max(versions), node.SerializeToString(), types)
        else:
            versions = [version for version in schema.function_opset_versions if version <= opset]
            text = schema.get_function_with_opset_version(max(versions)) if versions else b""
    except (RuntimeError, ValueError, onnx.defs.SchemaError):
        return None
    if not text:
        return None
    made = onnx.FunctionProto()
    made.ParseFromString(text)
    return made


def type_of(onnx: Any, value: Held) -> Any:
    """The type of an operand as ONNX writes it; an empty one where it is left out."""
    made = onnx.TypeProto()
    if isinstance(value, Extents):
        made.tensor_type.elem_type = onnx.TensorProto.INT64
        made.tensor_type.shape.SetInParent()
        if not value.scalar:
            made.tensor_type.shape.dim.add().dim_value = len(value.entries)
    elif isinstance(value, Coded):
        made.tensor_type.CopyFrom(type_of(onnx, value.value).tensor_type)
        made.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    elif isinstance(value, list):
        if value:
            made.sequence_type.elem_type.CopyFrom(type_of(onnx, value[0]))
    elif isinstance(value, Value):
        made.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype.numpy)
        for extent in value.shape:
            entry = made.tensor_type.shape.dim.add()
            if isinstance(extent, int):
                entry.dim_value = extent
            else:
                entry.dim_param = str(extent)
    return made


def opsets_of(entries: Any) -> Mapping[str, int]:
    """The version of each domain that a model or a function is written in."""
    return {domain_of(entry.domain): entry.version for entry in entries}


def domain_of(name: str) -> str:
    """ONNX's own domain has two names."""
    return "" if name == "ai.onnx" else name
