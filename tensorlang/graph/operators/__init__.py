"""The table of operators: canonical names, which are torch's functional ones, and a function for each.

    pointwise     an element from those at its place
    views         the same elements, looked at otherwise
    reductions    sums, means, extrema over axes
    layers        products, convolutions, attention, norms, pooling
    moving        cat, pad, gathers, cumulative sums
    indexing      scatters, gathers of tuples, one-hot, the largest elements, resampling
    recurrent     LSTM, GRU and plain recurrent layers
    sampling      images at places that a grid names, numbers among boundaries
    windows       pooling and convolutions along any number of axes
    channels_last  convolutions and pooling of images with channels last
    winograd      convolutions of 3 x 3 by fewer products

A front door translates into these names, and a pattern is written in them, whatever the model came from. `register` adds an operator of
somebody else: it then has types, runs, is fused and prints like any other.
"""

from __future__ import annotations

from typing import Final

import tensorlang as tl
from tensorlang.errors import did_you_mean
from tensorlang.graph.operator import Function, Operator, View
from tensorlang.graph.operators import (
    channels_last,
    indexing,
    layers,
    moving,
    pointwise,
    recurrent,
    reductions,
    sampling,
    views,
    windows,
    winograd,
)

_TABLE: Final[dict[str, Operator]] = {
    operator.name: operator
    for family in (pointwise, views, reductions, layers, moving, indexing, windows, recurrent, sampling, channels_last, winograd)
    for operator in family.OPERATORS
}


def known() -> tuple[str, ...]:
    """The names of all operators, sorted."""
    return tuple(sorted(_TABLE))


def find(name: str) -> Operator:
    """The operator of a name. Raises `GraphError`, with the nearest names."""
    found = _TABLE.get(name) if isinstance(name, str) else None
    if found is None:
        raise tl.GraphError(f"there is no operator {name!r:.80}{did_you_mean(str(name), _TABLE)}; graph.register adds one")
    return found


def register(name: str, function: Function, *, commutative: bool = False, view: View | None = None) -> Operator:
    """Add an operator for this process: a function of tensors (see `tensorlang.graph.operator`), by a name such as "acme.scaled".

    Raises `GraphError` for a name that is taken by another function, or a function whose parameters are not annotated.
    """
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        raise tl.GraphError(f"an operator is named by words joined by dots, as 'acme.scaled', not {name!r:.60}")
    made = Operator.of(function, name, commutative=commutative, view=view)
    if _TABLE.setdefault(name, made).function is not function:
        raise tl.GraphError(f"there is an operator {name!r} already; name this one otherwise")
    _TABLE[name] = made
    return made
