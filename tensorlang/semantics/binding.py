"""What `evaluate` is called with: operands checked against their placeholders, and the run-time extents that follow from their shapes.

A dim is bound where an axis of an operand is that dim alone, or `factor * dim + offset` with everything else known; one that no operand
fixes is passed by name. Every mistake is a `CallError` that names the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorlang.definition.extent import beyond, dims_in, limits
from tensorlang.definition.tensor import Definition, Placeholder, Scan, Tensor, components, expressions, with_steps
from tensorlang.errors import CallError
from tensorlang.ir import Dim, Expr
from tensorlang.ir.integers import known_value
from tensorlang.ir.linear import solve
from tensorlang.ir.printer import text
from tensorlang.semantics.arithmetic import Array


def operand(tensor: Tensor, value: object) -> Array:
    """`value` as an array of the tensor's type and rank, without a copy. Raises `CallError`."""
    if not isinstance(value, (np.ndarray, np.generic, memoryview)) and not hasattr(value, "__dlpack__"):
        raise CallError(f"{tensor!r}: expected an array, got a {type(value).__name__} ({value!r:.60})")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CallError(f"{tensor!r}: this {type(value).__name__} cannot be read as an array: {error}") from error
    expected = tensor.dtype.numpy
    if array.dtype != expected:
        raise CallError(f"{tensor!r}: expected dtype {tensor.dtype}, got {_spelling(array.dtype)}")
    if array.ndim != tensor.ndim:
        raise CallError(f"{tensor!r}: expected {tensor.ndim} axes, got shape {array.shape}")
    return array


def _spelling(given: np.dtype[Any]) -> str:
    return given.name if given.isnative else f"{given.name} in foreign byte order"


def collect(definitions: tuple[Definition, ...], feeds: Mapping[Tensor, object]) -> dict[Placeholder, Array]:
    """The array of every placeholder among `definitions`. Raises `CallError` where one is missing or does not fit."""
    if not isinstance(feeds, Mapping):
        raise CallError(f"feeds map placeholders to arrays, as in {{A: a, B: b}}; got a {type(feeds).__name__}")
    found: dict[Placeholder, Array] = {}
    for tensor, value in feeds.items():
        if not isinstance(tensor, Tensor):
            raise CallError(f"feeds map placeholders to arrays; {tensor!r:.60} is not a tensor")
        if not isinstance(tensor.definition, Placeholder):
            raise CallError(f"{tensor!r} is computed, so it cannot be fed; feed its placeholders")
        if tensor.definition.array is not None:
            raise CallError(f"{tensor!r} is bound to an array by tl.buffer, so it cannot be fed")
        found[tensor.definition] = operand(tensor, value)
    for definition in definitions:
        if isinstance(definition, Placeholder) and definition.array is not None:
            found[definition] = definition.array
        elif isinstance(definition, Placeholder) and definition not in found:
            raise CallError(f"{Tensor(definition)!r} is missing; feed an array for it")
    return found


def bind_dims(definitions: tuple[Definition, ...], arrays: Mapping[Placeholder, Array], given: Mapping[str, Any]) -> dict[str, int]:
    """The value of every dim that the definitions mention. Raises `CallError` where operands disagree or a dim is not fixed."""
    known = dims_in(extent for definition in with_steps(definitions) for extent in (*_extents(definition), *expressions(definition)))
    for name, value in given.items():
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 0:
            raise CallError(f"the extent {name} must be an int of at least 0, not {value!r:.60}")
    dims = {name: int(value) for name, value in given.items()}
    axes = [(node, size) for definition, array in arrays.items() for node, size in zip(definition.shape, array.shape, strict=True)]
    for node, size in axes:
        if isinstance(node, Dim):
            dims.setdefault(node.name, size)
    for _ in range(len(known)):
        for node, size in axes:
            if (found := solve(node, size, dims)) is not None:
                dims.setdefault(*found)
    for definition, array in arrays.items():
        expected = tuple(known_value(node, dims) for node in definition.shape)
        if any(want is not None and want != size for want, size in zip(expected, array.shape, strict=True)):
            facts = ", ".join(f"{name} = {dims[name]}" for name in known if name in dims)
            raise CallError(
                f"{Tensor(definition)!r}: got shape {array.shape}" + (f", where {facts} by the other arguments" if facts else "")
            )
    for name in known:
        if name not in dims:
            raise CallError(f"the extent {name} is fixed by no operand; pass it by name, as in {name}=5")
        if wrong := beyond(name, dims[name], limits(known.values())):
            raise CallError(wrong)
    return dims


def _extents(definition: Definition) -> list[Expr]:
    """The extents of all tensors of a definition, and how often a scan runs."""
    found = [extent for component in range(components(definition)) for extent in Tensor(definition, component).extents]
    return [*found, definition.axis.hi] if isinstance(definition, Scan) else found


def shape_of(tensor: Tensor, dims: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a tensor. Raises `CallError` where one is negative."""
    sizes = []
    for node in tensor.extents:
        size = known_value(node, dims)
        if size is None or size < 0:
            raise CallError(f"{tensor!r}: the extent {text(node)} is {size}; extents are at least 0")
        sizes.append(size)
    return tuple(sizes)
