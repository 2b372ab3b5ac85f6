"""Producer placement: where the pointwise stage that produces an operand for a single reader is computed.

The places are the values of a knob `source`: `inlined` into the reader, whole before it (`apart`), or inside one of its loops, where what
an iteration reads stays in cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.loops.thread_loop import of_threads
from tensorlang.schedules.strategies.rows.rows import RowVectors

INLINED: Final = "inlined"
WHOLE: Final = "apart"


@dataclass(frozen=True, slots=True)
class Producer:
    """The stage as rows, and the places where it can be computed."""

    rows: RowVectors
    places: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the stage."""
        return self.rows.stage.name

    @property
    def prefix(self) -> str:
        """What the names of its own knobs begin with."""
        return f"{self.name}."

    def knob(self) -> Choice:
        """The place, with the knobs of the stage there: none where it is inlined, threads only where it is whole."""
        own = self.rows.knobs(self.prefix)
        inside = tuple(knob for knob in own if not of_threads(knob.name))
        knobs: dict[str, tuple[Knob, ...]] = {WHOLE: own, INLINED: ()}
        return Choice("source", {place: knobs.get(place, inside) for place in self.places})

    def default(self, place: str) -> dict[str, Any]:
        """The place, and the default point of the stage there."""
        own = {} if place == INLINED else self.rows.default(self.prefix)
        return {"source": place} | {name: value for name, value in own.items() if place == WHOLE or not of_threads(name)}

    def compute(self, s: Schedule, config: Mapping[str, Any], at: str | None) -> None:
        """Compute the stage inside the loop `at` (None: before all loops of its reader), by the point."""
        if at is not None:
            s.compute_at(self.name, at)
        self.rows.schedule(s, config, self.prefix, alone=at is None)
