"""`partition`: the parts of a graph that named targets take, each a graph of its own that is called once.

    parts = passes.partition(g, {"npu": lambda node: node.operator == "conv2d", "dsp": pattern})
    parts.run(image, by=lambda part: compiled[part.name])

A target takes the nodes for which its predicate holds, or all nodes of each match of its pattern, which then stay together; the first
target that takes a node has it. What nobody takes is the host's, the target None.

Every node has a stage: that of what it reads, and one more where another target makes that. The nodes of one target in one stage are a
part. So no path leaves a part and comes back (it would have to come back in a later stage), parts of one stage do not read each other, and
in the order of stages all can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.graph.arguments import of_graph, require
from tensorlang.graph.ir import Array, Graph, Node
from tensorlang.graph.passes.cleaning import dead_code
from tensorlang.graph.pattern import Pattern, match_all

Taken: TypeAlias = "Callable[[Node], bool] | Pattern | tuple[Pattern, ...]"
"""What a target takes: nodes for which a function holds, or the nodes of the matches of a pattern."""


@dataclass(frozen=True)
class Part:
    """Nodes that one target (None: the host) computes in one call. The values of `graph` have the names that they have in the whole."""

    target: str | None
    graph: Graph

    @property
    def name(self) -> str:
        """A name that no other part has."""
        return self.graph.name


@dataclass(frozen=True)
class Partition:
    """A graph, and its parts in an order in which they can run."""

    graph: Graph
    parts: tuple[Part, ...]

    def of(self, target: str | None) -> tuple[Part, ...]:
        """The parts of a target."""
        return tuple(part for part in self.parts if part.target == target)

    def stitched(self) -> Graph:
        """The parts as one graph again."""
        nodes = tuple(node for part in self.parts for node in part.graph.nodes)
        return Graph(self.graph.inputs, self.graph.constants, nodes, self.graph.outputs, self.graph.name).verify()

    def run(self, *inputs: object, by: Callable[[Part], Callable[..., tuple[Array, ...]]] | None = None) -> tuple[Array, ...]:
        """The outputs, each part called once: `by(part)` is what is called, with arrays for the inputs of its graph; else the evaluator.

        Raises `CallError` for another number of inputs, or of results of a part.
        """
        if len(inputs) != len(self.graph.inputs):
            raise tl.CallError(f"{self.graph.name} takes {len(self.graph.inputs)} inputs, and {len(inputs)} were passed")
        values: dict[str, Any] = dict(zip((value.name for value in self.graph.inputs), inputs, strict=True))
        values |= {constant.value.name: constant.array for constant in self.graph.constants}
        for part in self.parts:
            call = part.graph.run if by is None else by(part)
            made = call(*(values[value.name] for value in part.graph.inputs))
            if not isinstance(made, tuple) or len(made) != len(part.graph.outputs):
                raise tl.CallError(f"the part {part.name} has {len(part.graph.outputs)} results, as a tuple, not {made!r:.60}")
            values |= zip((value.name for value in part.graph.outputs), made, strict=True)
        return tuple(np.asarray(values[value.name]) for value in self.graph.outputs)

    def __str__(self) -> str:
        lines = (f"{part.name} ({part.target or 'host'}): {', '.join(node.operator for node in part.graph.nodes)}" for part in self.parts)
        return "\n".join(lines)


@of_graph
def partition(graph: Graph, targets: Mapping[str, Taken]) -> Partition:
    """The parts of a graph that targets take, in an order in which they can run; see above.

    A match is not taken where a path leads out of it and back. Raises `GraphError` for a target that says nothing about nodes, and for a
    pattern that can never match.
    """
    require("partition", "a mapping from names of targets to what they take", targets, Mapping)
    graph = dead_code(graph)
    together = _Together(graph)
    target: dict[str, str] = {}
    for name, takes in targets.items():
        for nodes in _taken(graph, name, takes):
            names = [node.results[0].name for node in nodes]
            if not any(one in target for one in names) and together.join(names):
                target |= dict.fromkeys(names, name)
    stages = together.stages(target)
    found: dict[tuple[int, str | None], list[Node]] = {}
    for node in graph.nodes:
        name = node.results[0].name
        found.setdefault((stages[name], target.get(name)), []).append(node)
    order = sorted(found, key=lambda key: (key[0], key[1] or ""))
    return Partition(graph, tuple(Part(key[1], _part(graph, found[key], key[1] or "host", place)) for place, key in enumerate(order)))


def _taken(graph: Graph, name: str, takes: object) -> list[tuple[Node, ...]]:
    """The nodes that a target takes, those of a match together."""
    if isinstance(takes, (Pattern, tuple)):
        return [match.nodes for match in match_all(graph, takes)]
    if not callable(takes):
        raise tl.GraphError(f"the target {name!r:.60} takes what a pattern or a function of a node says, not {takes!r:.60}")
    return [(node,) for node in graph.nodes if takes(node)]


class _Together:
    """Nodes that must stay in one part, by the name of the first one of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.first = {node.results[0].name: node.results[0].name for node in graph.nodes}
        self.members = {name: [name] for name in self.first}
        self.nodes = {node.results[0].name: node for node in graph.nodes}

    def _below(self, first: str) -> set[str]:
        users = (user for name in self.members[first] for value in self.nodes[name].results for user in self.graph.users(value))
        return {self.first[user.results[0].name] for user in users} - {first}

    def join(self, names: list[str]) -> bool:
        """Keep nodes in one part, if no path leads out of them and back."""
        inside = {self.first[name] for name in names}
        pending = {below for one in inside for below in self._below(one)} - inside
        seen = set(pending)
        while pending:
            below = self._below(pending.pop())
            if below & inside:
                return False
            pending |= below - seen
            seen |= below
        kept, *others = sorted(inside)
        for one in others:
            self.members[kept] += self.members.pop(one)
        self.first |= dict.fromkeys(self.members[kept], kept)
        return True

    def stages(self, target: Mapping[str, str]) -> dict[str, int]:
        """The stage of every node, by the name of its first result."""
        stage = dict.fromkeys(self.members, 0)
        waiting = {one: self._above(one) for one in self.members}
        ready = [one for one, above in waiting.items() if not above]
        while ready:
            one = ready.pop()
            for below in self._below(one):
                other = target.get(self.members[one][0]) != target.get(self.members[below][0])
                stage[below] = max(stage[below], stage[one] + other)
                waiting[below].discard(one)
                if not waiting[below]:
                    ready.append(below)
        return {name: stage[first] for name, first in self.first.items()}

    def _above(self, first: str) -> set[str]:
        makers = (self.graph.producer(value) for name in self.members[first] for value in self.nodes[name].read)
        return {self.first[node.results[0].name] for node in makers if node is not None} - {first}


def _part(graph: Graph, nodes: list[Node], target: str, place: int) -> Graph:
    """Nodes as a graph: inputs are what it reads from outside, outputs what others or the caller read."""
    made = {value.name: value for node in nodes for value in node.results}
    read = dict.fromkeys(value for node in nodes for value in node.read if value.name not in made)
    names = {value.name for value in read}
    own = {node.results[0].name for node in nodes}
    outputs = (
        value for value in made.values() if graph.is_output(value) or any(user.results[0].name not in own for user in graph.users(value))
    )
    constants = tuple(constant for constant in graph.constants if constant.value.name in names)
    inputs = tuple(value for value in read if graph.constant(value) is None)
    return Graph(inputs, constants, tuple(nodes), tuple(outputs), f"{graph.name}_{place}_{target}")
