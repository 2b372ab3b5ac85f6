"""`explain`: why a pattern is not found where it nearly is.

Near is a node that the root of the pattern names. From each the way that comes farthest is told: which part of the pattern failed, what it
expects, what stands there, and where that comes from in the model. Nodes that no way reaches are not spoken of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang.graph.arguments import of_graph
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.pattern.matches import Wanted, candidates, found_at, operators_of, patterns_of
from tensorlang.graph.pattern.patterns import Pattern
from tensorlang.graph.pattern.search import Search, escaping
from tensorlang.graph.pattern.state import Miss, State
from tensorlang.graph.pattern.wording import described


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A node at which the pattern nearly matches.

    `depth` nodes of the pattern are found; at `place` (operator and operand) `expected` was asked for, and `found` stands there, made by
    `node` (None for an input, a constant, or nothing).
    """

    root: Node
    depth: float
    place: str
    expected: str
    found: str
    node: Node | None

    def __str__(self) -> str:
        origin = next((f" ({origin})" for origin in (self.node.origins if self.node else ()) if str(origin)), "")
        return f"{self.root.label}: {self.place or 'root'}: expected {self.expected}, found {self.found}{origin}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The near misses, nearest first, and how often the pattern does match. True where anything comes near."""

    wanted: str
    matches: int
    misses: tuple[NearMiss, ...]

    def __bool__(self) -> bool:
        return bool(self.misses)

    def __iter__(self) -> Iterator[NearMiss]:
        return iter(self.misses)

    def __len__(self) -> int:
        return len(self.misses)

    def __str__(self) -> str:
        times = f"{self.wanted}: {self.matches} match{'es' * (self.matches != 1)}"
        if not self.misses:
            return f"{times}, and nothing comes near"
        return "\n".join([f"{times}, and near misses:", *(f"{place}. {miss}" for place, miss in enumerate(self.misses, 1))])


@of_graph
def explain(graph: Graph, wanted: Wanted) -> Explanation:
    """Why a pattern does not match, or not more often. Raises `GraphError` for a pattern that can never match."""
    patterns = patterns_of(wanted)
    matches, misses = 0, list[NearMiss]()
    roots = candidates(graph, patterns[0]) if operators_of(patterns[0]) is not None else iter(())
    quiet = Search(graph)
    for root in roots:
        node = graph.producer(root)
        if next(found_at(quiet, patterns, root), None) is not None:
            matches += 1
        elif node is not None and (miss := _farthest(graph, patterns, root)) is not None and miss.depth > 0:
            misses.append(NearMiss(node, miss.depth, miss.place, miss.expected, miss.found, miss.node))
    misses.sort(key=lambda miss: -miss.depth)
    return Explanation(described(patterns[0]), matches, tuple(misses))


def _farthest(graph: Graph, patterns: tuple[Pattern, ...], root: Value) -> Miss | None:
    """The refusal that came after the most nodes; what else was expected at that place is told with it."""
    misses: list[Miss] = []
    search = Search(graph, misses)
    state = State()
    for state in search.ways(patterns[0], root, State(), ""):
        refused = escaping(graph, state, (root,)) if len(patterns) == 1 else None
        if refused is not None:
            node, user = refused
            reader = "the graph gives it as an output" if user is None else f"{user.operator} {user.results[0]} reads it too"
            misses.append(
                Miss(
                    len(state.inside),
                    node.operator,
                    "no reader outside of the match",
                    f"{node.operator} {node.results[0]}: {reader}",
                    user or node,
                )
            )
    if len(patterns) > 1:
        misses += _of_others(graph, patterns, state)
    deepest = max(misses, key=lambda miss: miss.depth, default=None)
    if deepest is None:
        return None
    here = [miss for miss in misses if (miss.depth, miss.place, miss.found) == (deepest.depth, deepest.place, deepest.found)]
    expected = " or ".join(dict.fromkeys(miss.expected for miss in here))
    return Miss(deepest.depth, deepest.place, expected, deepest.found, deepest.node)


def _of_others(graph: Graph, patterns: tuple[Pattern, ...], state: State) -> list[Miss]:
    """How far further roots come after the first one."""
    misses: list[Miss] = []
    search = Search(graph, misses)
    for pattern in patterns[1:]:
        found = next((way for value in candidates(graph, pattern) for way in search.ways(pattern, value, state, "")), None)
        if found is None:
            break
        state = found
    return misses
