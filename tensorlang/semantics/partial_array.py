"""A tensor of which some elements are known: each is evaluated when it is first read, and never again.

So a few elements at the end of a long program cost what they need of each stage before, and at most what all of it costs. They are kept in
pages, so that a large tensor of which little is read takes little memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensorlang.semantics.arithmetic import Array

PAGE_BITS: Final = 9
"""Elements of a page, as a power of two."""
TOGETHER: Final = 1 << 18
"""Elements that are evaluated at a time."""


class PartialArray:
    """`size` elements of a type, none of them known."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self._pages = np.full((size >> PAGE_BITS) + 1, -1, np.int32)
        self._used = 0
        self._values = np.zeros(0, dtype)
        self._known = np.zeros(0, bool)

    def read(self, places: Array, evaluate: Callable[[Array], Array]) -> Array:
        """The elements at these places, of any shape; `evaluate` gives those that are not known yet, at distinct places in order."""
        kept = self._kept(places)
        missing = np.unique(places[~self._known[kept]])
        for start in range(0, len(missing), TOGETHER):
            some = missing[start : start + TOGETHER]
            values, at = evaluate(some), self._kept(some)
            self._values[at] = values
            self._known[at] = True
        return np.asarray(self._values[kept])

    def _kept(self, places: Array) -> Array:
        """Where the elements are kept, in pages that are made where there is none yet."""
        pages = places >> PAGE_BITS
        new = np.unique(pages[self._pages[pages] < 0])
        if len(new):
            self._pages[new] = np.arange(self._used, self._used + len(new))
            self._used += len(new)
            if (self._used << PAGE_BITS) > len(self._values):
                room = max(self._used, min(2 * self._used, len(self._pages))) << PAGE_BITS
                self._values, self._known = (_longer(array, room) for array in (self._values, self._known))
        kept: Array = (self._pages[pages].astype(np.int64) << PAGE_BITS) | (places & ((1 << PAGE_BITS) - 1))
        return kept


def _longer(array: Array, length: int) -> Array:
    made: Array = np.zeros(length, array.dtype)
    made[: len(array)] = array
    return made
