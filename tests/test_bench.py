"""The measuring of bench/: ratios of neighbouring samples, bounds, and the table."""

import timeit

import pytest

from bench import model
from bench.measure import Figure, Pairs, interleave
from bench.run import main, table


def test_a_ratio_of_pairs_does_not_see_drift() -> None:
    drift = [1.0, 1.3, 2.0, 4.0, 9.0]
    pairs = Pairs(tuple(2 * speed for speed in drift), tuple(drift))
    assert pairs.time_ratio == 2
    assert pairs.speed_ratio == 0.5
    assert pairs.spread == 0


def test_two_statements_take_turns_in_samples_that_last_long_enough() -> None:
    seen: list[tuple[float, float]] = []

    class Stand(timeit.Timer):
        """Says that each repetition took so long."""

        def __init__(self, seconds: float) -> None:
            super().__init__()
            self.seconds = seconds

        def timeit(self, number: int = 1) -> float:
            seen.append((self.seconds, number * self.seconds))
            return number * self.seconds

    pairs = interleave(Stand(1e-4), Stand(1e-6), pairs=3, least=1e-3)
    assert pairs.ratios == pytest.approx([100] * 3)
    assert [which for which, _ in seen[-6:]] == [1e-4, 1e-6] * 3 and min(length for _, length in seen[-6:]) >= 1e-3


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
    assert "known: startup, call, scheduling, library, matmul, tuner" in capsys.readouterr().err


def test_the_cost_model_is_held_against_recorded_logs() -> None:
    row = model.judged(model.FOLDER / "matmul.jsonl.gz", 8)
    assert (row.name, row.core, row.points) == ("matmul", "znver5", 8)
    assert row.correlation > 0.5
    assert row.ratios[0] <= row.ratios[1] <= row.ratios[2]
    assert row.pick >= 1
    assert model.table([row]).row_count == 2


@pytest.mark.parametrize(("chosen", "ratio"), [("a", 1.0), ("b", 1.25), ("c", 3.0)])
def test_a_pick_that_was_measured_in_turns_is_compared_with_what_was_measured_beside_it(chosen: str, ratio: float) -> None:
    single = {"a": 6.0, "b": 2.0, "c": 6.0}
    points = [{"id": "a", "min": 4.0}, {"id": "b", "min": 5.0}, {"id": "failed", "min": None}]
    records = [{"kind": "trial"}, {"kind": "final", "finalists": points}]
    assert model.pick_over_best(chosen, single, records) == ratio
    assert model.pick_over_best(chosen, single, records[:1]) == single[chosen] / 2.0
