"""`assert_pass`: a pass is tested by what it removes and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import tensorlang as tl
from tensorlang.graph.arguments import called
from tensorlang.graph.ir import Graph
from tensorlang.graph.pattern.explaining import explain
from tensorlang.graph.pattern.matches import Wanted, match_all


def assert_pass(
    run: Callable[[Graph], Graph],
    graph: Graph,
    before: Wanted,
    after: Wanted | None = None,
    count: int | None = None,
    inputs: Sequence[object] | None = None,
    rtol: float = 1e-4,
) -> Graph:
    """Run a pass on a graph, and give what it makes: `before` matches at first and not afterwards, and `after` matches then.

    `before` matches `count` times where that is given; with `inputs` both graphs compute the same, within `rtol` of the largest element.
    Raises `AssertionError` where one of these does not hold, with what comes near, `GraphError` where the pass makes no graph.
    """
    matches = len(list(match_all(graph, before)))
    if not matches or (count is not None and matches != count):
        raise AssertionError(f"before the pass: {matches} matches, and {count or 'some'} are wanted\n{explain(graph, before)}")
    name = str(getattr(run, "__name__", run))
    made = called(f"the pass {name:.60}", run, graph)
    if not isinstance(made, Graph):
        raise tl.GraphError(f"a pass gives a graph, and {name} gave {made!r:.60}")
    made.verify()
    left = list(match_all(made, before))
    if left:
        raise AssertionError(f"after the pass {len(left)} of {matches} matches are left, as {left[0]!r}\n{made.to_let()}")
    if after is not None and next(match_all(made, after), None) is None:
        raise AssertionError(f"after the pass nothing matches what is wanted then\n{explain(made, after)}\n{made.to_let()}")
    if inputs is not None:
        for old, new in zip(graph.run(*inputs), made.run(*inputs), strict=True):
            np.testing.assert_allclose(new, old, rtol=rtol, atol=rtol * float(np.abs(old).max(initial=0)))
    return made
