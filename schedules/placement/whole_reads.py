"""Reads of a box that becomes a tensor again: each has to be of an element that there is.

    for i in range(64):                                 a copy of the row that an iteration has needs no condition, since there is always
        h: float32[1, 8]                                one; of the whole of h it would need i + 8 < 64, under which alone h is read
        for i' in range(i + 8, min(i + 9, 64)):
            h[i' - i - 8, ...] = f(i', ...)
        for d in range(8):
            h_cache[d] = h[0, d]
        for j in range(8):
            Y[i, j] = select(i + 8 < 64, h_cache[j], 0)

So is a copy that takes the padding of the box.
"""

from __future__ import annotations

from tensorlang.ir import Nest
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import reads_data
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import accesses_to
from tensorlang.schedules.legality.in_bounds import is_whole_axis, place_facts, sides_left
from tensorlang.schedules.placement.producer_placement import Placement, StoredBox


def require_whole_reads(nest: Nest, place: Placement, box: StoredBox, loop: str = "") -> None:
    """Raise `Refusal` where a read of a placed producer would ask the whole tensor for what it does not have.

    Where data say which element it is, it is one that the definition reads: copies are made at places that loops say.
    """
    for access in accesses_to(place.names, nest.body):
        if access.writes or access.stage in place.own:
            continue
        facts = place_facts(nest, access.loops, access.conditions)
        for part, end in zip(box.whole(access.index), box.ends, strict=True):
            if reads_data(part) or is_whole_axis(part, end, access.loops, nest.relations):
                continue
            if sides_left((part,), (end,), facts):
                raise Refusal(
                    "TL-S301",
                    f"{access.stage!r} reads {place.stage!r} at {text(part)}, which it need not have as a whole: a copy of its box, or of "
                    f"its padding, is made under no condition; move {place.stage!r} first, then copy or pad it",
                    stage=place.stage,
                    loop=loop,
                )
