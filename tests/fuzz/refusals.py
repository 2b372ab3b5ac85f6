"""Was a refusal for a dependence needed? The directive is forced through without its proof, and what comes out is run.

A schedule is for all sizes and all data, so a refusal is needed where *some* sizes and data go wrong. It counts as not needed only where
nothing goes wrong

- at the sizes at which the proof itself finds two iterations in each other's way, the smallest that there are: its answer is asked for
  again with the run-time extents bounded. It says where to look and no more, since what is found there is what the oracles find, there or
  at the sizes of the case or at a few of each extent;
- and, where data decide what is touched, for data as drawn, for data in which all places are one, in which they are a few, in which they
  are all different, in which few lead anywhere, in which conditions go both ways, in which numbers are none (`x != x` holds nowhere else),
  in which each operand is of another of these kinds (`x < y` holds of no two that are filled alike), and in which numbers are those that
  the program speaks of: `x == -1.5` holds nowhere else.

Where such sizes are too large to run, nobody can tell, and the refusal is not judged.

A directive does not look at values. Where the program itself computes nothing that could differ (all that is stored is one constant, or
what is combined is always the identity), what comes out is held against the nest that the directive was asked of, each of its statements
giving something of its own. What goes wrong there is needed for other values, and counted apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from unittest import mock

import numpy as np

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.ir import Compare, Const, Dim, Expr, If, Load, Nest, Select, Store
from tensorlang.ir.traverse import expressions, reads_data, statements, walk
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality import dependences
from tests.oracle.marks import marked
from tests.oracle.question import observed, violation

from .arrays import Array, blank
from .case import Case, sizes, value_of
from .effort import sizes_of, work
from .forward import Forward
from .program import Program, operands
from .tags import Terms, trace

Verdict: TypeAlias = Literal["needed", "needed for other values", "not needed", "not judged"]

WORK: Final = 6000
"""Stores that a nest may run to be judged. Refusals are few, so that they may take longer than what is accepted."""
FEW: Final = ((2, 5), (5, 2), (3,), (4,))
"""What the run-time extents are in turn, where no proof says where to look."""
EFFORT: Final = 150_000
"""Stores of all runs for one refusal."""
BOUNDS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 17, 33, 65, 129)
"""Upper bounds of the run-time extents, tried in turn."""
SPARSE: Final = 0.1
"""The share of data that lead somewhere, so that an element is written once or never: what is overtaken is not hidden by what follows."""
LARGE: Final = 100
"""Literals below this one are numbers that data may have in any type."""
HALF: Final = 0.5
"""The share of numbers among data some of which are none."""
MIXED: Final = 24
"""How often each operand is filled in its own way: enough for a condition that holds of one in ten to hold once, 92 times in 100."""
TOLD: Final = 8
"""How many of the program's own numbers fill all operands."""
HELD: Final = 1 << 22
"""Elements of an operand above which sizes are too large to try: an operand need not be read whole, or at all."""
WITNESSES: Final = 2
"""How many of them at which the directive is refused."""


@dataclass(frozen=True, slots=True)
class Question:
    """What refusals of a case are judged by."""

    case: Case
    program: Program
    forward: Forward

    def needed(self, before: Nest, forced: Nest, directive: Any) -> Verdict:
        """Is the nest that a directive made without proof wrong by one of the oracles that run it?"""
        plain = self.forward.plain
        marks, loaded = self.forward.forced(directive), data_dependent(plain)
        own = marked(before, constants=True)
        later = self.forward.taken(own, (directive,), proved=False)
        due = self.witnesses(before, directive)
        told, left = False, EFFORT
        other = False
        more = [*self.larger(before, due), *sizes(self.case), *self.others(before)]
        for extents in (*due, *(found for found in more if found not in due)):
            stores = max(work(nest.body, sizes_of(extents)) for nest in (forced, plain))
            held = (math.prod(value_of(part, extents) for part in entry["shape"]) for entry in self.case["inputs"])
            if stores > WORK or any(elements > HELD for elements in held):
                continue
            feeds = self.feeds(extents, loaded=loaded)
            if stores * len(feeds) > left:
                continue
            left -= stores * len(feeds)
            verdict: bool | None = None
            for each in feeds:
                arrays, dims = {**each, **blank(plain, extents)}, {name: extents[name] for name in plain.dims}
                verdict = None if loaded else self.renders(forced, each, dims)
                if not verdict and marks is not None:
                    verdict = wrong(plain, self.forward.start, marks, arrays, dims)
                if verdict:
                    return "needed"
                if later is not None and not other and each is feeds[0]:
                    other = wrong(before, own, later, arrays, dims)
            told |= extents in due and verdict is False
        return "needed for other values" if other else "not needed" if told else "not judged"

    def renders(self, forced: Nest, feeds: dict[str, Array], dims: dict[str, int]) -> bool:
        """Does a nest give other terms than the program, or race?"""
        terms = Terms(feeds)
        wanted, _ = trace(self.forward.plain, terms, dims)
        try:
            found, races = trace(forced, terms, dims)
        except Exception:  # noqa: BLE001 - it was forced
            return True
        return bool(races) or found != wanted

    def witnesses(self, before: Nest, directive: Any) -> list[dict[str, int]]:
        """The sizes at which a conflict has to be looked for, the smallest first: those of the proof, or of the case if all are given."""
        own = sizes(self.case)
        if not before.dims:
            return own
        found: list[dict[str, int]] = []
        seen = 0
        for bound in BOUNDS:
            example = refused(before, directive, bound)
            if example is None:
                continue
            seen += 1
            conflict = example.get("dims", {})
            rest = {name: min(own[0][name], bound) for name in before.dims}
            full = dict.fromkeys(before.dims, bound)
            near = {name: 0 for name in before.dims if name.startswith("m")}  # offsets
            found += [{**own[0], **more, **conflict} for more in (rest, full, {**full, **near})]
            found += [{**own[0], **full}, {**own[0], **full, **near}]
            if seen == WITNESSES:
                break
        shapes = [entry["shape"] for entry in self.case["inputs"]]
        possible = [each for each in found if all(value_of(part, each) >= 0 for shape in shapes for part in shape)]
        return [each for place, each in enumerate(possible) if each not in possible[:place]]

    def larger(self, before: Nest, due: Sequence[dict[str, int]]) -> Iterator[dict[str, int]]:
        """The smallest of these and a little more, each dim for itself.

        Of iterations that are in each other's way a third one may make the difference, or that one extent is odd where another is even.
        """
        grow = {name: most for name, (_, most) in before.bounds.items() if not name.startswith("m")}
        for each, more in itertools.product(due[:2], itertools.product(range(4), repeat=min(2, len(grow)))):
            if any(more):
                yield {
                    **each,
                    **{name: min(each[name] + by, most) for (name, most), by in zip(grow.items(), itertools.cycle(more), strict=False)},
                }

    def others(self, before: Nest) -> list[dict[str, int]]:
        """Small sizes at which a refusal may be needed, too: where unknowns decide, those of the proof need not be the right ones."""
        own, bounds = sizes(self.case)[0], before.bounds
        wanted = [dict(zip(bounds, itertools.cycle(few), strict=False)) for few in FEW] if bounds else []
        return [own | {name: min(max(few[name], least), most) for name, (least, most) in bounds.items()} for few in wanted]

    def feeds(self, extents: dict[str, int], *, loaded: bool) -> list[dict[str, Array]]:
        """The data to try: those of the case, and others where data decide."""
        drawn = operands(self.program, self.case, extents, twin=False)
        if not loaded:
            return [drawn]
        rng = np.random.default_rng(0)
        fills: list[Callable[[tuple[int, ...]], Any]] = [
            np.zeros,
            np.ones,
            *[lambda shape: rng.integers(0, 2, shape)] * 3,
            lambda shape: np.arange(int(np.prod(shape))).reshape(shape),
            *[lambda shape: rng.integers(0, 4, shape)] * 3,
            *[lambda shape: rng.integers(-2, 3, shape)] * 16,
            *[lambda shape: np.where(rng.random(shape) < SPARSE, rng.integers(0, 10, shape), -1)] * 4,
            lambda shape: np.full(shape, np.nan),
            lambda shape: np.where(rng.random(shape) < HALF, rng.integers(0, 4, shape), np.nan),
        ]
        told = [*map(float, dict.fromkeys(extents.values())), *numbers_in(self.forward.plain)]
        fills += [lambda shape, number=number: np.full(shape, number) for number in told[:TOLD]]  # type: ignore[misc]
        fills += [lambda shape: rng.choice(told or [0.0], shape)] * 3
        alike = [dict.fromkeys(drawn, fill) for fill in fills]
        mixed = [{name: fills[rng.integers(len(fills))] for name in drawn} for _ in range(MIXED if len(drawn) > 1 else 0)]
        return [drawn, *({name: filled(array, chosen[name](array.shape)) for name, array in drawn.items()} for chosen in (*alike, *mixed))]


def numbers_in(nest: Nest) -> list[float]:
    """The literals of a nest that are no larger than any type holds, each once, in the order in which they stand."""
    every = (node for part in statements(nest.body) for expr in expressions(part) for node in walk(expr))
    found = (float(node.value) for node in every if isinstance(node, Const) and not isinstance(node.value, bool))
    return [number for number in dict.fromkeys(found) if abs(number) < LARGE]


def filled(array: Array, values: Any) -> Array:
    """Values of the type of an array; 0 where it has no NaN."""
    return np.asarray(np.nan_to_num(values) if array.dtype.kind in "biu" else values).astype(array.dtype)


def wrong(plain: Nest, start: Nest, forced: Nest, arrays: dict[str, Array], dims: dict[str, int]) -> bool:
    """Does a dependence of a nest, with its marks in `start`, not point forward in another one?"""
    needs = observed(plain, start, arrays, dims)
    try:
        return violation(needs, forced, arrays, dims) is not None
    except Exception:  # noqa: BLE001 - it was forced
        return True


def refused(before: Nest, directive: Any, bound: int) -> dict[str, Any] | None:
    """The counterexample with which a directive is refused where no run-time extent exceeds a bound; None where it is not."""
    limits: list[Expr] = [Compare("le", Dim(name), ir.const(bound)) for name in before.dims]
    with mock.patch.object(dependences, "find", lambda *facts: find(*facts, *limits)):
        try:
            directive.apply(before)
        except Refusal as refusal:
            return refusal.counterexample
        return None


def data_dependent(nest: Nest) -> bool:
    """Does an index, or a condition, depend on data?"""
    for part in statements(nest.body):
        if isinstance(part, If) and reads_data(part.cond):
            return True
        if isinstance(part, Store) and any(map(reads_data, part.index)):
            return True
        for expr in expressions(part):
            for node in walk(expr):
                if isinstance(node, Load) and any(map(reads_data, node.index)):
                    return True
                if isinstance(node, Select) and reads_data(node.cond):
                    return True
    return False
