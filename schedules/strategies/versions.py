"""Two schedules of a program in one nest: one for the sizes, or tables, of which a condition holds, the other for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tensorlang.ir import If, Stmt
from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules.directive import Directive, field_kinds
from tensorlang.schedules.directives.compute_at import ComputeAt
from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.schedules.directives.reverse_compute_inline import ReverseComputeInline
from tensorlang.schedules.directives.specialize import Specialize
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.replay import Replay

SUFFIX: Final = "_generic"
"""What `specialize` ends the names of the loops for the rest with."""

IN_ONE: Final = (ComputeAt, ComputeInline, ReverseComputeInline)
"""What moves a stage in one version alone."""


def joined(program: LoweredProgram, condition: str, small: Schedule, large: Schedule) -> Schedule | None:
    """The program with the steps of `small` where the condition holds, and those of `large` elsewhere; None where one is refused.

    Most stages move only in a nest that has no versions yet, so the two have to begin alike up to the last step that moves one.
    """
    whole = max(_moved(small), _moved(large))
    if small.directives[:whole] != large.directives[:whole]:
        return None
    s = Schedule(program)
    first = _Version(small, {})
    if not first.until(s, whole) or not s.attempt(Specialize(condition)):
        return None
    special, generic = _versions(s)
    renamed = {one.loop: other.loop for one, other in zip(loops(special), loops(generic), strict=True)}
    names = {old: renamed.get(new, new) for old, new in first.names.items()}
    second = _Version(large, {**renamed, **names}, SUFFIX, whole)
    return s if first.until(s) and second.until(s) else None


def expecting(s: Schedule, condition: str, cases: Sequence[Directive], model: Schedule, usual: Schedule) -> bool:
    """Append the steps of `model`, a schedule of the program for which the condition holds once it has `cases`; False where one is refused.

    Those that move stages are in both versions. Elsewhere go the steps of the `usual` schedule, as far as they begin alike.
    """
    whole = _moved(model)
    first = _Version(model, {})
    if not first.until(s, whole) or not all(map(s.attempt, (Specialize(condition), *cases))):
        return False
    special, generic = _versions(s)
    renamed = {one.loop: other.loop for one, other in zip(loops(special), loops(generic), strict=True)}
    names = {old: renamed.get(new, new) for old, new in first.names.items()}
    if whole >= _moved(usual) and model.directives[:whole] == usual.directives[:whole]:
        _Version(usual, {**renamed, **names}, SUFFIX, whole).until(s)
    return first.until(s)


class _Version(Replay):
    """The steps of a schedule in one of two versions: of the rest where loops have a suffix."""

    def _fitted(self, step: Directive, s: Schedule) -> Directive:
        step = super()._fitted(step, s)
        if not isinstance(step, IN_ONE) or not isinstance(s.nest.body, If):
            return step
        return replace(step, within=next(loops(_versions(s)[bool(self.suffix)])).loop)


def _versions(s: Schedule) -> tuple[Stmt, Stmt]:
    body = s.nest.body
    assert isinstance(body, If) and body.orelse is not None, "the nest has two versions"  # noqa: PT018 - one fact
    return body.then, body.orelse


def _moved(s: Schedule) -> int:
    """How many steps there are up to the last that only a nest without versions allows."""
    return max((at + 1 for at, step in enumerate(s.directives) if _needs_whole(step)), default=0)


def _needs_whole(step: Directive) -> bool:
    if isinstance(step, IN_ONE):
        return False
    kinds = {kind.names for kind in field_kinds(type(step)).values()}
    return isinstance(step, Specialize) or "a stage" in kinds or ("a tensor" in kinds and "loop" not in kinds)
