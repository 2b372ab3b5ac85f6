"""What a graph computes, without names: by this two graphs are compared.

Each value is numbered by what it is: an input by its place, a constant by its digest, a result by its operator, attributes and operands.
Nodes are met from the outputs on, operands first, so that their order does not count. What reaches no output is met after that, in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

from tensorlang.graph.ir import Graph, Value

Number: TypeAlias = tuple[int, int]
"""The place of an entry, and of a result in it; inputs come before all entries."""


def form(graph: Graph) -> Hashable:
    """A value that is equal for graphs of one structure."""
    met = _Meeting(graph)
    outputs = tuple(met.number(value) for value in graph.outputs)
    met.all(value for node in graph.nodes for value in node.results)
    inputs = tuple((str(value.type), value.type.bounds) for value in graph.inputs)  # what else has dims has them from these
    return inputs, tuple(met.entries), outputs


class _Meeting:
    """Entries in the order in which they are met: constants, and nodes after what they read."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.entries: list[Hashable] = []
        self.numbers: dict[str, Number] = {value.name: (-1, place) for place, value in enumerate(graph.inputs)}
        self.digests = {constant.value.name: (constant.digest, str(constant.value.type)) for constant in graph.constants}
        self.constants: dict[Hashable, Number] = {}

    def all(self, values: Iterable[Value]) -> None:
        for value in values:
            self.number(value)

    def number(self, value: Value) -> Number:
        pending = [value]
        while pending:
            top = pending[-1]
            if top.name in self.numbers:
                pending.pop()
            elif (node := self.graph.producer(top)) is None:
                digest = self.digests[top.name]
                self.numbers[top.name] = self.constants.setdefault(digest, (len(self.entries), 0))
                if self.constants[digest] == (len(self.entries), 0):
                    self.entries.append(digest)
            elif missing := [one for one in node.read if one.name not in self.numbers]:
                pending += reversed(missing)
            else:
                read = tuple(None if one is None else self.numbers[one.name] for one in node.inputs)
                for place, result in enumerate(node.results):
                    self.numbers[result.name] = (len(self.entries), place)
                self.entries.append((node.operator, read, repr(node.attributes)))
        return self.numbers[value.name]
