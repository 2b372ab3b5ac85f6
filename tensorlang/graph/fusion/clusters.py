"""The parts of a graph while it is being decided which are one kernel.

Every node that computes is in one part. A view is in none: it moves nothing, and whoever reads it reads the value that it is a view of.
A part that reads a view of what it makes itself has that view inside; the view stands outside too where somebody else reads it. So views
can stand in several parts, and never in the way of joining any. A view that cannot be seen where its operand lies has to be copied, and
counts as a node that computes.

Two parts may be joined where no third one stands between them: where no path leads from one to the other through the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.graph.fusion.group import Group
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.operators import find
from tensorlang.graph.places import copied_views
from tensorlang.system.lazy import cached_property


class Clusters:
    """Parts by number: at first each node that computes is one, numbered by its place in the graph; a joined one has the larger number.

    Nodes that reach no output are in none.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.copied = copied_views(graph)
        self.members: dict[int, tuple[int, ...]] = {}
        self._home: dict[str, int] = {}
        self._below: dict[int, frozenset[int]] = {}
        self._live = frozenset(map(graph.place, graph.live))
        for place, node in enumerate(graph.nodes):
            if place in self._live and not self.transparent(node):
                self.members[place] = (place,)
                self._home |= {value.name: place for value in node.results}

    def transparent(self, node: Node) -> bool:
        """Is it a view that moves nothing?"""
        return find(node.operator).view is not None and node.results[0].name not in self.copied

    def source(self, value: Value) -> Value:
        """The value that another one is a view of; itself where it is none."""
        while (node := self.graph.producer(value)) is not None and self.transparent(node):
            value = node.read[0]
        return value

    def turned(self, value: Value) -> bool:
        """Are the views between a value and what it is a view of such that each element is there once: permutations, reshapes?"""
        while (node := self.graph.producer(value)) is not None and self.transparent(node):
            if node.operator not in ("permute", "reshape"):
                return False
            value = node.read[0]
        return True

    def home(self, value: Value) -> int | None:
        """The part that makes a value, or what it is a view of; None for inputs and constants."""
        return self._home.get(self.source(value).name)

    def nodes(self, part: int) -> Iterator[Node]:
        """The nodes of a part that compute, in order."""
        return (self.graph.nodes[place] for place in self.members[part])

    # Who reads whom ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _readers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that compute and read a value, or a view of it; by the name of the value."""
        found: dict[str, dict[str, Node]] = {}
        for place, node in enumerate(self.graph.nodes):
            if place in self._live and not self.transparent(node):
                for value in node.read:
                    found.setdefault(self.source(value).name, {})[node.results[0].name] = node
        return {name: tuple(nodes.values()) for name, nodes in found.items()}

    @cached_property
    def _outputs(self) -> frozenset[str]:
        return frozenset(self.source(value).name for value in self.graph.outputs)

    def readers(self, value: Value) -> tuple[Node, ...]:
        """The nodes that compute and read a value, or a view of it."""
        return self._readers.get(value.name, ())

    def users(self, value: Value) -> set[int]:
        """The parts that read a value or a view of it."""
        return {self._home[node.results[0].name] for node in self.readers(value)}

    def needed(self, value: Value, inside: frozenset[int]) -> bool:
        """Is a value, or a view of it, read by a part that is not among these, or is it a result of the graph?"""
        return value.name in self._outputs or not self.users(value) <= inside

    def below(self, part: int) -> frozenset[int]:
        """The parts that read what a part makes, without itself."""
        found = self._below.get(part)
        if found is None:
            users = {user for node in self.nodes(part) for value in node.results for user in self.users(value)}
            found = self._below[part] = frozenset(users - {part})
        return found

    def above(self, part: int) -> list[int]:
        """The parts that make what a part reads, in order of reading."""
        found = dict.fromkeys(self.home(value) for node in self.nodes(part) for value in node.read)
        return [one for one in found if one is not None and one != part]

    # Joining ----------------------------------------------------------------------------------------------------------------

    def joinable(self, one: int, other: int) -> bool:
        """Does no path lead from one part to the other through a third?"""
        return not (self._around(one, other) or self._around(other, one))

    def _around(self, start: int, end: int) -> bool:
        last = max(self.members[end])
        pending = [part for part in self.below(start) if part != end]
        seen = set(pending)
        while pending:
            for part in self.below(pending.pop()):
                if part == end:
                    return True
                if part not in seen and min(self.members[part]) <= last:
                    seen.add(part)
                    pending.append(part)
        return False

    def join(self, one: int, other: int) -> int:
        """Make two parts one, and give its number."""
        gone, kept = sorted((one, other))
        self.members[kept] = tuple(sorted((*self.members.pop(gone), *self.members[kept])))
        for node in self.nodes(kept):
            self._home |= {value.name: kept for value in node.results}
        self._below.clear()
        return kept

    # What comes of it -------------------------------------------------------------------------------------------------------

    def group(self, *parts: int) -> Group:
        """Parts as one program: their nodes, and views inside of what they make."""
        inside = frozenset(parts)
        nodes = [node for part in parts for node in self.nodes(part)]
        made = {value.name for node in nodes for value in node.results}
        views = [view for node in nodes for value in node.read for view in self._views(value, made)]
        by_place = {self.graph.place(node): node for node in (*nodes, *views)}
        ordered = tuple(by_place[place] for place in sorted(by_place))
        computing = {node.results[0].name for node in nodes}
        results = (value for node in ordered if node.results[0].name in computing for value in node.results)
        return Group(self.graph, ordered, tuple(value for value in results if self.needed(value, inside)))

    def _views(self, value: Value, made: set[str]) -> list[Node]:
        """The views through which a value is seen, if what it is a view of is made inside."""
        passed: list[Node] = []
        while value.name not in made and (node := self.graph.producer(value)) is not None and self.transparent(node):
            passed.append(node)
            value = node.read[0]
        return passed if value.name in made else []

    def ordered(self) -> list[int]:
        """The parts in an order in which they can run: of those that can, the one whose last node comes first in the graph."""
        waiting = {part: set(self.above(part)) for part in sorted(self.members, key=lambda part: max(self.members[part]))}
        order: list[int] = []
        while waiting:
            part = next(part for part, needs in waiting.items() if not needs)
            del waiting[part]
            order.append(part)
            for user in self.below(part):
                waiting[user].discard(part)
        return order
