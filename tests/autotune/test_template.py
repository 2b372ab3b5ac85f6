"""A user's own template is searched, logged, served and reported like a strategy's space, and replays without the function."""

import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune import Database, Log, tune
from tensorlang.autotune.jobs.tune import session
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.errors import TuningError

N = 96


def matmul() -> Any:
    a, b = tl.placeholder((N, N), name="A"), tl.placeholder((N, N), name="B")
    k = tl.reduce_axis(N, name="k")
    return tl.compute((N, N), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C")


SPACE = tl.Space.of(rows=(1, 4), order=("ijk", "kij"), lanes=(0, 16))


def by_hand(C: Any) -> Any:
    """Rows by columns: what vectorises along columns is fast; a sum that is made last-axis-first cannot be vectorised over k."""

    def schedule(config: dict[str, Any]) -> tl.Schedule:
        s = tl.Schedule(C)
        if config["order"] == "kij" and config["lanes"]:
            s.vectorize("no_such_loop")  # an illegal point
        if config["lanes"]:
            s.split("C.j", config["lanes"])
            s.reorder("C.j_o", "C.i", "C.k", "C.j_i")
            s.accumulate("C", at="C.i")
            s.vectorize("C.j_i")
        return s

    return schedule


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, brief: Policy) -> tuple[Path, Any, Any]:
    C, log = matmul(), tmp_path_factory.mktemp("template") / "log.jsonl"
    job = session(C, log, trials=9, schedule=by_hand(C), space=SPACE, threads=1, strategy="grid", policy=brief)
    return log, C, job.run()


def test_every_point_is_tried_after_the_default_and_illegal_ones_are_records_with_their_refusal(tuned: Any) -> None:
    log, _, result = tuned
    trials = list(Log(log))
    assert len(trials) == 9 == 1 + SPACE.count.feasible and trials[0].config == {} and trials[0].source == "default"
    refused = [trial for trial in trials if trial.status != "ok"]
    assert [(t.config["order"], t.config["lanes"]) for t in refused] == [("kij", 16)] * 2
    assert all(t.error is not None and t.error["type"] == "ScheduleError" and "no_such_loop" in t.why for t in refused)
    assert {trial.fields["strategy"]["name"] for trial in trials} == {"template"}
    assert result.reason in ("trials", "exhausted")


def test_a_template_finds_its_best(tuned: Any) -> None:
    """Vectors along the columns of a product of 96 are several times as fast as none."""
    log, _, _ = tuned
    own = [trial for trial in Log(log) if trial.config and trial.time is not None]
    assert min(own, key=lambda trial: trial.time or 0.0).config["lanes"] == 16


def test_the_winner_replays_from_the_log_without_the_template(tuned: Any) -> None:
    log, _, result = tuned
    kernel = tl.compile(matmul(), database=Database(log))
    a = np.random.default_rng(0).standard_normal((N, N)).astype("float32")
    assert np.allclose(kernel(a, a), a @ a, rtol=1e-3, atol=1e-3)
    for trial in Log(log):
        if trial.config and trial.schedule:
            replayed = tl.Schedule.from_json(matmul(), trial.schedule)
            assert repr(replayed) == repr(by_hand(matmul())(trial.config)) or trial.status != "ok"
    assert np.allclose(result.kernel(a, a), a @ a, rtol=1e-3, atol=1e-3)


def test_a_finished_template_is_a_no_op_and_an_edited_one_starts_anew(tuned: Any) -> None:
    log, C, _ = tuned
    again = session(C, log, schedule=by_hand(C), space=SPACE, trials=9, threads=1, strategy="grid")
    again._recall()
    assert len(again.trials) == 9 and again._finished()
    edited = session(C, log, schedule=lambda config: tl.Schedule(C), space=SPACE, trials=9, threads=1)
    edited._recall()
    assert {trial.config["lanes"] for trial in edited.trials if trial.config and trial.status == "ok"} == {0}
    strategy = session(C, log, trials=9, threads=1)
    strategy._recall()
    assert strategy.trials == []  # no point of a template is one of the strategy's


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (lambda config: None, "returned None"),
        (lambda config: config["missing"], "schedule= raised KeyError at .*missing"),
        (lambda config: tl.Schedule(matmul_of(8)), "schedule of other tensors"),
    ],
)
def test_a_function_that_is_no_template_is_one_error_that_names_the_point(schedule: Any, message: str) -> None:
    C = matmul()
    job = session(C, None, schedule=schedule, space=SPACE, trials=4, threads=1)
    proposal = job._ready().ask()
    assert proposal is not None and proposal.source == "default"
    assert job.plan.template is not None
    with pytest.raises(TuningError, match=message):
        job.plan.template.candidate(next(iter(SPACE)), None)


def matmul_of(n: int) -> Any:
    return tl.ops.matmul(tl.placeholder((n, n)), tl.placeholder((n, n)))


def test_a_template_without_a_space_is_refused() -> None:
    with pytest.raises(TuningError, match=r"with space=tl\.Space\(\.\.\.\) beside it"):
        tune(matmul(), schedule=lambda _: tl.Schedule(matmul()))


def test_a_space_of_named_values_has_the_knobs_that_their_kinds_suggest() -> None:
    space = tl.Space.of(rows=(4, 2), pack=(False, True), order=("ijk", "ikj"))
    assert [knob.kind for knob in space.knobs] == ["Sizes", "Flag", "Choice"] and space.count.feasible == 8
    with pytest.raises(TuningError, match="'rows' has no values"):
        tl.Space.of(rows=())


def failing(C: Any) -> Any:
    """A template that does at each point what its knob says."""

    def schedule(config: dict[str, Any]) -> tl.Schedule:
        match config["deed"]:
            case "loop":
                while True:
                    time.sleep(1)
            case "exit":
                sys.exit(3)
            case "leave":
                os._exit(4)
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "fill":
                bytearray(1 << 45)
            case "kill the group":
                os.killpg(0, signal.SIGTERM)
            case "print":
                sys.stdout.write("what a user prints goes where it did")
        return tl.Schedule(C)

    return schedule


@pytest.mark.usefixtures("brief_jobs")
def test_a_template_that_loops_exits_or_crashes_is_an_outcome_of_its_point_and_the_run_goes_on(tmp_path: Path) -> None:
    deeds = ("loop", "exit", "leave", "crash", "fill", "kill the group", "print")
    C, log = matmul(), tmp_path / "log.jsonl"
    result = tune(C, log=log, schedule=failing(C), space=tl.Space.of(deed=deeds), trials=8, threads=1, strategy="grid", timeout=3.0)
    told = {trial.config["deed"]: trial for trial in Log(log) if trial.config}
    assert {deed: trial.status for deed, trial in told.items()} == {
        "loop": "compile_timeout", "exit": "compile_crash", "leave": "compile_crash", "crash": "compile_crash", "fill": "oom",
        "kill the group": "compile_crash", "print": "ok",
    }  # fmt: skip
    assert "not there after 3 s" in told["loop"].why and "exit(3)" in told["exit"].why and "exit code 4" in told["leave"].why
    assert "SIGSEGV" in told["crash"].why and "SIGTERM" in told["kill the group"].why
    assert all("schedule=" in trial.why for trial in told.values() if trial.status != "ok")
    assert result.best.time > 0


def test_no_process_of_a_template_is_left(brief: Policy) -> None:
    C = matmul()
    job = session(C, None, schedule=by_hand(C), space=SPACE, trials=2, threads=1, policy=brief)
    assert job.plan.template is not None
    job.plan.template.begin()
    pid = job.plan.template._calls._pid
    os.kill(pid, 0)
    job.run()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    job.plan.template.begin()
    pid = job.plan.template._calls._pid
    del job
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
