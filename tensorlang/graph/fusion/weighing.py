"""What a part of a graph costs as one kernel: `kernels.estimate` of its definition, and what a call costs that there would be one less of.

A model has few different parts, so what was found is kept, by what a part computes: operators, attributes, types, who reads whom, and
which results are wanted. Names do not count, nor do weights. The library keeps estimates for other processes too, where it keeps kernels.
A part of which there is no kernel, or no estimate, costs more than any.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph.fusion.group import Group
from tensorlang.graph.ir import Type
from tensorlang.system.object_cache import ObjectCache

CALL: Final = 1e-6
"""Seconds of one more kernel: its call, and operands that another one has just written."""
KEPT: Final = 4096

_kept: Final[ObjectCache[float]] = ObjectCache(KEPT)


def seconds(group: Group, target: str) -> float:
    """What a group costs as one kernel, its call included; infinity where there is none. Raises `BuildError` for an unknown target."""
    return _kept.get((target, structure(group)), lambda: _estimated(group, target) + CALL)


def _estimated(group: Group, target: str) -> float:
    tl.target(target)  # refuses an unknown one, which is no fault of the group
    weights = group.weights()
    try:
        _, results = group.define()
        return kernels.estimate(results, target, constants=tuple(value.name for value in weights)).seconds
    except tl.TensorlangError:
        return math.inf


def structure(group: Group) -> Hashable:
    """What a group computes, equal for groups that differ in names and in the bits of weights alone."""
    numbers: dict[str, int] = {}
    weights = {value.name for value in group.weights()}
    entries: list[Hashable] = []
    for node in group.nodes:
        for value in node.read:
            if value.name not in numbers:
                numbers[value.name] = len(numbers)
                held = None if value in group.inputs else group.graph.constant(value)
                entries.append((str(value.type), value.type.bounds, value.name in weights, None if held is None else held.tobytes()))
        read = tuple(None if value is None else numbers[value.name] for value in node.inputs)
        for value in node.results:
            numbers[value.name] = len(numbers)
        entries.append((node.operator, read, repr(node.attributes)))
    return tuple(entries), tuple(numbers[value.name] for value in group.results)


def size(kind: Type) -> int:
    """Bytes of a value; a dim counts as its largest size."""
    return math.prod(extent if isinstance(extent, int) else _most(extent) for extent in kind.shape) * kind.dtype.bytes


def _most(extent: tl.Dim) -> int:
    return extent.at(**{name: most for name, (_, most) in extent.dims.items()})


def forget() -> None:
    """Forget what was found in this process."""
    _kept.clear()
