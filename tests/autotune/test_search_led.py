"""A search that the cost model leads: it asks as often as trials pay for, believes it as far as times bear it out, and can be resumed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tensorlang import ops, placeholder, target
from tensorlang.autotune.search.candidates import Candidates
from tensorlang.autotune.search.factory import searcher
from tensorlang.autotune.search.forecast import POOL_S, Forecast, Trend
from tensorlang.autotune.search.searcher import Observation, Searcher
from tensorlang.errors import TuningError
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.spaces.space import Choice, Config, Log2, Space, TileSize, spelling
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.point_costs import SCHEDULE_S, SKETCH_S, PointCosts
from tests.thinned import crossed, few

SPACE = Space((TileSize("a", 2**10), TileSize("b", 2**10), Log2("c", 1, 64), Choice("d", ("x", "y", "z")), Choice("e", ("x", "y", "z"))))
DEFAULT: Config = {"a": 1, "b": 1, "c": 1, "d": "x", "e": "x"}


def seconds(config: Config) -> float:
    """A landscape with one valley."""
    apart = abs(math.log2(config["a"] / 32)) + abs(math.log2(config["b"] / 8)) + abs(math.log2(config["c"] / 16))
    return float(1e-3 * (1 + apart + "zyx".index(config["d"]) + "yxz".index(config["e"])))


def misleading(config: Config) -> float:
    """Fast where it is slow."""
    return 1e-6 / seconds(config)


def run(search: Searcher, count: int, each: float = 0.3, goal: float = 0.0) -> list[Observation]:
    """What so many trials find, or as many as lead to the goal."""
    found: list[Observation] = []
    while len(found) < count and (proposal := search.ask()) is not None:
        found.append(Observation(proposal.config, seconds(proposal.config), 0.0, each))
        search.tell(found[-1])
        if (found[-1].time or math.inf) <= goal:
            break
    return found


def trials(search: Searcher, most: int, goal: float = 4.1e-3) -> int:
    """After how many trials a search is in the valley; one more than the most where it is not."""
    found = run(search, most, goal=goal)
    return len(found) + ((found[-1].time or math.inf) > goal)


@pytest.mark.parametrize("strategy", ["bayesian", "evolutionary"])
def test_a_model_that_is_right_leads_to_the_valley_in_a_few_trials(strategy: str) -> None:
    led = [trials(searcher(strategy, SPACE, DEFAULT, seed=seed, costs=PointCosts(seconds)), 30) for seed in range(3)]
    alone = [trials(searcher(strategy, SPACE, DEFAULT, seed=seed), 30) for seed in range(3)]
    assert sum(led) < sum(alone) / 1.5


def test_a_model_that_misleads_is_soon_not_believed() -> None:
    """It costs a few trials at first; after that the search is about as good as without."""
    led = [trials(searcher("bayesian", SPACE, DEFAULT, seed=seed, costs=PointCosts(misleading)), 40) for seed in range(3)]
    alone = [trials(searcher("uninformed", SPACE, DEFAULT, seed=seed, costs=PointCosts(misleading)), 40) for seed in range(3)]
    assert np.median(led) <= np.median(alone) + 12


@pytest.mark.parametrize("strategy", ["random", "grid", "uninformed"])
def test_the_other_strategies_take_no_notice_of_the_model(strategy: str) -> None:
    led = run(searcher(strategy, SPACE, DEFAULT, seed=3, costs=PointCosts(misleading)), 12)
    assert led == run(searcher(strategy, SPACE, DEFAULT, seed=3), 12)


@pytest.mark.parametrize("each", [SKETCH_S, SCHEDULE_S])
@pytest.mark.parametrize("strategy", ["bayesian", "evolutionary"])
def test_a_run_resumed_from_its_log_proposes_what_the_first_would_have(strategy: str, each: float) -> None:
    whole = run(searcher(strategy, SPACE, DEFAULT, seed=5, costs=PointCosts(seconds, each)), 24)
    again = searcher(strategy, SPACE, DEFAULT, seed=5, costs=PointCosts(seconds, each))
    for outcome in whole[:15]:
        again.tell(outcome)
    assert [outcome.config for outcome in run(again, 9)] == [outcome.config for outcome in whole[15:]]


@crossed({"each": [SKETCH_S, SCHEDULE_S], "trial": [0.2, 2.0]})
def test_predictions_take_a_small_share_of_the_time_of_trials(each: float, trial: float) -> None:
    """By what a prediction is said to cost: the pool, then a twelfth of the trials at most, points that were measured included."""
    asked: list[Config] = []

    def counted(config: Config) -> float:
        asked.append(config)
        return seconds(config)

    run(searcher("bayesian", SPACE, DEFAULT, seed=1, costs=PointCosts(counted, each)), 48, trial)
    assert len({spelling(config) for config in asked}) == len(asked)  # nothing is asked twice
    assert len(asked) * each <= POOL_S + 48 * trial / 12


def test_a_proposal_says_what_the_cost_model_predicted() -> None:
    search = searcher("bayesian", SPACE, DEFAULT, costs=PointCosts(seconds))
    run(search, 8)
    proposals = [search.ask() for _ in range(4)]
    told = [p.prediction["seconds"] for p in proposals if p is not None and p.prediction and "seconds" in p.prediction]
    assert told and all(1e-4 < value < 1e-1 for value in told)


def test_points_without_a_schedule_and_models_that_say_nothing_do_no_harm() -> None:
    def refused(config: Config) -> float:
        if config["d"] != "x":
            raise TuningError("no such point")
        return seconds(config)

    some = run(searcher("bayesian", SPACE, DEFAULT, seed=2, costs=PointCosts(refused)), 20)
    assert len({spelling(outcome.config) for outcome in some}) == 20
    for silent in (lambda _: 1.0, lambda _: math.inf, lambda config: config["none"]):
        assert run(searcher("bayesian", SPACE, DEFAULT, costs=PointCosts(silent)), 8) == run(searcher("uninformed", SPACE, DEFAULT), 8)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.floats(0, 3), st.floats(0, 0.3))
def test_the_weight_of_the_model_is_learnt_from_the_residuals(seed: int, slope: float, noise: float) -> None:
    """Of many observations it is the slope of least squares, of few it is near 1, and it is never negative."""
    rng = np.random.default_rng(seed)
    predicted = rng.normal(size=300)
    logs = slope * predicted + noise * rng.normal(size=300)
    assert Trend.of(predicted, logs, np.ones(300)).slope == pytest.approx(slope, abs=0.1)
    assert Trend.of(predicted, -logs, np.ones(300)).slope <= 0.1
    few = Trend.of(predicted[:2], predicted[:2] + np.array([0.2, -0.2]), np.ones(2)).slope
    assert 0 <= few <= 3
    middle = Trend.of(predicted, logs, np.ones(300))
    assert abs(float(middle.at(predicted).mean())) < 1e-9


def test_a_forecast_is_exact_where_it_was_asked_and_near_elsewhere() -> None:
    forecast = Forecast(PointCosts(seconds), Candidates(SPACE, 0), 0)
    assert forecast.usable and len(forecast.pool) == int(POOL_S / SKETCH_S)
    liked = [seconds(config) for config in forecast.pool.values()]
    assert liked == sorted(liked)
    points = {spelling(config): config for config in SPACE.sample(np.random.default_rng(9), 200)}
    truth = np.log([seconds(config) for config in points.values()])
    assert np.allclose(forecast.logs(points, set(points)), truth)
    assert np.corrcoef(forecast.logs(points, ()), truth)[0, 1] > 0.8


@pytest.mark.parametrize(
    "outputs",
    few(
        [
            ops.matmul(placeholder((96, 128)), placeholder((128, 160))),
            ops.conv2d(placeholder((1, 8, 14, 14)), placeholder((16, 8, 3, 3)), padding=1),
            ops.depthwise_conv2d(placeholder((1, 8, 14, 14)), placeholder((8, 1, 3, 3)), padding=1),
            ops.softmax(placeholder((64, 100))),
            ops.conv2d(placeholder((1, 64, 14, 14)), placeholder((64, 64, 1, 1)), stride=2),
        ],
        3,
    ),
    ids=["product", "convolution", "window", "rows", "two ways"],
)
def test_a_strategy_ranks_its_points_as_the_model_ranks_their_schedules(outputs: object) -> None:
    machine = target("x86-64-v3")
    strategy = choose(outputs, machine, 1)
    points = strategy.space.sample(np.random.default_rng(1), 10)
    guessed = [strategy.costs.seconds(point) for point in points]
    scheduled = [estimate(strategy.schedule(point).nest, machine.core).seconds for point in points]
    assert np.corrcoef(np.log(guessed), np.log(scheduled))[0, 1] > 0.9 or np.allclose(guessed, scheduled, rtol=0.2)
