"""Small tables of integers through which elements are found: scheduled for what they hold when the kernel is built.

    at = tl.buffer(np.array([0, 1, -1]));  m[d, x] = f[d, (x - at[d]) % n]

A kernel reads what an array holds when it is called (`tl.buffer` binds it, and does not copy it), so nothing is known of an index that goes
through one, and each element is looked up. But offsets of directions, taps and permutations do not change. The program is scheduled with
the numbers that the table has (`by_cases` for each place of it); before anything else a call compares the table with them, and where it
holds others the other version runs. Which way is the default the cost model says (`alternatives`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy.typing as npt

from tensorlang.ir import Axis, Buffer, Const, Expr, Load, Nest
from tensorlang.ir.traverse import loads_of, nodes
from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.directives.by_cases import MOST_CASES, ByCases
from tensorlang.schedules.directives.specialize import assumed
from tensorlang.schedules.rewriting.edit import literal_extent, stores_within
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies.alternatives import Alternatives, Way, alternatives, modelled, read_or_placed
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.point_costs import PointCosts
from tensorlang.schedules.strategies.preparation.simplified import Simplified
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.program import ProgramStrategy
from tensorlang.schedules.strategies.versions import expecting
from tensorlang.system.lazy import cached_property

MOST_ELEMENTS: Final = 128
"""Elements of all tables together: each is a comparison in every call."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What tables hold, as a condition, and the steps that put a literal place into each read of them."""

    condition: str
    cases: tuple[ByCases, ...]

    @classmethod
    def of(cls, program: LoweredProgram) -> Expectation | None:
        """What is expected of the tables of a program; None where no index goes through one that is small."""
        tables = {name: array for name, array in program.bound.items() if array.dtype.kind in "iu" and array.dtype.itemsize < 8}
        tables |= {name: array for name, array in program.bound.items() if array.dtype == "int64"}
        found, cases = set[str](), dict[ByCases, None]()
        for store, loops, _ in stores_within(program.nest.body) if tables else ():
            short = {loop.loop for loop in loops if 2 <= (literal_extent(loop) or 0) <= MOST_CASES}
            for name, load in _places(store.values, tables):
                axes = [part.name for part in load.index if isinstance(part, Axis)]
                if set(axes) <= short and all(isinstance(part, (Axis, Const)) for part in load.index):
                    found.add(name)
                    cases |= dict.fromkeys(ByCases(store.stage, axis) for axis in axes)
        if not found or sum(tables[name].size for name in found) > MOST_ELEMENTS:
            return None
        return cls(" & ".join(text for name in sorted(found) for text in _equations(name, tables[name])), tuple(cases))

    def fulfilled(self, program: LoweredProgram) -> LoweredProgram | None:
        """The program for the time in which the tables hold that; None where a case is refused, as for too much code."""
        try:
            return replace(program, nest=assumed(self._by_cases(program.nest), self.condition))
        except Refusal:
            return None

    def _by_cases(self, nest: Nest) -> Nest:
        for step in self.cases:
            nest = step.apply(nest)
        return nest

    def scheduled(self, program: LoweredProgram, model: Schedule, usual: Schedule) -> Schedule | None:
        """The program with the steps of `model`, a schedule of the fulfilled one, and elsewhere of the `usual` one; None for refusals.

        A loop that is to have cases may be gone once stages are moved: then the other version has them, too.
        """
        s = Schedule(program)
        if expecting(s, self.condition, self.cases, model, usual):
            return s
        s = Schedule(program)
        return s if all(map(s.attempt, self.cases)) and expecting(s, self.condition, (), model, usual) else None


@dataclass(frozen=True)
class Expected:
    """The strategy of a program that fulfils an expectation, for one of which it is not known; `elsewhere` is that of the other version."""

    program: LoweredProgram
    expectation: Expectation
    inner: ProgramStrategy | Alternatives
    elsewhere: ProgramStrategy | Alternatives

    @property
    def name(self) -> str:
        """What kind of strategy this is, for logs."""
        return self.inner.name

    @property
    def machine(self) -> Processor:
        """Whom it is for."""
        return self.inner.machine

    @property
    def space(self) -> Space:
        """The points worth trying."""
        return self.inner.space

    @property
    def default(self) -> Config:
        """The point to use where nothing is known."""
        return self.inner.default

    @property
    def costs(self) -> PointCosts:
        """What points take by the cost model where the tables hold what is expected."""
        return self.inner.costs

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point."""
        found = self.expectation.scheduled(self.program, self.inner.schedule(config), self._elsewhere)
        return self._elsewhere.copy() if found is None else found

    @cached_property
    def _elsewhere(self) -> Schedule:
        return self.elsewhere.schedule(self.elsewhere.default)


def _places(values: tuple[Expr, ...], tables: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[str, Load]]:
    """The elements of tables that stand in the index of another load, with the names of the tables."""
    for node in nodes(*values):
        if isinstance(node, Load):
            inside = (load for part in node.index for load in loads_of(part))
            named = ((load.buffer.name, load) for load in inside if isinstance(load.buffer, Buffer))
            yield from (found for found in named if found[0] in tables)


def _equations(name: str, array: npt.NDArray[Any]) -> Iterator[str]:
    for place in product(*map(range, array.shape)):
        yield f"({name}[{', '.join(map(str, place))}] == {int(array[place])})"


def unranged(program: LoweredProgram, machine: Processor, threads: int, constants: frozenset[str]) -> ProgramStrategy | Alternatives:
    """The strategy of a program whose sizes are planned for as they are, with what its tables hold where indices go through them.

    What runs for other tables, and what expecting them is compared with, keeps the layouts, reductions and results that are written: the
    other ways, each of them a whole plan, are asked for only where nothing is expected.
    """
    written = ProgramStrategy(Simplified(program, machine, threads), constants)
    expectation = Expectation.of(program)
    fulfilled = None if expectation is None else expectation.fulfilled(program)
    if expectation is None or fulfilled is None:
        return alternatives(written)
    inner = alternatives(ProgramStrategy(Simplified(fulfilled, machine, threads), constants))
    elsewhere = read_or_placed(written)
    expected = Expected(program, expectation, inner, elsewhere)
    ways = Way("read", lambda: alternatives(written)), Way("expected", lambda: expected)
    return Alternatives("tables", *ways, lambda: modelled(expected) < OTHER_WAY * modelled(elsewhere))
