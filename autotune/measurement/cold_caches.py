"""Cold caches: what a sample finds in no cache.

Between samples a buffer larger than the last-level cache is rewritten, after each usable core has rewritten one larger than its own
second level: a last level that takes what the others give up does not reach into the private caches of the cores beside it. It works on
every machine, and evicts code and packed operands along with the arguments; only what the processor prefetches is still warm.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import numpy as np

from tensorlang.codegen.target.caches import Caches

MOST: Final = 512 << 20
"""Bytes that are rewritten at most: a server's last level is split among groups of cores, and each of us sees one."""


class Flush:
    """A call that empties the caches; `cores` are those that measured work runs on, none for all."""

    def __init__(self, caches: Caches, cores: Sequence[int]) -> None:
        self.size = min(max(2 * caches.l3, 4 * caches.l2), MOST)
        self._shared = np.zeros(self.size, np.uint8)
        self._private = self._shared[: 2 * caches.l2]
        self._cores = cores

    def __call__(self) -> None:
        """Rewrite the buffers."""
        if hasattr(os, "sched_setaffinity"):
            usable = os.sched_getaffinity(0)
            elsewhere = [core for core in self._cores or sorted(usable) if len(usable) > 1 or core not in usable]
            for core in elsewhere:
                os.sched_setaffinity(0, {core})
                self._rewrite(self._private)
            if elsewhere:
                os.sched_setaffinity(0, usable)
        self._rewrite(self._shared)

    @staticmethod
    def _rewrite(buffer: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        np.add(buffer, 1, out=buffer)
