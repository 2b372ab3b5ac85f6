"""The command tunes, reports and verifies; wrong usage is one line on stderr and exit code 2."""

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import to_line
from tensorlang.autotune.operators import parse_shape, program
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import TuningError
from tensorlang.ops.table import OPERATORS
from tests.autotune.command import COMMAND, ENVIRONMENT, autotune, ended, here
from tests.thinned import crossed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing command"),
        (("frobnicate",), "No such command 'frobnicate'"),
        (("repor", "x"), "did you mean 'report'"),
        (("run",), "Missing argument 'OPERATOR'"),
        (("run", "matmull"), "did you mean 'matmul'"),
        (("run", "matmul", "--shape", "M=x"), "NAME=NUMBER"),
        (("run", "matmul", "--shape", "Q=3"), "no extent 'Q'"),
        (("run", "matmul", "--trials", "-1"), "--trials"),
        (("run", "matmul", "--strategy", "bayes"), "did you mean 'bayesian'"),
        (("run", "matmul", "--budget", "soon"), "not a length of time"),
        (("run", "matmul", "--timeout", "0"), "timeout must be"),
        (("run", "matmul", "--dtype", "float31"), "not a tensorlang type"),
        (("run", "matmul", "--wat"), "No such option"),
        (("run", "missing.py:f"), "of a file that exists"),
        (("run", "missing.py"), "names no function of a file"),
        (("best", "missing.jsonl"), "no log at missing.jsonl"),
        (("status",), "Missing argument 'LOG"),
        (("run", "matmul", "--cache", "luke"), "cache must be warm or cold"),
        (("run", "matmul", "--workers", "0"), "--workers"),
        (("run", "matmul", "--dask", " "), "dask must be the address"),
        (("job",), "Missing argument 'JOBS.toml'"),
        (("job", "missing.toml"), "there is no job file missing.toml"),
        (("job", "missing.toml", "--budget", "soon"), "not a length of time"),
        (("merge", "a.jsonl"), "Missing option '--into'"),
        (("merge", "missing.jsonl", "--into", "b.jsonl"), "no log at missing.jsonl"),
        (("export", "missing.jsonl"), "no log at missing.jsonl"),
        (("export", "missing.jsonl", "--format", "t5"), "known: 't4', 'csv', 'json'"),
        (("compare", "missing.jsonl"), "Missing argument 'LOG"),
        (("compare", "missing.jsonl", "also.jsonl"), "no log at missing.jsonl"),
        (("report", "missing.jsonl", "--html", "a.html"), "no log at missing.jsonl"),
        (("report", "missing.jsonl", "--task", "matmul"), "no log at missing.jsonl"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(arguments: tuple[str, ...], message: str) -> None:
    done = here(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(): raise ValueError('mine')", "ValueError: mine"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("def f(m): pass", "needs --shape m=..."),
        ("g = 3", "no function 'f'"),
        ("def f(): return 3", "must be a tensor"),
        ("raise SystemExit(0)", "SystemExit"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_a_fault_in_a_users_file_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    done = here("run", tmp_path / "mine.py:f")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr


def test_an_unwritable_log_is_exit_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = here("run", "matmul", "--shape", "M=8,N=8,K=8", "--log", tmp_path / "file" / "a.jsonl")
    assert done.returncode == 1
    assert "cannot write the log" in done.stderr


def test_a_log_without_trials_is_exit_1_and_says_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"garbage\n" + to_line({"kind": "run_end", "reason": "trials"}))
    done = here("best", tmp_path / "a.jsonl")
    assert done.returncode == 1
    assert "holds no trial (1 line skipped" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "--help"), 0),
        (("frobnicate",), 2),
        pytest.param(("--help",), 0, marks=pytest.mark.slow),
        pytest.param(("run",), 2, marks=pytest.mark.slow),
    ],
)
def test_help_and_wrong_usage_load_neither_compiler_nor_surrogates_nor_tables(arguments: tuple[str, ...], code: int) -> None:
    heavy = ["llvmlite", "skopt", "sklearn", "scipy", "rich", "pandas", "islpy", "tensorlang.autotune.jobs.session"]
    told = f"import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules.keys() & {heavy}))"
    command = [*COMMAND[:-1], f"{told}; {COMMAND[-1]}", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == code and done.stdout.splitlines()[-1] == "loaded"


def test_every_command_of_the_contract_is_there() -> None:
    shown = here("--help").stdout
    for verb in ("run", "job", "status", "best", "report", "merge", "verify", "export", "compare", "calibrate", "ops"):
        assert f"\n  {verb} " in shown


@pytest.mark.usefixtures("brief_jobs")
@pytest.mark.parametrize("run", [here, pytest.param(autotune, marks=pytest.mark.slow)])
def test_a_job_is_run_reported_and_verified(run: Any, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    done = run("run", "matmul", "--shape", "M=32,N=32,K=32", "--trials", 2, "--threads", 1, "--log", log)
    assert done.returncode == 0, done.stderr
    assert "[   2/2]" in done.stdout
    assert "best configuration" in done.stdout
    for verb, expected in (("status", "2"), ("best", "tl.Schedule(matmul)"), ("report", "2 trials in")):
        shown = here(verb, log)
        assert (shown.returncode, shown.stderr) == (0, ""), verb
        assert expected in shown.stdout
    shown = here("verify", log)
    assert re.search("holds|faster|slower", shown.stdout)
    assert shown.returncode == ("slower" in shown.stdout)  # as it may be, beside other work
    (tmp_path / "a.jsonl").write_bytes(b"".join(_spoilt(line) for line in log.read_bytes().splitlines(keepends=True)))
    assert here("verify", log).returncode == 1


def _spoilt(line: bytes) -> bytes:
    from tensorlang.autotune.log.record import from_line

    return to_line({**from_line(line), "schedule": "{}"}) if b'"kind":"trial"' in line else line


@pytest.mark.parametrize(
    ("number", "strategy"), [(signal.SIGINT, "bayesian"), pytest.param(signal.SIGTERM, "random", marks=pytest.mark.slow)]
)
def test_a_signal_stops_it_at_once_with_a_whole_log_and_the_best(tmp_path: Path, number: signal.Signals, strategy: str) -> None:
    """At once: after the trial that was under way at most. The process stands still while its trials are counted."""
    log = tmp_path / "a.jsonl"
    options = f"--shape M=64,N=64,K=64 --trials 5000 --threads 1 --strategy {strategy}".split()
    command = [*COMMAND, "run", "matmul", *options, "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True) as job:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not log.exists() or log.read_bytes().count(b'"kind":"trial"') < 3):
            time.sleep(0.05)
        shown, before = ended(job, number, Log(log))
    assert job.returncode == 130
    assert "stopped after" in shown
    log_again = Log(log)
    assert 3 <= before <= len(list(log_again)) <= before + 1
    assert not log_again.problems


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_operator_is_made_at_its_defaults(name: str) -> None:
    label, outputs = program(name, {})
    assert label == name
    assert isinstance(outputs, Tensor)


def test_every_operator_of_the_library_is_tunable_by_name() -> None:
    from tensorlang import ops

    assert set(ops.__all__) <= set(OPERATORS)


def test_extents_are_read_from_text() -> None:
    assert parse_shape("M=512, N=3") == {"M": 512, "N": 3} and parse_shape("M=4,M=4") == {"M": 4}
    assert parse_shape(None) == {}
    for wrong in ("M", "M=", "M=-1", "M=1.5", "=3", "M=1;N=2", "M=4,M=5"):
        with pytest.raises(TuningError):
            parse_shape(wrong)


@crossed(
    {
        "number": [signal.SIGINT, signal.SIGTERM],
        "module": ["tensorlang", "numpy", "tensorlang.ir.nodes", "typer", "tensorlang.autotune.cli.main"],
    }
)
def test_a_signal_while_the_command_is_still_being_imported_ends_in_one_line(module: str, number: signal.Signals) -> None:
    sending = (
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['autotune', 'ops']\n"
        "import autotune_command\n"
        "autotune_command.main()\n"
    )
    found = subprocess.run([sys.executable, "-c", sending], capture_output=True, text=True, check=False, timeout=60, env=ENVIRONMENT)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "autotune: stopped\n")


@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
@pytest.mark.parametrize("command", ["run relu --shape N=64 --trials 2 --log logs/", "ops", "--help"])
def test_output_that_cannot_be_printed_ends_no_work(command: str, output: str, tmp_path: Path) -> None:
    """It was a traceback of sixty lines, before anything was measured."""
    line = f"{shlex.join(COMMAND)} {command} {output}"
    done = subprocess.run(line, shell=True, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=180)  # noqa: S602
    if output == ">&-":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        told = "autotune: standard output: No space left on device: not all was printed; what is in a log is there\n"
        assert (done.returncode, done.stderr) == (1, told)
    if command.startswith("run"):
        (log,) = (tmp_path / "logs").glob("*.jsonl")
        assert len(list(Log(log))) >= 2
