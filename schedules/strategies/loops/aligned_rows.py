"""Rows of intermediates that begin at lines of the cache, where neighbours of an element are read.

    ring: float32[2, 500, 500]          ->          ring: float32[2, 500, 528]

Of rows that follow one another without a gap, each begins somewhere else in a line, so that vectors of it lie on two lines however they are
loaded and stored. The lines of a row are an odd number: of an even one, rows fall into half of the sets of a cache, or fewer, and a store
looks like one to the row that is read next (by the last 12 bits of its address).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final

from tensorlang.ir import Const
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.directives.storage import PadTo
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, tensor_of

LEAST_LINES: Final = 16
"""Lines of a row, at least, for the gap to be an eighth of it at most."""


def read_around(stages: Sequence[StageInfo], tiles: Container[str]) -> tuple[str, ...]:
    """The tensors of which some stage reads several elements for one of its own, and which no stage touches that runs as `tiles`."""
    found, tiled = set[str](), [stage for stage in stages if stage.name in tiles]
    for stage in stages:
        loads = {(tensor_of(load).name, load.index) for load in stage.loads}
        elements = Counter(name for name, _ in loads)
        slid = {name for name, index in loads if any(len(axes_of(part)) > 1 for part in index)}
        found |= slid | {name for name, count in elements.items() if count > 1}
    read = {tensor_of(load).name for stage in tiled for load in stage.loads}
    return tuple(sorted(found - read - {buffer.name for stage in tiled for buffer in stage.store.buffers}))


def align_rows(s: Schedule, tensors: Iterable[str]) -> None:
    """Let the rows of some intermediates begin at lines."""
    stored = {buffer.name: buffer for buffer in allocations(s.nest.body)}
    for name in tensors:
        buffer = stored.get(name)
        extent = buffer.shape[-1] if buffer is not None and len(buffer.shape) > 1 else None
        if buffer is None or not isinstance(extent, Const) or buffer.memory not in ("auto", "heap"):
            continue
        lines, rest = divmod(int(extent.value) * buffer.dtype.bytes, LINE_BYTES)
        if rest and lines >= LEAST_LINES:
            s.attempt(PadTo(name, len(buffer.shape) - 1, (lines + 1 | 1) * LINE_BYTES // buffer.dtype.bytes))
