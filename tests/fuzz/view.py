"""A nest as the drawing of steps sees it: which loops, chains, stages and tensors there are to pick from."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

from tensorlang.ir import Alloc, Buffer, For, Load, Nest, Stmt, Store
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, loads_of, substatements
from tensorlang.schedules.legality.accesses import reads
from tensorlang.schedules.rewriting.edit import loops, path_to, stage_of, stages, stores

Step = dict[str, Any]
Coming: TypeAlias = "Step | Callable[[View], Step | None]"
"""A step, or what draws it from the nest that there is by then."""


@dataclasses.dataclass(slots=True)
class View:
    """A nest as the drawing of steps sees it."""

    rng: random.Random
    nest: Nest
    focus: frozenset[str] = frozenset()
    """The stages of the definition to look at, where there is something to see; none: all."""

    def of_interest(self, stage: str) -> bool:
        """Does a stage come from one that is looked at?"""
        return stage in self.focus or re.split(r"[._]", stage, maxsplit=1)[0] in self.focus

    def loops(self) -> list[For]:
        """All loops, or those of the stages that are looked at."""
        found = list(loops(self.nest.body))
        seen = [loop for loop in found if any(map(self.of_interest, (stage_of(loop.loop), *(store.stage for store in stores(loop.body)))))]
        return seen or found

    def loop(self, *, kind: str = "serial") -> For:
        """A loop, rather one that is still serial and belongs to a stage of the definition."""
        found = self.loops()
        main = [loop for loop in found if loop.kind == kind and not stage_of(loop.loop).endswith((".init", ".load", ".store"))]
        return self.rng.choice(main if main and self.rng.random() < 0.85 else found)

    def chain(self, loop: For) -> list[For]:
        """The perfectly nested loops from a loop inward."""
        found = [loop]
        while isinstance(found[-1].body, For):
            found.append(found[-1].body)
        return found

    def chains(self) -> list[list[For]]:
        """All chains of at least two perfectly nested loops."""
        return [chain for chain in map(self.chain, self.loops()) if len(chain) > 1]

    def innermost(self) -> list[For]:
        """Loops without a loop inside."""
        return [loop for loop in self.loops() if not any(True for _ in loops(loop.body))]

    def intermediates(self) -> list[str]:
        """Stages that compute no output."""
        outputs = {buffer.name for buffer in self.nest.outputs}
        found = {store.stage: {buffer.name for buffer in store.buffers} for store in stores(self.nest.body)}
        every = [stage for stage in stages(self.nest) if not found[stage] & outputs and not stage.endswith(".init")]
        return [stage for stage in every if self.of_interest(stage)] or every

    def computed(self) -> list[str]:
        """Stages that compute something, rather than start from or copy it."""
        every = [stage for stage in stages(self.nest) if not stage.endswith((".init", ".load", ".store"))]
        return [stage for stage in every if self.of_interest(stage)] or every

    def results(self) -> list[str]:
        """Stages that compute an output."""
        outputs = {buffer.name for buffer in self.nest.outputs}
        return [store.stage for store in stores(self.nest.body) if outputs & {buffer.name for buffer in store.buffers}]

    def written(self, stage: str) -> set[str]:
        """The buffers that a stage writes."""
        return {buffer.name for store in stores(self.nest.body) if store.stage == stage for buffer in store.buffers}

    def allocated(self) -> list[str]:
        """The names of intermediates."""
        return [buffer.name for buffer in self.buffers()]

    def buffers(self) -> list[Buffer]:
        """The intermediates."""
        every = list(allocations(self.nest.body))
        return [buffer for buffer in every if self.of_interest(buffer.name)] or every

    def placed(self) -> list[tuple[str, list[str]]]:
        """The intermediates, each with the loops around its storage."""

        def inside(stmt: Stmt, around: list[str]) -> Iterator[tuple[str, list[str]]]:
            around = [*around, stmt.loop] if isinstance(stmt, For) else around
            if isinstance(stmt, Alloc):
                yield from ((buffer.name, around) for buffer in stmt.buffers)
            for part in substatements(stmt):
                yield from inside(part, around)

        return list(inside(self.nest.body, []))

    def rank(self, name: str) -> int:
        """The number of dimensions of an intermediate."""
        return next(len(buffer.shape) for buffer in allocations(self.nest.body) if buffer.name == name)

    def writers(self, names: set[str]) -> list[For]:
        """Loops inside which one of the buffers is written."""
        return [loop for loop in self.loops() if any(buffer.name in names for store in stores(loop.body) for buffer in store.buffers)]

    def readers(self, names: set[str]) -> list[For]:
        """Loops inside which one of the buffers is read."""
        return [loop for loop in self.loops() if any(name_of(load) in names for load in reads(loop.body))]

    def loads(self, loop: For) -> list[Load]:
        """What is read inside a loop."""
        return list(reads(loop.body))

    def reductions(self) -> list[Store]:
        """The combining stores."""
        every = [store for store in stores(self.nest.body) if store.reducer is not None]
        return [store for store in every if self.of_interest(store.stage)] or every

    def read(self, store: Store) -> set[str]:
        """The names of the buffers of which a store needs values."""
        return {name_of(load) for value in store.values for load in loads_of(value)}

    def movable(self) -> list[str]:
        """The intermediate stages that nothing keeps where they are: each alone writes its tensor, once, and does not read it."""
        every = list(stores(self.nest.body))
        found = [
            store.stage
            for store in every
            if all(other is store or other.stage == f"{store.stage}.init" for other in every if {*other.buffers} & {*store.buffers})
            and not {buffer.name for buffer in store.buffers} & self.read(store)
        ]
        return [stage for stage in self.intermediates() if stage in found and not stage.endswith((".load", ".store", ".add"))]

    def meeting(self, stage: str) -> list[For]:
        """The loops inside which everything stands that reads what a stage computes, and the stage does not; outermost first."""
        names, every = self.written(stage), list(stores(self.nest.body))
        chains = [self.around(store) for store in every if store.stage != stage and names & self.read(store)]
        own = {loop.loop for store in every if store.stage == stage for loop in self.around(store)}
        common = [loop for loop in chains[0] if all(loop in chain for chain in chains)] if chains else []
        return [loop for loop in common if loop.loop not in own and loop.kind == "serial"]

    def combining(self, stage: str = "") -> list[Store]:
        """All combining stores, or those of a stage, whatever is looked at."""
        return [store for store in stores(self.nest.body) if store.reducer is not None and stage in ("", store.stage)]

    def around(self, store: Store) -> list[For]:
        """The loops around a store, outermost first."""
        return [part for part in path_to(self.nest.body, lambda part: part is store) if isinstance(part, For)]

    def still(self, store: Store) -> list[For]:
        """The loops around a store that do not move its element."""
        moving = closure(self.nest, frozenset().union(*map(axes_of, store.index)))
        return [loop for loop in self.around(store) if loop.loop not in moving]


def name_of(load: Load) -> str:
    """The name of the buffer that is read."""
    return str(getattr(load.buffer, "name", ""))


def call(method: str, *args: Any, **named: Any) -> Step:
    """A method call as data."""
    return {"call": method, "args": list(args), **({"named": named} if named else {})}


def siblings(stmt: Stmt) -> list[tuple[str, str]]:
    """Pairs of loops that are not inside one another."""
    parts = [[loop.loop for loop in loops(part)] for part in substatements(stmt)]
    own = [(a[0], b[0]) for place, a in enumerate(parts) for b in parts[place + 1 :] if a and b]
    return own + [found for part in substatements(stmt) for found in siblings(part)]


def neighbours(stmt: Stmt) -> list[tuple[str, str]]:
    """Pairs of loops that follow each other directly."""
    parts = substatements(stmt)
    own = [(a.loop, b.loop) for a, b in pairwise(parts) if isinstance(a, For) and isinstance(b, For)]
    return own + [found for part in parts for found in neighbours(part)]
