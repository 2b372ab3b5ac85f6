"""Chains of a recurrence: what an iteration computes from what an earlier one wrote cannot begin before that is done.

    for i: for j: S[i, j] = S[i, j - 1] + X[i, j]                      # a step of j waits for the one before: 4 cycles
    for i: for j: S[i, j] = S[i - 1, j] + X[i, j]                      # rows wait for rows: all of j lies between
    for j: vector i: S[i, j] = S[i, j - 1] + X[i, j]                   # a step for so many rows at once

A chain runs along the outermost loop in which the two elements differ. Where that is the innermost serial loop, or a loop of copies inside
of it, steps take the latency of what stands between the read and the result; further out, everything between two steps hides it. A chain
through copies that ends with them is hidden by the copies of the next step, as far as the core looks ahead:

    for j_o: unroll j_i: unroll i: S[i, j] = S[i - 1, j] + S[i, j - 1]    # as long as j_i from step to step, as long as i within one
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tensorlang.schedules.model.parts import Loop, Statement
from tensorlang.schedules.model.walks import LinearAccess


def own_store(statement: Statement, buffer: str) -> LinearAccess | None:
    """The access by which a statement writes a buffer; None where it does not, or registers hold what it writes."""
    return next((access for access in statement.accesses if access.writes and access.buffer.name == buffer), None)


class Chains(NamedTuple):
    """How long a body waits, in latencies of a multiply-add: for the body `before` it, and `within` itself for its own results."""

    before: float = 0.0
    within: float = 0.0


def chains(statement: Statement, around: Sequence[Loop], path: Sequence[Loop], copies: Mapping[str, int]) -> Chains:
    """How long a body waits for its own past; the loops `around` it, and those of its copies."""
    order = [loop.name for loop in (*around, *path)]
    before = within = 0.0
    for buffer, offsets, latency in statement.carried:
        write = own_store(statement, buffer)
        carrier = None if write is None else _carrier(write, offsets, order)
        if carrier is None:
            continue
        loop, distance, moving = carrier
        if loop in copies and loop not in {one.name for one in path if one.kind == "vector"}:
            length = copies[loop] * latency / distance
            if around and around[-1].name in moving:
                before = max(before, length)
            else:
                within = max(within, length)
        elif around and around[-1].name == loop:
            before = max(before, latency / distance)
    return Chains(before, within)


def _carrier(write: LinearAccess, offsets: tuple[int, ...], order: list[str]) -> tuple[str, float, Collection[str]] | None:
    """The loop along which a chain runs, how many of its steps a step of the chain takes, and the loops of the same index."""
    found: list[tuple[int, float, Collection[str]]] = []
    for terms, here, there in zip(write.terms, write.taps[0], offsets, strict=True):
        apart = abs(here - there)
        places = [(order.index(name), abs(term.coefficient)) for name, term in terms.items() if name in order]
        if apart and places:
            near = [one for one in places if one[1] <= apart]
            place, each = max(near) if near else min(places, key=lambda one: one[1])
            found.append((place, max(1.0, apart / each), terms.keys()))
    if not found:
        return None
    place, distance, moving = min(found, key=lambda one: one[:2])
    return order[place], distance, moving
