"""What is done to every program before any stage is looked at: fewer stages, fewer bits, less that is asked or computed twice.

Lanes, panels and footprints follow what is left. Integers are narrowed once expressions are written into their readers, groups are
scattered before what they ask could be hoisted, and what is hoisted makes operands of products.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import inline_pointwise, raise_contractions
from tensorlang.schedules.strategies.preparation.digits import split_digits
from tensorlang.schedules.strategies.preparation.hoisting import hoist_invariants
from tensorlang.schedules.strategies.preparation.joins import join_reductions
from tensorlang.schedules.strategies.preparation.layouts import rearrange
from tensorlang.schedules.strategies.preparation.narrowing import narrow_integers
from tensorlang.schedules.strategies.preparation.passes import in_one_pass
from tensorlang.schedules.strategies.preparation.scattering import scatter_groups
from tensorlang.schedules.strategies.preparation.separating import separate_reductions
from tensorlang.schedules.strategies.preparation.sharing import share_windows
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.system.lazy import cached_property


@dataclass(frozen=True)
class Simplified:
    """A program after these steps, which are taken when they are asked for, once; where reductions are divided it is `begun` so."""

    program: LoweredProgram
    machine: Processor
    threads: int
    begun: Schedule | None = field(default=None, compare=False, repr=False)

    @cached_property
    def _begun(self) -> Schedule:
        """The program with the stages that it has in the end, but for those that are joined."""
        if self.begun is not None:
            return self.begun
        s = Schedule(self.program)
        inline_pointwise(s)
        narrow_integers(s)
        scatter_groups(s, self.machine, self.threads)
        hoist_invariants(s, self.machine)
        s = raise_contractions(s, self.machine)
        share_windows(s)
        return s

    @cached_property
    def _whole(self) -> Schedule:
        return split_digits(join_reductions(self._begun.copy(), self.machine), self.machine)

    @cached_property
    def rearranged(self) -> Simplified | None:
        """The program with intermediates stored number by number; None where no layout is predicted to be faster."""
        s = self._begun.copy()
        rearrange(s, self.machine)
        return replace(self, begun=s) if len(s.directives) > len(self._begun.directives) else None

    @cached_property
    def in_one_pass(self) -> Simplified | None:
        """The program with results in one pass over their rows; None where no two of them go through the same ones."""
        s = in_one_pass(self._whole, self.machine, self.threads)
        return None if s is None else replace(self, begun=s)

    @property
    def schedule(self) -> Schedule:
        """The program after all steps, to go on from."""
        return self._whole.copy()

    @cached_property
    def separated(self) -> tuple[Simplified, float] | None:
        """The program with reductions in steps, and the share of the steps that is left; None where no reduction is divided."""
        s = self._begun.copy()
        share = separate_reductions(s)
        return (replace(self, begun=s), share) if len(s.directives) > len(self._begun.directives) else None
