"""Time goes to the task that is expected to gain most by it, and no task is forgotten or fed for nothing."""

import math
import random
from dataclasses import replace

import pytest

from tensorlang.autotune.jobs.allocation import DEAD, FIRST, Curve, choose, rate, slice_of

FLAT = Curve([1.0, 1.1, 1.2] * 10, [0.1] * 30, 100)


def test_every_task_is_warmed_up_before_any_is_chosen_by_its_gain() -> None:
    curves = [Curve([], [], 50) for _ in range(3)]
    seen = []
    for _ in range(3):
        place = choose(curves)
        assert place is not None
        seen.append(place)
        count = slice_of(curves[place], 10)
        assert count == FIRST
        curves[place] = Curve([1.0] * count, [0.1] * count, 50 - count)
    assert seen == [0, 1, 2]


def test_the_task_that_improved_lately_goes_first() -> None:
    improving = Curve([1.0, 1.1, 1.2] * 9 + [0.9, 0.8, 0.7], [0.1] * 30, 100)
    assert choose([FLAT, improving]) == 1
    assert choose([improving, FLAT]) == 0


def test_weight_multiplies_the_expected_gain() -> None:
    assert rate(replace(FLAT, weight=3.0)) == pytest.approx(3 * rate(FLAT))
    assert choose([FLAT, replace(FLAT, weight=2.0)]) == 1


def test_a_gain_is_relative_and_per_second() -> None:
    small = Curve([1e-6 * t for t in (10, 10, 10, 10, 10, 10, 9, 8)], [0.1] * 8, 9)
    large = Curve([10, 10, 10, 10, 10, 10, 9, 8], [0.1] * 8, 9)
    assert rate(small) == pytest.approx(rate(large))
    assert rate(replace(large, walls=[1.0] * 8)) == pytest.approx(rate(large) / 10)


def test_among_tasks_that_stand_still_the_one_with_the_fewest_trials_is_next() -> None:
    assert choose([FLAT, replace(FLAT, times=FLAT.times[:20], walls=FLAT.walls[:20])]) == 1


def test_a_task_whose_schedules_are_all_alike_is_left_for_one_whose_schedules_differ() -> None:
    assert choose([replace(FLAT, times=[1.0, 1.01, 1.02] * 10), FLAT]) == 1


def test_a_task_that_has_nothing_valid_is_given_up_and_one_that_is_done_is_not_chosen() -> None:
    dead = Curve([None] * DEAD, [0.1] * DEAD, 100)
    assert choose([dead, replace(FLAT, left=0)]) is None
    assert choose([dead, FLAT]) == 1
    assert choose([]) is None


def test_a_slice_is_as_many_trials_as_fit_and_never_more_than_are_left() -> None:
    assert slice_of(FLAT, 10) == 100
    assert slice_of(replace(FLAT, left=7), 10) == 7
    assert slice_of(Curve([1.0] * 9, [60.0] * 9, 50), 10) == 2
    assert slice_of(Curve([], [], 3), 10) == 3


def test_a_shared_budget_gains_more_by_this_rule_than_spread_evenly() -> None:
    """Ten tasks, four of which have nothing to gain; the mean log gain of both ways at the same time spent, over 40 draws of the tasks."""
    ruled, evenly = (sum(_gained(seed, by_rule=by_rule) for seed in range(40)) for by_rule in (True, False))
    assert ruled > 1.05 * evenly


def _gained(seed: int, *, by_rule: bool) -> float:
    rng = random.Random(seed)
    spreads = [rng.uniform(0.02, 0.05) if place < 4 else rng.uniform(0.1, 0.9) for place in range(10)]
    middles = [2 * spread * rng.uniform(0, 1.5) for spread in spreads]
    curves = [Curve([1.0], [0.2], 10**6) for _ in spreads]
    for step in range(50):
        place = choose(curves) if by_rule else step % len(curves)
        assert place is not None
        drawn = [math.exp(rng.gauss(middles[place], spreads[place])) for _ in range(FIRST)]
        curves[place] = Curve([*curves[place].times, *drawn], [*curves[place].walls, *[0.2] * FIRST], 10**6)
    return sum(-math.log(min(time for time in curve.times if time is not None)) for curve in curves)
