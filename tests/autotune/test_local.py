"""Building runs beside measuring where that disturbs nothing, and whatever a candidate does there is a status of its own."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.local import LocalEvaluator
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate, Outcome
from tests.autotune.test_runner import HERE, alive, task
from tests.thinned import few

LIMITS = Limits(compile_s=1.5, run_s=1.5)
PATIENT = Limits(compile_s=60, run_s=60)
"""For candidates that wait for one another: whether they meet does not depend on how busy the machine is."""
CORES = host.cores()
several_cores = pytest.mark.skipif(len(CORES) < 2, reason="needs a core to build on beside one to measure on")


def evaluator(cores: list[int], limits: Limits = LIMITS, **options: Any) -> LocalEvaluator:
    made = LocalEvaluator(limits, path=(HERE,), **options)
    made.open(task(cores=tuple(cores)))
    return made


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalEvaluator]:
    made = evaluator([])
    yield made
    made.close()


def answers(where: LocalEvaluator, **candidates: dict[str, Any]) -> dict[str, Outcome]:
    for key, config in candidates.items():
        where.submit(key, Candidate(config, trusted=key == "default"))
    found = (where.next() for _ in candidates)
    return dict(answer for answer in found if answer is not None)


@pytest.mark.parametrize(
    ("config", "status", "message"),
    [  # the slow ones are those that `test_runner` shows too
        ({"compile": "raise"}, "compile_error", "as told"),
        pytest.param({"compile": "segv"}, "compile_crash", "SIGSEGV", marks=pytest.mark.slow),
        ({"compile": "abort"}, "compile_crash", "LLVM ERROR: as told"),
        pytest.param({"compile": "exit"}, "compile_crash", "exit(1)", marks=pytest.mark.slow),
        pytest.param({"compile": "hang"}, "compile_timeout", "1.5 s", marks=pytest.mark.slow),
        ({"compile": "stop"}, "compile_timeout", "1.5 s"),
        ({"compile": "kill"}, "killed", "SIGKILL"),
        ({"compile": "oom"}, "oom", "allocate"),
        ({"run": "illegal"}, "crash", "SIGILL"),
        pytest.param({"run": "segv"}, "crash", "SIGSEGV", marks=pytest.mark.slow),
        pytest.param({"run": "exit"}, "crash", "exit(1)", marks=pytest.mark.slow),
        pytest.param({"run": "hang"}, "run_timeout", "1.5 s", marks=pytest.mark.slow),
        pytest.param({"run": "oom"}, "oom", "allocate", marks=pytest.mark.slow),
        ({"run": "wrong"}, "wrong_result", "100 of 100 elements differ"),
    ],
)
def test_each_fault_has_a_status_and_a_reason_and_others_are_not_touched(
    shared: LocalEvaluator, config: dict[str, str], status: str, message: str
) -> None:
    found = answers(shared, bad=config, good={})
    error, facts = found["bad"].error, found["good"].facts
    assert found["bad"].status == status and error is not None and message in f"{error.type} {error.message}"
    assert found["good"].status == "ok" and facts.schedule and facts.compile_s >= 0


def spans(found: dict[str, Outcome], what: str) -> list[tuple[float, float]]:
    return [getattr(outcome.spans, what) for outcome in found.values()]


def overlap(ones: list[tuple[float, float]], others: list[tuple[float, float]]) -> float:
    return sum(max(min(a[1], b[1]) - max(a[0], b[0]), 0.0) for a in ones for b in others)


def test_where_every_core_is_measured_on_nothing_is_built_beside_a_measurement(tmp_path: Path) -> None:
    where = evaluator([], builders=2)
    try:
        found = answers(where, **{f"c{n}": {"sleep": 0.02, "building": 0.05, "n": n} for n in range(6)})
    finally:
        where.close()
    assert overlap(spans(found, "build"), spans(found, "run")) == 0


def met(folder: Path, own: str, *others: str) -> dict[str, Any]:
    return {"leave": str(folder / own), "wait": [str(folder / other) for other in others]}


def test_two_builders_build_at_one_time(tmp_path: Path) -> None:
    where = evaluator([], PATIENT, builders=2)
    try:
        found = answers(where, **{a: {"meet": {"build": met(tmp_path, a, b)}} for a, b in (("one", "other"), ("other", "one"))})
    finally:
        where.close()
    assert {outcome.status for outcome in found.values()} == {"ok"}


@several_cores
def test_where_cores_are_left_candidates_are_built_beside_a_measurement_on_others(tmp_path: Path) -> None:
    """The first is measured until the second is being built, which takes until the first is measured."""
    where = evaluator(CORES[-1:], PATIENT)
    try:
        where.submit("first", Candidate({"meet": {"run": met(tmp_path, "measured", "built")}}))
        where.submit("second", Candidate({"meet": {"build": met(tmp_path, "built", "measured")}}))
        assert [answer[1].status for answer in (where.next() for _ in range(2)) if answer is not None] == ["ok", "ok"]
        where.submit("last", Candidate({"meet": {"run": met(tmp_path, "begun", "seen")}}))
        while not where._measurer.busy:
            assert where.next(time.monotonic() + 0.02) is None
        assert os.sched_getaffinity(0) == set(CORES[:-1]) == os.sched_getaffinity(where._builders[0].worker.pid)
        (tmp_path / "seen").touch()
        assert where.next() is not None and os.sched_getaffinity(0) == set(CORES)
    finally:
        where.close()
    assert os.sched_getaffinity(0) == set(CORES)


def test_the_default_is_measured_before_what_was_built_sooner() -> None:
    where = evaluator([], builders=3)
    try:
        where.submit("default", Candidate({"building": 0.3}, trusted=True))
        where.submit("other", Candidate({"n": 1}))
        where.submit("third", Candidate({"n": 2}))
        order = [answer[0] for answer in (where.next() for _ in range(3)) if answer is not None]
    finally:
        where.close()
    assert order[0] == "default"


def test_a_wait_ends_when_it_is_told_to(tmp_path: Path) -> None:
    where = evaluator([], PATIENT)
    try:
        where.submit("slow", Candidate({"meet": {"build": met(tmp_path, "begun", "told")}}))
        assert where.next(time.monotonic() + 0.1) is None
        (tmp_path / "told").touch()
        answer = where.next(math.inf)
        assert answer is not None and answer[1].status == "ok"
    finally:
        where.close()


def test_a_clear_loser_of_what_was_measured_meanwhile_is_given_up() -> None:
    where = evaluator([])
    try:
        found = answers(where, default={}, slow={"sleep": 0.01})
    finally:
        where.close()
    assert found["slow"].facts.censored and not found["default"].facts.censored


def test_finalists_are_measured_in_several_fresh_processes() -> None:
    where = evaluator([])
    try:
        before = where._measurer.started
        outcome = where.paired([Candidate({}, trusted=True), Candidate({"sleep": 0.001})])
        fast, slow = outcome.rows
        assert outcome.status == "ok" and where._measurer.started - before == 2 == len(fast.runs)
        assert sum(fast.runs) == len(fast.samples) == len(slow.samples) and min(fast.samples) < min(slow.samples)
        assert fast.schedule == slow.schedule == '{"steps": []}'
        broken = where.paired([Candidate({}), Candidate({"compile": "raise"}), Candidate({"n": 3})])
        assert (broken.status, broken.place) == ("compile_error", 1)
        wrong = where.paired([Candidate({}), Candidate({"n": 1}), Candidate({"run": "wrong"})])
        assert (wrong.status, wrong.place) == ("wrong_result", 2)
    finally:
        where.close()


@pytest.mark.parametrize("how", few([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGHUP], 1))
def test_neither_builder_nor_worker_survives_the_tuner(how: int) -> None:
    code = (
        "import sys, time, resource; sys.path.insert(0, sys.argv[1]); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "from tests.autotune.test_local import *\n"
        "e = evaluator([], builders=2); answers(e, a={}, b={'n': 1})\n"
        "e.submit('x', Candidate({'compile': 'hang'})); e.submit('y', Candidate({'compile': 'hang', 'n': 1}))\n"
        "e.next(time.monotonic() + 0.2)\n"
        "print(*(slot.worker.pid for slot in e._slots), flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(Path(HERE).parents[1])], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    parent.send_signal(how)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(workers) == 3 and not any(map(alive, workers))
