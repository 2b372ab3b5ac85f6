"""What a tile occupies, against what holds it: the features by which one shape or one machine is compared with another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorlang.errors import TuningError


@dataclass(frozen=True, slots=True)
class Footprint:
    """A number of bytes that grows with the product of some knobs, and the capacity that it is compared with.

    `each` is the bytes for a product of 1; a knob that is not active counts as 1.

        Footprint("panel in L1", ("depth", "vectors"), each=64, capacity=48 << 10)
    """

    name: str
    knobs: tuple[str, ...]
    each: float
    capacity: float

    def __post_init__(self) -> None:
        if not (self.each > 0 and self.capacity > 0):
            raise TuningError(f"footprint {self.name!r} needs positive bytes and a positive capacity")

    def feature(self, config: Mapping[str, Any]) -> float:
        """The logarithm of how many times it fills the capacity: above 0 it does not fit."""
        return math.log2(self.each / self.capacity * math.prod(config.get(knob, 1) for knob in self.knobs))

    def __str__(self) -> str:
        return f"{self.name}: {' x '.join((f'{self.each:g}', *self.knobs))} of {self.capacity:g} bytes"
