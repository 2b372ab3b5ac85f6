"""What a producer reads has to be as it was where the producer runs later than it did.

    for t in range(5):                              for t in range(5):
        for i in range(8):                              for i in range(8):
            d[i] = x[i + 1] - x[i]                          d: float32[1]
        for i in range(8):                  ->              d[0] = x[i + 1] - x[i]
            x[i] = x[i] + d[i]                              x[i] = x[i] + d[0]

The next state takes the place of the last one. This is right, since `x[i + 1]` is read before it is written; with `x[i - 1]` it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.algebra.rules import FALSE
from tensorlang.ir import Nest, Stmt
from tensorlang.ir.printer import short
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import accesses, distinct
from tensorlang.schedules.legality.dependences import conflict
from tensorlang.schedules.placement.producer_placement import ahead, unmarked
from tensorlang.schedules.rewriting.edit import stores


def require_unchanged(stage: str, loop: str, before: Nest, after: Nest, parts: Sequence[Stmt], shared: frozenset[str]) -> None:
    """Raise `Refusal` where a statement that ran after a stage, whose `parts` are now at the start of `loop`, writes what it reads sooner.

    `shared` are the loops that are around the stage in both nests. Sums in its expressions read, too, and so do conditions around them.
    """
    mine = {store.stage for part in parts for store in stores(part)}
    (was, old), (now, new) = (
        (found, [access for access in found if access.writes and access.stage not in mine])
        for found in (list(accesses(nest.body)) for nest in (before, after))
    )
    last = max(access.position for access in was if access.stage in mine)
    end = max(access.position for access in now if access.stage in mine)
    late = [write for there, write in zip(old, new, strict=True) if there.position > last]
    read = distinct(access for access in now if not access.writes and access.position <= end and access.stage in {*mine, ""})
    for write in late:
        for own in (access for access in read if access.buffer.name == write.buffer.name and loop in {part.loop for part in access.loops}):
            order = ahead(write, own)
            example = None if order == FALSE else conflict(after, write, own, shared, unmarked(order, shared))
            if example is not None:
                reason = (
                    f"{stage!r} reads {example['element']}, which {write.stage!r} has written by the time that {short(loop)!r} computes it"
                )
                raise Refusal("TL-S103", reason, stage=stage, loop=loop, counterexample=example)
