"""How often loops run whose iterations conditions cut off, on the average over the loops around.

    for i in range(n):                          # k runs (n - 1) / 2 times, and in tiles of 16 (n - 1) / 32 + 1 / 2 of these
        for k in range(n):
            if k < i: S[i] += A[i, k]

A condition without which the whole body of a loop does nothing becomes its bound when code is made. It is taken where the loops inside make
it hold soonest, and at places evenly apart of those outside that conditions speak of; of the other ones every iteration is alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.identities import takes_where
from tensorlang.ir import Axis, Binary, Compare, Expr, For, If, Stmt, Store
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import bound_terms
from tensorlang.ir.traverse import dtype_of, statements
from tensorlang.schedules.model.walks import Terms, added

PLACES: Final = 6
"""Places of a loop at which those inside of it are asked for: mean lengths in triangles are then right to a few hundredths."""
MOST_PLACES: Final = 2048
"""Places of all loops together, at most; with more, loops further inside are asked for in their middle."""
LEAST: Final = 0.01
"""Iterations of a loop that conditions let through nowhere that was looked: it may run, and is a part of the program."""
Values: TypeAlias = npt.NDArray[np.float64]


class Cut(NamedTuple):
    """A condition `constant + sum(coefficient * loop) < 0`."""

    constant: float
    loops: Mapping[str, float]


class Length(NamedTuple):
    """How often a loop runs on the average, and how often with all of what stands inside."""

    begun: float
    whole: float


def cuts(condition: Expr, terms: Callable[[Expr], Terms]) -> Iterator[Cut]:
    """What a condition says of loops, all of which hold where it does; nothing where it is no inequality of `terms` of loops."""
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge") or dtype_of(condition.left) != INT64:
        return
    left, right = (condition.left, condition.right) if condition.op in ("lt", "le") else (condition.right, condition.left)
    for form in bound_terms(Binary("sub", left, right), lower=True):
        if all(isinstance(atom, Axis) for atom in form.terms):
            walks = added(*((terms(atom), factor) for atom, factor in form.terms.items()))
            if not any(term.period < math.inf for term in walks.values()):
                yield Cut(form.constant - (condition.op in ("le", "ge")), {name: term.coefficient for name, term in walks.items()})


def cut_loops(body: Stmt, terms: Callable[[Expr], Terms]) -> frozenset[str]:
    """The loops that conditions speak of around statements, or around what sums take."""
    conditions = conjuncts(part.cond for part in statements(body) if isinstance(part, If))
    conditions += [condition for part in statements(body) if isinstance(part, Store) for condition in takes_where(part)]
    return frozenset(name for condition in conditions for cut in cuts(condition, terms) for name in cut.loops)


def conditions_on(body: Stmt) -> tuple[list[Expr], list[For]]:
    """The conditions without which a body does nothing, and the loops of it around what does something."""
    conditions, inside = list[Expr](), list[For]()
    while isinstance(body, For | If):
        if isinstance(body, For):
            inside.append(body)
            body = body.body
        elif body.orelse is None:
            conditions += conjuncts((body.cond,))
            body = body.then
        else:
            break
    if isinstance(body, Store):
        conditions += takes_where(body)
    return conditions, inside


@dataclass(frozen=True, slots=True)
class Domain:
    """Places of the loops around, those that conditions speak of, and how often each of them is reached."""

    values: Mapping[str, Values] = field(default_factory=dict)
    weights: Values = field(default_factory=lambda: np.ones(1))

    def entered(self, loop: str, trips: float, found: Sequence[Cut], inside: Mapping[str, float]) -> tuple[Length, Domain]:
        """How often a loop of so many `trips` runs that conditions cut, and the places in it; `inside` are trips of loops within."""
        first, counts = self._range(loop, trips, found, inside, min)
        _, whole = self._range(loop, trips, found, inside, max)
        return Length(self._mean(counts), self._mean(whole)), self._along(loop, first, counts)

    def _range(
        self, loop: str, trips: float, found: Sequence[Cut], inside: Mapping[str, float], end_of: Callable[[float, float], float]
    ) -> tuple[Values, Values]:
        """The first iteration of a loop, and how many there are, where the loops inside are at one end of each condition."""
        first, end = np.zeros_like(self.weights), np.full_like(self.weights, math.ceil(trips))
        for constant, loops in found:
            rest = np.full_like(self.weights, constant)
            for name, coefficient in loops.items():
                if name in self.values:
                    rest += coefficient * self.values[name]
                elif name != loop:
                    rest += end_of(0.0, coefficient * (inside.get(name, 1.0) - 1))
            if loops[loop] > 0:
                end = np.minimum(end, np.ceil(-rest / loops[loop]))
            else:
                first = np.maximum(first, np.floor(rest / -loops[loop]) + 1)
        return first, np.maximum(end - first, 0.0)

    def _mean(self, counts: Values) -> float:
        total = float(self.weights.sum())
        return max(LEAST, float((self.weights * counts).sum()) / total) if total else LEAST

    def _along(self, loop: str, first: Values, counts: Values) -> Domain:
        """The places in the iterations of a loop that begins with `first` and runs so often."""
        steps = (np.arange(PLACES) + 0.5) / PLACES if len(self.weights) * PLACES <= MOST_PLACES else np.array([0.5])
        values = {name: np.repeat(known, len(steps)) for name, known in self.values.items()}
        values[loop] = (first[:, None] + np.floor(counts[:, None] * steps)).ravel()
        return Domain(values, np.repeat(self.weights * counts / len(steps), len(steps)))
