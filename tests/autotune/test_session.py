"""A job measures the default first, stops and resumes anywhere, and its winner is never slower than not tuning."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tensorlang.autotune.jobs import ledger, session as session_module
from tensorlang.autotune.jobs.plan import Progress, TaskPlan
from tensorlang.autotune.jobs.session import Session
from tensorlang.autotune.jobs.tune import session
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.settings import Settings, seconds
from tensorlang.autotune.task import Task, longest_reduction, specs
from tensorlang.autotune.workers.protocol import Facts, Outcome
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import digest
from tensorlang.errors import LogError, TuningError
from tensorlang.language.definitions import compute, placeholder
from tensorlang.schedules.spaces.space import Choice, Flag, Space
from tests.autotune.test_runner import alive

ROOT = str(Path(__file__).parents[2])
QUICK = Policy(sample_s=1e-4, least=3, most=5, rounds=5, processes=1)
DEFAULT = {"takes": 0.002, "run": None, "twice": False}


def task() -> Task:
    X = placeholder((100,), name="X")
    outputs = (compute((100,), lambda i: X[i] * 2, name="Y"),)
    return Task(outputs, "twice", {"stands": "in"}, "f" * 64, "a" * 64, (100,), *specs(outputs), longest_reduction(outputs))


def plan(runs: tuple[str | None, ...] = (None, "raise", "wrong", "exit"), takes: tuple[float, ...] = (0.002, 0.001, 0.0005)) -> TaskPlan:
    space = Space((Choice("takes", takes), Choice("run", runs), Flag("twice")))
    return TaskPlan("stand-in", space, DEFAULT)


def brief_plan() -> TaskPlan:
    """A fast and a slow point, and each with every fault."""
    offer = plan(takes=(0.002, 0.0005))
    return replace(offer, space=Space(offer.space.knobs[:2]), default={"takes": 0.002, "run": None})


def job(log: Path | None, offer: TaskPlan | None = None, **settings: Any) -> Session:
    wanted = Settings(
        **{"trials": 6, "policy": QUICK, "builder": "tests.autotune.simulated:build", "path": (ROOT,), "strategy": "random", **settings}
    )
    return Session(task(), offer or plan(), target(), wanted, None if log is None else Log(log))


def test_a_job_finds_the_fastest_valid_point_and_survives_the_others(tmp_path: Path) -> None:
    offer = brief_plan()
    result = job(tmp_path / "a.jsonl", offer, trials=100).run()
    assert result.reason == "exhausted" and len(result.records) == 8
    assert result.records[0].config == offer.default and result.records[0].source == "default"
    assert result.best.config["takes"] == 0.0005 and result.best.config["run"] is None
    assert result.speedup == pytest.approx(4) and result.speedup_interval == pytest.approx((4, 4)) and result.default is not None
    assert {trial.status for trial in result.records} == {"ok", "crash", "wrong_result"}


@pytest.mark.usefixtures("answered")
def test_a_finished_job_measures_nothing_and_says_the_same(tmp_path: Path) -> None:
    first = job(tmp_path / "a.jsonl", plan((None,))).run()
    before = (tmp_path / "a.jsonl").read_bytes()
    again = job(tmp_path / "a.jsonl", plan((None,))).run()
    assert (tmp_path / "a.jsonl").read_bytes() == before
    assert (again.best.config, again.best.time, again.speedup) == (first.best.config, first.best.time, first.speedup)
    assert list(again.to_pandas()["id"]) == list(first.to_pandas()["id"])


@pytest.mark.usefixtures("answered")
def test_a_resumed_job_counts_and_never_repeats_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    job(path, plan((None,)), trials=2).run()
    result = job(path, plan((None,)), trials=5, seed=3).run()
    configs = [json.dumps(trial.config) for trial in Log(path)]
    assert len(result.records) == 5 == len(set(configs)) and len({trial.id for trial in Log(path)}) == 5
    assert len(job(path, plan((None,)), trials=1, resume=False).run().records) == 1


def test_a_record_is_self_contained(tmp_path: Path) -> None:
    job(tmp_path / "a.jsonl", plan((None,)), trials=1, policy=replace(QUICK, processes=2)).run()
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["run_start", "trial", "final", "run_end"]
    trial = lines[1]
    assert trial["task"]["definition"] == {"stands": "in"} and trial["target"]["features"] and trial["software"]["numpy"]
    assert trial["machine"]["cores"] and trial["policy"]["sample_s"] == 1e-4 and trial["schedule"] and trial["flops"] == 100
    assert trial["target"]["description"] == {"digest": digest(target().core), "calibrated": False}
    assert trial["spans"]["build"][0] < trial["spans"]["run"][1] and trial["sentinel"] > 0 and (trial["asked"], trial["known"]) == (0, 0)
    assert lines[2]["finalists"][0]["runs"] == [5, 5] and lines[2]["speedup_interval"] == [1, 1]
    assert lines[3]["reason"] == "trials" and lines[3]["overhead"] < 1 and lines[3]["noise"]["slow"] == []


@pytest.mark.usefixtures("answered")
def test_without_a_log_a_job_runs_in_memory() -> None:
    assert len(job(None, plan((None,)), trials=2).run().records) == 2


def test_no_valid_schedule_is_an_error_with_counts_and_the_first_failure(tmp_path: Path) -> None:
    wrong = TaskPlan("stand-in", Space((Choice("run", ("raise", "wrong")),)), {"run": "raise"})
    with pytest.raises(TuningError, match=r"after 2 trials \(1 crash, 1 wrong_result\).*RuntimeError: as told"):
        job(tmp_path / "a.jsonl", wrong).run()
    assert len(list(Log(tmp_path / "a.jsonl"))) == 2


@pytest.mark.usefixtures("answered")
def test_a_default_that_fails_leaves_the_speed_up_open(tmp_path: Path) -> None:
    offer = TaskPlan("stand-in", Space((Choice("run", ("raise", None)),)), {"run": "raise"})
    result = job(tmp_path / "a.jsonl", offer).run()
    assert result.best.config == {"run": None} and result.speedup is None and result.default is None


@pytest.mark.usefixtures("answered")
def test_an_interrupt_propagates_and_leaves_a_whole_log(tmp_path: Path) -> None:
    def stop(state: Progress) -> None:
        if state.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(tmp_path / "a.jsonl").run(stop)
    records = [r if isinstance(r, Trial) else r["kind"] for r in Log(tmp_path / "a.jsonl").records()]
    assert len(records) == 4 and records[-1] == "run_end"


def test_a_log_that_fills_up_stops_the_job_and_keeps_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("/dev/full")
    with pytest.raises(LogError, match="No space left"):
        job(tmp_path / "a.jsonl").run()


def test_a_budget_ends_the_search(tmp_path: Path) -> None:
    result = job(tmp_path / "a.jsonl", plan((None,)), trials=100, budget=1e-9)
    with pytest.raises(TuningError, match="budget"):
        result.run()


class Clockwork:
    """An evaluator on a clock of its own, which each trial and the final measurement move by as many seconds."""

    capacity, now = 1, 0.0

    def __init__(self, *_: object, **__: object) -> None:
        self.machine, self._keys = host.machine(), list[str]()

    def open(self, task: object) -> None: ...

    def close(self) -> None: ...

    def submit(self, key: str, _candidate: object) -> None:
        self._keys.append(key)

    def next(self, _until: float | None) -> tuple[str, Outcome]:
        Clockwork.now += 1
        return self._keys.pop(), Outcome("ok", facts=Facts(schedule="{}", compile_s=0.5, run_s=0.5, samples=(1.0, 1.0)))

    def paired(self, candidates: Sequence[object], _until: float | None) -> Outcome:
        Clockwork.now += 3
        return Outcome("ok", rows=tuple(Facts(samples=(1.0, 1.0), runs=(2,)) for _ in candidates))


def test_a_budget_counts_the_final_measurement_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clockwork, "now", 100.0)
    monkeypatch.setattr(session_module, "LocalEvaluator", Clockwork)
    for module in (session_module, ledger):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: Clockwork.now, time=time.time))
    result = job(None, TaskPlan("stand-in", Space((Choice("n", tuple(range(500))),)), {"n": 0}), trials=500, budget=8.0).run()
    assert result.reason == "budget" and len(result.records) >= 2
    assert Clockwork.now <= 108


def test_a_job_may_be_run_in_slices_and_let_its_processes_go_between_them(tmp_path: Path) -> None:
    sliced = job(tmp_path / "a.jsonl", plan((None,)))
    try:
        assert sliced.search(trials=1) == "trials" and len(sliced.trials) == 1
        sliced.rest()
        assert sliced.search(seconds=1e-9) == "budget" and len(sliced.trials) == 1
        assert sliced.search(trials=3) == "trials" and len(sliced.trials) == 3
        assert sliced.search(trials=50) == "exhausted" and len(sliced.trials) == 6
        assert sliced.conclude().reason == "exhausted"
    finally:
        sliced.close("failed")
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert kinds == ["run_start", *["trial"] * 6, "final", "run_end"]


@pytest.mark.usefixtures("answered")
def test_a_candidate_under_way_when_a_host_was_lost_is_tried_again_but_not_after_the_second_loss(tmp_path: Path) -> None:
    first = job(tmp_path / "a.jsonl", plan((None,)), trials=1)
    first.run()
    lost = dict(first.trials[0].fields, status="infra", samples=[], config={**DEFAULT, "takes": 0.001})
    for losses, tried in ((1, True), (2, False)):
        log = Log(tmp_path / f"{losses}.jsonl")
        for number in range(losses):
            log.append({**lost, "id": f"lost-{number}"})
        result = job(log.path, plan((None,)), trials=50).run()
        statuses = [trial.status for trial in result.records if trial.config == lost["config"]]
        assert statuses == (["ok"] if tried else ["infra"]) and len(result.records) == 6


def test_a_candidate_that_killed_its_worker_is_not_tried_again_by_a_resumed_job(tmp_path: Path) -> None:
    offer = plan((None, "exit"), takes=(0.002,))
    job(tmp_path / "a.jsonl", offer, trials=3).run()
    result = job(tmp_path / "a.jsonl", offer, trials=50).run()
    configs = [json.dumps(trial.config, sort_keys=True) for trial in Log(tmp_path / "a.jsonl")]
    assert len(result.records) == 4 == len(set(configs)) and sum(trial.status == "crash" for trial in result.records) == 2


def test_several_builders_find_the_same_and_measure_nothing_twice(tmp_path: Path) -> None:
    offer = brief_plan()
    result = job(tmp_path / "a.jsonl", offer, trials=100, workers=3).run()
    configs = [json.dumps(trial.config, sort_keys=True) for trial in result.records]
    assert len(configs) == 8 == len(set(configs)) and result.best.config["takes"] == 0.0005
    assert [trial.seq for trial in Log(tmp_path / "a.jsonl")] == list(range(8)) and result.records[0].config == offer.default
    assert all(trial.fields["known"] <= trial.fields["asked"] <= trial.fields["known"] + 3 for trial in result.records)


def started(log: Path, temporary: Path, runs: str, workers: int = 1) -> tuple[subprocess.Popen[str], list[int]]:
    """A job in a process of its own after its first trial, and its children; it would wait for a candidate that hangs for long."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from tests.autotune.test_session import *\n"
        f"space = Space((Choice('compile', (None, {runs!r})), Choice('n', (0, 1, 2, 3))))\n"
        "offer = TaskPlan('stand-in', space, {'compile': None, 'n': 0})\n"
        f"job(Path(sys.argv[2]), offer, trials=99, timeout=1000, workers={workers}).run(lambda state: print(state.done, flush=True))"
    )
    temporary.mkdir()
    command = [sys.executable, "-c", code, ROOT, str(log)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert parent.stdout is not None and parent.stdout.readline() == "1\n"
    return parent, [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("how", "workers"), [(signal.SIGKILL, 1), (signal.SIGINT, 3), pytest.param(signal.SIGINT, 1, marks=pytest.mark.slow)]
)
def test_a_job_that_is_ended_leaves_no_file_and_no_process_and_its_log_is_whole(tmp_path: Path, how: int, workers: int) -> None:
    if workers > 1 and len(host.cores()) < 2:
        pytest.skip("where there is one core nothing is measured beside builders, and these hang")
    parent, children = started(tmp_path / "a.jsonl", tmp_path / "temporary", "hang", workers)
    time.sleep(0.5)
    parent.send_signal(how)
    parent.wait(120)
    assert parent.stdout is not None
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(children) == workers + 1 and not any(map(alive, children)) and list((tmp_path / "temporary").iterdir()) == []
    log = Log(tmp_path / "a.jsonl")
    last = [record for record in log.records() if isinstance(record, dict)][-1]
    assert list(log) and log.problems == () and (last["kind"] == "run_end") == (how == signal.SIGINT)


@pytest.mark.usefixtures("answered")
def test_a_job_that_was_stopped_by_its_budget_and_decided_decides_nothing_again(tmp_path: Path) -> None:
    for _ in range(2):
        sliced = job(tmp_path / "a.jsonl", plan((None,)), trials=50)
        assert sliced.search(trials=2) == "trials" and len(sliced.conclude().records) == 2
    assert len(list(Log(tmp_path / "a.jsonl").records("final"))) == 1


@pytest.mark.usefixtures("answered")
def test_trials_of_another_processor_do_not_count(tmp_path: Path) -> None:
    first = job(tmp_path / "a.jsonl", plan((None,)), trials=1)
    first.run()
    fields = first.trials[0].fields
    log = Log(tmp_path / "b.jsonl")
    log.append({**fields, "id": "elsewhere", "machine": {**fields["machine"], "model": "another model"}})
    log.append({**fields, "id": "here", "config": {**DEFAULT, "takes": 0.001}})
    assert job(log.path, plan((None,)), trials=2).run().records[0].id == "here"


@pytest.mark.usefixtures("answered")
def test_progress_is_told_after_each_trial() -> None:
    seen: list[Progress] = []
    job(None, plan((None,)), trials=3).run(seen.append)
    assert [(state.done, state.stage) for state in seen] == [(1, "search"), (2, "search"), (3, "search"), (3, "final")]
    assert seen[-1].best is not None and seen[-1].default is not None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trials": 0}, "trials must be at least 1"),
        ({"trials": True}, "trials must be"),
        ({"strategy": "simulated"}, "no search strategy 'simulated'"),
        ({"threads": 0}, "threads must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"budget": -1}, "budget must be"),
        ({"seed": -1}, "seed must be"),
        ({"workers": 0}, "workers must be"),
        ({"cache": "lukewarm"}, "cache must be warm or cold"),
        ({"dask": ""}, "dask must be the address"),
        ({"dims": {"n": 4}}, "no extent 'n'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TuningError, match=message):
        session(task().outputs, None, **wrong)


def test_a_task_for_another_machine_is_refused() -> None:
    with pytest.raises(TuningError, match="cannot tune for"):
        session(task().outputs, None, target="aarch64-linux-gnu:cortex-a72")


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), (12, 12), ("45", 45), (None, None)])
def test_a_budget_is_a_length_of_time(text: Any, expected: Any) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["soon", "5x", "m30", ""])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TuningError, match="not a length of time"):
        seconds(text)
