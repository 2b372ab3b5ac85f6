"""Other values for the constants of a graph, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import tensorlang as tl
from tensorlang.graph.ir import Array, Constant, Graph


def with_weights(graph: Graph, weights: Mapping[str, object]) -> Graph:
    """The graph with other constants of the same types. Raises `CallError`."""
    known = {constant.value.name: constant for constant in graph.constants}
    made: dict[str, Constant] = {}
    for name, given in weights.items():
        constant = known.get(name)
        if constant is None:
            near = difflib.get_close_matches(name, known, 1)
            raise tl.CallError(f"{graph.name} has no constant {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        made[name] = Constant(constant.value, _checked(graph, constant, given))
    return replace(graph, constants=tuple(made.get(constant.value.name, constant) for constant in graph.constants))


def _checked(graph: Graph, constant: Constant, given: object) -> Array:
    value = constant.value
    if not value.shape:
        raise tl.CallError(
            f"{graph.name}: constant {value} is a number, which stands in the code of kernels; compile the graph with another"
        )
    try:
        array = np.array(np.from_dlpack(given) if not isinstance(given, np.ndarray) else given, order="C")  # type: ignore[arg-type]
    except (TypeError, AttributeError, ValueError, RuntimeError, BufferError) as error:
        raise tl.CallError(f"{graph.name}: constant {value}: a {type(given).__name__} cannot be read as an array: {error}") from None
    if array.dtype != value.dtype.numpy or array.shape != value.shape:
        raise tl.CallError(f"{graph.name}: constant {value}: got {array.dtype}{list(array.shape)}")
    return array
