"""Reducers taken apart: components that need nothing of each other combine as if they stood alone.

A reduction of several components, such as `join_reductions` makes of two, does to each what a reduction of that one alone would do.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from tensorlang.ir import Expr, Param, Reducer
from tensorlang.ir.traverse import map_children, walk
from tensorlang.semantics import nest_interpreter, scalars

STATES = 24
"""On how many states it is tried out whether a reducer minds a value twice."""


@cache
def apart(reducer: Reducer) -> tuple[tuple[tuple[int, ...], Reducer], ...]:
    """The groups of components that need each other, each with its own reducer, named by what it does."""
    groups: list[set[int]] = []
    for place, result in enumerate(reducer.results):
        together = {place, *(place_of(node) for node in walk(result) if isinstance(node, Param))}
        others = [group for group in groups if group & together]
        groups = [group for group in groups if group not in others] + [together.union(*others)]
    return tuple((places, alone(reducer, places)) for places in sorted(tuple(sorted(group)) for group in groups))


def place_of(param: Param) -> int:
    """The component that a parameter stands for: 1 for `a1` and `b1`."""
    return int(param.name[1:])


def alone(reducer: Reducer, places: tuple[int, ...]) -> Reducer:
    """The reducer of some components, which are numbered anew."""

    def numbered(expr: Expr) -> Expr:
        if isinstance(expr, Param):
            return replace(expr, name=f"{expr.name[0]}{places.index(place_of(expr))}")
        return map_children(expr, numbered)

    results = tuple(numbered(reducer.results[place]) for place in places)
    return Reducer(repr(results), tuple(reducer.identities[place] for place in places), results)


@cache
def forgiving(reducer: Reducer) -> bool:
    """Does a reducer not mind a value twice? Tried out: states combined with themselves stay what they are."""
    rng = np.random.default_rng(0)

    def kept() -> bool:
        machine = nest_interpreter._Machine((), {})
        drawn = [rng.integers(0 if of.dtype.numpy.kind in "bu" else -9, 10) for of in reducer.identities]
        states = [scalars.scalar(value, of.dtype) for value, of in zip(drawn, reducer.identities, strict=True)]
        for place, state in enumerate(states):
            machine.params[f"a{place}"] = machine.params[f"b{place}"] = state
        return [machine.value(result)() for result in reducer.results] == states

    return all(kept() for _ in range(STATES))
