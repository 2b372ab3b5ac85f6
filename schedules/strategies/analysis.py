"""What a stage does, read from its loops and indices: which axes its output has, which it reduces over, who reuses what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang.ir import Axis, Buffer, Const, Expr, For, Load, Nest, Store
from tensorlang.linear import linear
from tensorlang.printer import short
from tensorlang.schedules.edit import literal_extent, stage_of
from tensorlang.schedules.legality import accesses
from tensorlang.traverse import axes_of, loads_of, statements

UNKNOWN_EXTENT = 1024
"""Assumed of an extent that is known only at run time."""


@dataclass(frozen=True, slots=True)
class StageInfo:
    """One stage of an unscheduled nest."""

    name: str
    store: Store
    loops: tuple[For, ...]

    @property
    def outer(self) -> tuple[For, ...]:
        """The loops over the elements of the output, outermost first."""
        index = frozenset().union(*(axes_of(part) for part in self.store.index)) if self.store.index else frozenset()
        return tuple(loop for loop in self.loops if loop.loop in index)

    @property
    def reduced(self) -> tuple[For, ...]:
        """The loops of the reduction, outermost first."""
        return tuple(loop for loop in self.loops if loop not in self.outer)

    @property
    def loads(self) -> tuple[Load, ...]:
        """What each iteration reads."""
        return tuple(load for value in self.store.values for load in loads_of(value) if isinstance(load.buffer, Buffer))

    @property
    def iterations(self) -> int:
        """How often the statement runs, with a guess for extents known only at run time."""
        total = 1
        for loop in self.loops:
            total *= max(1, size(loop))
        return total

    def moves(self, load: Load, loop: For) -> int | None:
        """How far a load moves in memory per iteration of a loop, in elements of its last dimension: 0, 1, another stride, or None."""
        axis = Axis(loop.loop)
        if all(loop.loop not in axes_of(part) for part in load.index):
            return 0
        if any(loop.loop in axes_of(part) for part in load.index[:-1]):
            return None
        return linear(load.index[-1]).terms.get(axis)

    def contiguous(self, loop: For) -> bool:
        """Does some load walk its tensor element by element along this loop?"""
        return any(self.moves(load, loop) == 1 for load in self.loads)


def size(loop: For) -> int:
    """The number of iterations, with a guess where it is known only at run time."""
    extent = literal_extent(loop)
    return UNKNOWN_EXTENT if extent is None else extent


def is_literal(loop: For) -> bool:
    """Is the number of iterations a literal?"""
    return literal_extent(loop) is not None


def stages_of(nest: Nest) -> tuple[StageInfo, ...]:
    """The stages of an unscheduled nest, initialisations aside, in program order."""
    return tuple(_stages(nest))


def _stages(nest: Nest) -> Iterator[StageInfo]:
    around = {(access.stage, access.position): access.loops for access in accesses(nest.body) if access.writes}
    loops = {stage: found for (stage, _), found in around.items()}
    for part in statements(nest.body):
        if isinstance(part, Store) and not part.stage.endswith(".init") and part.stage in loops:
            own = tuple(loop for loop in loops[part.stage] if stage_of(loop.loop) == part.stage)
            yield StageInfo(part.stage, part, own)


def readers(nest: Nest, buffers: tuple[Buffer, ...]) -> list[tuple[str, tuple[Expr, ...]]]:
    """The stages that read any of the buffers, with the index of each read."""
    names = {buffer.name for buffer in buffers}
    return [(access.stage, access.index) for access in accesses(nest.body) if access.buffer.name in names and not access.writes]


def label(loop: For | str) -> str:
    """The short name of a loop."""
    return short(loop if isinstance(loop, str) else loop.loop)


def all_literal(exprs: tuple[Expr, ...]) -> bool:
    """Are all of these literals?"""
    return all(isinstance(expr, Const) for expr in exprs)
