"""The commands that read logs: each does what it says, and an error is one line."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.log.clock import Now
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import to_line
from tensorlang.autotune.reporting import activity
from tests.autotune.command import here
from tests.work import work

FIXTURE = Path(__file__).parent / "fixtures" / "v1.jsonl"


def test_merge_brings_records_together_once_and_doing_it_again_changes_nothing(tmp_path: Path) -> None:
    into = tmp_path / "all.jsonl"
    done = here("merge", FIXTURE, FIXTURE, "--into", into)
    count = sum(1 for _ in Log(FIXTURE).records())
    assert (done.returncode, done.stderr) == (0, "") and f"{count} records, {count} added" in done.stdout
    before = into.read_bytes()
    assert "0 added" in here("merge", FIXTURE, into, "--into", into).stdout
    assert into.read_bytes() == before


def test_merge_into_a_folder_is_wrong_usage_and_a_line_that_is_no_record_is_reported(tmp_path: Path) -> None:
    done = here("merge", FIXTURE, "--into", tmp_path)
    assert done.returncode == 2 and "name a file, as" in done.stderr
    (tmp_path / "torn.jsonl").write_bytes(FIXTURE.read_bytes()[:-40])
    assert "skipped" in here("merge", tmp_path / "torn.jsonl", "--into", tmp_path / "all.jsonl").stdout


@pytest.mark.parametrize("kind", ["t4", "csv", "json"])
def test_export_writes_every_trial_to_a_file_or_to_standard_output(tmp_path: Path, kind: str) -> None:
    count = sum(1 for _ in Log(FIXTURE))
    shown, written = here("export", FIXTURE, "--format", kind), here("export", FIXTURE, "--format", kind, "--out", tmp_path / "out")
    assert shown.returncode == written.returncode == 0, shown.stderr + written.stderr
    assert (tmp_path / "out").read_text() == shown.stdout
    if kind == "csv":
        assert len(list(csv.DictReader(io.StringIO(shown.stdout)))) == count
    else:
        found = json.loads(shown.stdout)
        assert len(found["results"] if kind == "t4" else found) == count


def test_export_to_where_nothing_can_be_written_is_exit_1(tmp_path: Path) -> None:
    done = here("export", FIXTURE, "--out", tmp_path / "missing" / "out")
    assert done.returncode == 1 and "cannot write" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_report_is_one_page_of_its_own(tmp_path: Path) -> None:
    done = here("report", FIXTURE, "--html", tmp_path / "out.html")
    assert (done.returncode, done.stderr) == (0, "") and "out.html" in done.stdout
    page = (tmp_path / "out.html").read_text()
    assert page.startswith("<!doctype html>") and "<svg" in page and "src=" not in page
    assert here("report", FIXTURE, FIXTURE, "--html", tmp_path / "two.html").returncode == 2
    assert here("report", FIXTURE, "--task", "matmul").returncode == 2


def test_compare_sets_winner_beside_winner() -> None:
    done = here("compare", FIXTURE, FIXTURE)
    assert (done.returncode, done.stderr) == (0, "") and "matmul" in done.stdout


@pytest.mark.parametrize("verb", ["status", "best", "report"])
def test_several_logs_are_shown_one_after_the_other(tmp_path: Path, verb: str) -> None:
    (tmp_path / "b.jsonl").write_bytes(FIXTURE.read_bytes())
    one, two = here(verb, FIXTURE), here(verb, FIXTURE, tmp_path / "b.jsonl")
    assert (two.returncode, two.stderr) == (0, "")
    assert one.stdout and two.stdout.count("matmul") == 2 * one.stdout.count("matmul")


# What goes on ------------------------------------------------------------------------------------------------------------------------

NOW = 1_700_000_000.0
AT = Now(NOW, {"boot": "", "seconds": 0.0})
"""On a machine that does not name its boots."""


def running(path: Path, *, trials: int = 4, budget: float | None = None, job: bool = False, end: str = "") -> Log:
    """A log in which a run started 100 s ago and has had a trial every 10 s."""
    first = next(iter(Log(FIXTURE)))
    shared = {name: first.fields[name] for name in ("task", "target", "threads", "cache", "machine", "software")}
    study = [first.task["fingerprint"], first.target["fingerprint"], first.threads, first.cache]
    start = {"kind": "run_start", "run": "now", "trials": 20, "budget": budget, "points": 1000, "pid": 77, "time_unix": NOW - 100}
    records: list[dict[str, Any]] = [{"id": "s", **shared, **start}]
    if job:
        plan = {
            "file": "jobs.toml",
            "pid": 78,
            "budget": budget,
            "spent": 0.0,
            "tasks": [{"title": "mine", "study": study, "trials": 20, "weight": 1}],
        }
        machine = {"machine": shared["machine"], "software": shared["software"]}
        records.insert(0, {"kind": "run_start", "id": "j", "run": "job", "time_unix": NOW - 100, "job": plan, **machine})
    for seq in range(trials):
        told = {"samples": [1e-3 / (seq + 1)], "source": "random" if seq else "default", "status": "ok", "error": None}
        at = {"id": f"t{seq}", "seq": seq, "run": "now", "time_unix": NOW - 90 + 10 * seq}
        records.append({**first.fields, **told, **at})
    if end:
        records.append({"kind": "run_end", "id": "e", "run": end, "reason": "trials", "time_unix": NOW, **shared})
    path.write_bytes(b"".join(to_line({name: value for name, value in record.items() if name != "v"}) for record in records))
    return Log(path)


def test_a_running_run_tells_who_since_when_how_fast_until_when_and_what_was_found(tmp_path: Path) -> None:
    (found,) = activity.activities(running(tmp_path / "a.jsonl"), AT)
    assert (found.done, found.total) == (4, 20) and found.rate == pytest.approx(0.1, rel=0.1)
    assert found.eta == pytest.approx(16 / found.rate)
    first, second, third = found.lines()
    assert "process 77), since 1m40s, last sign of life 1m00s ago" in first
    assert "4 of 20 trials" in second and "left" in second
    assert "250 us, 4.00x default (trial 4), 1m00s ago" in third


def test_a_budget_bounds_what_is_left(tmp_path: Path) -> None:
    (found,) = activity.activities(running(tmp_path / "a.jsonl", budget=130.0), AT)
    assert found.eta == pytest.approx(30)


def test_a_job_stands_for_the_runs_of_its_tasks(tmp_path: Path) -> None:
    (found,) = activity.activities(running(tmp_path / "a.jsonl", job=True), AT)
    assert found.title == "job jobs.toml" and "process 78" in found.who and found.now == "mine"
    assert (found.done, found.total) == (4, 20)


def test_a_run_that_ended_is_not_going_on_and_a_silent_one_may_be_dead(tmp_path: Path) -> None:
    assert activity.activities(running(tmp_path / "a.jsonl", end="now"), AT) == []
    (found,) = activity.activities(running(tmp_path / "b.jsonl"), replace(AT, time_unix=NOW + 3600))
    assert "silent for 1h01m: killed?" in found.lines()[0]


def test_a_run_that_was_taken_up_again_counts_once(tmp_path: Path) -> None:
    log = running(tmp_path / "a.jsonl")
    again = next(record for record in log.records("run_start") if isinstance(record, dict))
    log.append(
        {name: value for name, value in again.items() if name not in ("v", "sum")} | {"id": "s2", "run": "later", "time_unix": NOW - 20}
    )
    (found,) = activity.activities(log, AT)
    assert found.age == 20 and found.done == 4


def test_status_of_a_run_without_a_trial_yet_says_so(tmp_path: Path) -> None:
    running(tmp_path / "a.jsonl", trials=0)
    assert "0 of 20 trials" in here("status", tmp_path / "a.jsonl").stdout


def test_status_takes_work_in_proportion_to_the_log(tmp_path: Path) -> None:
    short, long = (running(tmp_path / f"{trials}.jsonl", trials=trials) for trials in (100, 400))
    assert work(lambda: activity.activities(long, AT)) < 4.2 * work(lambda: activity.activities(short, AT))
