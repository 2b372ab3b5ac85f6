"""May what was tuned for one shape, or on another CPU, serve here? Only where it is unlikely to hurt.

A schedule that was measured on this very program has an interval that says how much faster it is. One that comes from elsewhere has not,
so more has to speak for it. If the default won there, it is taken here too, each shape its own. Shapes that are far apart (`FARTHEST`)
have nothing to say to each other. In between, the cost model, which ranks the schedules of one space well, has to find it faster than
this shape's own default by more than its usual error (`AHEAD`); of a shape that is all but the same (`NEAR`), where the gain was measured
(`GAINED`), it is enough that the model does not find it slower (`LEAST`). The model sees one core, so for several threads a schedule from
elsewhere has to share its loops among them as the default does.

`python -m bench.lending` measures what that is worth: hundreds of pairs of a shape and a log of another one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.autotune.log.record import Trial
from tensorlang.codegen.target import Target
from tensorlang.errors import TensorlangError
from tensorlang.schedules.spaces.space import Config

FARTHEST: Final = math.log(16)
"""The sum over the extents of the logarithms of their ratios beyond which shapes have nothing to say to each other."""
NEAR: Final = math.log(2)
"""The same, within which what was gained there may be expected here."""
AHEAD: Final = 1.1
"""How many times as fast as the default a schedule from elsewhere has to be by the model."""
LEAST: Final = 0.95
"""The same of a near shape, where it was faster than the default by the measured factor `GAINED`."""
GAINED: Final = 1.05


NO_COUNTERPART: Final = "its configuration has no counterpart here"


@dataclass(frozen=True, slots=True)
class Loan:
    """A configuration for this program from elsewhere, or None; and why, in either case."""

    config: Config | None
    reason: str


def by_distance(distance: float) -> Loan | None:
    """The refusal of what is too far away; None where it is near."""
    if distance <= FARTHEST:
        return None
    return Loan(None, f"the nearest shape is too far away: its extents differ by a factor of {math.exp(distance):.3g} in all")


def by_model(
    outputs: Any,
    target: Target,
    threads: int,
    trial: Trial,
    distance: float,
    gain: float | None,
    constants: frozenset[str] = frozenset(),
) -> Loan:
    """What a trial of another shape or CPU comes to here, by the model, that was found `gain` times as fast as the default there.

    `constants` are operands that are packed beforehand. Costs two schedules that are made and two estimates of them, some tens of
    milliseconds.
    """
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415 - the index itself needs no compiler

    strategy = choose(outputs, target, threads, constants)
    if strategy_of(trial) != strategy.name or (config := strategy.space.project(trial.config)) is None:
        return Loan(None, NO_COUNTERPART)
    if config == strategy.default:
        return Loan(None, "its configuration is this shape's default")
    try:
        ours, lent = strategy.schedule(strategy.default), strategy.schedule(config)
        ratio = ours.estimate(target).seconds / max(lent.estimate(target).seconds, 1e-12)
    except TensorlangError as error:
        return Loan(None, f"its configuration is refused here: {str(error).splitlines()[0]}")
    if threads > 1 and _shared(ours.nest) != _shared(lent.nest):
        return Loan(None, "its loops are shared among the threads in another way, which the model does not see")
    wanted = LEAST if distance <= NEAR and gain is not None and gain >= GAINED else AHEAD
    if ratio < wanted:
        return Loan(None, f"by the model it is {ratio:.2f} times as fast as the default here, and {wanted:.2f} is asked")
    return Loan(config, f"by the model {ratio:.2f} times as fast as the default here")


def strategy_of(trial: Trial) -> object:
    """The name of the strategy whose point a trial is."""
    strategy = trial.fields.get("strategy")
    return strategy.get("name") if isinstance(strategy, dict) else None


def _shared(nest: Any) -> list[str]:
    """The loops that threads share, with what they run over."""
    from tensorlang.ir import For  # noqa: PLC0415 - the index itself needs no compiler
    from tensorlang.ir.traverse import statements  # noqa: PLC0415

    return [f"{part.loop} {part.lo} {part.hi}" for part in statements(nest.body) if isinstance(part, For) and part.kind == "parallel"]
