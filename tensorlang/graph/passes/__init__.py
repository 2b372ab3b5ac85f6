"""Passes: plain functions from graph to graph. None changes what it is given, and what it gives is verified.

    dead_code                 nodes and constants that reach no output are left out
    common_subexpressions     what is computed twice from the same is computed once
    fold_constants            what reads constants alone is a constant
    fold_batch_norm           a batch norm goes into the layer before it

`passes.apply(graph, passes.fold_batch_norm, mine)` runs several, and says by its name which one broke a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import tensorlang as tl
from tensorlang.graph.ir import Graph
from tensorlang.graph.passes.batch_norm import fold_batch_norm
from tensorlang.graph.passes.cleaning import common_subexpressions, dead_code
from tensorlang.graph.passes.folding import fold_constants

Pass: TypeAlias = Callable[[Graph], Graph]

__all__ = ["Pass", "apply", "common_subexpressions", "dead_code", "fold_batch_norm", "fold_constants"]


def apply(graph: Graph, *passes: Pass) -> Graph:
    """What passes make of a graph, one after the other, each verified.

    Raises `GraphError`, with the name of the pass, where one gives no graph, one that is not well formed, or one of other inputs or
    outputs. The graph that was given is as it was.
    """
    for run in passes:
        name = getattr(run, "__name__", repr(run))
        try:
            graph = _checked(graph, run(graph))
        except tl.GraphError as error:
            raise tl.GraphError(f"the pass {name}: {error}") from None
    return graph


def _checked(graph: Graph, made: object) -> Graph:
    """What a pass made of a graph, if it may stand for it."""
    if not isinstance(made, Graph):
        raise tl.GraphError(f"it gives {made!r:.60}, and not a graph")
    made.verify()
    for what in ("inputs", "outputs"):
        before, after = ([value.type for value in getattr(one, what)] for one in (graph, made))
        if before != after:
            raise tl.GraphError(f"its {what} are {', '.join(map(str, after))}, and were {', '.join(map(str, before))}")
    return made
