"""A look-up serves what was tuned for this program on this machine, and says so when it had to take something else."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import canonical
from tensorlang.autotune import host
from tensorlang.autotune.compile import compile as tuned
from tensorlang.autotune.database import Database
from tensorlang.autotune.log import Log
from tensorlang.codegen.target import target
from tensorlang.errors import LogError
from tensorlang.schedules.strategies import choose
from tests.autotune.test_log import fields


def matmul(n: int, name: str = "C") -> tl.Tensor:
    return tl.ops.matmul(tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B"), name=name)


def record(n: int, outputs: tl.Tensor, **changes: Any) -> dict[str, Any]:
    strategy = choose(outputs, target(), 1)
    task = {
        "op": "matmul",
        "fingerprint": canonical.fingerprint(outputs),
        "family": canonical.family(outputs),
        "extents": list(canonical.extents(outputs)),
        "dtype": "float32",
        "definition": canonical.describe(outputs),
    }
    made = {"task": task, "target": host.target_fields(target()), "strategy": {"name": strategy.name}, "config": strategy.default}
    return fields(n, **{**made, "schedule": strategy.schedule(strategy.default).to_json(), **changes})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "a.jsonl")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = tl.get_threads()
    tl.set_threads(1)
    yield
    tl.set_threads(before)


def test_the_fastest_record_of_this_program_is_found_whatever_its_names(log: Log) -> None:
    log.append(record(0, matmul(32), samples=[3e-3]))
    log.append(record(1, matmul(32), samples=[1e-3]))
    log.append(record(2, matmul(32), samples=[2e-3]))
    for name in ("C", "D"):
        match = Database(log).best(matmul(32, name), threads=1)
        assert match.kind == "tuned"
        assert match.record is not None
        assert match.record.id == "id-1"
        assert match.schedule() is not None


def test_the_winner_of_a_final_measurement_stands_before_a_luckier_trial(log: Log) -> None:
    log.append(record(0, matmul(32), samples=[2e-3]))
    log.append(record(1, matmul(32), samples=[1e-3]))
    log.append({"kind": "final", "id": "x", "winner": "id-0", "time": 1.9e-3})
    found = Database(log).best(matmul(32), threads=1).record
    assert found is not None
    assert (found.id, found.time) == ("id-0", 1.9e-3)


def here(**changes: Any) -> dict[str, Any]:
    return {**host.target_fields(target()), "fingerprint": "another", **changes}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"threads": 2}, None),
        ({"cache": "cold"}, None),
        ({"status": "crash", "samples": []}, None),
        ({"target": here(cpu="cortex-a72")}, None),
        ({"target": here(features=[*sorted(target().isa), "quantum"])}, None),
        ({"target": here(features=["sse2"])}, "tuned"),
        ({"target": {}}, None),
        ({"task": {}}, None),
    ],
)
def test_a_record_counts_only_where_it_applies(log: Log, changes: dict[str, Any], kind: str | None) -> None:
    log.append(record(0, matmul(32), **changes))
    assert Database(log).best(matmul(32), threads=1).kind == kind


def test_the_nearest_shape_lends_its_configuration_and_says_so(log: Log) -> None:
    log.append(record(0, matmul(16)))
    log.append(record(1, matmul(128)))
    match = Database(log).best(matmul(96), threads=1)
    assert match.kind == "nearest"
    assert match.record is not None
    assert match.record.id == "id-1"
    assert match.config is not None
    assert choose(matmul(96), target(), 1).space.contains(match.config)


def test_compile_states_where_its_schedule_came_from_and_is_right(log: Log) -> None:
    log.append(record(0, matmul(32)))
    database = Database(log)
    for n, provenance in ((32, "tuned"), (48, "nearest")):
        kernel = tuned(matmul(n), database=database)
        a, b = np.random.default_rng(0).random((2, n, n), "f4")
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
        assert kernel.provenance == provenance
    assert tuned(matmul(32)).provenance == "default"
    assert tuned(tl.ops.softmax(tl.placeholder((4, 8))), database=database).provenance == "default"


@pytest.mark.parametrize(
    "schedule", ["{}", "not json", '{"schema": 1, "definition": "", "steps": [["split", {"loop": "C.q", "factor": 8}]]}']
)
def test_a_record_whose_schedule_is_no_longer_accepted_is_passed_over(log: Log, schedule: str) -> None:
    log.append(record(0, matmul(32), schedule=schedule))
    assert tuned(matmul(32), database=Database(log)).provenance == "default"


def test_there_must_be_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no log at"):
        Database(tmp_path / "missing.jsonl")


def test_a_folder_of_ten_thousand_records_loads_and_looks_up_quickly(tmp_path: Path) -> None:
    log = Log(f"{tmp_path}/logs/").of_task("matmul", "f" * 64)
    one = record(0, matmul(32))
    from tensorlang.autotune.record import to_line

    many = ({**one, "id": f"id-{n}", "task": {**one["task"], "fingerprint": f"f{n % 500}"}} for n in range(10_000))
    log.path.write_bytes(b"".join(map(to_line, many)))
    start = time.perf_counter()
    database = Database(tmp_path / "logs")
    loaded = time.perf_counter()
    machine = target()
    for n in range(100):
        assert database.find(f"f{n}", machine, 1) is not None
    looked_up = time.perf_counter()
    assert len(database) == 500
    assert loaded - start < 20  # a second on a quiet machine; test machines are shared
    assert (looked_up - loaded) / 100 < 20e-3


def test_refresh_sees_what_was_appended(log: Log) -> None:
    log.append(record(0, matmul(32)))
    database = Database(log)
    log.append(record(1, matmul(32), samples=[1e-5]))
    database.refresh()
    found = database.find(canonical.fingerprint(matmul(32)), replace(target(), name="x"), 1)
    assert found is not None
    assert found.id == "id-1"
