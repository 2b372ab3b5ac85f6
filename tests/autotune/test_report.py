"""What is said of a log is right: random search is exact, shares of knobs mean something, pauses do not count, intervals are the log's."""

import itertools
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import scipy
from hypothesis import given, strategies as st
from rich.console import Console

from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import FinalRecord, RunStart
from tensorlang.autotune.reporting import report, sections
from tensorlang.autotune.reporting.analysis import Gain, elapsed, gain, improvements, ordered, overhead, slow
from tensorlang.autotune.reporting.compare import compare, table
from tensorlang.autotune.reporting.display import share_of_peak
from tensorlang.autotune.reporting.headline import Headline
from tensorlang.autotune.reporting.knob_effects import explained, knob_effects
from tensorlang.autotune.reporting.random_search import baseline
from tensorlang.errors import LogError
from tests.autotune.made_logs import Made, write
from tests.draws import examples

MADE = Made()


@pytest.fixture
def made() -> Made:
    return MADE


def trials_of(made: Made, times: list[float | None], source: str = "random", **fields: Any) -> list[Trial]:
    configs = made.configs(len(times))
    return [
        Trial.of(made.trial(seq, config, time, source) | fields)
        for seq, (config, time) in enumerate(zip(configs, times, strict=True))
    ]  # fmt: skip


def said(log: Any, what: Any) -> str:
    console = Console(width=250)
    with console.capture() as capture:
        what(console, log)
    return capture.get()


@examples(30)
@given(st.lists(st.one_of(st.none(), st.floats(1e-6, 1e-3)), min_size=3, max_size=7).filter(any), st.floats(1e-6, 1e-3))
def test_random_search_is_the_mean_over_all_subsets(times: list[float | None], default: float) -> None:
    made = MADE
    trials = [Trial.of(made.trial(99, made.plan.default, default, "default")), *trials_of(made, times)]
    chance = baseline(trials)
    assert chance is not None and chance.begin == default
    for count, mean, low, high in zip(chance.counts, chance.mean, chance.low, chance.high, strict=True):
        draws = list(itertools.combinations(times, count))
        bests = sorted(min([default, *(time for time in draw if time is not None)]) for draw in draws)
        assert mean == pytest.approx(fmean(bests))
        for level, share in ((low, 0.1), (high, 0.9)):
            assert sum(best < level for best in bests) <= share * len(bests) + 1e-9
            assert sum(best <= level for best in bests) >= share * len(bests) - 1e-9


def test_random_search_is_not_told_of_few_draws_or_of_none_that_ran(made: Made) -> None:
    assert baseline(trials_of(made, [1e-3, 2e-3])) is None
    assert baseline(trials_of(made, [None] * 5)) is None
    assert baseline(trials_of(made, [1e-3] * 5, source="model")) is None


def test_a_log_with_every_point_is_drawn_from_as_a_whole(made: Made) -> None:
    trials = trials_of(made, [4e-3, 3e-3, 2e-3, 1e-3], source="grid")
    chance = baseline(trials, points=4)
    assert chance is not None and "every feasible point" in chance.about and chance.mean[-1] == 1e-3


def test_a_knob_that_decides_explains_all_and_one_that_does_not_explains_nothing() -> None:
    assert explained([[1.0] * 5, [2.0] * 5, [4.0] * 5]) == pytest.approx(1)
    assert explained([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]) == 0
    assert explained([[1.0], [2.0], [3.0]]) is None, "as many values as trials"
    assert explained([[1.0, 2.0, 3.0]]) == 0, "one value only"
    groups = [[1.0, 3.0, 3.0], [2.0, 5.0, 5.0, 6.0], [7.0, 3.0]]
    assert explained(groups) == pytest.approx((scipy.stats.kruskal(*groups).statistic - 2) / 6), "of tied values too"
    decided = explained([[1.0, 1.1, 1.2, 1.3, 900.0], [2.0, 2.1, 2.2, 2.3, 2.4]])
    assert decided is not None and decided > 0.15, "one trial on a busy machine does not hide what a knob does"


def test_knobs_come_by_what_they_explain_with_their_values_in_order(made: Made) -> None:
    def config(seq: int) -> dict[str, Any]:
        return {"big": [4, 16, 1][seq % 3], "small": "ab"[seq // 3 % 2], "tile": [seq % 2, 8], "rare": seq}

    times = [1e-3 * (1, 4, 2)[seq % 3] * (1 + 0.1 * (seq // 3 % 2)) for seq in range(24)]
    trials = [Trial.of(made.trial(seq, config(seq), time)) for seq, time in enumerate(times)]
    trials.append(Trial.of(made.trial(24, {"big": 16, "small": "a", "tile": [0, 8]}, None)))
    effects = knob_effects(trials)
    assert effects[0].name == "big" and effects[0].share is not None and effects[0].share > 0.9
    assert [level.label for level in effects[0].levels] == ["1", "4", "16"]
    assert effects[0].levels[2].failed == 1
    assert str(effects[0]).startswith("big: explains 9") and "best at 4 (median 1.05x), worst at 16" in str(effects[0])
    names = {effect.name: effect for effect in effects}
    assert {"tile[0]", "tile[1]"} <= names.keys(), "a split is taken apart"
    assert len(names["rare"].levels) <= 10 and names["rare"].levels[-1].label == "not active"


def test_time_runs_only_while_tuning_and_once_where_runs_overlap(made: Made) -> None:
    def at(run: str, seq: int, end: float) -> Trial:
        return Trial.of(made.trial(seq, {}, 1e-3) | {"run": run, "time_unix": 1e9 + end, "id": f"{run}{seq}"})

    starts = [RunStart(run=run, time_unix=1e9 + after) for run, after in (("a", 0), ("b", 1000), ("c", 1002))]
    trials = [at("a", 0, 2), at("a", 1, 5), at("b", 0, 1003), at("c", 0, 1004), at("b", 1, 1007)]
    assert elapsed(trials, starts) == pytest.approx([2, 5, 8, 9, 12])
    unsaid = [Trial.of({name: value for name, value in trial.fields.items() if name != "time_unix"}) for trial in trials]
    assert elapsed(unsaid) == pytest.approx([0.5, 1, 1.5, 2, 2.5])
    assert [trial.id for trial in ordered(list(reversed(trials)))] == [trial.id for trial in trials]


def test_overhead_is_the_time_in_which_nothing_was_built_or_measured(made: Made) -> None:
    trials = trials_of(made, [1e-3] * 4)
    assert overhead(trials) == pytest.approx(1 - 4 * 0.3 / (4 * 0.5))
    spans = trials_of(made, [1e-3] * 2, spans={"build": [0.0, 0.6], "run": [0.4, 0.8]})
    assert overhead(spans) == pytest.approx(0.2), "overlapping work counts once"


def test_only_trials_that_were_faster_improve(made: Made) -> None:
    assert improvements(trials_of(made, [None, 3e-3, 4e-3, 1e-3])) == [(2, 3e-3), (4, 1e-3)]


def test_the_interval_is_the_recorded_one_else_that_of_the_paired_rounds(made: Made) -> None:
    best, base = made.trial(1, {"v": 1}, 1e-3), made.trial(0, {"v": 0}, 2e-3, "default")
    trials = [Trial.of(base), Trial.of(best)]
    found = gain(FinalRecord.of(made.final(best, base, speedup_interval=[1.5, 2.5])), trials, trials[1])
    assert found == Gain(2.0, 1.5, 2.5, "median of 15 paired rounds in a fresh process")
    computed = gain(FinalRecord.of(made.final(best, base)), trials, trials[1])
    assert computed is not None and [computed.low, computed.high] == pytest.approx([2, 2])
    assert str(gain(FinalRecord.of(made.final(base, base)), trials, trials[0])) == "the default itself won"
    unpaired = gain(None, trials, trials[1])
    assert unpaired is not None and unpaired.ratio == 2 and unpaired.low is None
    assert gain(None, trials[1:], trials[1]) is None, "no default to compare with"


def test_a_slow_stretch_is_named_by_its_trials(made: Made) -> None:
    trials = [Trial.of(made.trial(seq, {}, 1e-3) | {"sentinel": 2e-3 if 10 <= seq < 20 else 1e-3}) for seq in range(30)]
    (stretch,) = slow(trials)
    assert (stretch.first, stretch.last) == (11, 20)


def test_the_terminal_report_says_what_matters_in_a_line_each(made: Made, tmp_path: Path) -> None:
    records = made.study(24, lambda config, seq: None if seq == 7 else (300 - 5 * seq) * 1e-6)
    for record in records:
        if record["kind"] == "trial":
            record["sentinel"] = 1.5e-3 if 10 <= record["seq"] < 15 else 1e-3
    text = said(write(tmp_path / "a.jsonl", records), report.report)
    for expected in (
        "24 trials in 12 s", "median noise", "slowed by 50% during trials 11 to 15", "best so far: 300 us (trial 1)", "185 us (trial 24)",
        "1.62x default (95%: ", "explains ", "1 wrong_result: Wrong: differs from the reference",
    ):  # fmt: skip
        assert expected in text, (expected, text)


def test_status_and_best_speak_of_a_merged_log_whose_final_stands_first(made: Made, tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", reversed(made.study()))
    assert "matmul i=48,j=64,k=32 float32" in said(log, report.status) and "1." in said(log, report.status)
    assert "tl.Schedule(C)" in said(log, report.best)
    (tuned,) = report.studies(log)
    assert tuned.final is not None and tuned.ended == "trials" and tuned.starts and tuned.trials[0].seq == 0


def test_a_schedule_of_another_version_is_shown_as_its_directives(made: Made, tmp_path: Path) -> None:
    records = made.study()
    for record in records:
        if record["kind"] == "trial":
            record["schedule"] = '{"steps": [["teleport", {}]]}'
    assert "teleport" in said(write(tmp_path / "a.jsonl", records), report.best)


def test_a_log_without_a_valid_trial_names_the_failures_and_one_without_trials_is_refused(made: Made, tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", made.study(5, lambda config, seq: None))
    for what in (report.report, report.status, report.best):
        assert "5 wrong_result" in said(log, what)
    with pytest.raises(LogError, match="holds no trial"):
        said(write(tmp_path / "b.jsonl", [made.start()]), report.report)


def test_a_share_above_what_was_measured_says_that_the_machine_was_busy() -> None:
    assert share_of_peak(50.0, 0.0, Peak(100.0, 10.0)) == "50% FMA"
    assert share_of_peak(105.0, 5.0, Peak(100.0, 10.0)) == "105% FMA, 50% memory"
    assert share_of_peak(200.0, 0.0, Peak(100.0, 10.0)) == "? (busy)"
    assert share_of_peak(200.0, 0.0, Peak(None, None)) == "-"


@pytest.mark.parametrize("quality", ["shared", "noisy"])
def test_every_report_says_how_far_a_verdict_can_be_trusted(made: Made, tmp_path: Path, quality: str) -> None:
    records = made.study()
    told = {"quality": quality, "speedup_interval": [1.1, 1.3]}
    log = write(tmp_path / "a.jsonl", [record | told if record["kind"] == "final" else record for record in records])
    for what in (report.status, report.best, report.report):
        assert quality in said(log, what)
    assert quality in Headline.of(report.studies(log)[0], None).warning + Headline.of(report.studies(log)[0], None).verdict
    (row,) = compare(log, log)
    assert row.a is not None and row.a.quality == quality
    assert quality in said(log, lambda console, _: console.print(table([row])))
    page = sections.study(report.studies(log)[0], 100, measure=False)
    assert quality in page.overview and any(tile.value == quality for tile in page.headline.tiles)


def test_an_undecided_verdict_tells_by_how_much_the_candidate_led(made: Made, tmp_path: Path) -> None:
    *records, end = made.study()
    base = records[1]
    rows = records[-1]["finalists"]
    for row, times in zip(rows, ([1.0, 1.0, 1.0], [0.5, 1.1, 0.6]), strict=True):
        row |= {"samples": times, "runs": [1, 1, 1]}
    undecided = records[-1] | {"finalists": rows, "winner": base["id"], "speedup": 1.0, "quality": "undecided"}
    log = write(tmp_path / "a.jsonl", [*records[:-1], undecided, end])
    assert "undecided" in said(log, report.status)
    assert "the candidate: 1.45x, 0.5" in said(log, report.best)
    assert Headline.of(report.studies(log)[0], None).verdict.startswith("Undecided: a candidate led the default by 1.45x")


def test_two_logs_of_which_one_is_noisy_are_not_ranked(made: Made, tmp_path: Path) -> None:
    records = made.study()
    quick = [record | {"time": record["time"] / 2, "quality": "noisy"} if record["kind"] == "final" else record for record in records]
    (row,) = compare(write(tmp_path / "a.jsonl", records), write(tmp_path / "b.jsonl", quick))
    assert row.verdict == "undecided"
