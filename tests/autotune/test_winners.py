"""Tasks are called by their extents, winners are told to programs and people alike, and nobody is told more than a log can know."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.jobs.tune import session
from tensorlang.autotune.log.glimpse import Glimpse, GlimpseParser
from tensorlang.autotune.log.naming import named_extents, task_title
from tensorlang.autotune.log.record import RecordParser, Trial, to_line
from tensorlang.autotune.log.study_records import FinalistRecord
from tensorlang.autotune.operators import program
from tensorlang.autotune.reporting import replay
from tensorlang.autotune.reporting.knob_effects import knob_effects
from tensorlang.autotune.reporting.report import standings, studies
from tensorlang.autotune.reporting.verify import Verdict, compared, judged
from tensorlang.autotune.reporting.winners import Total, total
from tensorlang.autotune.task import Task
from tensorlang.autotune.workers.protocol import Facts
from tests.autotune.command import COMMAND, ENVIRONMENT, here
from tests.autotune.made_logs import Made, matmul, write

# Names -------------------------------------------------------------------------------------------------------------------------------


def test_a_depth_is_part_of_a_name_and_older_records_have_the_names_of_their_axes() -> None:
    deep, flat = (Task.of(matmul(128, 256, k), "matmul").to_json() for k in (512, 64))
    assert [task_title(task) for task in (deep, flat)] == ["matmul i=128,j=256,k=512", "matmul i=128,j=256,k=64"]
    given = Task.of(matmul(128, 256, 64), "matmul", shape={"M": 128, "N": 256, "K": 64}).to_json()
    assert task_title(given) == "matmul M=128,N=256,K=64" and given["fingerprint"] == flat["fingerprint"]


def test_what_is_reduced_on_the_way_is_named_too() -> None:
    assert named_extents(Task.of(program("dense", {"K": 96})[1]).to_json())["c"] == 96
    image = named_extents(Task.of(program("conv2d", {"C": 32})[1]).to_json())
    assert image == {"n": 1, "o": 64, "y": 56, "x": 56, "c": 32, "r": 3, "s": 3}


DAMAGED: Any = {"definition": {"definitions": [{"axes": ["k"], "values": [["reduce", "sum", [], [[0, 1]]]]}], "outputs": [0]}}


@pytest.mark.parametrize(
    "task", [{}, {"definition": 3}, {"definition": {"definitions": [1], "outputs": [0]}}, {"shape": {"M": "x"}}, DAMAGED]
)
def test_what_says_no_extents_has_none(task: dict[str, Any]) -> None:
    assert named_extents(task) == {}


def test_the_names_that_a_command_is_given_are_those_of_its_records(tmp_path: Path) -> None:
    extents = {"M": 16, "N": 16, "K": 8}
    job = session(program("matmul", extents)[1], tmp_path / "log.jsonl", name="matmul", extents=extents, trials=1)
    assert job._ledger.study.task["shape"] == extents


# Winners -----------------------------------------------------------------------------------------------------------------------------


def test_winners_are_written_for_programs_with_default_interval_and_flags(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", Made().study())
    (row,) = json.loads(here("best", log.path, "--format", "json").stdout)
    assert row["task"] == "matmul i=48,j=64,k=32" and row["shape"] == {"i": 48, "j": 64, "k": 32}
    assert row["default_time"] > row["time"] and row["low"] <= row["speedup"] * 1.01 and row["config"] and row["flags"] == []
    head, line = here("best", log.path, "--format", "csv").stdout.splitlines()
    assert head.startswith("task,op,shape,") and '"i=48,j=64,k=32"' in line
    wrong = here("best", log.path, "--format", "jsn")
    assert wrong.returncode == 2 and "json" in wrong.stderr


def test_what_is_exhausted_or_was_busy_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_measured", lambda *_: Peak(100e9, 10e9))
    made = Made()
    *study, _ = made.study(8)
    busy = {"spread": 0.2, "slow": [{"first": 2, "last": 5, "by": 0.4}]}
    log = write(tmp_path / "log.jsonl", study, [made.end("exhausted") | {"noise": busy}])
    (row,) = json.loads(here("best", log.path, "--format", "json").stdout)
    assert row["flags"] == ["space-exhausted", "busy"]
    told = here("status", log.path).stdout
    assert "space exhausted" in told.replace("\n", " ") and "busy" in told
    assert here("report", log.path, "--html", tmp_path / "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert page.index("Space exhausted") < page.index("Busy machine") < page.index("How the best came about")
    assert "C(A: float32[48, 32], B: float32[32, 64])" in page  # the definition


def test_a_weighted_total_is_of_sums_of_times(tmp_path: Path) -> None:
    assert Total.over([(3.0, 2.0, 1.0), (1.0, 4.0, 4.0), (9.0, None, 1.0)]).speedup == pytest.approx(10 / 7)
    assert str(Total.over([(1.0, None, 2.0)])) == "-" and "2 of 3 tasks" in str(Total.over([(1, 2, 1), (1, 2, 1), (1, None, 1)]))
    log = write(tmp_path / "log.jsonl", Made().study(), Made(matmul(48, 64, 16), run="other").study())
    held = studies(log)
    assert total(held, {}).speedup == pytest.approx(held[0].speedup)


def test_a_t4_file_for_each_task_goes_into_a_folder(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", Made().study(), Made(matmul(48, 64, 16), run="other").study())
    assert here("export", log.path, "--out", f"{tmp_path / 'out'}/").returncode == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(names) == 2 and names[0].startswith("matmul-i=48,j=64,k=16-") and names[1].startswith("matmul-i=48,j=64,k=32-")
    table = here("export", log.path, "--format", "csv", "--out", f"{tmp_path / 'out'}/")
    assert table.returncode == 2 and "is a folder" in table.stderr


# Glimpses ----------------------------------------------------------------------------------------------------------------------------


def test_a_glimpse_says_what_the_trial_says(tmp_path: Path) -> None:
    made = Made()
    failed = made.trial(99, made.plan.default, None)
    log = write(tmp_path / "log.jsonl", [*made.study(), failed])
    whole = {trial.id: trial for trial in log}
    seen = [record for record in log.glimpses() if isinstance(record, Glimpse)]
    assert len(seen) == len(whole)
    for one in seen:
        trial = whole[one.id]
        for name in ("seq", "status", "time", "source", "wall_s", "task", "target", "threads", "cache", "why"):
            assert getattr(one, name) == getattr(trial, name)
        assert one.trial() == trial
    first, second = studies(log)[0], standings(log)[0]
    assert (first.title, first.time, first.speedup, first.ended) == (second.title, second.time, second.speedup, second.ended)
    assert first.best == second.best


@pytest.mark.parametrize(
    "change",
    [
        {"samples": ["x"]},
        {"status": "odd"},
        {"config": [1]},
        {"error": 3},
        {"samples": []},
        {"samples": [-1.0]},
        {"threads": "a"},
        {"quality": "x"},
    ],
)
def test_what_is_no_trial_is_no_glimpse(change: dict[str, Any]) -> None:
    made = Made()
    line = to_line(made.trial(0, made.plan.default, 1e-3) | change)
    read = GlimpseParser()(line)
    assert read == RecordParser()(line) and isinstance(read, dict)
    with pytest.raises(ValueError, match=r"malformed|unknown status|positive times"):
        Trial.of(read)


# Verify ------------------------------------------------------------------------------------------------------------------------------


def facts(times: list[float], sentinel: float | None = None) -> Facts:
    return Facts(samples=tuple(times), sentinel=sentinel)


@pytest.mark.parametrize(
    ("now", "verdict"), [(153e-6, Verdict.SLOWER), (115e-6, Verdict.HOLDS), (101e-6, Verdict.HOLDS), (80e-6, Verdict.FASTER)]
)
def test_a_time_holds_within_a_tolerance_and_the_verdict_is_typed(now: float, verdict: Verdict) -> None:
    found = judged(facts([now, now * 1.01, now * 1.02]), 107e-6, [107e-6, 108e-6, 109e-6], None)
    assert found.verdict is verdict and found.tolerance == pytest.approx(0.1) and found.holds is (verdict is not Verdict.SLOWER)


def test_a_machine_that_is_slower_as_a_whole_is_not_the_schedules_fault() -> None:
    found = judged(facts([153e-6] * 3, sentinel=1.4e-3), 107e-6, [107e-6] * 3, 1e-3)
    assert found.verdict is Verdict.HOLDS and "1.40 times as long" in found.why


@pytest.mark.parametrize(("now", "verdict"), [(107e-6, Verdict.HOLDS), (153e-6, Verdict.SLOWER), (80e-6, Verdict.FASTER)])
def test_a_machine_that_stood_still_beside_the_code_says_nothing_of_it(now: float, verdict: Verdict) -> None:
    found = judged(facts([now] * 3, sentinel=1e-3), 107e-6, [107e-6] * 3, 2.0)
    assert found.verdict is verdict and "the machine itself" not in found.why
    then, other = [10e-6, 10.1e-6, 10.2e-6], [1.2, 1.21, 1.22]
    own = [now / 107e-6 * seconds for seconds in then]
    assert compared(facts(own), facts([12e-6] * 3), finalist(then), finalist(other)).verdict is verdict


def finalist(times: list[float]) -> FinalistRecord:
    return FinalistRecord(id="a", config={}, samples=tuple(times), schedule="{}")


@pytest.mark.parametrize(("lead", "verdict"), [(1.0, Verdict.HOLDS), (1.3, Verdict.SLOWER), (0.7, Verdict.FASTER)])
def test_a_neighbour_that_slows_two_schedules_alike_takes_nothing_from_the_winner(lead: float, verdict: Verdict) -> None:
    then, other = [10e-6, 10.1e-6, 10.2e-6], [12e-6, 12.1e-6, 12.2e-6]
    slowed = [1.4 * lead * seconds for seconds in then], [1.4 * seconds for seconds in other]
    found = compared(facts(slowed[0]), facts(slowed[1]), finalist(then), finalist(other))
    assert found.verdict is verdict and "1.40 times as long" in found.why


def test_a_record_of_another_cpu_is_skipped_and_the_rest_is_verified(tmp_path: Path) -> None:
    made = Made()
    abroad = Made(run="abroad", target={**made.shared["target"], "cpu": "other", "fingerprint": "f" * 16})
    log = write(tmp_path / "log.jsonl", abroad.study(6))
    done = here("verify", log.path)
    assert done.returncode == 0 and "skipped: it was measured on other" in done.stdout


# The command -------------------------------------------------------------------------------------------------------------------------


def test_help_and_version_have_short_ways() -> None:
    assert here("-h").stdout == here("--help").stdout != "" and here("best", "-h").returncode == 0
    assert here("--version").stdout == f"autotune (tensorlang) {tl.__version__}\n"
    assert "--target" in here("run", "-h").stdout


def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", *(Made(run=f"run{number}", op=f"matmul{number}").study(8) for number in range(3)))
    read, write_end = os.pipe()
    os.close(read)
    job = subprocess.Popen([*COMMAND, "best", str(log.path)], stdout=write_end, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.close(write_end)
    _, told = job.communicate(timeout=120)
    assert (job.returncode, told) == (0, b"")


def test_ctrl_c_while_the_command_loads_is_one_line(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", Made().study(8))
    late = "import signal, os\nfrom tensorlang.autotune.cli import main, logs\n"
    late += "def interrupted(path):\n    os.kill(os.getpid(), signal.SIGINT)\n"
    program = late + "logs.open_log = interrupted\nmain.main()\n"
    done = subprocess.run([COMMAND[0], "-c", program, "best", str(log.path)], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (130, "autotune: stopped\n")


def test_threads_that_share_a_core_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorlang.autotune.cli import tune

    told: list[str] = []
    monkeypatch.setattr(tune, "note", told.append)
    monkeypatch.setattr("tensorlang.autotune.measurement.host.cores", lambda: frozenset({0}))
    tune._crowded(1)
    assert told == []
    tune._crowded(4)
    assert len(told) == 1 and told[0].startswith("warning: 4 threads share 1 usable core")


def test_a_knob_explains_nothing_after_four_trials() -> None:
    made = Made()
    few = [Trial.of(made.trial(seq, {"big": seq % 2}, 1e-3 * (1 + seq % 2))) for seq in range(4)]
    many = [Trial.of(made.trial(seq, {"big": seq % 2}, 1e-3 * (1 + seq % 2) * (1 + seq / 1e3))) for seq in range(16)]
    assert knob_effects(few)[0].explains == "too few trials to tell"
    assert knob_effects(many)[0].share == pytest.approx(0.8, abs=0.2)


def test_a_record_that_cannot_be_replayed_is_named_with_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = Made()
    trial = made.trial(0, made.plan.default, 1e-3) | {"schedule": '{"schema": 1, "steps": [["no_such", {}]]}'}
    path = write(tmp_path / "log.jsonl", [trial]).path
    before = tl.get_threads()
    tl.set_threads(1)
    try:
        kernel = tl.compile(made.task.outputs, database=path)
    finally:
        tl.set_threads(before)
    assert kernel.provenance == "default"
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert trial["id"][:12] in said and "cannot be replayed" in said and str(path) in said
