"""Intermediates that are computed anew wherever they are read, instead of being kept.

    for j: E[j] = exp(X[j] - m)
    for j: z += E[j]                          ->            for j: z += exp(X[j] - m)
    for j: Y[j] = E[j] / z                                  for j: Y[j] = exp(X[j] - m) / z

What is kept of a long row goes out of the near caches and comes back; computed anew it takes its arithmetic once more. So this is a choice
where a row leaves the second level. Beyond `FRESH` bytes keeping it is dear on any machine: such storage may be new in every call, and the
system clears it page by page when it is touched. The cost model tells whether computing it anew is dearer still, as the levels of a pyramid
are, each of whose elements several of the next one read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, readers, size, stages_of
from tensorlang.schedules.strategies.processor import Processor

FRESH: Final = 32 << 20
"""Bytes above which an allocation is mapped anew each time: as far as glibc lets its threshold grow (M_MMAP_THRESHOLD, mallopt(3))."""

CLEARED: Final = 10e9
"""Bytes a second that the system clears and maps, at most: 0.4 us a page of 4 KiB. A guest on a Zen 4 takes 1.5."""

MOST: Final = 1024
"""Instructions of the program then, at most: softmax and its kin are tens, and of a pyramid each level multiplies them."""


@dataclass(frozen=True, slots=True)
class Recomputing:
    """Stages that may be computed anew where they are read, and the bytes that are kept of them at a time."""

    stages: tuple[str, ...]
    kept: int

    @classmethod
    def of(cls, s: Schedule, machine: Processor) -> Recomputing | None:
        """The pointwise intermediates of which a row leaves the second-level cache; None where there are none."""
        infos = stages_of(s.nest)
        rows = {info.name: _row_bytes(info) for info in infos if _is_kept(s, info)}
        long = {name: row for name, row in rows.items() if row > machine.l2}
        return cls(tuple(long), sum(long.values())) if long else None

    @property
    def clearing(self) -> float:
        """Seconds that the system takes to clear what is kept."""
        return self.kept / CLEARED if self.kept > FRESH else 0.0

    def applied(self, s: Schedule) -> Schedule | None:
        """The schedule with the stages written into their readers; None where that is not legal, or too much code to be worth a look."""
        s = s.copy()
        for name in reversed(self.stages):
            if not s.can("compute_inline", name):
                return None
            s.compute_inline(name)
            if instructions(s.nest.body) > MOST:
                return None
        return s


def _is_kept(s: Schedule, info: StageInfo) -> bool:
    """Is a stage pointwise, of several readers, and no result?"""
    return info.is_pointwise_intermediate and info.written() is not None and len(readers(s.nest, info.store.buffers)) > 1


def _row_bytes(info: StageInfo) -> int:
    """What is kept at a time: of the outermost loop that repeats one iteration, where rows of the result can be computed one by one."""
    repeated = next((place for place, loop in enumerate(info.outer) if size(loop) > 1), len(info.outer))
    return info.written(repeated + 1 if repeated + 1 < len(info.outer) else 0) or 0
