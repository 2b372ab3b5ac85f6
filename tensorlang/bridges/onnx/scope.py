"""What is known while a model is read: names and what they stand for, and a graph that grows and computes what it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorlang as tl
from tensorlang.bridges.onnx.call import Coded, Extents, Held
from tensorlang.graph import Builder, Graph, Value
from tensorlang.graph.passes.folding import evaluated, worth


@dataclass(frozen=True, slots=True)
class Imported:
    """A model that was read: its graph, and which of the graph's inputs and outputs the model's are (several for a sequence)."""

    graph: Graph
    inputs: Mapping[str, Held]
    outputs: tuple[Held, ...]


@dataclass(slots=True)
class NameScope:
    """The names of a graph or of a function, inside another graph whose names it knows, or with attributes of its own."""

    held: dict[str, Held]
    opsets: Mapping[str, int]
    outer: NameScope | None = None
    attributes: Mapping[str, Any] | None = None
    depth: int = 0

    def find(self, name: str) -> tuple[bool, Held]:
        """Is there such a name, and what does it stand for?"""
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.held:
                return True, scope.held[name]
            scope = scope.outer
        return False, None


class Folding(Builder):
    """A graph that grows, in which what reads constants alone is computed when it is added."""

    def node(self, *arguments: Any, **options: Any) -> tuple[Value, ...]:
        """The results of a node, constants where they are known. Raises as a `Builder` does."""
        made = super().node(*arguments, **options)
        node = self.maker(made[0])
        assert node is not None
        arrays = [None if value is None else self.array(value) for value in node.inputs]
        known = [array for array in arrays if array is not None]
        if len(known) < len(node.read) or not worth(node, known):
            return made
        return tuple(self.constant(array, value.name) for array, value in zip(evaluated(node, arrays), made, strict=True))


def flat(held: Held) -> list[Value]:
    """The tensors of an output, one after the other. Raises `GraphError` for an optional that is empty."""
    if held is None:
        raise tl.GraphError("an output of the model is an empty optional, which no graph has")
    if isinstance(held, Extents):
        raise tl.GraphError(f"an output of the model is a shape with a dim, {held.entries}, which no graph has")
    if isinstance(held, list):
        return [one for entry in held for one in flat(entry)]
    return [held.value if isinstance(held, Coded) else held]
