"""What is done to every program before any stage is looked at: fewer stages, fewer bits, less that is asked or computed twice.

Lanes, panels and footprints follow what is left. Integers are narrowed once expressions are written into their readers, groups are
scattered before what they ask could be hoisted, and what is hoisted makes operands of products.
"""

from __future__ import annotations

from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import inline_pointwise, raise_contractions
from tensorlang.schedules.strategies.preparation.digits import split_digits
from tensorlang.schedules.strategies.preparation.hoisting import hoist_invariants
from tensorlang.schedules.strategies.preparation.joins import join_reductions
from tensorlang.schedules.strategies.preparation.narrowing import narrow_integers
from tensorlang.schedules.strategies.preparation.scattering import scatter_groups
from tensorlang.schedules.strategies.preparation.sharing import share_windows
from tensorlang.schedules.strategies.processor import Processor


def simplified(program: LoweredProgram, machine: Processor, threads: int) -> Schedule:
    """The program with the directives of all these steps."""
    s = Schedule(program)
    inline_pointwise(s)
    narrow_integers(s)
    scatter_groups(s, machine, threads)
    hoist_invariants(s, machine)
    s = raise_contractions(s, machine)
    share_windows(s)
    return s


def joined(s: Schedule, machine: Processor) -> Schedule:
    """The program with what goes over the same in one pass, once it is settled what reductions there are."""
    return split_digits(join_reductions(s, machine), machine)
