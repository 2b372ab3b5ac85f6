"""Two ways to prepare a program for its strategy: the image of a contraction read in place, or unfolded.

What an axis can be depends on it: in place lanes run along a row of the image, unfolded along all pixels. So each has knobs and constraints
of its own, which the knob `image` opens. A point without that knob, as logs from before it have, reads the image in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies.program import ProgramStrategy
from tensorlang.system.lazy import cached_property

IMAGE: Final = "image"
IN_PLACE: Final = "in_place"
UNFOLDED: Final = "unfolded"
GAIN: Final = 0.95
"""The share of the time in place below which an image is unfolded by default: its copy takes memory, and the model is not sure of less."""


@dataclass(frozen=True)
class Alternatives:
    """The strategies of a program whose main stage reads an image `in_place`, or `unfolded`."""

    in_place: ProgramStrategy
    unfolded: ProgramStrategy

    @property
    def name(self) -> str:
        """What kind of strategy this is, for logs."""
        return self.in_place.name

    @cached_property
    def space(self) -> Space:
        """The knobs of both, opened by `image`."""
        ways = {IN_PLACE: self.in_place.space, UNFOLDED: self.unfolded.space}
        found = Space((Choice(IMAGE, {name: space.knobs for name, space in ways.items()}),), footprints=ways[IN_PLACE].footprints)
        for name, space in ways.items():
            for constraint in space.constraints:
                found = found.where(_only_where(name, constraint.holds), f"{name}: {constraint.label}")
        return found

    @cached_property
    def default(self) -> Config:
        """The default of the way that the cost model finds cheaper; in place where threads share what the copy would stand in."""
        shared = self.in_place.threads > 1 and self.in_place.unfolds_again
        unfolds = not shared and self.unfolded.seconds < GAIN * self.in_place.seconds
        return {IMAGE: UNFOLDED, **self.unfolded.default} if unfolds else {IMAGE: IN_PLACE, **self.in_place.default}

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point; one that does not say how the image is read reads it in place."""
        own = {name: value for name, value in config.items() if name != IMAGE}
        return (self.unfolded if config.get(IMAGE) == UNFOLDED else self.in_place).schedule(own)


def _only_where(way: str, admits: Callable[[Config], bool]) -> Callable[[Config], bool]:
    return lambda config: config[IMAGE] != way or admits(config)
