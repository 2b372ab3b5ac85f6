"""Elements of a result that hang on the rounding of a float, and what they may be.

An integer that is cut from a float, a bool that compares floats, the place of a greatest float, and all that follows from these, change
by a step where the float is off by a rounding. For such elements the reference is not a number but what it was in several draws, each of
which rounds otherwise; they are held to the range of these. All others are held to the reference as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

FEWEST: Final = 3
"""Of the elements beyond a sample, as many as this over its size may hang on rounding where none of the sample does, with a confidence of
19 in 20: the rule of three (Hanley and Lippman-Hand 1983)."""

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Unsteady:
    """The places of elements in a flat result or sample, the least and the greatest value of each in any draw.

    `share` bounds the part of all elements that do so, of a result of which they are a sample.
    """

    places: _Array
    low: _Array
    high: _Array
    share: float

    @classmethod
    def of(cls, want: _Array, draws: Sequence[_Array], changed: _Array) -> Unsteady:
        """What draws tell of a reference, elements having `changed` in one of them."""
        places = np.flatnonzero(changed)
        seen = np.stack([array.reshape(-1)[places].astype(np.float64) for array in (want, *draws)])
        return cls(places, seen.min(axis=0), seen.max(axis=0), (FEWEST + 2 * len(places)) / max(want.size, 1))

    def excuse(self, start: int, got: _Array, error: _Array) -> None:
        """Set the errors of a part of a result to 0 where rounding explains what was got.

        Draws are few: what adds up several steps may go beyond them, by as much again on either side.
        """
        first, last = np.searchsorted(self.places, (start, start + len(got)))
        at = self.places[first:last] - start
        low, high, value = self.low[first:last], self.high[first:last], got[at].astype(np.float64)
        with np.errstate(invalid="ignore"):
            outside = (value < 2 * low - high) | (value > 2 * high - low) | (np.isnan(value) & np.isfinite(low) & np.isfinite(high))
        error[at] = np.where(outside, error[at], 0.0)

    def packed(self) -> bytes:
        """As bytes, of which `unpacked` is the inverse."""
        return np.stack([np.append(self.share, part) for part in (self.places, self.low, self.high)]).astype(np.float64).tobytes()

    @classmethod
    def unpacked(cls, data: bytes) -> Unsteady:
        """The inverse of `packed`."""
        table = np.frombuffer(data, np.float64).reshape(3, -1)
        return cls(table[0, 1:].astype(np.int64), table[1, 1:], table[2, 1:], float(table[0, 0]))
