"""`autotune job` from the outside: a task that fails, going on, a signal that stops it; and a quick part of the fault campaign."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from bench import candidate_faults, kills
from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.reporting import summary
from tests.autotune.command import COMMAND, ENVIRONMENT, ended, here

SMALL = 'threads = 1\n[[task]]\noperator = "relu"\nshape = "N=64"\n'


def test_a_slip_in_the_file_is_one_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text('[[task]]\noperator = "matmull"\n')
    done = here("job", tmp_path / "jobs.toml")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "task 1: there is no operator" in done.stderr


def test_a_target_of_the_command_stands_before_those_of_the_tasks(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(SMALL + 'target = "x86-64"\n')
    assert "relu N=64 x86-64 " in here("job", tmp_path / "jobs.toml", "--check").stdout
    done = here("job", tmp_path / "jobs.toml", "--check", "--target", "cortex-a72")
    assert done.returncode == 2 and "task 1: cannot tune for cortex-a72 here" in done.stderr


@pytest.mark.usefixtures("brief_jobs")
def test_a_batch_goes_on_where_a_task_fails_and_measures_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "measure_peak", lambda *_: Peak(1e6, 1e12))
    path, logs = tmp_path / "jobs.toml", tmp_path / "logs"
    path.write_text("trials = 1\n" + SMALL + '[[task]]\noperator = "softmax"\nshape = "M=8,N=64"\ntimeout = 0.001\n')
    first = here("job", path)
    assert (first.returncode, first.stderr) == (1, "")
    assert "relu N=64" in first.stdout and "done" in first.stdout and "no valid schedule (1 compile_timeout)" in first.stdout
    kept = {trial.id for trial in Log(logs)}
    path.write_text("trials = 2\n" + SMALL)
    assert here("job", path).returncode == 0
    ids = [trial.id for trial in Log(logs)]
    assert kept < set(ids) and len(ids) == len(kept) + 1
    assert here("job", path).returncode == 0 and [trial.id for trial in Log(logs)] == ids
    assert "relu" in here("status", logs).stdout


@pytest.mark.parametrize(
    ("number", "strategy"), [(signal.SIGTERM, "bayesian"), pytest.param(signal.SIGHUP, "random", marks=pytest.mark.slow)]
)
def test_a_signal_stops_a_job_at_once_with_a_summary_and_a_whole_log(tmp_path: Path, number: signal.Signals, strategy: str) -> None:
    task = SMALL.replace("relu", "matmul").replace("N=64", "M=64,N=64,K=64")
    (tmp_path / "jobs.toml").write_text(f'trials = 5000\nstrategy = "{strategy}"\n{task}')
    log = Log(f"{tmp_path}/logs/")
    command = [*COMMAND, "job", str(tmp_path / "jobs.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True) as job:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not log.path.is_dir() or sum(1 for _ in log) < 3):
            time.sleep(0.05)
        shown, before = ended(job, number, log)
    assert job.returncode == 130
    assert "stopped after" in shown and "goes on from there" in shown and "not measured again yet" in shown
    assert 3 <= before <= len(list(log)) <= before + 1 and not log.problems
    assert [end.get("reason") for end in log.records("run_end") if isinstance(end, dict)] == ["interrupted", "interrupted"]


@pytest.mark.parametrize(
    ("where", "how"),
    [("run", "segv"), *(pytest.param(*fault, marks=pytest.mark.slow) for fault in (("compile", "abort"), ("run", "outside")))],
)
def test_a_candidate_that_misbehaves_is_recorded_as_what_it_did(where: str, how: str) -> None:
    assert candidate_faults.inject(where, how).kept


@pytest.mark.slow
def test_a_job_that_is_killed_loses_no_finished_trial_and_leaves_no_process() -> None:
    for toll in kills.campaign([(signal.SIGKILL, 3), (signal.SIGSEGV, 1)]).values():
        assert toll.kept
