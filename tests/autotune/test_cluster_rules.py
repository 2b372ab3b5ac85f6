"""Who builds and who measures on a cluster, and when waiting ends: seen without a cluster, on a scheduler that is made up."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tensorlang.autotune.cluster import ClusterEvaluator, evaluator, remote
from tensorlang.autotune.cluster.assignment import Patience
from tensorlang.autotune.cluster.link import News
from tensorlang.autotune.cluster.messages import HoldTask
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import (
    NOTHING,
    Blob,
    Build,
    Candidate,
    Facts,
    Outcome,
    Paired,
    WorkerTask,
    decode,
    encode,
    read_request,
)
from tensorlang.codegen.target import target
from tensorlang.errors import TuningError
from tests.autotune import stand_ins

LIMITS = Limits(start_s=0.1, compile_s=0.05, run_s=0.05)
CORES = 4


@dataclass
class Fake:
    """A scheduler whose workers answer when they are told to; `machines` has host, CPU, resource and threads of each."""

    machines: dict[str, tuple[str, str, int, int]]
    software: dict[str, str] = field(default_factory=host.software)
    silent: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    address: str = "tcp://made-up"
    topic: str = "topic"
    running: dict[str, tuple[str, str, dict[str, Any] | None]] = field(default_factory=dict)
    tasks: list[tuple[str, WorkerTask]] = field(default_factory=list)
    done: list[News] = field(default_factory=list)

    def workers(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"nthreads": threads, "resources": {"measure": float(measure)}, "last_seen": time.monotonic(), "status": "running"}
            for name, (_, _, measure, threads) in self.machines.items()
        }

    def ask(self, token: str, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        assert plain(arguments)
        answer = None
        if function is remote.describe:
            name, cpu, _, _ = self.machines[worker]
            answer = json.loads(remote.describe(*arguments))
            answer["machine"] |= {"host": name, "model": cpu, "cores": CORES}
            answer = json.dumps(answer | {"fingerprint": cpu, "software": self.software})
        elif function is remote.take:
            self.tasks.append((worker, decode(HoldTask, *arguments[1:]).task))
        self.done.append(News(token, "failed", "ModuleNotFoundError: tensorlang") if worker in self.broken else News(token, "told", answer))

    def start(self, token: str, worker: str, function: Callable[..., Any], *arguments: Any, measuring: bool) -> None:
        request = read_request(*arguments[1:])
        assert function is remote.work and plain(arguments) and measuring == (not isinstance(request, Build))
        config = None if isinstance(request, Paired) else request.candidate.config
        self.running[token] = (worker, type(request).__name__.lower(), config)
        self.done.append(News(token, "begun"))

    def answer(self, token: str, status: str = "ok") -> None:
        """A worker is done."""
        _, what, _ = self.running.pop(token)
        facts = Facts(kernel=Blob(b"kernel")) if what == "build" else Facts(samples=(1.0,))
        self.done.append(News(token, "told", encode(Outcome(status, facts if status == "ok" else NOTHING))))

    def doing(self, what: str) -> dict[str, str]:
        """Tokens of the running calls of a kind, and their candidates."""
        return {token: config["name"] for token, (_, kind, config) in self.running.items() if kind == what and config is not None}

    def news(self, wait: float) -> list[News]:
        del wait
        found, self.done = self.done, []
        return found

    def drop(self, token: str) -> None:
        self.running.pop(token, None)

    def close(self) -> None:
        self.machines = {}


def plain(arguments: Iterable[Any]) -> bool:
    """Text, bytes and lists of bytes are all that is sent."""
    return all(
        isinstance(one, str | bytes) or (isinstance(one, list) and all(isinstance(blob, bytes) for blob in one)) for one in arguments
    )


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ClusterEvaluator, Fake]]:
    def on(*machines: tuple[str, str, int, int], threads: int = 1, cpu: str | None = None, **more: Any) -> tuple[ClusterEvaluator, Fake]:
        fake = Fake({f"w{number}": machine for number, machine in enumerate(machines)}, **more)
        monkeypatch.setattr(evaluator, "Link", lambda address, patience: fake)
        monkeypatch.setattr(evaluator, "TICK", 0.0)
        fields = None if cpu is None else host.target_fields(target()) | {"fingerprint": cpu, "cpu": cpu}
        made = ClusterEvaluator("tcp://made-up", LIMITS, fields, patience=Patience(slack=0.1, nobody=0.2))
        made.open(stand_ins.task(Policy(), "b", threads=threads, default={"name": "d"}))
        settle(made)
        return made, fake

    return on


def settle(made: ClusterEvaluator) -> list[str]:
    """Let what has happened be heard; the candidates that are finished."""
    found = []
    for _ in range(10):
        while made._finished:
            found.append(made._finished.popleft()[0])
        made._step(0)
    return found


def send(made: ClusterEvaluator, *names: str) -> None:
    for name in names:
        made.submit(name, Candidate({"name": name}, trusted=name == "d"))
    settle(made)


def test_all_threads_build_but_one_of_each_host_that_measures(on) -> None:
    made, fake = on(("a", "x", 1, 4), ("b", "x", 0, 2))
    assert made.capacity == 1 + 4
    send(made, *"123456")
    by_worker = sorted(worker for worker, _, _ in fake.running.values())
    assert by_worker == ["w0"] * 3 + ["w1"] * 2 and len(fake.doing("build")) == 5
    assert [len(task.expected) for _, task in fake.tasks] == [1, 0]


def test_a_host_measures_one_at_a_time_whatever_the_number_of_its_workers(on) -> None:
    made, fake = on(("a", "x", 1, 2), ("a", "x", 1, 2), ("b", "x", 1, 2))
    send(made, *"123")
    for token in list(fake.doing("build")):
        fake.answer(token)
    settle(made)
    assert sorted(fake.machines[fake.running[token][0]][0] for token in fake.doing("measure")) == ["a", "b"]


def test_the_default_is_measured_first_even_if_it_is_built_last(on) -> None:
    made, fake = on(("a", "x", 1, 4))
    send(made, "1", "2", "d")
    for name in ("1", "2"):
        fake.answer(next(token for token, config in fake.doing("build").items() if config == name))
    settle(made)
    assert not fake.doing("measure")
    fake.answer(*fake.doing("build"))
    settle(made)
    assert list(fake.doing("measure").values()) == ["d"]


def test_nothing_is_built_on_a_host_whose_every_core_is_measured_on(on) -> None:
    made, fake = on(("a", "x", 1, 4), threads=CORES)
    send(made, *"123", "d")
    order, left = [], {"1", "2", "3", "d"}
    while left:
        building, measuring = fake.doing("build"), fake.doing("measure")
        assert bool(building) != bool(measuring) and len(measuring) <= 1
        order += [*measuring.values()]
        fake.answer(next(iter(fake.running)))
        left -= {*settle(made)}
    assert order[0] == "d" and sorted(order) == ["1", "2", "3", "d"]


def test_after_the_default_has_failed_nobody_compares_with_it(on) -> None:
    made, fake = on(("a", "x", 1, 2))
    assert fake.tasks[0][1].default == {"name": "d"}
    send(made, "d")
    fake.answer(*fake.doing("build"), status="compile_error")
    assert settle(made) == ["d"] and fake.tasks[-1][1].default is None
    send(made, "1")
    fake.answer(*fake.doing("build"))
    settle(made)
    assert list(fake.doing("measure").values()) == ["1"]


def test_a_worker_that_never_answers_is_used_no_more_and_its_candidate_is_tried_elsewhere_once(on) -> None:
    made, fake = on(("a", "x", 1, 1), ("b", "x", 1, 1), ("c", "x", 1, 1))
    made.submit("1", Candidate({"name": "1"}))
    settle(made)
    fake.answer(*fake.doing("build"))
    settle(made)
    silent = {fake.running[token][0] for token in fake.doing("measure")}
    answer = made.next(time.monotonic() + 5)
    assert answer is not None and answer[1].status == "killed" and "did not answer in time" in answer[1].error.message
    assert made.capacity == 2 and silent <= {"w0", "w1", "w2"}
    send(made, "2")
    assert {worker for worker, _, _ in fake.running.values()} == set(made._working().members)


def test_when_nobody_is_left_to_measure_the_run_ends(on) -> None:
    made, fake = on(("a", "x", 1, 2), ("b", "x", 0, 2))
    del fake.machines["w0"]
    made.submit("1", Candidate({"name": "1"}))
    with pytest.raises(TuningError, match="every finished trial is in the log"):
        made.next(time.monotonic() + 5)


def test_the_cpu_that_is_named_is_used_and_else_the_kind_with_the_most_hosts(on) -> None:
    machines = (("a", "x", 1, 1), ("b", "y", 1, 1), ("c", "y", 1, 1), ("d", "z", 0, 1))
    assert {one.host for one in on(*machines)[0]._working().measurers()} == {"b", "c"}
    assert {one.host for one in on(*machines, cpu="x")[0]._working().measurers()} == {"a"}
    with pytest.raises(TuningError, match='offers the resource "measure"; start one worker on each host'):
        on(*machines, cpu="z")
    with pytest.raises(TuningError, match=r"has the CPU that is tuned for, q; there are 2 .* \(y\), 1 .* \(x\), 1 .* \(z\)"):
        on(*machines, cpu="q")


def test_workers_that_are_of_no_use_say_why(on) -> None:
    with pytest.raises(TuningError, match="the Dask scheduler at tcp://made-up has no workers; start some: dask worker tcp://made-up"):
        on()
    with pytest.raises(TuningError, match="none of the 1 workers at tcp://made-up can be used; w0: it has llvmlite 0.1, here it is"):
        on(("a", "x", 1, 1), software=host.software() | {"llvmlite": "0.1"})
    with pytest.raises(TuningError, match="can be used; w0: ModuleNotFoundError: tensorlang"):
        on(("a", "x", 1, 1), broken={"w0"})
