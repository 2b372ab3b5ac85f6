"""`reverse_compute_at`: compute a consumer where its operand is complete.

    for i_o in range(5):                            for i_o in range(5):
        for k in range(29):                             for k in range(29):
            for i_i in range(8):                            for i_i in range(8):
                C[i] += A[i, k]             ->                  C[i] += A[i, k]
    for i in range(37):                                 for i_i' in range(8):
        R[i] = max(C[i], 0)                                 R[i'] = max(C[i'], 0)

The consumer gets copies of the producer's loops inside `loop` (here i' = 8 i_o + i_i') and stands at the end of an iteration.

Legal where the consumer is one plain statement that reads the producer element by element, its own loops are not scheduled yet, every
element is complete at the end of the iteration that computes it, and what else the consumer reads is there by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import Axis, Binary, Compare, Expr, For, If, Load, Nest, Stmt, Store, block
from tensorlang.printer import short
from tensorlang.rules import FALSE
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.edit import edit_loops, path_to, path_to_loop, remove, require_stage, stage_of, stores
from tensorlang.schedules.legality import accesses, conflict
from tensorlang.schedules.local import clone, moving
from tensorlang.schedules.pack import never
from tensorlang.schedules.placed import ahead
from tensorlang.simplify import simplify
from tensorlang.traverse import loads_of, map_expressions, statements, substitute


@dataclass(frozen=True, slots=True)
class ReverseComputeAt:
    """Compute what the consumer `stage` makes of an iteration of `loop` at the end of that iteration."""

    stage: str
    loop: str
