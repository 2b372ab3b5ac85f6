"""What a program asks of the ways to run its stages: as register tiles where operands are reused, in rows where they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, Self, TypeAlias

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.producer import Producer

Constraint: TypeAlias = tuple[Callable[[Mapping[str, Any]], bool], str]
"""A predicate on points, and its label."""


class TileStrategy(Protocol):
    """How a stage that reuses operands runs: as register tiles."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        ...

    @property
    def consumer(self) -> str:
        """The stage that may be computed from its tiles, or ""."""
        ...

    @property
    def producer(self) -> Producer | None:
        """The stage that it places, which makes an operand."""
        ...

    @property
    def placed_first(self) -> bool:
        """Is it scheduled before other stages, one of which it may place?"""
        ...

    def with_consumer(self, stage: str) -> Self:
        """The same with the stage that may be computed from its tiles."""
        ...

    def with_producer(self, s: Schedule, machine: Processor) -> Self:
        """The same with the stage that makes an operand for it, if there is one."""
        ...

    def knobs(self) -> tuple[Knob, ...]:
        """What can be chosen."""
        ...

    def constraints(self) -> Iterator[Constraint]:
        """What holds between knobs, each with its label."""
        ...

    def footprints(self) -> tuple[Footprint, ...]:
        """What tiles occupy of the caches."""
        ...

    def default(self) -> dict[str, Any]:
        """The point that its cost model names."""
        ...

    def costs(self) -> Callable[[Mapping[str, Any]], float]:
        """What points take in seconds, on one thread, by the cost model: from sketches of the stage alone."""
        ...

    def schedule(self, s: Schedule, config: Mapping[str, Any], *, alone: bool = True) -> bool:
        """Append the directives of a point; False where iterations of a tile may write the same element, so that it has no registers.

        A stage that stands inside another (not `alone`) gets no threads.
        """
        ...

    def can_fuse(self, s: Schedule) -> bool:
        """May the consumer be computed from its tiles?"""
        ...


class RowStrategy(Protocol):
    """How a stage that does not reuse operands runs; the names of its knobs begin with `prefix`."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """What can be chosen."""
        ...

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The point to use where nothing is known."""
        ...

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point; a stage that stands inside another (not `alone`) gets no threads."""
        ...
