"""The constants of a graph as kernels take them, and other values for them, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import tensorlang as tl
from tensorlang.errors import did_you_mean
from tensorlang.graph.execution.calling import as_array
from tensorlang.graph.ir import Array, Constant, Graph, Value


def held(graph: Graph, value: Value) -> Array:
    """A constant as it is given to a kernel: never written to, so that it is not copied where it is not packed."""
    array = graph.constant(value)
    assert array is not None, "it is constant"
    found = array.view()
    found.flags.writeable = False
    return found


def with_weights(graph: Graph, weights: Mapping[str, object]) -> Graph:
    """The graph with other constants of the same types. Raises `CallError`."""
    if not isinstance(weights, Mapping):
        raise tl.CallError(f"weights of {graph.name} are a dict from names of constants to arrays, not {weights!r:.60}")
    known = {constant.value.name: constant for constant in graph.constants}
    made: dict[str, Constant] = {}
    for name, given in weights.items():
        if not isinstance(name, str):
            raise tl.CallError(f"weights of {graph.name} have the names of its constants, which are strings, not {name!r:.60}")
        constant = known.get(name)
        if constant is None:
            raise tl.CallError(f"{graph.name} has no constant {name!r}{did_you_mean(name, known)}")
        made[name] = Constant(constant.value, _checked(graph, constant.value, given))
    return replace(graph, constants=tuple(made.get(constant.value.name, constant) for constant in graph.constants))


def _checked(graph: Graph, value: Value, given: object) -> Array:
    """A copy of what is given, which stays as it is."""
    subject = f"{graph.name}: constant {value}"
    if not value.shape:
        raise tl.CallError(f"{subject} is a number, which stands in the code of kernels; compile the graph with another")
    array = as_array(subject, given)
    if array.dtype != value.dtype.numpy or array.shape != value.shape:
        raise tl.CallError(f"{subject}: got {array.dtype}{list(array.shape)}")
    return np.array(array, order="C")
