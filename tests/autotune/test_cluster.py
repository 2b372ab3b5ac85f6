"""On a cluster every candidate is measured alone on a host of one kind, and nothing that is lost takes a finished trial with it."""

import io
import json
import logging
import multiprocessing
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.cluster import ClusterEvaluator, link, target
from tensorlang.autotune.cluster.assignment import Patience
from tensorlang.autotune.cluster.link import how_to_start
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate, Outcome, WorkerTask
from tensorlang.codegen.target import Target, target as named_target
from tensorlang.errors import TuningError
from tests.autotune import dask_part, stand_ins, test_session

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is an extra; it takes a second to load")

ROOT = str(Path(__file__).parents[2])
LIMITS = Limits(compile_s=2, run_s=2)
READY = "import sys, distributed; distributed.Client(sys.argv[1]).wait_for_workers(1, timeout=40)"
SHORT = Patience(scheduler=5, silence=3, slack=5, nobody=3)


FORKS = multiprocessing.get_context("forkserver")
"""Dask takes a second to load: one process loads it, and the parts are forked from that."""
FORKS.set_forkserver_preload(["distributed", "tensorlang.autotune.cluster.remote", "tests.autotune.dask_part"])


class Part:
    """A scheduler or a worker, see `dask_part`."""

    def __init__(self, *arguments: str) -> None:
        self._told, theirs = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=dask_part.run, args=(theirs, *arguments))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", ROOT)
            patch.setenv("PYTHONWARNINGS", "ignore")
            self.process.start()
        theirs.close()

    @cached_property
    def address(self) -> str:
        return str(self._told.recv())

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._told.close()


class Cluster:
    """A scheduler and workers that are started as they are needed; those of one CPU are a cluster to themselves."""

    def __init__(self) -> None:
        self.scheduler = Part("scheduler")
        self.workers: dict[str, Part] = {}

    def start(self, name: str, cpu: str = "", measure: int = 1, threads: int = 2) -> None:
        self.workers[name] = Part("worker", self.scheduler.address, name, cpu, str(measure), str(threads))

    def named(self, address: str) -> str:
        return next(name for name, worker in self.workers.items() if worker.address == address)

    def close(self) -> None:
        for part in (*self.workers.values(), self.scheduler):
            part.kill()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    running = Cluster()
    try:
        for name in ("alpha", "beta"):
            running.start(name)
        for name in ("one", "two"):
            running.start(name, "twin")
        running.start("odd", "other", threads=1)
        running.start("plain", "idle", measure=0)
        for worker in running.workers.values():
            assert worker.address
        yield running
    finally:
        running.close()


def fields(cpu: str) -> host.TargetFields:
    """The target of workers that pretend to have this CPU."""
    here = named_target("native")
    return host.target_fields(Target(here.triple, cpu, here.features, cpu)) if cpu else host.target_fields(here)


@pytest.fixture
def opened(cluster: Cluster) -> Iterator[Callable[..., ClusterEvaluator]]:
    made: list[ClusterEvaluator] = []

    def opened(cpu: str, limits: Limits = LIMITS, patience: Patience = SHORT, address: str = "") -> ClusterEvaluator:
        evaluator = ClusterEvaluator(address or cluster.scheduler.address, limits, fields(cpu), patience=patience)
        made.append(evaluator)
        evaluator.open(task())
        return evaluator

    yield opened
    for evaluator in made:
        evaluator.close()


def task() -> WorkerTask:
    return stand_ins.task(Policy(sample_s=1e-4, least=3, most=5), "tests.autotune.dask_part:build")


def run(evaluator: ClusterEvaluator, **config: Any) -> Outcome:
    evaluator.submit("", Candidate(config))
    answer = evaluator.next()
    assert answer is not None
    return answer[1]


def settle(evaluator: ClusterEvaluator, capacity: int) -> None:
    """Wait until workers have come or gone."""
    deadline = time.monotonic() + 60
    while evaluator.capacity != capacity and time.monotonic() < deadline:
        assert evaluator.next(time.monotonic() + 0.1) is None
    assert evaluator.capacity == capacity


def measuring(evaluator: ClusterEvaluator, but: str = "") -> str:
    """The address of the worker that measures, as soon as one has begun."""
    while True:
        begun = [job.worker for job in evaluator._underway.values() if not job.builds and job.begun and job.worker != but]
        if begun:
            return begun[0]
        assert evaluator.next(time.monotonic() + 0.1) is None


def test_candidates_run_on_the_hosts_of_one_kind_one_at_a_time_on_each(opened, tmp_path: Path) -> None:
    evaluator, notes = opened(""), tmp_path / "notes"
    assert evaluator.capacity == 4 and evaluator.machine is not None and evaluator.machine["host"] == "alpha"
    for number in range(6):
        evaluator.submit(f"c{number}", Candidate({"sleep": 0.02, "notes": str(notes), "name": number}))
    outcomes = dict(evaluator.next() for _ in range(6))
    assert {outcome.status for outcome in outcomes.values()} == {"ok"} and len(outcomes) == 6
    one = outcomes["c0"]
    assert (
        one.facts.schedule == '{"steps": []}'
        and one.facts.compile_s > 0
        and one.where.software == host.software()
        and one.facts.kernel is None
    )
    calls = [json.loads(line) for line in notes.read_text().splitlines()]
    for name in ("alpha", "beta"):
        here = sorted((start, end, number) for part, number, start, end in calls if part == name)
        spans = {number: (min(s for s, _, n in here if n == number), max(e for _, e, n in here if n == number)) for *_, number in here}
        ordered = sorted(spans.values())
        assert ordered and all(former[1] <= latter[0] for former, latter in pairwise(ordered))
        assert {outcomes[f"c{number}"].where.machine["host"] for number in spans} == {name}


def test_each_fault_is_a_status_and_no_worker_of_dask_dies_of_it(opened, cluster: Cluster) -> None:
    evaluator = opened("")
    faults = [{"compile": "raise"}, {"compile": "segv"}, {"run": "segv"}, {"run": "wrong"}, {"run": "hang"}, {"run": "oom"}, {}]
    for number, config in enumerate(faults):
        evaluator.submit(str(number), Candidate(config))
    outcomes = dict(evaluator.next() for _ in faults)
    found = [outcomes[str(number)].status for number in range(len(faults))]
    assert found == ["compile_error", "compile_crash", "crash", "wrong_result", "run_timeout", "oom", "ok"]
    assert all(cluster.workers[name].process.is_alive() for name in ("alpha", "beta"))


def test_the_default_is_measured_first_and_finalists_side_by_side_on_one_host(opened) -> None:
    evaluator = opened("")
    evaluator.submit("first", Candidate({"sleep": 0.003}))
    evaluator.submit("default", Candidate({"sleep": 0.002}, trusted=True))
    assert [evaluator.next()[0] for _ in range(2)] == ["default", "first"]
    outcome = evaluator.paired([Candidate({"sleep": 0.002}, trusted=True), Candidate({"sleep": 0.001})], time.monotonic() + 20)
    slow, fast = outcome.rows
    assert outcome.status == "ok" and fast.time < slow.time and len(fast.samples) == len(slow.samples) == sum(fast.runs)
    assert outcome.where.machine["host"] in ("alpha", "beta") and fast.schedule
    broken = evaluator.paired([Candidate({}), Candidate({"compile": "raise"})])
    assert (broken.status, broken.place) == ("compile_error", 1)


def test_hosts_of_another_cpu_get_no_work_and_workers_may_join_later(opened, cluster: Cluster) -> None:
    assert target(cluster.scheduler.address) == named_target("native")
    evaluator = opened("other")
    assert evaluator.capacity == 2
    cluster.start("three", "twin")
    cluster.start("mate", "other", threads=1)
    evaluator.submit("a", Candidate({"sleep": 0.1}))
    assert evaluator.next()[1].where.machine["host"] in {"odd", "mate"}
    assert cluster.workers["three"].address and cluster.workers["mate"].address
    settle(evaluator, 4)
    for number in range(4):
        evaluator.submit(str(number), Candidate({"sleep": 0.1}))
    assert {evaluator.next()[1].where.machine["host"] for _ in range(4)} == {"odd", "mate"}


@pytest.mark.slow
def test_a_worker_that_hangs_is_given_up_when_its_heart_stops_and_is_welcome_when_it_beats_again(opened, cluster: Cluster) -> None:
    evaluator = opened("twin")
    full = evaluator.capacity
    evaluator.submit("a", Candidate({"sleep": 0.3}))
    name = cluster.named(measuring(evaluator))
    os.kill(cluster.workers[name].process.pid, signal.SIGSTOP)
    try:
        _, outcome = evaluator.next()
    finally:
        os.kill(cluster.workers[name].process.pid, signal.SIGCONT)
    assert outcome.status == "ok" and outcome.where.machine["host"] != name
    settle(evaluator, full)


def test_a_worker_killed_in_mid_trial_costs_a_second_try_and_a_second_loss_the_candidate(opened, cluster: Cluster) -> None:
    if "three" not in cluster.workers:
        cluster.start("three", "twin")
    assert cluster.workers["three"].address
    evaluator = opened("twin", patience=replace(SHORT, nobody=1))
    settle(evaluator, 6)
    evaluator.submit("a", Candidate({"sleep": 0.3}))
    first = cluster.named(measuring(evaluator))
    cluster.workers[first].kill()
    key, outcome = evaluator.next()
    assert (key, outcome.status) == ("a", "ok") and outcome.where.machine["host"] in {"one", "two", "three"} - {first}
    evaluator.submit("b", Candidate({"sleep": 0.5}))
    second = measuring(evaluator)
    cluster.workers[cluster.named(second)].kill()
    cluster.workers[cluster.named(measuring(evaluator, but=second))].kill()
    key, outcome = evaluator.next()
    assert (key, outcome.status, outcome.error.type) == ("b", "killed", "WorkerLost")
    with pytest.raises(TuningError, match=r"no worker at tcp://.* could measure; every finished trial is in the log"):
        run(evaluator)


def test_without_a_host_that_measures_the_message_says_how_to_start_one(opened) -> None:
    with pytest.raises(TuningError, match=r'none of the .* workers at tcp://.* that have the CPU offers the resource "measure"') as caught:
        opened("idle")
    assert how_to_start("tcp://")[:12] in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere.invalid:8786", "what is this"])
def test_where_no_scheduler_is_one_line_says_so(address: str) -> None:
    with pytest.raises(TuningError, match="no Dask scheduler answers at") as caught:
        ClusterEvaluator(address, LIMITS, patience=Patience(scheduler=1)).open(task())
    assert "\n" not in str(caught.value) and "dask scheduler" in str(caught.value)


COLLECTED = """
import gc, threading
from tensorlang.autotune.cluster.link import Link
from tensorlang.errors import TuningError

def refused(address):
    try:
        Link(address, 1)
    except TuningError:
        print(len([thread for thread in threading.enumerate() if thread.name == "IO loop"]))

gc.disable()
refused("what is this")
start = threading.Thread.start
threading.Thread.start = lambda self: (gc.collect(), start(self))
refused("tcp://127.0.0.1:9")
"""


def test_a_client_that_was_refused_leaves_no_thread_and_is_collected_while_another_starts() -> None:
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["0", "0"], "")


def test_without_dask_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "tensorlang.autotune.cluster.client", raising=False)
    with pytest.raises(TuningError, match=re.escape("pip install 'tensorlang[cluster]'")):
        target("tcp://127.0.0.1:9")


def test_a_lost_scheduler_ends_the_run_with_all_finished_trials_in_the_log_and_the_run_resumes(tmp_path: Path) -> None:
    cluster, log = Cluster(), tmp_path / "a.jsonl"
    try:
        cluster.start("alpha")
        assert cluster.workers["alpha"].address

        def lose(progress: Any) -> None:
            if progress.done == 2:
                cluster.scheduler.kill()

        with pytest.raises(TuningError, match="scheduler at .* is lost; every finished trial is in the log"):
            job(log, dask=cluster.scheduler.address).run(lose)
    finally:
        cluster.close()
    assert [record.fields["machine"]["host"] for record in Log(log)] == ["alpha", "alpha"]
    assert job(log).run().speedup is not None
    records = list(Log(log))
    assert len(records) == 5 == len({json.dumps(record.config) for record in records}) and not Log(log).problems


def test_what_dask_says_of_a_lost_scheduler_is_held_back_by_whatever_would_print_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loggers have levels and handlers of their own once it is imported, and its client still complains when it is closed."""
    logger, printed = logging.getLogger("distributed.client"), io.StringIO()
    handler = logging.StreamHandler(printed)
    logger.addHandler(handler)
    monkeypatch.setattr(logger, "level", logging.WARNING)
    monkeypatch.setattr(link._QuietLogging, "_LATER_S", 0.5)
    quiet = link._QuietLogging()
    try:
        quiet.begin()
        logger.error("Connection refused")
        quiet.end(lost=True)
        logger.error("Connection refused")
        assert printed.getvalue() == ""
        for _ in range(100):
            logger.error("told again")
            if printed.getvalue():
                break
            time.sleep(0.1)
        assert printed.getvalue() == "told again\n"
    finally:
        logger.removeHandler(handler)


def test_a_scheduler_that_does_not_answer_is_lost_too(opened, cluster: Cluster) -> None:
    evaluator = opened("other", patience=Patience(scheduler=1))
    os.kill(cluster.scheduler.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TuningError, match="is lost"):
            run(evaluator)
        evaluator.close()
    finally:
        os.kill(cluster.scheduler.process.pid, signal.SIGCONT)


def job(log: Path, **settings: Any) -> Any:
    return test_session.job(log, test_session.plan((None,)), trials=5, **settings)


@pytest.mark.slow
def test_the_command_in_the_message_starts_a_worker_that_tunes_a_kernel(cluster: Cluster, tmp_path: Path) -> None:
    import tensorlang as tl
    from tensorlang.autotune import tune

    scheduler = Part("scheduler")
    command = shlex.split(how_to_start(scheduler.address))
    dask = [sys.executable, "-m", "dask", *command[1:], "--no-dashboard", "--local-directory", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYTHONWARNINGS": "ignore"}
    worker = subprocess.Popen(dask, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while subprocess.run([sys.executable, "-c", READY, scheduler.address], env=environment, check=False).returncode:
            assert worker.poll() is None
        X = tl.placeholder((64, 64), name="X")
        result = tune(
            tl.compute((64, 64), lambda i, j: X[j, i] * 2, name="Y"),
            trials=4,
            log=tmp_path / "a.jsonl",
            strategy="random",
            dask=scheduler.address,
        )
        assert result.reason in ("trials", "exhausted") and {trial.status for trial in result.records} == {"ok"}
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        scheduler.kill()
