"""`store_root`: keep the storage of a placed producer outside all loops.

    for y in range(64):                             h: float32[66, 64]
        h: float32[3, 64]                           for y in range(64):
        for r in range(y, y + 3):           ->          for r in range(y + select(y > 0, 2, 0), y + 3):
            h[r - y] = f(r)                                 h[r] = f(r)
        v[y] = h[0] + h[1] + h[2]                       v[y] = h[y] + h[y + 1] + h[y + 2]

It is `store_at` a loop around everything that runs once: an iteration of any loop computes only what those before it have not, with
`reuse="none"` as much as before. `fold_storage` then keeps just the rows that are still read.

Legal where `store_at` would be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.ir import For, Nest
from tensorlang.schedules.directive import Directive, StageName
from tensorlang.schedules.directives.store_at import StoreAt
from tensorlang.schedules.placement.sliding_window import ROOT


@dataclass(frozen=True, slots=True)
class StoreRoot(Directive):
    """Allocate the storage of the placed producer `stage` outside all loops."""

    stage: StageName
    reuse: str = "slide"

    def apply(self, nest: Nest) -> Nest:
        """The nest with the storage moved."""
        once = For(ROOT, ir.const(0), ir.const(1), nest.body)
        result = StoreAt(self.stage, ROOT, self.reuse).apply(replace(nest, body=once))
        assert isinstance(result.body, For)
        return replace(result, body=result.body.body)
