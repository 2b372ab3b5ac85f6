"""A recorded log stands in for the machine: tables are whole and searches of them repeat; what other shapes know helps."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from bench import simulate as simulation
from bench.simulate import Table, read, simulate
from bench.transfer import distance, priors
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.search.factory import STRATEGIES, searcher
from tensorlang.autotune.search.searcher import Observation, Prior, replay
from tensorlang.errors import LogError, TuningError
from tensorlang.schedules.spaces.space import Choice, Config, Log2, Sizes, Space, spelling
from tests.thinned import few

RECORDED = Path(__file__).resolve().parents[2] / "bench" / "recorded"
OPERATORS = ("matmul", "matmul_other", "batch_matmul", "conv2d", "depthwise_conv2d", "softmax", "layer_norm")


def table() -> Table:
    return Table.of(read(RECORDED / "softmax.jsonl.gz"))


@pytest.mark.parametrize("operator", few(OPERATORS, 2))
def test_a_recorded_log_is_small_whole_and_needs_nothing_but_itself(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = RECORDED / f"{operator}.jsonl.gz"
    monkeypatch.setattr(simulation, "_strategy_space", lambda _: pytest.fail("the space is not in the log"))
    found = Table.of(read(path))
    assert path.stat().st_size < 500_000
    assert found.space.count.exact and found.space.count.feasible == len(found.outcomes) == len(found.times)
    assert found.space.contains(found.default) and found.goal() >= found.times[0]
    assert found.outcome(found.default).time is not None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_simulated_search_repeats_itself_and_stays_among_the_recorded_points(strategy: str) -> None:
    found = table()
    first, again = (simulate(found, strategy, seed=3, trials=20) for _ in range(2))
    assert first == again and len({spelling(o.config) for o in first.observations}) == 20
    assert first.observations[0].config == found.default and first.sources[0] == "default"
    assert first.best() == sorted(first.best(), reverse=True)
    assert first.reached(first.best()[-1]) == first.best().index(first.best()[-1]) + 1 and first.reached(0.0) is None


def test_a_simulated_search_of_everything_ends_with_the_best() -> None:
    found = table()
    whole = simulate(found, "evolutionary", trials=10_000)
    assert len(whole.observations) == len(found.outcomes) and whole.best()[-1] == found.times[0]


@pytest.mark.parametrize(
    ("operator", "seeds"), [("softmax", 1), *(pytest.param(name, 3, marks=pytest.mark.slow) for name in ("softmax", "layer_norm"))]
)
def test_bayesian_search_finds_a_good_point_within_the_promised_trials(operator: str, seeds: int) -> None:
    """The figure of `bench.search`, on two operators and a few seeds."""
    found = Table.of(read(RECORDED / f"{operator}.jsonl.gz"))
    counts = [simulate(found, "bayesian", seed=seed, trials=60).reached(found.goal()) for seed in range(seeds)]
    assert np.median([61 if count is None else count for count in counts]) <= 60


def test_a_torn_recording_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes((RECORDED / "softmax.jsonl.gz").read_bytes()[:9_000])
    with pytest.raises(LogError, match="cannot read .*torn"):
        list(read(torn))
    lines = gzip.decompress((RECORDED / "softmax.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "hurt.jsonl.gz").write_bytes(gzip.compress(b"".join([lines[0], lines[1][:-30] + b"\n"])))
    with pytest.raises(LogError, match="cannot read .*hurt"):
        list(read(tmp_path / "hurt.jsonl.gz"))


def test_a_table_is_of_one_task_and_of_points_of_its_space() -> None:
    both = [*read(RECORDED / "softmax.jsonl.gz"), *read(RECORDED / "depthwise_conv2d.jsonl.gz")]
    with pytest.raises(TuningError, match="one task"):
        Table.of(both)
    with pytest.raises(TuningError, match="no valid trial"):
        Table.of(read(RECORDED / "softmax.jsonl.gz"), space=Space((Sizes("other", (1, 2)),)))
    half = Table.of(read(RECORDED / "softmax.jsonl.gz"), space=table().space.fix("in_rows", True))
    assert len(half.outcomes) == len(table().outcomes) // 2 and all(config["in_rows"] for config in half.space)


def test_a_search_is_replayed_from_what_a_log_has_of_it_and_a_foreign_one_is_not() -> None:
    found = table()
    search = searcher("bayesian", found.space, found.default, seed=5)
    flying: list[tuple[Observation, int, int]] = []
    told: list[tuple[Observation, int, int]] = []
    for order in range(16):
        proposal = search.ask()
        assert proposal is not None
        flying.append((found.outcome(proposal.config), order, len(told)))
        if order % 3:  # two are in flight, the later one arrives first
            told.append(flying.pop())
            search.tell(told[-1][0])
    told += flying
    proposals = replay(searcher("bayesian", found.space, found.default, seed=5), told)
    assert [p.config for p in proposals] == [outcome.config for outcome, _, _ in told]
    with pytest.raises(TuningError, match="the replay proposes"):
        replay(searcher("bayesian", found.space, found.default, seed=6), told)


def test_shapes_are_compared_by_the_ratios_of_their_extents() -> None:
    assert distance([64, 64], [64, 64]) == 0 and distance([64, 8], [128, 2]) == 3 == distance([128, 2], [64, 8])


def test_what_another_shape_has_shown_is_prior_data_of_the_same_family_only() -> None:
    trials = [record for record in read(RECORDED / "matmul_other.jsonl.gz") if isinstance(record, Trial)]
    task, target = trials[0].task, trials[0].target["fingerprint"]
    extents = [2 * extent for extent in task["extents"]]
    found = priors(trials, task["family"], extents, target, 1)
    assert 20 < len(found) <= 41 and min(prior.log for prior in found) < 0 and all(0 < prior.weight < 0.5 for prior in found)
    assert priors(trials, "another", extents, target, 1) == [] == priors(trials, task["family"], extents, target, 2)
    assert priors(trials, task["family"], task["extents"], target, 1) == []  # its own trials are no prior of it
    nearer = priors(trials, task["family"], [2 * task["extents"][0], *task["extents"][1:]], target, 1)
    assert nearer[0].weight > found[0].weight


def test_prior_data_leads_the_first_proposals() -> None:
    space = Space((Log2("a", 1, 128), Log2("b", 1, 128), Choice("c", ("x", "y"))))
    told = [Prior(point, abs(point["a"] - 64) / 64, 0.4) for point in list(space)[::3]]
    search = searcher("bayesian", space, {"a": 1, "b": 1, "c": "x"}, priors=told)
    asked: list[Config] = []
    while len(asked) < 4 and (proposal := search.ask()) is not None:
        asked.append(proposal.config)
        search.tell(Observation(proposal.config, 1.0 + abs(proposal.config["a"] - 64) / 64))
    assert any(config["a"] == 64 for config in asked[1:])
