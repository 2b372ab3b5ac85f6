"""Nothing that a candidate does reaches the tuner: every fault is a status, and the next candidate runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate, WorkerTask
from tensorlang.autotune.workers.runner import Runner
from tests.autotune import stand_ins

HERE = str(Path(__file__).parent)
FAST = Policy(sample_s=1e-4, least=3, most=5, rounds=4, processes=2)


def task(**more: Any) -> WorkerTask:
    return stand_ins.task(FAST, "stand_ins:build", **{"cores": (), **more})


def ready_runner(**limits: Any) -> Runner:
    return Runner(task(), Limits(**limits), path=(HERE,))


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with ready_runner(compile_s=1.5, run_s=1.5) as ready:
        yield ready


def run(runner: Runner, **config: Any) -> Any:
    return runner.trial(Candidate(config))


def test_a_good_candidate_is_timed(runner: Runner) -> None:
    outcome = run(runner)
    assert outcome.status == "ok" and len(outcome.facts.samples) >= 3 and outcome.facts.time > 0
    assert outcome.facts.schedule == '{"steps": []}' and outcome.facts.flops == 100


@pytest.mark.parametrize(
    ("config", "status", "message"),
    [
        ({"compile": "raise"}, "compile_error", "as told"),
        ({"compile": "segv"}, "compile_crash", "SIGSEGV"),
        ({"compile": "exit"}, "compile_crash", "exit(1)"),
        ({"compile": "hang"}, "compile_timeout", "1.5 s"),
        ({"run": "raise"}, "crash", "as told"),
        ({"run": "segv"}, "crash", "SIGSEGV"),
        ({"run": "exit"}, "crash", "exit(1)"),
        ({"run": "kill"}, "killed", "SIGKILL"),
        ({"run": "hang"}, "run_timeout", "1.5 s"),
        ({"run": "oom"}, "oom", "allocate"),
        ({"run": "wrong"}, "wrong_result", "100 of 100 elements differ"),
        ({"run": "nothing"}, "wrong_result", "elements differ"),
        ({"run": "input"}, "wrong_result", "wrote to an input"),
        ({"run": "outside"}, "wrong_result", "wrote outside output 0"),
        ({"run": "garbage"}, "ok", ""),
    ],
)
def test_each_fault_is_a_status_and_the_next_candidate_runs(runner: Runner, config: dict[str, str], status: str, message: str) -> None:
    outcome = run(runner, **config)
    told = "" if outcome.error is None else f"{outcome.error.type} {outcome.error.message}"
    assert outcome.status == status and message in told
    assert run(runner).status == "ok"


def test_a_crash_after_others_is_retried_once_in_a_worker_of_its_own() -> None:
    with ready_runner() as runner:
        assert run(runner, run="exit").status == "crash" and runner.started == 1
        assert run(runner).status == "ok" and runner.started == 2
        assert run(runner, run="exit").status == "crash" and runner.started == 3


def test_a_worker_is_recycled_after_its_share() -> None:
    with ready_runner(recycle=2) as runner:
        assert [run(runner).status for _ in range(4)] == ["ok"] * 4 and runner.started == 2


def test_memory_has_a_bound() -> None:
    with ready_runner(memory=3 << 30) as runner:
        assert run(runner, run="big").status == "oom" and run(runner, compile="big").status == "oom"
        assert run(runner).status == "ok"


def test_a_clear_loser_is_given_up_early(runner: Runner) -> None:
    loser = Candidate({"sleep": 0.01}, incumbent=1e-4)
    facts = next(facts for facts in (runner.trial(loser).facts for _ in range(50)) if facts.quality is Quality.CLEAN)
    assert facts.censored and len(facts.samples) == 2  # more only where something interrupts, which no test can forbid


def test_finalists_are_measured_in_rounds_and_a_failure_names_its_place(runner: Runner) -> None:
    outcome = runner.paired([Candidate({}), Candidate({"sleep": 0.001})])
    fast, slow = outcome.rows
    assert outcome.status == "ok" and fast.time < slow.time and len(fast.samples) == len(slow.samples)
    broken = runner.paired([Candidate({}), Candidate({"run": "wrong"})])
    assert (broken.status, broken.place) == ("wrong_result", 1)


def test_a_stopped_worker_does_not_stop_the_tuner(runner: Runner) -> None:
    assert run(runner).status == "ok" and runner.slot.worker is not None
    os.kill(runner.slot.worker.pid, signal.SIGSTOP)
    assert run(runner).status == "compile_timeout"


def test_no_worker_survives_its_parent() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_runner as t\n"
        "r = t.ready_runner(); t.run(r)\n"
        "print(r.slot.worker.pid, flush=True); t.run(r, run='hang')"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, HERE], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(worker)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
