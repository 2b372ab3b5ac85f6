"""Searchers by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from tensorlang.autotune.search.methods import Evolutionary, Grid, Random
from tensorlang.autotune.search.searcher import Prior, Searcher
from tensorlang.errors import TuningError, did_you_mean
from tensorlang.schedules.spaces.space import Config, Space

if TYPE_CHECKING:
    from tensorlang.schedules.strategies.point_costs import PointCosts

Strategy: TypeAlias = Literal["bayesian", "uninformed", "random", "evolutionary", "grid"]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)


def searcher(
    strategy: str,
    space: Space,
    default: Config,
    *,
    seed: int = 0,
    seeds: Iterable[Config] = (),
    priors: Iterable[Prior] = (),
    costs: PointCosts | None = None,
) -> Searcher:
    """The searcher of this name.

    `priors`, of other shapes, are for those that model; `costs`, by the cost model, for those that are led. Raises `TuningError` for an
    unknown one.
    """
    match strategy:
        case "bayesian":
            from tensorlang.autotune.search.bayesian import Bayesian  # noqa: PLC0415 - the surrogates are slow to import

            return Bayesian(space, default, seed=seed, seeds=seeds, priors=priors, costs=costs)
        case "uninformed":
            from tensorlang.autotune.search.bayesian import Bayesian  # noqa: PLC0415 - as above

            return Bayesian(space, default, seed=seed, seeds=seeds, priors=priors)
        case "random":
            return Random(space, default, seed=seed, seeds=seeds)
        case "evolutionary":
            return Evolutionary(space, default, seed=seed, seeds=seeds, costs=costs)
        case "grid":
            return Grid(space, default, seed=seed, seeds=seeds)
        case _:
            raise TuningError(f"there is no search strategy {strategy!r}{did_you_mean(strategy, STRATEGIES)}")
