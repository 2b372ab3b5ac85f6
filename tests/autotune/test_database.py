"""A look-up serves what was tuned for this program on this machine, and says so when it had to take something else."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune.jobs.compile import compile as tuned
from tensorlang.autotune.log import lending
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.measurement import host
from tensorlang.autotune.verification.check import why_wrong
from tensorlang.codegen.compilation import of_schedule
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import as_outputs
from tensorlang.errors import LogError
from tensorlang.schedules.strategies import choose
from tests.autotune.matmul_records import another, matmul, record

k9 = tl.reduce_axis(9, name="k")


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a counterpart is lent, whatever the model and the distance say."""
    monkeypatch.setattr(lending, "FARTHEST", math.inf)
    monkeypatch.setattr(lending, "AHEAD", 0.0)


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


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"threads": 2}, None),
        ({"cache": "cold"}, None),
        ({"status": "crash", "samples": []}, None),
        ({"target": here(cpu="znver9")}, "nearest"),
        ({"target": here(triple="aarch64-unknown-linux-gnu")}, None),
        ({"target": here(features=[*sorted(target().isa), "quantum"])}, None),
        ({"target": here(features=["sse2"])}, "tuned"),
        ({"target": {}}, None),
        ({"target": here(features=["sse2", ["avx"]])}, None),
        ({"target": here(features=["sse2", 7])}, None),
        ({"target": here(features="sse2")}, None),
        ({"task": {}}, None),
    ],
)
def test_a_record_counts_only_where_it_applies(log: Log, changes: dict[str, Any], kind: str | None) -> None:
    log.append(record(0, matmul(32), **{**another(matmul(32)), **changes}))
    assert Database(log).best(matmul(32), threads=1).kind == kind


@pytest.mark.usefixtures("lenient")
def test_the_nearest_shape_lends_its_configuration_and_says_so(log: Log) -> None:
    log.append(record(0, matmul(16), **another(matmul(16))))
    log.append(record(1, matmul(128), **another(matmul(128))))
    match = Database(log).best(matmul(96), threads=1)
    assert match.kind == "nearest"
    assert match.record is not None
    assert match.record.id == "id-1"
    assert match.config is not None
    assert choose(matmul(96), target(), 1).space.contains(match.config)


@pytest.mark.usefixtures("lenient")
def test_compile_states_where_its_schedule_came_from_and_is_right(log: Log) -> None:
    log.append(record(0, matmul(32), **another(matmul(32))))
    database = Database(log)
    for n, provenance in ((32, "tuned"), (48, "nearest")):
        kernel = tuned(matmul(n), database=database)
        a, b = np.random.default_rng(0).random((2, n, n), "f4")
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
        assert kernel.provenance == provenance
    assert tuned(matmul(32)).provenance == "default"
    assert tuned(tl.ops.softmax(tl.placeholder((4, 8))), database=database).provenance == "default"


@pytest.mark.parametrize("database", [np.zeros(3), [np.zeros(3)], 5, b"x", object()])
def test_what_is_no_database_is_a_typed_error(database: Any) -> None:
    with pytest.raises(LogError, match="a log is named by a path"):
        tuned(matmul(32), database=database)


@pytest.mark.parametrize(
    "schedule", ["{}", "not json", '{"schema": 1, "definition": "", "steps": [["split", {"loop": "C.q", "factor": 8}]]}']
)
def test_a_record_whose_schedule_is_no_longer_accepted_is_passed_over(log: Log, schedule: str) -> None:
    log.append(record(0, matmul(32), schedule=schedule))
    assert tuned(matmul(32), database=Database(log)).provenance == "default"


def test_there_must_be_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no log at"):
        Database(tmp_path / "missing.jsonl")


VERSIONS = {"tensorlang": "7.0", "llvmlite": "1.0"}


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr("tensorlang.autotune.log.match.software", lambda: VERSIONS)
    return VERSIONS


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({}, False),
        ({"software": {**VERSIONS, "python": "2.7"}}, False),
        ({"software": {**VERSIONS, "llvmlite": "0.9"}}, True),
        ({"software": {**VERSIONS, "tensorlang": "uninstalled"}}, True),
        ({"software": None}, True),
        ({"target": here(cpu="znver9")}, True),
    ],
)
def test_a_record_of_other_software_or_another_cpu_needs_validation(log: Log, versions: Any, changes: dict[str, Any], needs: bool) -> None:
    log.append(record(0, matmul(32), **{"software": VERSIONS, **another(matmul(32)), **changes}))
    assert Database(log).best(matmul(32), threads=1).needs_validation is needs


def test_a_version_that_is_not_known_vouches_for_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorlang.autotune.log.match.software", lambda: {**VERSIONS, "tensorlang": "uninstalled"})
    log.append(record(0, matmul(32), software={**VERSIONS, "tensorlang": "uninstalled"}))
    assert Database(log).best(matmul(32), threads=1).stale


@pytest.mark.usefixtures("lenient")
def test_what_was_tuned_here_comes_before_another_cpu_and_that_before_another_shape(log: Log) -> None:
    log.append(record(0, matmul(32), samples=[1e-6], target=here(cpu="znver9"), **another(matmul(32))))
    log.append(record(1, matmul(48), samples=[1e-6], **another(matmul(48))))
    log.append(record(2, matmul(32), samples=[3e-3]))
    log.append(record(3, matmul(32), samples=[2e-3]))
    *matches, last = Database(log).matches(matmul(32), threads=1)
    assert [match.record.id for match in matches] == ["id-3", "id-2", "id-0", "id-1"]
    assert [(match.kind, match.foreign) for match in matches] == [("tuned", False)] * 2 + [("nearest", True), ("nearest", False)]
    assert last.kind is None


def wrong_for(monkeypatch: pytest.MonkeyPatch, steps: int) -> list[int]:
    """Schedules of this many directives become a kernel that computes something else."""
    honest, met = of_schedule, list[int]()

    def compiled(schedule: Any, machine: Any, **options: Any) -> Any:
        met.append(len(schedule.directives))
        if len(schedule.directives) == steps:
            a, b = (tl.placeholder((32, 32), name=name) for name in "AB")
            k = tl.reduce_axis(32, name="k")
            schedule = tl.Schedule(tl.compute((32, 32), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k) + tl.select(i == 31, 1e-2, 0.0)))
        return honest(schedule, machine, **options)

    monkeypatch.setattr("tensorlang.autotune.jobs.compile.of_schedule", compiled)
    return met


def split_once() -> str:
    schedule = tl.Schedule(matmul(32))
    schedule.split("C.i", 8)
    return schedule.to_json()


def test_a_stale_record_that_computes_something_else_is_passed_over_for_the_next_best(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(record(0, matmul(32), samples=[1e-6], schedule=split_once()))
    log.append(record(1, matmul(32), samples=[1e-3]))
    met, database = wrong_for(monkeypatch, steps=1), Database(log)
    for _ in range(2):
        kernel = tuned(matmul(32), database=database)
        assert kernel.provenance == "tuned"
        a, b = np.random.default_rng(0).random((2, 32, 32), "f4")
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
    assert met[0] == 1
    assert "against the default schedule" in database.rejected["id-0"]


def test_without_a_record_that_holds_the_default_schedule_is_taken(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(record(0, matmul(32), schedule=split_once()))
    wrong_for(monkeypatch, steps=1)
    assert tuned(matmul(32), database=Database(log)).provenance == "default"


@pytest.mark.usefixtures("lenient")
def test_a_record_of_another_cpu_is_used_once_it_is_validated_and_never_called_tuned(log: Log) -> None:
    log.append(record(0, matmul(32), target=here(cpu="znver9"), **another(matmul(32))))
    assert tuned(matmul(32), database=Database(log)).provenance == "nearest"


def test_what_needs_validation_is_not_used_for_a_machine_that_is_not_this_one(log: Log) -> None:
    foreign = target("aarch64-linux-gnu:cortex-a72")
    log.append(record(0, matmul(32), target=host.target_fields(foreign)))
    assert Database(log).best(matmul(32), foreign, threads=1).kind == "tuned"
    assert tuned(matmul(32), foreign, database=Database(log)).provenance == "default"


@pytest.mark.parametrize(
    "outputs",
    [
        lambda: tl.compute((40,), lambda i: tl.log(tl.placeholder((40,), name="X")[i]), name="Y"),
        lambda: tl.ops.softmax(tl.placeholder((3, 5))),
        lambda: tl.ops.matmul(tl.placeholder((4, 5)), tl.buffer(np.ones((5, 6), "f4"))),
        lambda: tl.compute((), lambda: tl.sum(tl.placeholder((9,), name="X")[k9], axis=k9), name="Y"),
        lambda: tuple(tl.compute((0, 3), lambda i, j: (tl.cast(i, "int32"), tl.cast(j, "float16")), name="Y")),
    ],
)
def test_the_check_finds_nothing_wrong_with_default_schedules(outputs: Any) -> None:
    tensors = as_outputs(outputs())
    assert why_wrong(tl.build(tensors), tensors) is None


def test_of_run_time_extents_the_record_of_the_largest_is_taken_and_validated_there(log: Log) -> None:
    def rows() -> tl.Tensor:
        n = tl.dim("n")
        return tl.ops.softmax(tl.placeholder((n, 16), name="X"))

    for n, size in enumerate((64, 256, 128)):
        made = record(n, rows(), samples=[size * 1e-6])
        log.append({**made, "task": {**made["task"], "dims": {"n": size}}})
    database = Database(log)
    assert len(database) == 3
    assert database.best(rows(), threads=1).dims == {"n": 256}
    kernel = tuned(rows(), database=database)
    x = np.random.default_rng(0).random((7, 16), "f4")
    np.testing.assert_allclose(kernel(x), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)
    assert kernel.provenance == "tuned"
    assert not database.rejected


@pytest.mark.parametrize("wrong", ["whole", "sampled"])
def test_the_check_of_a_kernel_compares_with_the_default_schedule_and_with_the_definition(wrong: str, monkeypatch: Any) -> None:
    outputs = (matmul(32),)
    kernel = tl.build(tl.Schedule(outputs))
    assert why_wrong(kernel, outputs) is None
    a, b = (tl.placeholder((32, 32), name=name) for name in "AB")
    k = tl.reduce_axis(32, name="k")
    other = tl.build(tl.compute((32, 32), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k) + 1e-2))
    if wrong == "sampled":  # the default schedule is as wrong
        monkeypatch.setattr("tensorlang.autotune.verification.check.build_schedule", lambda *_: other)
    why = why_wrong(other, outputs)
    assert why is not None
    assert ("default" in why) is (wrong == "whole")
