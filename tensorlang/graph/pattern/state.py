"""What is known on one way of matching."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from tensorlang.graph.ir import Node


@dataclass(frozen=True, slots=True)
class Inside:
    """A node of a match; `escapes`: nodes outside may read its results."""

    node: Node
    escapes: bool


@dataclass(frozen=True, slots=True)
class State:
    """Bindings, by objects of the pattern and by names, and the nodes that are inside, in the order in which they were found."""

    known: Mapping[Hashable, object] = field(default_factory=dict)
    inside: tuple[Inside, ...] = ()

    def knowing(self, key: Hashable, value: object) -> State | None:
        """With one more binding; None where the key is bound otherwise."""
        if key in self.known:
            return self if same(self.known[key], value) else None
        return State({**self.known, key: value}, self.inside)

    def holding(self, node: Node, escapes: bool) -> State:
        """With one more node inside."""
        return State(self.known, (*self.inside, Inside(node, escapes)))


@dataclass(frozen=True, slots=True)
class Miss:
    """A refusal: how far the way had come (nodes found, and half a one whose attributes do not fit), where, and what stands there."""

    depth: float
    place: str
    expected: str
    found: str
    node: Node | None


def same(left: object, right: object) -> bool:
    """Are two values, extents or attributes one? 1 and True are not."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
