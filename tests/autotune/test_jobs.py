"""A batch says what is wrong before it begins, goes on with the others where a task fails, and measures only what is missing."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from tensorlang.autotune.jobs import batch_task, jobfile
from tensorlang.autotune.jobs.allocation import choose
from tensorlang.autotune.jobs.batch import Batch, Overview
from tensorlang.autotune.jobs.jobfile import Job, read
from tensorlang.autotune.jobs.plan import Progress
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.writer import LogBusyError, Owner
from tensorlang.autotune.measurement.host import target_fields
from tensorlang.autotune.reporting.display import clock
from tensorlang.autotune.reporting.summary import status_of
from tensorlang.autotune.workers.limited import LimitError
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import as_outputs
from tensorlang.errors import LogError, TuningError

ROOT = Path(__file__).resolve().parents[2]
TWO = '[[task]]\noperator = "matmul"\nshapes = ["M=8,N=8,K=8", {M = 16, N = 16, K = 16}]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.toml"
    path.write_text(text)
    return path


def examples() -> list[str]:
    """What the pages show as a job's file."""
    page = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "tuning.md").read_text(), re.MULTILINE | re.DOTALL)
    docstring = re.findall(r"\n\n((?:    .*\n|\n)+)", jobfile.__doc__ or "")
    return [*page, docstring[0].replace("\n    ", "\n")[4:]]


def test_the_examples_of_the_documentation_are_jobs(tmp_path: Path) -> None:
    assert len(examples()) >= 2
    for text in examples():
        job = read(written(tmp_path, text))
        assert job.budget == 1800 and job.log == f"{tmp_path}/logs/"
        assert [spec.weight for spec in job.specs] == [3, 3, 1]
        assert job.specs[1].title == "matmul M=1024,N=1024,K=1024" and job.specs[1].trials == 64
        assert job.specs[2].operator == f"{tmp_path}/my_ops.py:my_operator" and job.specs[2].trials == 200


def test_a_key_of_a_task_stands_before_that_of_the_file(tmp_path: Path) -> None:
    job = read(
        written(tmp_path, 'trials = 5\nthreads = 2\ncache = "cold"\n' + TWO + 'trials = 7\n[[task]]\noperator = "relu"\nstrategy = "grid"')
    )
    assert [(spec.trials, spec.threads, spec.cache, spec.strategy) for spec in job.specs] == [
        (7, 2, "cold", None), (7, 2, "cold", None), (5, 2, "cold", "grid")
    ]  # fmt: skip
    assert [spec.place for spec in job.specs] == ["task 1, shape 1", "task 1, shape 2", "task 2"]
    assert job.specs[2].title == "relu" and job.specs[2].shape == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"has no tasks; write \[\[task\]\]"),
        ("[[tasks]]\n", "has no tasks; did you mean 'tasks'"),
        ("task = 3", "has no tasks"),
        ("trials =", "is not TOML: .*end of document"),
        ("trails = 3\n" + TWO, "there is no key 'trails'; did you mean 'trials'"),
        ("trials = 0\n" + TWO, "trials = 0: write a whole number from 1"),
        ("trials = true\n" + TWO, "trials = True: write a whole number"),
        ("threads = 1.5\n" + TWO, "threads = 1.5: write a whole number"),
        ("budget = 'soon'\n" + TWO, "budget = 'soon': write a length of time"),
        ("budget = nan\n" + TWO, "budget = nan: write a length of time"),
        ("cache = 'wram'\n" + TWO, "cache = 'wram': write \"warm\" or \"cold\"; did you mean 'warm'"),
        ("strategy = 'bayes'\n" + TWO, "strategy = 'bayes': .*did you mean 'bayesian'"),
        ("objective = 'time'\n" + TWO, 'objective = \'time\': write "speedup" or "latency"'),
        ("log = 3\n" + TWO, "log = 3: write a folder"),
        (TWO + "wieght = 2", "task 1: there is no key 'wieght'; did you mean 'weight'"),
        (TWO + "weight = -1", "task 1: weight = -1: write a number"),
        (TWO + "shape = 'M=2'", "task 1 has both shape and shapes"),
        ("[[task]]\nshape = 'M=2'", "task 1 has no operator; write a name that"),
        ("[[task]]\noperator = 'relu'\nshape = 'M'", "task 1: shape = 'M': write {.*is not of the form NAME=NUMBER"),
        ("[[task]]\noperator = 'relu'\nshape = {N = -1}", "task 1: shape = .*: write {"),
        ("[[task]]\noperator = 'relu'\nshapes = []", r"task 1: shapes = \[\]: write a list of shapes"),
    ],
)
def test_a_slip_in_the_file_is_told_with_its_key_and_what_to_write(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TuningError, match=message) as told:
        read(written(tmp_path, text))
    assert str(told.value).startswith(str(tmp_path)) and "\n" not in str(told.value)


def test_a_file_that_is_not_there_or_not_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="there is no job file"):
        read(tmp_path / "no.toml")
    with pytest.raises(LogError, match="cannot read"):
        read(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TuningError, match="is not TOML"):
        read(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[task]]\noperator = "matmull"', "task 1: there is no operator 'matmull'; did you mean 'matmul'"),
        ('[[task]]\noperator = "matmul"\nshape = {Q = 3}', "task 1: matmul has no extent 'Q'"),
        ('[[task]]\noperator = "matmul"\ntarget = "cortex-a72"', "task 1: cannot tune for cortex-a72 here: "),
        ('[[task]]\noperator = "matmul"\ntarget = "x86-64-v33"', "task 1: .*x86-64-v33.*did you mean"),
        ('[[task]]\noperator = "missing.py:f"', "task 1: .*missing.py:f' is not FILE.py:FUNCTION of a file that exists"),
        ('[[task]]\noperator = "mine.py:f"', "task 1: .*ZeroDivisionError"),
        ('[[task]]\noperator = "mine.py:loose"', "task 1: .*n is known only at run time"),
        (
            TWO + '[[task]]\noperator = "matmul"\nshape = "M=8,N=8,K=8"',
            "task 2 is the same program as task 1, shape 1: matmul .*; remove one",
        ),
    ],
)
def test_a_task_that_cannot_be_is_told_before_anything_is_measured(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(
        "import tensorlang as tl\ndef f(): return 1 / 0\n"
        "def loose():\n    x = tl.placeholder((tl.dim('n'),), name='x')\n    return tl.ops.relu(x)\n"
    )
    with pytest.raises(TuningError, match=message):
        Batch(read(written(tmp_path, text)))
    assert not list(tmp_path.glob("logs/job-*"))


def test_a_function_that_returns_a_dict_makes_a_task_of_each_kernel(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import tensorlang as tl\n"
        "def kernels(n=8):\n"
        "    x = tl.placeholder((n, n), name='x')\n"
        "    return {'first': tl.ops.relu(x), 'second': tl.ops.softmax(x)}\n"
    )
    ready = Batch(read(written(tmp_path, '[[task]]\noperator = "model.py:kernels"\nshape = {n = 4}')))
    assert [task.title for task in ready.tasks] == ["kernels.first n=4", "kernels.second n=4"]


# Running, with sessions that only pretend ----------------------------------------------------------------------------------------------


class Pretended:
    """A session whose trials take no time; `fails` says when it raises."""

    made: ClassVar[list[Any]] = []

    def __init__(self, outputs: Any, log: Log, *, name: str, **settings: Any) -> None:
        self.log = log
        self.task = SimpleNamespace(program=f"{name}{outputs}", outputs=as_outputs(outputs), inputs=(), results=(), dims={})
        self.target = target()
        self.settings = SimpleNamespace(threads=1, timeout=settings.get("timeout", 30.0), policy=SimpleNamespace(cache="warm"))
        self.given = settings
        self.trials: list[Trial] = []
        self.calls: list[Any] = []
        self.fails: BaseException | None = None
        self.time = 1.0
        self.made.append(self)

    def search(self, trials: int, seconds: float | None, tell: Any) -> str:
        self.calls.append(("search", trials, seconds))
        if self.fails is not None:
            raise self.fails
        while len(self.trials) < min(trials, 20):
            self.trials.append(trial(self, len(self.trials)))
            tell(Progress(len(self.trials), trials, self.trials[-1], self.trials[-1], self.trials[0]))
        return "trials" if len(self.trials) >= trials else "exhausted"

    @property
    def opened(self) -> bool:
        return bool(self.calls)

    def decided(self) -> bool:
        return "conclude" in self.calls

    def conclude(self, tell: Any, _seconds: float | None = None) -> Any:
        self.calls.append("conclude")
        tell(Progress(len(self.trials), 0, None, self.trials[0], None, "final"))
        return SimpleNamespace(best=self.trials[0], speedup=None, speedup_interval=None)

    def rest(self) -> None:
        self.calls.append("rest")

    def close(self, reason: str) -> None:
        self.calls.append(("close", reason))


def trial(own: Pretended, seq: int) -> Trial:
    shared = {"task": {"fingerprint": own.task.program}, "target": target_fields(own.target), "threads": 1, "cache": "warm"}
    lasted = {"compile_s": 0.1, "run_s": 0.1, "wall_s": 0.25}
    told = {"status": "ok", "samples": [own.time], "median": own.time, "mad": 0.0, "schedule": None, "source": "random", "censored": False}
    return Trial.of(
        {"kind": "trial", "id": f"{own.task.program}{seq}", "seq": seq, "config": {"a": seq}, "error": None, **shared, **lasted, **told}
    )


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[Pretended]:
    monkeypatch.setattr(batch_task, "session", Pretended)
    monkeypatch.setattr(Pretended, "made", [])
    return Pretended.made


THREE = TWO + '[[task]]\noperator = "relu"\nshape = "N=64"\ntrials = 9\n'


def test_every_task_is_begun_then_finished_and_closed(tmp_path: Path, pretended: list[Pretended]) -> None:
    ready = Batch(read(written(tmp_path, "trials = 12\n" + THREE)))
    seen: list[Overview] = []
    ready.run(seen.append)
    assert [len(task.trials) for task in ready.tasks] == [12, 12, 9] and [status_of(task) for task in ready.tasks] == ["done"] * 3
    assert next(call for own in pretended for call in own.calls if call[0] == "search") == ("search", 6, None)
    assert all(own.calls.count("conclude") == 1 and own.calls[-1] == ("close", "trials") for own in pretended)
    assert [state.title for state in seen[:18]] == [task.title for task in ready.tasks for _ in range(6)]
    assert (seen[-1].done, seen[-1].total) == (33, 33)
    records: list[Any] = list(Log(tmp_path / "logs" / "job-jobs.jsonl").records())
    assert [record["kind"] for record in records] == ["run_start", *["task"] * 6, "run_end"] and records[-1]["reason"] == "trials"
    assert [record["event"] for record in records[1:-1]] == ["begun", "survived"] * 3
    assert [task["trials"] for task in records[0]["job"]["tasks"]] == [12, 12, 9] and records[0]["job"]["pid"] > 0


@pytest.mark.parametrize("error", [TuningError("no worker"), LogError("disk full"), RuntimeError("ours")])
def test_a_task_that_fails_does_not_stop_the_others(tmp_path: Path, pretended: list[Pretended], error: Exception) -> None:
    ready = Batch(read(written(tmp_path, THREE)))
    pretended[1].fails = error
    ready.run(lambda _: None)
    assert [bool(task.failed) for task in ready.tasks] == [False, True, False]
    assert str(error) in status_of(ready.tasks[1]) and len(pretended[1].calls) < 5
    assert len(ready.tasks[0].trials) == 20 and ready.tasks[0].exhausted


def test_a_budget_ends_the_search_but_not_before_the_finalists_are_measured(tmp_path: Path, pretended: list[Pretended]) -> None:
    ready = Batch(read(written(tmp_path, 'budget = "1h"\n' + THREE)))
    ready.job = replace(ready.job, budget=1e-9)
    ready.run(lambda _: None)
    assert [status_of(task) for task in ready.tasks] == ["not begun: no time was left"] * 3
    ready.job = replace(ready.job, budget=3600.0)
    ready.run(lambda _: None)
    budgets = [call[2] for own in pretended for call in own.calls if call[0] == "search"]
    assert len(budgets) >= 3 and all(0 < seconds < 3600 for seconds in budgets)


def test_what_the_log_has_counts_for_trials_and_for_the_budget(tmp_path: Path, pretended: list[Pretended]) -> None:
    path = written(tmp_path, 'trials = 6\nbudget = "1h"\n' + THREE)
    first = Batch(read(path))
    log = Log(tmp_path / "logs" / "a.jsonl")
    log.path.parent.mkdir()
    for seq in range(6):
        log.append(trial(pretended[0], seq).fields)
    assert first.left is not None and 3599 < first.left <= 3600
    again = Batch(read(path))
    assert [len(task.trials) for task in again.tasks] == [6, 0, 0] and again.tasks[0].left == 0
    assert again.left is not None and again.left < 3600 - 6 * 0.25


def test_an_interrupt_closes_every_task_and_says_so_in_the_log(tmp_path: Path, pretended: list[Pretended]) -> None:
    ready = Batch(read(written(tmp_path, THREE)))

    def stop(state: Overview) -> None:
        if state.done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ready.run(stop)
    assert all(own.calls[-1] == ("close", "interrupted") for own in pretended)
    assert [record.get("reason") for record in Log(tmp_path / "logs" / "job-jobs.jsonl").records("run_end")] == ["interrupted"]


def test_latency_weighs_a_gain_by_the_time_of_the_task(tmp_path: Path, pretended: list[Pretended]) -> None:
    ready = Batch(read(written(tmp_path, 'objective = "latency"\n' + THREE)))
    for own, task, seconds in zip(pretended, ready.tasks, (1.0, 2.0, 4.0), strict=True):
        own.time = seconds
        own.trials = [trial(own, seq) for seq in range(6)]
        assert task.curve().weight == seconds
    assert choose([task.curve() for task in ready.tasks]) is not None


def test_a_folder_that_cannot_be_made_is_a_log_error(tmp_path: Path, pretended: list[Pretended]) -> None:
    (tmp_path / "logs").write_text("")
    with pytest.raises(LogError, match="cannot make the folder"):
        Batch(read(written(tmp_path, TWO))).run(lambda _: None)


def test_lengths_of_time_are_told_as_people_do() -> None:
    assert [clock(seconds) for seconds in (None, 0.4, 59, 61, 3600, 11220, 187200)] == [
        "?",
        "0s",
        "59s",
        "1m01s",
        "1h00m",
        "3h07m",
        "2d04h",
    ]


def test_a_job_is_a_value(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    assert read(path) == read(path) and isinstance(read(path), Job)


# Run again ------------------------------------------------------------------------------------------------------------------------------


def events(tmp_path: Path) -> list[Any]:
    return [record for record in Log(tmp_path / "logs" / "job-jobs.jsonl").records() if isinstance(record, dict)]


def test_a_finished_job_measures_and_writes_nothing(tmp_path: Path, pretended: list[Pretended]) -> None:
    ready = Batch(read(written(tmp_path, THREE)))
    ready.run(lambda _: None)
    before = events(tmp_path)
    searched = [sum(call[0] == "search" for call in own.calls) for own in pretended]
    assert ready.finished and ready.measured
    ready.run(lambda _: None)
    assert events(tmp_path) == before and searched == [sum(call[0] == "search" for call in own.calls) for own in pretended]


def test_a_job_whose_budget_was_used_up_goes_on_with_a_larger_one_only(tmp_path: Path, pretended: list[Pretended]) -> None:
    """Also where some of it was left, since the final measurements took less than was set aside."""
    path = written(tmp_path, 'budget = "1h"\n' + THREE)
    first = Batch(read(path))
    first.job = replace(first.job, budget=1e-9)
    first.run(lambda _: None)
    assert events(tmp_path)[-1]["reason"] == "budget"
    again = Batch(read(path))
    assert not again.finished
    again.job = replace(again.job, budget=1e-9)
    assert again.finished


def test_the_time_of_earlier_runs_counts_with_their_starts_and_finals(tmp_path: Path, pretended: list[Pretended]) -> None:
    path = written(tmp_path, 'budget = "1h"\n' + THREE)
    Batch(read(path)).run(lambda _: None)
    log = Log(tmp_path / "logs" / "job-jobs.jsonl")
    end = events(tmp_path)[-1]
    log.append({name: value for name, value in end.items() if name not in ("v", "sum")} | {"id": "more", "wall_s": 1000.0})
    left = Batch(read(path)).left
    assert left is not None and 2500 < left < 2600


def test_a_task_that_takes_too_much_is_left_out_next_time_and_tried_again_when_asked(tmp_path: Path, pretended: list[Pretended]) -> None:
    path = written(tmp_path, THREE)
    ready = Batch(read(path))
    pretended[1].fails = LimitError("it takes for ever")
    ready.run(lambda _: None)
    assert [event["event"] for event in events(tmp_path) if event["kind"] == "task"].count("failed") == 1
    assert [task.failed for task in Batch(read(path)).tasks] == ["", "as before: it takes for ever", ""]
    assert not any(task.failed for task in Batch(read(path), retry=True).tasks)
    assert not any(task.failed for task in Batch(read(written(tmp_path, "timeout = 31\n" + THREE))).tasks)


def test_a_task_at_whose_beginning_the_job_was_killed_comes_last_and_then_not_at_all(tmp_path: Path, pretended: list[Pretended]) -> None:
    path = written(tmp_path, THREE)
    killed: Any = Batch(read(path))
    killed._own.path.parent.mkdir()
    for times, expected in ((1, ""), (2, "the job was killed 2 times when it began this task")):
        killed._run = f"run{times}"
        killed._tell_of(killed.tasks[0], "begun")
        again = Batch(read(path))
        assert again.tasks[0].failed.startswith(expected) and bool(again.tasks[0].failed) == bool(expected)
        assert again.tasks[0].suspect and again._next() is again.tasks[1]


def test_a_definition_that_does_not_return_fails_alone_and_is_not_tried_again(tmp_path: Path, pretended: list[Pretended]) -> None:
    (tmp_path / "mine.py").write_text("import os\ndef ends(): os._exit(1)\n")
    path = written(tmp_path, TWO + '[[task]]\noperator = "mine.py:ends"\n')
    ready = Batch(read(path))
    ready.run(lambda _: None)
    assert [bool(task.failed) for task in ready.tasks] == [False, False, True] and "exit code 1" in ready.tasks[2].failed
    assert Batch(read(path)).tasks[2].failed.startswith("as before: ")
    (tmp_path / "mine.py").write_text("import tensorlang as tl\ndef ends(): return tl.ops.relu(tl.placeholder((4,)))\n")
    assert not Batch(read(path)).tasks[2].failed


def test_the_same_job_is_not_run_twice_at_a_time(tmp_path: Path, pretended: list[Pretended]) -> None:
    ready = Batch(read(written(tmp_path, THREE)))
    (tmp_path / "logs").mkdir()
    lock = tmp_path / "logs" / "job-jobs.jsonl.lock"
    lock.write_bytes(msgspec.json.encode(Owner(host="elsewhere", pid=7, mark="t")))
    with pytest.raises(LogBusyError, match="process 7 on elsewhere"):
        ready.run(lambda _: None)
    assert not any(own.calls for own in pretended)
