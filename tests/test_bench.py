"""The measuring of bench/: ratios of neighbouring samples, bounds, and the table."""

import timeit

import pytest

from bench.measure import Figure, Pairs, interleave
from bench.run import main, table


def test_a_ratio_of_pairs_does_not_see_drift() -> None:
    drift = [1.0, 1.3, 2.0, 4.0, 9.0]
    pairs = Pairs(tuple(2 * speed for speed in drift), tuple(drift))
    assert pairs.time_ratio == 2
    assert pairs.speed_ratio == 0.5
    assert pairs.spread == 0


def test_the_slower_statement_has_the_greater_time() -> None:
    pairs = interleave(timeit.Timer("sum(range(2000))"), timeit.Timer("sum(range(20))"), pairs=3, least=1e-3)
    assert len(pairs.ratios) == 3
    assert pairs.time_ratio > 5


@pytest.mark.parametrize(("value", "kept"), [(0.89, False), (0.9, True), (1.2, True)])
def test_a_bound_is_part_of_what_it_allows(value: float, kept: bool) -> None:
    figure = Figure("speed", value, 0.9, "at least", "x", {"spread": 0.01})
    assert figure.kept is kept
    assert figure.to_json()["kept"] is kept
    assert ("NO" in table([figure])) is not kept


def test_an_unknown_family_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["frobnicate"])
    assert stopped.value.code == 2
    assert "known: startup, call, scheduling, matmul, tuner" in capsys.readouterr().err
