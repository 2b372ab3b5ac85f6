"""What one iteration of each loop touches, as the cost model counts it, against the caches of the machine that it is estimated for.

A loop whose iteration fits a cache finds there again what the iteration before left; the caches that hold it are those that it reuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorlang.ir import Nest
from tensorlang.ir.printer import short
from tensorlang.schedules.model.estimate import levels
from tensorlang.schedules.model.footprints import LoopScope, scope
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.program import program


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """A loop (empty: the whole program): how deep it stands, how often it runs, and the bytes of each buffer that one iteration touches.

    Bytes are those of whole lines. `home` is the nearest level of memory that holds them all.
    """

    loop: str
    depth: int
    trips: float
    kind: str
    buffers: Mapping[str, float]
    home: str

    @property
    def bytes(self) -> float:
        """Of all buffers together."""
        return sum(self.buffers.values())


def working_sets(nest: Nest, machine: Machine, dims: Mapping[str, int]) -> tuple[WorkingSet, ...]:
    """The working sets of a program and of each of its loops, in the order of the program. Loops of lanes are not among them."""
    return tuple(_sets(scope(program(nest, dims)), machine, 0))


def _sets(here: LoopScope, machine: Machine, depth: int) -> Iterator[WorkingSet]:
    buffers: dict[str, float] = {}
    for box in here.once:
        buffers[box.name] = buffers.get(box.name, 0.0) + box.units(machine.line).total * machine.line
    size = sum(buffers.values())
    names = levels(machine)
    home = next((name for name, cache in zip(names, machine.caches, strict=False) if size <= cache.size), names[-1])
    loop = here.loop
    yield WorkingSet("" if loop is None else short(loop.name), depth, here.trips, "" if loop is None else loop.kind, buffers, home)
    for inner in here.inner:
        yield from _sets(inner, machine, depth + 1)
