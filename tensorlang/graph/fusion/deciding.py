"""Which parts of a graph are joined.

    at once    a pointwise part joins what it alone reads, each element at its own place (an epilogue), and pointwise parts each other
    asked      a part and the copies that are made of what it computes alone: slices, permutations
    asked      a part and what it reads (prologue, reduction with its neighbours, products one after the other); what somebody else reads
               too becomes a second result
    asked      independent parts that read the same operand (horizontal)

Asked means: joined where `kernels.estimate` finds one kernel no slower than both, of two large products faster. What cannot gain is not
asked, since an answer takes as long as a schedule: two products with a weight, or another operand, that is larger than the value that they
share. A kernel has few products, so that a model remains a list of kernels that are shared among its layers, and can be tuned.

Everything goes by the order of the graph and by estimates, which are the same in every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import combinations
from typing import Final

from tensorlang.graph.definition import of_node
from tensorlang.graph.fusion.clusters import Clusters
from tensorlang.graph.fusion.group import Group
from tensorlang.graph.fusion.weighing import seconds, size
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.operators import find

PRODUCTS: Final = 3
"""Sums of products in one kernel: three projections of one input, a gated layer with what reads it."""
DEPTH: Final = 2
"""Products one after the other in one kernel: of a stack of equal layers, pairs that are equal too."""
GAIN: Final = 0.97
"""The share of the time of two large products apart that one kernel may take. It has one choice of tiles for both, so it loses where
nothing but a call is saved."""
NODES: Final = 32
"""Nodes that compute in one kernel: of longer chains the loops would write some down anyway."""
REDUCTIONS: Final = 6
SMALL: Final = 1 << 18
"""Bytes of operands and results up to which parts are asked about whatever they read: there calls count."""


def decided(graph: Graph, target: str) -> Clusters:
    """The parts of a graph that are one kernel each. Raises `GraphError`, and `BuildError` for an unknown target."""
    parts = Clusters(graph)
    _until_none(lambda: _at_once(parts))
    weigh = _Weighing(parts, target)
    _with_copies(parts, weigh)
    _until_none(lambda: _along(parts, weigh))
    _until_none(lambda: _beside(parts, weigh))
    _until_none(lambda: _along(parts, weigh))
    return parts


def _until_none(once: Callable[[], bool]) -> None:
    while once():
        pass


# At once --------------------------------------------------------------------------------------------------------------------


def _at_once(parts: Clusters) -> bool:
    """Join parts with what they alone read in place; was there any?"""
    return _each(parts, lambda above, part: parts.join(above, part) if _epilogue(parts, above, part) else None)


def _each(parts: Clusters, joined: Callable[[int, int], int | None]) -> bool:
    """Go through the parts, and for each through what it reads, as long as one of these is joined with it; was any?"""
    changed = False
    for place in sorted(parts.members):
        part: int | None = place if place in parts.members else None
        while part is not None:
            reading = part
            part = next((made for above in parts.above(reading) if (made := joined(above, reading)) is not None), None)
            changed |= part is not None
    return changed


def _epilogue(parts: Clusters, above: int, part: int) -> bool:
    """Is what a part makes read by another one alone, by pointwise nodes at their own places? One of both is pointwise.

    Where both are, elements may lie otherwise for the second one: a permutation or a reshape between them costs what it costs apart.
    """
    if len(parts.members[above]) + len(parts.members[part]) > NODES:
        return False
    pointwise = [_pointwise(parts, one) for one in (above, part)]
    made = [value for node in parts.nodes(above) for value in node.results]
    return any(pointwise) and all(_read_in_place(parts, value, above, part, moved=all(pointwise)) for value in made)


def _pointwise(parts: Clusters, part: int) -> bool:
    return all(of_node(node).access.kind == "pointwise" for node in parts.nodes(part))


def _read_in_place(parts: Clusters, value: Value, above: int, part: int, *, moved: bool) -> bool:
    """Is a value read by these parts alone, and by the lower one at the place of each of its elements?"""
    if parts.needed(value, frozenset({above, part})):
        return False
    return all(
        place in of_node(node).pointwise_in and (operand == value or (moved and parts.turned(operand)))
        for node in parts.readers(value)
        if parts.home(node.results[0]) == part
        for place, operand in enumerate(node.inputs)
        if operand is not None and parts.source(operand) == value
    )


# Asked ----------------------------------------------------------------------------------------------------------------------


class _Weighing:
    """What parts cost, alone and joined; a pair that was refused is not asked about again until one of both has changed."""

    def __init__(self, parts: Clusters, target: str) -> None:
        self.parts = parts
        self.target = target
        self.refused: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def join(self, one: int, other: int, worth: Callable[[int, int], bool]) -> int | None:
        """Join two parts if it is worth asking, and one kernel is no slower than both; None where they are not joined."""
        pair = self.parts.members[one], self.parts.members[other]
        if pair in self.refused:
            return None
        if worth(one, other) and self._possible(one, other) and self._no_slower(one, other):
            return self.parts.join(one, other)
        self.refused.add(pair)
        return None

    def _possible(self, one: int, other: int) -> bool:
        joint = [*self.parts.nodes(one), *self.parts.nodes(other)]
        if len(joint) > NODES or sum(map(_reduces, joint)) > REDUCTIONS or sum(map(_multiplies, joint)) > PRODUCTS:
            return False
        return self.parts.joinable(one, other) and _depth(self.parts.group(one, other)) <= DEPTH

    def _no_slower(self, one: int, other: int) -> bool:
        large = _both_multiply(self.parts, one, other) and not _small(self.parts.group(one, other))
        return self.pays((one, other), GAIN if large else 1.0)

    def pays(self, members: Sequence[int], gain: float = 1.0) -> bool:
        """Do parts take no more than a share of their time as one kernel?"""
        apart = sum(seconds(self.parts.group(part), self.target) for part in members)
        joint = seconds(self.parts.group(*members), self.target)
        return joint < math.inf and joint <= gain * apart


def _with_copies(parts: Clusters, weigh: _Weighing) -> None:
    """Ask of what is copied several times about all of its copies, which may pay together where no single one does."""
    for part in [part for part in sorted(parts.members) if not _copies(parts, part)]:
        copies = sorted(below for below in parts.below(part) if _copies(parts, below) and parts.above(below) == [part])
        if len(copies) > 1 and len(parts.members[part]) + len(copies) <= NODES and weigh.pays((part, *copies)):
            reduce(parts.join, copies, part)


def _copies(parts: Clusters, part: int) -> bool:
    """Does a part compute nothing: is it a view that cannot be seen where its operand lies?"""
    return all(find(node.operator).view is not None for node in parts.nodes(part))


def _along(parts: Clusters, weigh: _Weighing) -> bool:
    """Ask of each part about those that it reads; was any joined?"""
    return _each(parts, lambda above, part: weigh.join(above, part, partial(_may_gain, parts)))


def _may_gain(parts: Clusters, above: int, part: int) -> bool:
    """Of two products: is no operand of theirs larger than what is between them, or are they small?"""
    products = [node for one in (above, part) for node in parts.nodes(one) if _multiplies(node)]
    if not _both_multiply(parts, above, part):
        return True
    between = [value for node in parts.nodes(above) for value in node.results if part in parts.users(value)]
    largest = max(size(value.type) for value in between)
    operands = [value for node in products for value in node.read if parts.home(value) not in (above, part)]
    return all(size(value.type) <= largest for value in operands) or _small(parts.group(above, part))


def _beside(parts: Clusters, weigh: _Weighing) -> bool:
    """Ask about independent parts of one kind that read the same operand; was any joined?"""
    changed = False
    for value in parts.graph.values.values():
        for one, other in combinations(sorted(parts.users(value)), 2):
            if value.shape and {one, other} <= parts.members.keys():
                changed |= weigh.join(one, other, partial(_alike, parts)) is not None
    return changed


def _alike(parts: Clusters, one: int, other: int) -> bool:
    """May two parts gain by reading an operand together: pointwise ones of one shape, products that are small?

    Large products share their code where they are apart, and run beside each other.
    """
    first, second = parts.group(one), parts.group(other)
    if first.pointwise and second.pointwise:
        return first.nodes[-1].results[0].shape == second.nodes[-1].results[0].shape
    return _both_multiply(parts, one, other) and _small(parts.group(one, other))


def _small(group: Group) -> bool:
    return sum(size(value.type) for value in (*group.inputs, *group.results)) <= SMALL


def _reduces(node: Node) -> bool:
    return of_node(node).access.kind == "reduction"


def _multiplies(node: Node) -> bool:
    """Is there a stage that reads more than one operand several times: a product, a convolution?"""
    stages = of_node(node).access.stages
    return any(sum(read.relation == "several" for read in stage.reads) > 1 for stage in stages)


def _both_multiply(parts: Clusters, one: int, other: int) -> bool:
    return all(any(map(_multiplies, parts.nodes(part))) for part in (one, other))


def _depth(group: Group) -> int:
    """The products on the longest path through a group."""
    depth: dict[str, int] = {}
    for node in group.nodes:
        above = max((depth.get(value.name, 0) for value in node.read), default=0)
        depth |= {value.name: above + _multiplies(node) for value in node.results}
    return max(depth.values())
