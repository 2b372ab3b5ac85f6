"""Programs whose extents a call tells within bounds (`tl.dim("n", 1, 64)`): one schedule for every size, found at a few literal ones.

What a strategy can do depends on literals: panels have a shape, tiles a number of rows, blocks of rows a footprint. So a program is planned
at sizes of its range as if they were its only ones, and the steps of each plan are tried on the program itself: the loop whose extent is
not known then stands around the static nest, or has its last tile under a condition. The cost model judges each plan at sizes of
the whole range against the best that any of them reaches there. The plan that loses least anywhere is the default; where no one plan does
well at both ends, the nest has two versions (`specialize`), the one for small sizes by one plan, the other by another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from tensorlang.ir import Dim
from tensorlang.ir.traverse import loads_of, walk
from tensorlang.lowering.at_sizes import at_sizes
from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import stores
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies.alternatives import Alternatives, alternatives, only_where
from tensorlang.schedules.strategies.analysis.stages import stages_of
from tensorlang.schedules.strategies.loops.streaming import KNOB as STREAM
from tensorlang.schedules.strategies.point_costs import PointCosts
from tensorlang.schedules.strategies.preparation.simplified import Simplified
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.program import ProgramStrategy
from tensorlang.schedules.strategies.replay import replayed
from tensorlang.schedules.strategies.sizes import Sizes, read, samples, sizes_text
from tensorlang.schedules.strategies.versions import joined
from tensorlang.system.lazy import cached_property

PLANNED: Final = "planned"
"""The knob that says for which sizes a schedule was planned."""
ANY: Final = "any"
"""Its value for what is planned without a size."""
RANGES: Final = "ranges"
"""Its value for two versions."""
GAIN: Final = 0.95
"""The share of the loss of what is planned without a size below which another plan is taken."""
CALL: Final = 2e-7
"""Seconds of any call, beside which it does not matter how many times as long few elements take."""
MOST_STORES: Final = 40
"""Statements of a program that is planned at each end of its range: a plan of so many takes a second."""
ATTEMPTS: Final = 3
"""Pairs of plans that are tried."""
ALLOWED: Final = 1.15
"""How many times as long as the best one plan may take at some size; where it takes longer, two are worth their code if they lose less."""


@dataclass(frozen=True)
class SizedPlan:
    """A way to schedule the program: planned at `sizes` (without any: as its extents are), its schedule `s` that stands for every size.

    `model` is the schedule at these sizes, whose steps `s` has.
    """

    value: str
    model: Schedule
    s: Schedule


@dataclass(frozen=True)
class Ranged:
    """The strategy of a program with dims that are planned for."""

    program: LoweredProgram
    machine: Processor
    threads: int
    constants: frozenset[str]
    sizes: tuple[Sizes, ...]
    _strategies: dict[str, ProgramStrategy | Alternatives] = field(default_factory=dict, compare=False, repr=False)
    _lost: dict[tuple[str, str], float] = field(default_factory=dict, compare=False, repr=False)
    _made: dict[str, SizedPlan | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, program: LoweredProgram, machine: Processor, threads: int, constants: frozenset[str]) -> Ranged | None:
        """The strategy; None for a program without such dims.

        One without a most value is planned as far as is assumed, but for the length of a sum: one that may be long is added up in blocks,
        which a plan at a short one does not have.
        """
        ends = {end for info in stages_of(program.nest) for loop in info.reduced for end in (loop.lo, loop.hi)}
        lengths = {part.name for end in ends for part in walk(end) if isinstance(part, Dim)}
        sizes = samples(program.nest, unknown=lengths)
        return cls(program, machine, threads, constants, sizes) if sizes else None

    @property
    def name(self) -> str:
        """What kind of strategy this is, for logs: that of the program at a size in the middle of the range."""
        return self.planned(sizes_text(self._middle)).name

    # Plans ------------------------------------------------------------------------------------------------------------------

    @property
    def _middle(self) -> Sizes:
        return self.sizes[len(self.sizes) // 2]

    @property
    def _values(self) -> tuple[str, ...]:
        """The sizes to plan for, as values of the knob: those preferred where plans are alike come first.

        Threads share the loops of a plan for many elements; without them, the middle has something of both ends.
        """
        found = [sizes_text(sizes) for sizes in (self._middle, self.sizes[-1], self.sizes[0])]
        if len(list(stores(self.program.nest.body))) > MOST_STORES:
            return (ANY, found[0])
        return (ANY, *dict.fromkeys(found if self.threads == 1 else [found[1], found[0], found[2]]))

    def planned(self, value: str) -> ProgramStrategy | Alternatives:
        """The strategy of the program at sizes, or as its extents are. Raises `ValueError` for what is no value of the knob."""
        if value not in self._strategies:
            program = self.program if value == ANY else at_sizes(self.program, read(value))
            self._strategies[value] = alternatives(ProgramStrategy(Simplified(program, self.machine, self.threads), self.constants))
        return self._strategies[value]

    def _default_of(self, value: str) -> Config:
        """The default of a plan; it stores past the caches only what the plan for the least sizes does, since near caches may hold less."""
        found = self.planned(value).default
        past = [name for name, chosen in found.items() if chosen and name.rpartition(".")[2] == STREAM]
        if not past:
            return found
        least = {} if value == ANY else self.planned(sizes_text(self.sizes[0])).default
        return {**found, **dict.fromkeys((name for name in past if not least.get(name)), False)}

    def _plan(self, value: str, config: Config | None = None) -> SizedPlan | None:
        """What a point of a plan's space comes to, or its default, which is remembered; None where its steps are refused here."""
        default = self._default_of(value)
        if config is not None and config != default:
            return self._planned_as(value, config)
        if value not in self._made:
            self._made[value] = self._planned_as(value, default)
        return self._made[value]

    def _planned_as(self, value: str, config: Config) -> SizedPlan | None:
        model = self.planned(value).schedule(config)
        if value == ANY:
            return SizedPlan(value, model, model)
        s = Schedule(self.program)
        s.faults = model.faults
        return SizedPlan(value, model, s) if replayed(model, s) else None

    @cached_property
    def _plans(self) -> tuple[SizedPlan, ...]:
        """The defaults that stand for every size, each once, what is planned without a size first."""
        found: dict[object, SizedPlan] = {}
        for value in self._values:
            plan = self._plan(value)
            if plan is not None:
                found.setdefault(plan.s.directives, plan)
        return tuple(found.values())

    # What they lose ---------------------------------------------------------------------------------------------------------

    def _seconds(self, plan: SizedPlan, sizes: Sizes) -> float:
        """What a call of these sizes takes by the cost model; what is packed beforehand is free."""
        key = plan.value, sizes_text(sizes)
        if key not in self._lost:
            self._lost[key] = self.seconds(plan.s, sizes)
        return self._lost[key]

    @cached_property
    def _best(self) -> tuple[float, ...]:
        """What the best plan takes at each size."""
        return tuple(min(self._seconds(plan, sizes) for plan in self._plans) for sizes in self.sizes)

    def _loss(self, plan: SizedPlan, first: int = 0, last: int | None = None) -> float:
        """How many times as long as the best a plan takes at worst, at some of the sizes."""
        rows = list(zip(self.sizes, self._best, strict=True))[first:last]
        return max((CALL + self._seconds(plan, sizes)) / (CALL + best) for sizes, best in rows)

    @cached_property
    def _single(self) -> SizedPlan:
        """The plan that loses least anywhere."""
        usual = self._plans[0]
        best = min(self._plans, key=self._loss)
        return best if self._loss(best) < GAIN * self._loss(usual) else usual

    def _pairs(self) -> Iterator[tuple[float, SizedPlan, SizedPlan, int]]:
        """What two plans lose, the two, and the number of the sizes up to which the first is taken; where they lose less than one does.

        As of one plan, what is planned without a size is preferred by `GAIN`.
        """
        if len(self._middle) > 1 or self.constants:  # one of two versions cannot have its constants packed alone
            return
        if self.name == "rows":  # sums along rows make versions of their own, where these pay
            return
        if self._loss(self._single) <= ALLOWED:
            return
        most = GAIN * self._loss(self._single)
        for small in self._plans:
            for large in self._plans:
                for count in range(1, len(self.sizes)) if small is not large else ():
                    lost = max(self._loss(small, 0, count), self._loss(large, count))
                    if lost < most:
                        yield lost * (1.0 if large.value == ANY else 1 / GAIN), small, large, count

    @cached_property
    def _versions(self) -> Schedule | None:
        """The nest in two versions; None where one is as good, or the two have not the stages in the same places."""
        pairs = sorted(self._pairs(), key=itemgetter(0))
        for _, small, large, count in pairs[:ATTEMPTS]:
            ((name, low),) = self.sizes[count - 1].items()
            high = self.sizes[count][name]
            most = max(low, math.isqrt(low * high))
            least = next(least for dim, least, _ in self.program.nest.limits if dim == name)
            condition = f"{name} == {most}" if most == least else f"{name} <= {most}"
            found = joined(self.program, condition, small.model, large.model)
            if found is not None:
                return found
        return None

    # The strategy -----------------------------------------------------------------------------------------------------------

    @cached_property
    def space(self) -> Space:
        """The spaces of all plans, opened by the knob that says which; and the two versions, where they are better."""
        spaces = {value: self.planned(value).space for value in self._values}
        choices = {value: space.knobs for value, space in spaces.items()} | ({RANGES: ()} if self._versions is not None else {})
        found = Space((Choice(PLANNED, choices),), footprints=spaces[ANY].footprints)
        for value, space in spaces.items():
            for constraint in space.constraints:
                found = found.where(only_where(PLANNED, value, constraint.holds), f"{value}: {constraint.label}")
        return found

    @cached_property
    def default(self) -> Config:
        """Two versions where one plan does not do, else the plan that loses least."""
        if self._versions is not None:
            return {PLANNED: RANGES}
        value = self._single.value
        return {PLANNED: value, **self._default_of(value)}

    @property
    def costs(self) -> PointCosts:
        """What points take by the cost model at the middle of the range: as much more than the default of their plan as at its own size."""
        scales: dict[str, float] = {}
        plans = {plan.value: plan for plan in self._plans}

        def seconds(config: Config) -> float:
            value = config[PLANNED]
            if value == RANGES:
                return self._best[len(self.sizes) // 2]
            strategy = self.planned(value)
            costs = strategy.costs.seconds
            if value not in scales:
                whole = self._seconds(plans[value], self._middle) if value in plans else self._best[len(self.sizes) // 2]
                scales[value] = whole / max(costs(self._default_of(value)), 1e-12)
            return costs(_own(config)) * scales[value]

        return PointCosts(seconds, max(self.planned(value).costs.each for value in self._values))

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point; the plain loops in the usual places where its steps are refused on a program of any size."""
        value = config.get(PLANNED, ANY)
        if value == RANGES and self._versions is not None:
            return self._versions.copy()
        if value == RANGES:
            return self._single.s.copy()
        plan = self._plan(value, _own(config) or None) or self._plan(ANY)
        assert plan is not None, "what is planned without a size is not refused"
        return plan.s.copy()

    # Schedules of other sizes ---------------------------------------------------------------------------------------------

    def planned_at(self, sizes: Sizes) -> ProgramStrategy | Alternatives:
        """The strategy of the program at sizes, which need not be among those that it is planned at."""
        return self.planned(sizes_text(sizes))

    def as_planned(self, sizes: Sizes, config: Config) -> Config | None:
        """The point of a plan at sizes that comes nearest to a point of the static program's; None where its steps are refused here."""
        found = self.planned_at(sizes).space.project(config)
        if found is None or self._plan(sizes_text(sizes), found) is None:
            return None
        return {PLANNED: sizes_text(sizes), **found}

    def seconds(self, s: Schedule, sizes: Sizes) -> float:
        """What a call of these sizes takes with a schedule of this program, by the cost model; what is packed beforehand is free."""
        found = estimate(s.nest, self.machine.core, sizes)
        free = _made_of(s, self.constants) if self.constants else ()
        return found.seconds - sum(found.stages.get(stage, 0.0) for stage in free)


def _own(config: Config) -> Config:
    return {name: value for name, value in config.items() if name != PLANNED}


def _made_of(s: Schedule, constants: Iterable[str]) -> tuple[str, ...]:
    """The stages that copy, or compute from, constants alone."""
    known = set(constants)
    found: list[str] = []
    for store in stores(s.nest.body):
        read = {getattr(load.buffer, "name", "") for value in store.values for load in loads_of(value)}
        if read and read <= known and store.reducer is None:
            known |= {buffer.name for buffer in store.buffers}
            found.append(store.stage)
    return tuple(found)
