"""A kernel says at which level it runs, and gets better while it is called, without anybody waiting."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.autotune.log import lending
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.log import Log
from tensorlang.kernels import compilation
from tests.autotune.matmul_records import another, matmul, record
from tests.kernels.programs import arrays, product

ROOT = str(Path(__file__).parents[2])

BIAS = tl.placeholder((32,), name="bias")


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = tl.get_threads()
    tl.set_threads(1)
    yield
    tl.set_threads(before)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path / "a.jsonl")
    made.append(record(0, matmul(32), **another(matmul(32))))
    return made


def test_each_level_says_which_it_is_and_computes_the_same(log: Log) -> None:
    a, b = arrays((32, 32), (32, 32))
    found = [
        kernels.compile(matmul(32), level=level, database=books)
        for level, books in (("O0", None), ("default", None), ("default", log.path))
    ]
    assert [kernel.level for kernel in found] == ["O0", "default", "tuned"]
    assert len({kernel.address for kernel in found}) == 3
    assert "O0" in found[0].provenance_reason and all(kernel.settled() for kernel in found)
    for kernel in found:
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_a_tuned_kernel_is_there_at_once_and_better_later_for_all_who_call_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    go, real = threading.Event(), compilation.Request.best
    monkeypatch.setattr(compilation.Request, "best", lambda request: (go.wait(60), real(request))[1])
    a, b = arrays((32, 32), (32, 32))
    f = kernels.compile(matmul(32), level="tuned", database=log.path)
    g = kernels.compile(product(32, 32, 32, "XWY", weight_first=True), level="tuned", database=log.path)
    bound = f.bind(a, b)
    assert (f.level, g.level, f.settled(0)) == ("O0", "O0", False)
    wrong: list[Any] = []
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            results = (f(a, b), g(b, a), g(W=b, X=a), f(a, b, out=np.empty((32, 32), "f4")))
            wrong.extend(result for result in results if not np.allclose(result, a @ b, rtol=1e-4, atol=1e-5))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    go.set()
    assert f.settled(60) and g.settled(60)
    stop.set()
    for caller in callers:
        caller.join()
    assert (f.level, g.level, f.address) == ("tuned", "tuned", g.address) and not wrong
    np.testing.assert_array_equal(f(a, b), g(b, a))
    np.testing.assert_allclose(bound(), a @ b, rtol=1e-4, atol=1e-5)
    assert kernels.compile(matmul(32), level="tuned", database=log.path).level == "tuned"


def test_with_no_database_better_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    f = kernels.compile(product(14, 15, 16), level="tuned")
    assert f.settled(60) and f.level == "default"
    assert f.address == kernels.compile(product(14, 15, 16)).address


def test_what_cannot_be_made_better_stays(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(compilation.Request, "best", lambda request: (_ for _ in ()).throw(tl.BuildError("no luck\nat all")))
    f = kernels.compile(product(15, 16, 17), level="tuned")
    assert f.settled(60) and f.level == "O0"
    assert [entry.getMessage() for entry in caplog.records] == ["C stays at level O0: no luck"]
    a, b = arrays((15, 17), (17, 16))
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_a_database_is_asked_once_for_a_key_and_again_when_it_has_grown(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = [], Database.matches
    monkeypatch.setattr(Database, "matches", lambda self, *args, **more: (asked.append(1), real(self, *args, **more))[1])
    books = Database(log)
    for _ in range(3):
        assert kernels.compile(matmul(32), database=books).level == "tuned"
        assert kernels.compile(product(30, 30, 30), database=books).level == "default"
        assert kernels.compile(product(30, 30, 30, weight_first=True), database=books).level == "default"
    assert len(asked) == 2
    log.append(record(1, product(30, 30, 30), **another(product(30, 30, 30))))
    assert kernels.compile(product(30, 30, 30), database=books).level == "default"
    books.refresh()
    assert kernels.compile(product(30, 30, 30), database=books).level == "tuned"
    assert kernels.compile(product(30, 30, 30), database=str(log.path)).level == "tuned"  # a path is read on by itself


@pytest.mark.parametrize(
    "options",
    [
        {"epilogue": lambda c, i, j: tl.maximum(c + BIAS[j], 0.0)},
        {"prologue": {"A": lambda a, i, k: tl.exp(a)}},
        {"epilogue": lambda c, i, j: c * 2.0, "prologue": {"B": lambda b, k, j: b + 1.0}},
    ],
)
def test_what_was_found_for_a_stage_serves_what_it_is_fused_into(
    log: Log, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lending, "AHEAD", 0.0)
    books = Database(log)
    f, plain = kernels.compile(matmul(32), database=books, **options), kernels.compile(matmul(32), **options)
    assert (f.level, f.provenance) == ("tuned", "nearest")
    assert "of its stage C, tuned alone" in f.provenance_reason
    operands = arrays((32, 32), (32, 32), (32,))[: len(f.program.signature.inputs)]
    np.testing.assert_allclose(f(*operands), plain(*operands), rtol=1e-4, atol=1e-4)


def test_a_stage_whose_record_is_slower_by_the_model_lends_nothing(log: Log) -> None:
    f = kernels.compile(matmul(32), database=Database(log), epilogue=lambda c, i, j: c * 3.0)
    assert (f.level, f.provenance) == ("default", "default")


def test_a_process_ends_while_kernels_become_better() -> None:
    code = """
from tensorlang import kernels
specs = [kernels.Spec("matmul", ((size, 24), (24, 40))) for size in range(20, 32)]
print([kernel.level for kernel in kernels.compile_many(specs, level="tuned")].count("O0") > 0)
"""
    env = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
