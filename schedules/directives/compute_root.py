"""`compute_root`: compute a producer whole, before the loops that use it.

    for i in range(37):                             h: float32[37]
        h: float32[]                                for i' in range(37):
        h[] = 0                                         h[i'] = 0
        for k in range(29):                 ->      for i' in range(37):
            h[] += A[i, k]                              for k in range(29):
        for j in range(29):                                 h[i'] += A[i', k]
            C[i, j] = A[i, j] / h[]                 for i in range(37):
                                                        for j in range(29):
                                                            C[i, j] = A[i, j] / h[i]

An implicit stage gets a dimension for each loop of its consumer on which it depends, and its own copies of these loops. A producer
that `compute_at` placed gets the storage of the whole tensor back.

Legal where the stage is an intermediate inside the loops of another stage, and nothing in those loops writes what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.ir import Nest
from tensorlang.schedules.directive import Directive, Refusal, StageName
from tensorlang.schedules.placement.hoisting import raised, unplaced
from tensorlang.schedules.placement.producer_placement import is_implicit, placement_of


@dataclass(frozen=True, slots=True)
class ComputeRoot(Directive):
    """Compute `stage` whole, before the loops that use it."""

    stage: StageName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the stage in front."""
        place = placement_of(nest, self.stage)
        if not place.loops:
            raise Refusal("TL-S301", f"{self.stage!r} is computed whole already", stage=self.stage)
        scalar = not place.buffers[0].shape
        return raised(nest, place, 0) if scalar or is_implicit(nest, place) else unplaced(nest, place)
