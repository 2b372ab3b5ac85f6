"""Records of the sizes of a range: what was tuned at n = 8 may serve a program that takes any n from 1 to 64.

The program at a size is the definition with its dims written as numbers, whose fingerprint is that of the static program. Which sizes have
records follows from the family: an extent that grows with a dim tells the dim. A record's configuration is that of the static program, so
the program is planned at that size, and its steps are tried on every size (`strategies.ranged`).

It must not hurt at any size: by the cost model it is as much faster at its own size as is asked of any record from elsewhere (`lending`),
and nowhere slower than the default of this program; near its own size, where a gain was measured, by no more than `LEAST` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.autotune.log.fixed_operands import with_fixed
from tensorlang.autotune.log.lending import AHEAD, GAINED, LEAST, NEAR, NO_COUNTERPART, Loan, strategy_of
from tensorlang.autotune.log.match import Query
from tensorlang.autotune.log.record import Trial
from tensorlang.errors import TensorlangError

PROBED: Final = 41
"""A size at which extents are compared with those one larger: few literals of a definition are equal to it."""


@dataclass(frozen=True, slots=True)
class AtSize:
    """A program at a size of its range: its dims, what records of it are looked up by, and its extents."""

    sizes: Mapping[str, int]
    program: str
    family: str
    extents: tuple[int, ...]


class Range:
    """The static programs that a program of bounded dims stands for."""

    def __init__(self, asked: Query) -> None:
        from tensorlang.definition.tensor import as_outputs  # noqa: PLC0415 - the index itself needs no compiler
        from tensorlang.serialization import canonical  # noqa: PLC0415

        self.asked = asked
        self.limits = {name: (least, most) for name, least, most in (_limits(asked.outputs) if asked.dims else ())}
        self.document = canonical.describe(as_outputs(asked.outputs)) if self else {}

    def __bool__(self) -> bool:
        """Has the program bounded dims, and no others?"""
        from tensorlang.ir import MOST  # noqa: PLC0415

        return set(self.limits) >= set(self.asked.dims) > set() and all(most < MOST for _, most in self.limits.values())

    @property
    def text(self) -> str:
        """What tells it from other programs."""
        return f"{self.asked.fingerprint} {self.limits} {sorted(self.asked.constants)}"

    def at(self, sizes: Mapping[str, int]) -> AtSize | None:
        """The program at a size; None where it has no meaning there."""
        from tensorlang.serialization import canonical  # noqa: PLC0415 - the index itself needs no compiler
        from tensorlang.serialization.rebuild import rebuild  # noqa: PLC0415

        try:
            outputs = rebuild(_written(self.document, sizes))
            found = canonical.fingerprint(outputs), canonical.family(outputs), tuple(canonical.extents(outputs))
        except TensorlangError:
            return None
        places = self.asked.places
        return AtSize(dict(sizes), with_fixed(found[0], places), with_fixed(found[1], places), found[2])

    def probe(self) -> tuple[AtSize, Mapping[str, int]] | None:
        """The program at one size, and for each dim an extent that is the dim itself there, by its place; None where a dim has none."""
        sizes = {name: min(max(PROBED, least), most) for name, (least, most) in self.limits.items()}
        first = self.at(sizes)
        if first is None:
            return None
        places: dict[str, int] = {}
        for name, size in sizes.items():
            step = 1 if size < self.limits[name][1] else -1
            other = self.at({**sizes, name: size + step})
            if other is None or len(other.extents) != len(first.extents):
                return None
            pairs = enumerate(zip(first.extents, other.extents, strict=True))
            found = next((place for place, (one, two) in pairs if one == size and two == size + step), None)
            if found is None:
                return None
            places[name] = found
        return first, places

    def sizes_of(self, extents: Sequence[int], places: Mapping[str, int]) -> Mapping[str, int] | None:
        """The dims at which the program has these extents, if they are in the range."""
        sizes = {name: extents[place] for name, place in places.items()}
        return sizes if all(least <= sizes[name] <= most for name, (least, most) in self.limits.items()) else None

    def lent(self, trial: Trial, sizes: Mapping[str, int], gain: float | None) -> Loan:
        """What a record of the program at a size comes to for every size, by the model; it was `gain` times as fast as the default."""
        from tensorlang.schedules.strategies import choose  # noqa: PLC0415 - the index itself needs no compiler
        from tensorlang.schedules.strategies.ranged import Ranged  # noqa: PLC0415

        asked = self.asked
        strategy = choose(asked.outputs, asked.target, asked.threads, asked.constants)
        if not isinstance(strategy, Ranged):
            return Loan(None, NO_COUNTERPART)
        if strategy_of(trial) != strategy.planned_at(sizes).name or (config := strategy.as_planned(sizes, trial.config)) is None:
            return Loan(None, NO_COUNTERPART)
        ours, theirs = strategy.schedule(strategy.default), strategy.schedule(config)
        if ours.directives == theirs.directives:
            return Loan(None, "its configuration is this program's default")
        won = gain is not None and gain >= GAINED
        found = []
        for at in (sizes, *strategy.sizes):
            ratio = strategy.seconds(ours, at) / max(strategy.seconds(theirs, at), 1e-12)
            apart = sum(abs(math.log(max(at[name], 1) / max(size, 1))) for name, size in sizes.items())
            found.append((ratio, LEAST if won and apart <= NEAR else AHEAD if at is sizes else 1.0))
        told = f"by the model {min(found)[0]:.2f} to {max(found)[0]:.2f} times as fast as the default over the range"
        if any(round(ratio, 3) < wanted for ratio, wanted in found):
            return Loan(None, f"{told}, and {found[0][0]:.2f} at its own size")
        return Loan(config, told)


def within(asked: Query, limit: int, neighbours: Any) -> Iterator[tuple[float, Any, Mapping[str, int], Range]]:
    """Studies of sizes of the range that apply, with how far they are from its middle: at most `limit`, the nearest first.

    `neighbours` gives studies of a family with their distance from some extents, which need not be whole.
    """
    span = Range(asked)
    if not span or (probed := span.probe()) is None:
        return
    first, places = probed
    middle = {name: max(1, math.isqrt(max(1, least) * most)) for name, (least, most) in span.limits.items()}
    at_middle = span.at(middle) or first
    between: list[float] = list(at_middle.extents)
    for place in places.values():
        between[place] += 0.5  # between two sizes: of what is asked for itself there are no neighbours
    for distance, known in neighbours(first.family, tuple(between), limit):
        extents = known.best.trial.task.get("extents")
        sizes = span.sizes_of(extents, places) if isinstance(extents, list) and len(extents) == len(first.extents) else None
        found = None if sizes is None else span.at(sizes)
        if sizes is not None and found is not None and found.program == known.study[0]:
            yield distance, known, sizes, span


def _limits(outputs: Any) -> tuple[tuple[str, int, int], ...]:
    from tensorlang.definition.extent import dims_in, limits  # noqa: PLC0415 - the index itself needs no compiler
    from tensorlang.definition.tensor import Tensor, as_outputs, components, definitions  # noqa: PLC0415

    parts = (Tensor(part, place) for part in definitions(as_outputs(outputs)) for place in range(components(part)))
    return limits(dims_in([extent for tensor in parts for extent in tensor.extents]).values())


def _written(document: Any, sizes: Mapping[str, int]) -> Any:
    """A description with these dims as numbers."""
    match document:
        case ["dim", str(name), *_] if name in sizes:
            return sizes[name]
        case list():
            return [_written(part, sizes) for part in document]
        case dict():
            return {key: _written(part, sizes) for key, part in document.items()}
        case _:
            return document
