"""States of a scan that a step changes at few places: scatters into the last state make the next one where it stands.

    n = n with 1 added at w[t]                      one element is touched, and not all of them copied
    n = n less 1 at (d, z), then plus 1 at (d, k)   one scatter after the other

Right where whatever reads the state before a scatter is computed before it: stages of a step that need nothing of the scatter move in front
of it. A scatter that reads what it changes would see its own work, but for one of a single iteration, which stores last. So sequential
algorithms with tables take what they touch: samplers, counters, greedy matching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tensorlang.definition.tensor import Definition, Scan, Scatter, Tensor, expressions, operands
from tensorlang.ir import const
from tensorlang.ir.traverse import loads_of

Chain: TypeAlias = tuple[Scatter, ...]
"""Scatters, the first into a state, each other one into what that before it makes; the last makes the next state."""


def changed(scan: Scan) -> tuple[Mapping[int, Chain], tuple[Definition, ...]]:
    """The chains by the component of the state that they change, and the definitions of the step in an order in which that is right."""
    found: dict[int, Chain] = {}
    after: dict[int, set[int]] = {}
    order = scan.body
    for component in range(len(scan.states)):
        chain = _chain(scan, component)
        earlier = _earlier(scan, component, chain) if chain else None
        if earlier is None:
            continue
        wanted = {key: after.get(key, set()) | earlier.get(key, set()) for key in after.keys() | earlier.keys()}
        moved = _ordered(scan.body, wanted)
        if moved is not None:
            found[component], after, order = chain, wanted, moved
    return found, order


def _chain(scan: Scan, component: int) -> Chain:
    """The scatters that lead from a state to the next one; empty where others do."""
    links: list[Scatter] = []
    state, new = scan.states[component], scan.following[component].definition
    while isinstance(new, Scatter) and any(new is part for part in scan.body):
        links.append(new)
        new = new.init.definition
    given = [tensor.definition for place, tensor in enumerate(scan.following) if place != component]
    kept = any(tensor is passed for tensor in given for passed in (state, *links))  # the next state of another one, or of two
    return tuple(reversed(links)) if new is state and scan.keep[component] == "last" and not kept else ()


def _earlier(scan: Scan, component: int, chain: Chain) -> dict[int, set[int]] | None:
    """By the identity of each scatter the definitions that come before it, as they read what it changes; None where it does so itself."""
    found: dict[int, set[int]] = {}
    for before, link in zip((scan.states[component], *chain), chain, strict=False):
        own = (load.buffer for expr in expressions(link) for load in loads_of(expr))
        if any(isinstance(read, Tensor) and read.definition is before for read in own) and not _is_single(link):
            return None
        others = (part for part in scan.body if part is not link)
        found[id(link)] = {id(part) for part in others if any(read.definition is before for read in operands(part))}
    return found


def _is_single(scatter: Scatter) -> bool:
    """Has it one iteration?"""
    return all(axis.lo == const(0) and axis.hi == const(1) for axis in scatter.axes)


def _ordered(body: Sequence[Definition], after: Mapping[int, set[int]]) -> tuple[Definition, ...] | None:
    """The definitions, each after what it reads and what it is to come after, else as they were; None where that cannot be."""
    inside = {id(part) for part in body}
    needs = {id(part): {id(read.definition) for read in operands(part)} & inside | after.get(id(part), set()) for part in body}
    waiting, order = {id(part): part for part in body}, dict[int, Definition]()
    while waiting:
        ready = next((place for place in waiting if needs[place] <= order.keys()), None)
        if ready is None:
            return None
        order[ready] = waiting.pop(ready)
    return tuple(order.values())
