"""Two ways to prepare a program for its strategy.

Reductions are computed whole or in steps, the numbers of a point are stored together or apart, an image is read in place or unfolded,
intermediates are kept or computed anew, stages stand where rules put them or are placed in groups. Which stages there are, and what their
loops can be, depends on it: in place lanes run along a row of the image, unfolded along all pixels. So each way has knobs and constraints
of its own, which one knob opens. A point without that knob, as logs from before it have, is one of the usual way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.placements.choices import STRIP
from tensorlang.schedules.strategies.placements.search import IN_STRIPS
from tensorlang.schedules.strategies.point_costs import PointCosts
from tensorlang.schedules.strategies.preparation.recomputing import Recomputing
from tensorlang.schedules.strategies.preparation.simplified import Simplified
from tensorlang.schedules.strategies.preparation.unfolding import Unfolding
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.program import ProgramStrategy
from tensorlang.schedules.strategies.strategy import PreparedStrategy
from tensorlang.system.lazy import cached_property

REARRANGED: Final = 0.9
"""The share of a program's time below which its intermediates are laid out otherwise: of what is predicted nearer than that between 0.8 and
2.2 were measured on a Zen 4."""
FEW_STEPS: Final = 0.5
"""The share of a program's steps with which it is faster in any case, so that the other way need not be searched."""


@dataclass(frozen=True)
class Way:
    """A way to prepare a program: its value of the knob, and what makes the strategy of the program that is prepared so."""

    value: str
    make: Callable[[], PreparedStrategy]

    @cached_property
    def strategy(self) -> PreparedStrategy:
        """The strategy, which is made when it is asked for."""
        return self.make()


@dataclass(frozen=True)
class Alternatives:
    """The strategies of a program in its `usual` way and in an `other` one, which is the default where that `pays`."""

    knob: str
    usual: Way
    other: Way
    pays: Callable[[], bool]

    @property
    def name(self) -> str:
        """What kind of strategy this is, for logs."""
        return self.usual.strategy.name

    @property
    def machine(self) -> Processor:
        """Whom it is for."""
        return self.other.strategy.machine

    @cached_property
    def space(self) -> Space:
        """The knobs of both, opened by that of the ways."""
        spaces = {way.value: way.strategy.space for way in (self.usual, self.other)}
        knob = Choice(self.knob, {value: space.knobs for value, space in spaces.items()})
        found = Space((knob,), footprints=spaces[self.usual.value].footprints)
        for value, space in spaces.items():
            for constraint in space.constraints:
                found = found.where(only_where(self.knob, value, constraint.holds), f"{value}: {constraint.label}")
        return found

    @cached_property
    def default(self) -> Config:
        """The default of the cheaper way."""
        way = self.other if self.pays() else self.usual
        return {self.knob: way.value, **way.strategy.default}

    @property
    def costs(self) -> PointCosts:
        """What points take by the cost model, each in its way."""
        ways = {way.value: way.strategy.costs for way in (self.usual, self.other)}

        def seconds(config: Config) -> float:
            own = {name: value for name, value in config.items() if name != self.knob}
            return ways[config.get(self.knob, self.usual.value)].seconds(own)

        return PointCosts(seconds, max(costs.each for costs in ways.values()))

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point."""
        own = {name: value for name, value in config.items() if name != self.knob}
        way = self.other if config.get(self.knob) == self.other.value else self.usual
        return way.strategy.schedule(own)


def alternatives(strategy: ProgramStrategy) -> ProgramStrategy | Alternatives:
    """A program's strategy with the other ways to prepare it, where there are some that may be faster."""
    laid_out = strategy.simplified.rearranged
    if laid_out is None:
        return _whole_or_in_steps(strategy)
    ways = strategy, laid_out, _whole_or_in_steps
    return _either("layouts", ("as_written", "rearranged"), *ways, lambda usual, other: modelled(other) < REARRANGED * modelled(usual))


def _whole_or_in_steps(strategy: ProgramStrategy) -> ProgramStrategy | Alternatives:
    """A strategy with the other way to compute reductions."""
    divided = strategy.simplified.separated
    if divided is None:
        return _apart_or_in_one_pass(strategy)
    separated, share = divided

    def steps_pay(whole: PreparedStrategy, steps: PreparedStrategy) -> bool:
        return share < FEW_STEPS or modelled(steps) < OTHER_WAY * modelled(whole)

    return _either("reductions", ("whole", "in_steps"), strategy, separated, _apart_or_in_one_pass, steps_pay)


def _apart_or_in_one_pass(strategy: ProgramStrategy) -> ProgramStrategy | Alternatives:
    """A strategy with the other way to go through rows of results."""
    joined = strategy.simplified.in_one_pass
    if joined is None:
        return read_or_placed(strategy)

    def pass_pays(apart: PreparedStrategy, passed: PreparedStrategy) -> bool:
        """Threads are no part of what the model is asked: what they share is not given up for what one has to do alone."""
        alone = strategy.threads > 1 and _has_threads(apart) and not _has_threads(passed)
        return not alone and modelled(passed) < OTHER_WAY * modelled(apart)

    return _either("results", ("apart", "in_one_pass"), strategy, joined, read_or_placed, pass_pays)


def _either(
    knob: str,
    values: tuple[str, str],
    strategy: ProgramStrategy,
    simplified: Simplified,
    further: Callable[[ProgramStrategy], PreparedStrategy],
    pays: Callable[[PreparedStrategy, PreparedStrategy], bool],
) -> Alternatives:
    """A strategy beside that of its program `simplified` otherwise, each with the `further` ways; both tell whether the other `pays`."""
    changed = ProgramStrategy(simplified, strategy.constants)
    usual, other = Way(values[0], lambda: further(strategy)), Way(values[1], lambda: further(changed))
    return Alternatives(knob, usual, other, lambda: pays(usual.strategy, other.strategy))


def _has_threads(strategy: PreparedStrategy) -> bool:
    """Do threads share anything at the default point?"""
    return any(loop.kind == "parallel" for loop in loops(strategy.schedule(strategy.default).nest.body))


def read_or_placed(strategy: ProgramStrategy) -> ProgramStrategy | Alternatives:
    """A strategy with the other way to read an image, to keep intermediates or to place stages."""
    unfolded = strategy.unfolded
    if unfolded is not None:
        image = unfolded.change
        repeated = strategy.threads > 1 and isinstance(image, Unfolding) and image.repeats  # in place threads share the loop around them
        return Alternatives(
            "image",
            Way("in_place", lambda: strategy),
            Way("unfolded", lambda: unfolded),
            lambda: not repeated and unfolded.seconds < OTHER_WAY * strategy.seconds,
        )
    recomputed = strategy.recomputed
    if recomputed is not None:
        clearing = recomputed.change.clearing if isinstance(recomputed.change, Recomputing) else 0.0
        return Alternatives(
            "intermediates",
            Way("kept", lambda: strategy),
            Way("recomputed", lambda: recomputed),
            lambda: clearing > 0 and modelled(recomputed) < modelled(strategy) + clearing,
        )
    placing = strategy.placing
    if placing is not None:

        def placing_pays() -> bool:
            if not strategy.keeps_much:  # before anything is searched
                return False
            share = IN_STRIPS if STRIP in placing.default.values() else OTHER_WAY
            return modelled(placing) < share * modelled(strategy)

        return Alternatives("stages", Way("by_rule", lambda: strategy), Way("placed", lambda: placing), placing_pays)
    return strategy


def modelled(strategy: PreparedStrategy) -> float:
    """What a call takes at the default point by the cost model."""
    return estimate(strategy.schedule(strategy.default).nest, strategy.machine.core).seconds


def only_where(knob: str, value: str, holds: Callable[[Config], bool]) -> Callable[[Config], bool]:
    """A predicate on the points at which a knob has a value; it holds at all others."""
    return lambda config: config[knob] != value or holds(config)
