"""Every searcher proposes each feasible point at most once, ends, and can be replayed; the Bayesian one is worth its cost."""

import math
import subprocess
import sys

import numpy as np
import pytest

from tensorlang.autotune.search.factory import STRATEGIES, searcher
from tensorlang.autotune.search.searcher import Observation, Searcher
from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.space import Choice, Config, Flag, Log2, Order, Space, TileSize, spelling

DEFAULT = {"mr": 1, "nr": 16, "kc": 64, "pack": "none", "order": ["i", "j", "k"]}


def space() -> Space:
    knobs = (
        TileSize("mr", 512, hi=16),
        TileSize("nr", 512, lo=16, hi=64, multiple=16),
        Log2("kc", 16, 512),
        Choice("pack", {"none": (), "B": (Flag("align"),)}),
        Order("order", ("i", "j", "k")),
    )
    return Space(knobs).where(lambda c: c["mr"] * c["nr"] <= 384, "registers")


def cost(config: Config) -> float | None:
    """A kernel-like landscape: best at a 6 x 64 tile with packing; tall tiles with kc 512 do not build."""
    if config["mr"] >= 12 and config["kc"] >= 256:
        return None
    tile = abs(math.log2(config["mr"] / 6)) + abs(math.log2(config["nr"] / 64)) + 0.5 * abs(math.log2(config["kc"] / 256))
    pack: float = 1.0 if config["pack"] == "none" else 0.6 - 0.1 * config["align"]
    return float(1e-4 * (1 + tile) * pack * (1 + 0.3 * config["order"].index("i")))


def trace(search: Searcher, count: int) -> list[Observation]:
    seen: list[Observation] = []
    while len(seen) < count and (proposal := search.ask()) is not None:
        seen.append(Observation(proposal.config, cost(proposal.config)))
        search.tell(seen[-1])
    return seen


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_default_is_first_and_nothing_is_repeated_or_infeasible(strategy: str) -> None:
    seen = trace(searcher(strategy, space(), DEFAULT, seed=3), 24)
    assert len(seen) == 24 and seen[0].config == DEFAULT
    assert len({spelling(o.config) for o in seen}) == 24 and all(space().contains(o.config) for o in seen)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_small_space_is_searched_to_its_end_and_no_further(strategy: str) -> None:
    small = Space((TileSize("mr", 8, hi=8), Flag("pack"))).where(lambda c: c["mr"] != 3, "not three")
    search = searcher(strategy, small, {"mr": 1, "pack": False})
    configs = []
    while (proposal := search.ask()) is not None:
        configs.append(proposal.config)
        search.tell(Observation(proposal.config, 1.0 / len(configs)))
    assert {spelling(c) for c in configs} == {spelling(c) for c in small} and len(configs) == small.count.feasible


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_resumed_from_its_log_proposes_what_the_first_would_have(strategy: str) -> None:
    whole = trace(searcher(strategy, space(), DEFAULT, seed=5), 18)
    again = searcher(strategy, space(), DEFAULT, seed=5)
    for observation in whole[:12]:
        again.tell(observation)
    assert [o.config for o in trace(again, 6)] == [o.config for o in whole[12:]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_points_in_flight_are_not_proposed_again_until_forgotten(strategy: str) -> None:
    search = searcher(strategy, space(), DEFAULT)
    trace(search, 12)
    flying = [proposal.config for _ in range(6) if (proposal := search.ask()) is not None]
    assert len({spelling(c) for c in flying}) == 6
    search.forget(flying[0])
    assert not search.seen(flying[0]) and search.seen(flying[1])


def test_seeds_come_second_and_foreign_ones_are_dropped() -> None:
    seed = {**DEFAULT, "mr": 6}
    search = searcher("random", space(), DEFAULT, seeds=[{"mr": 99}, seed])
    first, second = search.ask(), search.ask()
    assert first is not None and second is not None
    assert (first.source, second.source, second.config) == ("default", "seed", seed)


def test_an_unknown_strategy_is_named_with_the_nearest() -> None:
    with pytest.raises(TuningError, match="did you mean 'bayesian'"):
        searcher("bayes", space(), DEFAULT)


@pytest.mark.slow
def test_bayesian_search_beats_random_search_in_the_median_of_seeds() -> None:
    best: dict[str, list[float]] = {"bayesian": [], "random": []}
    for strategy, found in best.items():
        for seed in range(3):
            seen = trace(searcher(strategy, space(), DEFAULT, seed=seed), 32)
            found.append(min(o.time for o in seen if o.time is not None))
    assert np.median(best["bayesian"]) < 0.8 * np.median(best["random"])


@pytest.mark.parametrize("seeds", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_bayesian_search_learns_to_avoid_points_that_fail(seeds: int) -> None:
    """The fastest valid points lie beside the failing ones, so a search that did not learn would spend most of its trials there."""
    failures = [sum(o.time is None for o in trace(searcher("bayesian", space(), DEFAULT, seed=seed), 45)[20:]) for seed in range(seeds)]
    assert np.median(failures) <= 4


def test_a_model_proposal_carries_its_prediction() -> None:
    search = searcher("bayesian", space(), DEFAULT, seed=0)
    trace(search, 20)
    predictions = [proposal.prediction for _ in range(3) if (proposal := search.ask()) is not None]
    assert any(p is not None and set(p) == {"mean", "deviation", "valid", "score"} for p in predictions)


def test_trees_are_loaded_where_measuring_takes_longer_than_they_do() -> None:
    """They take two seconds of processor time, a tenth of what a short job may take in all; nothing else of the search loads them."""
    program = (
        "import sys\n"
        "from tensorlang.autotune.search.factory import searcher\n"
        "from tensorlang.autotune.search.searcher import Observation\n"
        "from tensorlang.schedules.spaces.space import Sizes, Space\n"
        "search = searcher('bayesian', Space((Sizes('n', tuple(range(1, 100))),)), {'n': 1})\n"
        "search.prepare(64)\n"
        "def measure(seconds):\n"
        "    proposal = search.ask()\n"
        "    failed = proposal.config['n'] > 90\n"
        "    search.tell(Observation(proposal.config, None if failed else 1e-3 / proposal.config['n'], 0.01, seconds))\n"
        "    return proposal.source\n"
        "assert {measure(0.3) for _ in range(24)} & {'model', 'neighbour'}\n"
        "assert not sys.modules.keys() & {'scipy', 'skopt', 'sklearn'}\n"
        "measure(60.0), [measure(0.3) for _ in range(3)]\n"
        "assert 'skopt' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_feature_that_varies_is_seen_by_the_model() -> None:
    """Features were once scaled by the first points of the list, coarse to fine, in which some knobs do not vary: they were lost."""
    from tensorlang.autotune.search.candidates import Candidates

    small = Space((*(Log2(name, 1, 16) for name in "abc"), Flag("d"), Flag("e"), Flag("f")))
    candidates = Candidates(small, 0)
    rows = candidates.rows(candidates.uniform(0))
    assert len(rows) == small.count.feasible > 900 and (rows.std(axis=0) > 0).all()


@pytest.mark.parametrize("seconds", [0.1, 20.0])
def test_a_search_of_a_large_space_is_resumed_as_it_would_have_gone_on(seconds: float) -> None:
    """Candidates and relevances are kept from proposal to proposal; they depend on what was told, not on who asked."""
    large = Space(tuple(Log2(name, 1, 64) for name in "abcde"))

    def outcome(config: Config) -> Observation:
        return Observation(config, 1e-3 * (1 + abs(config["a"] - config["b"]) + config["c"] / 8), 0.01, seconds)

    default = dict.fromkeys("abcde", 1)
    live = searcher("bayesian", large, default, seed=3)
    told = []
    for _ in range(20):
        proposal = live.ask()
        assert proposal is not None
        told.append(outcome(proposal.config))
        live.tell(told[-1])
    resumed = searcher("bayesian", large, default, seed=3)
    for one in told:
        resumed.tell(one)
    for _ in range(3):
        expected, found = live.ask(), resumed.ask()
        assert expected is not None and expected == found
        live.tell(outcome(expected.config))
        resumed.tell(outcome(expected.config))
