"""`simplify`: algebra, one equation a row (`tensorlang.graph.passes.equations`), until none applies.

`simplify` uses the rows that hold for every bit: with NaN, infinities, the sign of zero and rounding as they are. `simplify_fast` uses
all of them: equations of real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorlang.graph.arguments import of_graph
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.ir import Graph
from tensorlang.graph.passes.cleaning import dead_code
from tensorlang.graph.passes.equations import EQUATIONS, Equation
from tensorlang.graph.pattern import Match, match_all

ROUNDS: Final = 64
"""Times that all equations are tried, each on what the last ones left; every one makes a graph smaller or its nodes cheaper."""


@of_graph
def simplify(graph: Graph) -> Graph:
    """The graph after algebra that changes no bit of any result."""
    return simplified(graph, [row for row in EQUATIONS if row.exact])


@of_graph
def simplify_fast(graph: Graph) -> Graph:
    """The graph after algebra of real numbers: last digits may differ, and what becomes of NaN, infinities and negative zeros."""
    return simplified(graph, EQUATIONS)


def simplified(graph: Graph, rows: Sequence[Equation]) -> Graph:
    """The graph after these equations, the first that holds at a node, until none applies."""
    for _ in range(ROUNDS):
        after = _once(graph, rows)
        if after is graph:
            break
        graph = after
    return graph


def _once(graph: Graph, rows: Sequence[Equation]) -> Graph:
    """All matches that share no node, replaced; the graph itself where there is none."""
    found: dict[str, list[tuple[Equation, Match]]] = {}
    for row in rows:
        for match in match_all(graph, row.before, overlapping=True):
            found.setdefault(match.root.name, []).append((row, match))
    if not found:
        return graph
    made = Rewriter(graph)
    changed = False
    for node in graph.nodes:
        if len(node.results) == 1 and node.results[0].name in found and _replaced(made, found[node.results[0].name]):
            changed = True
        else:
            made.copy(node)
    return dead_code(made.finish()) if changed else graph


def _replaced(made: Rewriter, ways: list[tuple[Equation, Match]]) -> bool:
    """Let the first equation that holds say what stands for a value."""
    for row, match in ways:
        made.origins = tuple(dict.fromkeys(origin for node in match.nodes for origin in node.origins))
        after = row.after(made, match)
        made.origins = ()
        if after is not None and after.type == match.root.type:
            made.become(match.root, after)
            return True
    return False
