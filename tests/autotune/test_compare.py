"""Two logs are compared task by task; what noise or the machine explains is a tie, and what differs between the two is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tensorlang.autotune.log.log import Log
from tensorlang.autotune.reporting.compare import TaskComparison, compare, table
from tensorlang.errors import LogError
from tests.autotune.made_logs import Made, matmul, write

MADE = Made(run="a")
OTHER = Made(run="b")


def log_of(path: Path, made: Made, scale: float = 1.0, change: Callable[[dict[str, Any]], None] = lambda record: None) -> Log:
    records = made.study(12, lambda config, seq: scale * (200 - 8 * seq) * 1e-6)
    for record in records:
        change(record)
    return write(path, records)


def one(a: Log, b: Log) -> TaskComparison:
    (row,) = compare(a, b)
    return row


def test_a_log_ties_with_itself(tmp_path: Path) -> None:
    log = log_of(tmp_path / "a.jsonl", MADE)
    row = one(log, log)
    assert (row.verdict, row.ratio, row.differs) == ("tie", 1.0, ())
    assert row.a == row.b and row.a is not None and row.a.trials == 12


def quiet(record: dict[str, Any]) -> None:
    """The default took as long in both logs."""
    if record["kind"] == "final":
        record["default_time"] = 2e-4


@pytest.mark.parametrize(("scale", "verdict"), [(0.5, "B faster"), (2.0, "A faster"), (1.005, "tie"), (0.995, "tie")])
def test_a_difference_beyond_a_per_cent_is_one(tmp_path: Path, scale: float, verdict: str) -> None:
    a = log_of(tmp_path / "a.jsonl", MADE, change=quiet)
    b = log_of(tmp_path / "b.jsonl", OTHER, scale, change=quiet)
    row = one(a, b)
    assert row.verdict == verdict and row.ratio == pytest.approx(1 / scale)
    assert row.low is not None and row.high is not None and row.low < 1 / scale < row.high


def test_noisy_samples_widen_the_interval_to_a_tie(tmp_path: Path) -> None:
    def shaken(record: dict[str, Any]) -> None:
        quiet(record)
        if record["kind"] == "final":
            for row in record["finalists"]:
                row["samples"] = [row["samples"][0] * (1 + 0.1 * step) for step in range(15)]

    a, b = log_of(tmp_path / "a.jsonl", MADE, change=shaken), log_of(tmp_path / "b.jsonl", OTHER, 1.05, change=shaken)
    assert one(a, b).verdict == "tie"


def test_what_the_default_or_the_sentinel_slowed_by_is_not_the_schedules_doing(tmp_path: Path) -> None:
    a, b = log_of(tmp_path / "a.jsonl", MADE), log_of(tmp_path / "b.jsonl", OTHER, 1.2)
    assert one(a, b).verdict == "tie", "the default took 1.2 times as long as well"

    def drop_schedules(record: dict[str, Any]) -> None:
        if record["kind"] == "trial":
            record["schedule"] = None

    a = log_of(tmp_path / "a.jsonl", MADE, change=drop_schedules)
    b = log_of(tmp_path / "b.jsonl", OTHER, 1.2, change=drop_schedules)
    assert one(a, b).verdict == "A faster", "nothing says that the default was the same"

    def sentinel(seconds: float) -> Callable[[dict[str, Any]], None]:
        return lambda record: drop_schedules(record) or record.update({"sentinel": seconds} if record["kind"] == "trial" else {})

    a = log_of(tmp_path / "a.jsonl", MADE, change=sentinel(1e-3))
    b = log_of(tmp_path / "b.jsonl", OTHER, 1.2, change=sentinel(1.25e-3))
    assert one(a, b).verdict == "tie", "the machine itself was 1.25 times slower"


def test_tasks_of_one_log_only_are_said_to_be(tmp_path: Path) -> None:
    a, b = log_of(tmp_path / "a.jsonl", MADE), log_of(tmp_path / "b.jsonl", Made(matmul(32, 32, 32), run="c"))
    assert [(row.verdict, row.a is None, row.b is None) for row in compare(a, b)] == [
        ("only in A", False, True),
        ("only in B", True, False),
    ]


def test_threads_and_cache_policies_are_not_mixed_but_targets_are_paired_last(tmp_path: Path) -> None:
    a = log_of(tmp_path / "a.jsonl", MADE)
    assert len(compare(a, log_of(tmp_path / "b.jsonl", Made(run="t", threads=2)))) == 2
    assert len(compare(a, log_of(tmp_path / "c.jsonl", Made(run="c", cache="cold")))) == 2
    foreign = Made(run="f", target={**MADE.shared["target"], "cpu": "strange", "fingerprint": "0" * 16})
    both = write(tmp_path / "d.jsonl", foreign.study(12), Made(run="g").study(12))
    rows = compare(a, both)
    assert rows[1].verdict == "only in B" and not rows[0].differs, "the same target first"
    crossed = one(a, log_of(tmp_path / "e.jsonl", foreign))
    assert any(what == f"cpu {MADE.shared['target']['cpu']} | strange" for what in crossed.differs)


def test_differing_machine_and_software_are_named_and_goals_are_each_machines_own(tmp_path: Path) -> None:
    software = {**MADE.shared["software"], "llvmlite": "9.9"}
    elsewhere = Made(run="e", machine={**MADE.shared["machine"], "host": "other"}, software=software)
    row = one(log_of(tmp_path / "a.jsonl", MADE), log_of(tmp_path / "b.jsonl", elsewhere, 10.0))
    assert any(what.startswith("host ") and what.endswith("| other") for what in row.differs)
    assert any(what.endswith("| 9.9") for what in row.differs)
    assert row.a is not None and row.b is not None and row.a.reached == row.b.reached == 12


def test_trials_to_reach_are_counted_against_the_best_of_both(tmp_path: Path) -> None:
    row = one(log_of(tmp_path / "a.jsonl", MADE), log_of(tmp_path / "b.jsonl", OTHER, 2.0))
    assert row.a is not None and row.b is not None
    assert (row.a.reached, row.b.reached) == (12, None)


def test_a_side_without_a_valid_trial_loses_and_two_such_sides_are_nothing(tmp_path: Path) -> None:
    good, bad = log_of(tmp_path / "a.jsonl", MADE), write(tmp_path / "b.jsonl", OTHER.study(4, lambda config, seq: None))
    assert (one(good, bad).verdict, one(bad, good).verdict, one(bad, bad).verdict) == ("A faster", "B faster", "nothing valid")
    row = one(bad, good)
    assert row.a is not None and (row.a.failed, row.a.trials, row.a.reached) == (4, 4, None)


def test_the_table_holds_every_column(tmp_path: Path) -> None:
    a, b = log_of(tmp_path / "a.jsonl", MADE, change=quiet), log_of(tmp_path / "b.jsonl", OTHER, 2.0, change=quiet)
    extra = write(tmp_path / "c.jsonl", Made(matmul(32, 32, 32), run="c").study(4))
    console = Console(width=250)
    with console.capture() as capture:
        console.print(table(compare(a, b)))
        console.print(table(compare(a, extra)))
    for expected in ("matmul i=48,j=64,k=32 float32", "0.500 (", "A faster", "12, never", "0 of 12, 0 of 12", "only in A", "only in B"):
        assert expected in capture.get(), expected


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no log"):
        compare(Log(tmp_path / "none.jsonl"), Log(tmp_path / "none.jsonl"))
