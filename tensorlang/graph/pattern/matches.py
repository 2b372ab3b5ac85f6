"""`match_all`: where a pattern is found in a graph.

    order       from the outputs to the inputs: the last node that can be the root comes first
    at a root   the first way that holds as a whole
    overlaps    of matches that share a node, the first one, unless `overlapping`
    escapes     a match is none where nodes outside read what is made inside, unless that is `shared()`

A rewrite that replaces every match by something of its own is therefore sound: no node is replaced twice, and nobody misses one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import tensorlang as tl
from tensorlang.graph.arguments import called, of_graph
from tensorlang.graph.ir import Array, Graph, Node, Value
from tensorlang.graph.pattern.checking import check
from tensorlang.graph.pattern.patterns import And, Applied, Links, Or, Pattern, as_pattern
from tensorlang.graph.pattern.search import Search, escaping
from tensorlang.graph.pattern.state import State

Wanted: TypeAlias = "Pattern | tuple[Pattern, ...] | Callable[[ModuleType], Pattern | tuple[Pattern, ...]]"
"""A pattern; several, for a part of a graph with several results; or a function that makes them of `tensorlang.graph.pattern`."""


@dataclass(frozen=True, eq=False)
class Match(Mapping[str, Any]):
    """A part of a graph: `match["weight"]` is the value, or the attribute, that was bound to a name; what was left out is not there.

    `roots` are what the patterns were found at (`root` the first), `nodes` all nodes inside, in the order of the graph.
    """

    graph: Graph
    roots: tuple[Value, ...]
    nodes: tuple[Node, ...]
    bindings: Mapping[str, Any]

    @property
    def root(self) -> Value:
        """The value that the (first) pattern was found at."""
        return self.roots[0]

    def __getitem__(self, name: str) -> Any:
        return self.bindings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.bindings)

    def __len__(self) -> int:
        return len(self.bindings)

    def node(self, name: str) -> Node:
        """The node that makes the value bound to a name. Raises `GraphError` for an input or a constant."""
        found = self.graph.producer(self[name])
        if found is None:
            raise tl.GraphError(f"{name} is bound to {self[name]}, which no node makes")
        return found

    def array(self, name: str) -> Array:
        """The array of the constant bound to a name. Raises `GraphError` for any other value."""
        found = self.graph.constant(self[name])
        if found is None:
            raise tl.GraphError(f"{name} is bound to {self[name]}, which is not constant")
        return found

    def __repr__(self) -> str:
        parts = (f"{name}={value.name if isinstance(value, Value) else value!r}" for name, value in self.items())
        return f"<Match at {self.root}: {', '.join(parts)}>"


def patterns_of(wanted: Wanted) -> tuple[Pattern, ...]:
    """The patterns that are meant, checked. Raises `GraphError` for what is none, or can never match."""
    if callable(wanted) and not isinstance(wanted, Pattern):
        from tensorlang.graph import pattern  # noqa: PLC0415 - the room that this file is in

        wanted = called(f"the function {getattr(wanted, '__name__', wanted)!s:.60}, which makes a pattern,", wanted, pattern)
    found = tuple(map(as_pattern, wanted)) if isinstance(wanted, tuple) else (as_pattern(wanted),)
    if not found:
        raise tl.GraphError("a pattern is one or several; there are none")
    for one in found:
        check(one)
    return found


@of_graph
def match_all(graph: Graph, wanted: Wanted, *, overlapping: bool = False) -> Iterator[Match]:
    """The matches of a pattern in a graph, from its outputs to its inputs. Raises `GraphError` for a pattern that can never match."""
    patterns = patterns_of(wanted)
    search = Search(graph)
    taken: set[str] = set()
    for root in candidates(graph, patterns[0]):
        for match in found_at(search, patterns, root):
            names = {node.results[0].name for node in match.nodes}
            if overlapping or not names & taken:
                taken |= names
                yield match
                break


def found_at(search: Search, patterns: tuple[Pattern, ...], root: Value) -> Iterator[Match]:
    """Every match whose first root is a value."""
    if not search.plausible(patterns[0], root):
        return
    for roots, state in _rooted(search, patterns, root):
        if escaping(search.graph, state, roots) is None:
            yield _match(search.graph, roots, state)


def _rooted(search: Search, patterns: tuple[Pattern, ...], root: Value) -> Iterator[tuple[tuple[Value, ...], State]]:
    ways: Iterator[tuple[tuple[Value, ...], State]] = (((root,), state) for state in search.ways(patterns[0], root, State(), ""))
    for pattern in patterns[1:]:
        ways = _further(search, pattern, ways)
    yield from ways


def _further(
    search: Search, pattern: Pattern, ways: Iterable[tuple[tuple[Value, ...], State]]
) -> Iterator[tuple[tuple[Value, ...], State]]:
    for roots, state in ways:
        for value in candidates(search.graph, pattern):
            if value not in roots:
                yield from (((*roots, value), found) for found in search.ways(pattern, value, state, ""))


def _match(graph: Graph, roots: tuple[Value, ...], state: State) -> Match:
    nodes = {graph.place(one.node): one.node for one in state.inside}
    return Match(
        graph,
        roots,
        tuple(nodes[place] for place in sorted(nodes)),
        {key: value for key, value in state.known.items() if isinstance(key, str)},
    )


def candidates(graph: Graph, pattern: Pattern) -> Iterator[Value]:
    """The values that a pattern may be found at, from the outputs to the inputs."""
    operators = operators_of(pattern)
    if operators is None:
        yield from reversed(list(graph.values.values()))
        return
    few = [node for name in operators for node in graph.by_operator.get(name, ())]
    if len(operators) > 1:
        few = sorted(few, key=graph.place)
    for node in reversed(few):
        yield from node.results


def operators_of(pattern: Pattern) -> tuple[str, ...] | None:
    """The operators one of which makes what a pattern is found at; None where anything can."""
    match pattern:
        case Applied(operators=operators):
            return operators or None
        case And(patterns=parts):
            return next((found for part in parts if (found := operators_of(part)) is not None), None)
        case Or(patterns=parts):
            several = [operators_of(part) for part in parts]
            known = [name for one in several if one is not None for name in one]
            return None if None in several else tuple(dict.fromkeys(known))
        case Links(step=step, least=least) if least:
            return step.operators or None
        case _:
            return None
