"""What the window of the core holds runs at once: statements that it holds together overlap as the resources of one statement do.

    for j: (for k: acc += a * b); c[j] += acc       # lines of c come while products are made, where both fit into the window

Of loops whose body is longer than the window, that part overlaps with what comes before and after. What is stored past the caches leaves
the core by itself: a few lines of it go on their way while the next statements run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Part, Statement

LEAVING: Final = 128
"""Lines past the caches that are on their way while others are computed: on a Zen 4 rows of 4 KiB that are read and so stored in turn take
what reading and storing at once take, and rows of 16 KiB what one after the other takes."""


class Taken(NamedTuple):
    """What a statement takes in all its runs: cycles of arithmetic, of resources beside it, of memory, and of streams `past` the caches.

    `waits`: cycles in which the core waits; `slots`: what it issues; `busy`: cycles of each kind of unit, of which the most is in
    `arithmetic`.
    """

    arithmetic: float
    resources: tuple[float, ...]
    memory: float
    past: float
    waits: float
    slots: float
    busy: tuple[float, ...]

    def whole(self, machine: Machine) -> float:
        """The cycles of all resources together, without those in which the core waits."""
        memory = together((self.memory, self.past), machine.memory.both)
        return together((self.arithmetic, *self.resources, memory), machine.overlap)

    def plus(self, other: Taken) -> Taken:
        """Those of both."""
        return Taken(
            self.arithmetic + other.arithmetic,
            _sums((self.resources, other.resources)),
            self.memory + other.memory,
            self.past + other.past,
            self.waits + other.waits,
            self.slots + other.slots,
            _sums((self.busy, other.busy)),
        )


class _Group(NamedTuple):
    """Statements that run beside one another: the cycles of each, what they take, `most` of it by one kind of unit; all their cycles.

    `alone`: these without what is stored past the caches.
    """

    statements: tuple[tuple[Statement, float], ...]
    taken: Taken
    most: float
    whole: float
    alone: float


def beside_others(parts: Sequence[Part], taken: Mapping[int, Taken], machine: Machine) -> Iterator[tuple[Statement, float]]:
    """The cycles of each statement beside those that the window holds with it."""
    for part in parts:
        for statement, cycles in _group(part, taken, machine, 1.0).statements:
            yield statement, cycles + taken[statement.place].waits


def together(cycles: Collection[float], exponent: float) -> float:
    """What resources take that overlap: between the most of them and their sum."""
    most = max(cycles)
    return most * float(sum((value / most) ** exponent for value in cycles) ** (1 / exponent)) if most else 0.0


def _group(part: Part, taken: Mapping[int, Taken], machine: Machine, runs: float) -> _Group:
    if isinstance(part, Statement):
        own = taken[part.place]
        whole = own.whole(machine)
        return _Group(((part, whole),), own, max(own.busy), whole, own._replace(past=0.0).whole(machine) if own.past else whole)
    runs *= part.trips
    groups = [_group(inner, taken, machine, runs) for inner in part.body]
    if len(groups) == 1:
        return groups[0]
    total = groups[0].taken
    for group in groups[1:]:
        total = total.plus(group.taken)
    most, apart, alone = _sums((group.most, group.whole, group.alone) for group in groups)
    whole = apart
    if total.past:
        leaving = min(1.0, LEAVING * machine.line * runs / (total.past * machine.memory.streaming))
        whole -= leaving * max(0.0, apart - together((alone, total.past), machine.memory.both))
    held = min(1.0, machine.ports.window * runs / total.slots) if total.slots else 0.0
    gained = held * (most - max(total.busy))
    total = total._replace(arithmetic=total.arithmetic - gained)
    whole -= held * max(0.0, whole - total.whole(machine))
    less = whole / apart if apart else 1.0
    cycles = tuple((statement, own * less) for group in groups for statement, own in group.statements)
    return _Group(cycles, total, most - gained, whole, min(alone, whole))


def _sums(values: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*values, strict=True)))
