"""A program is one, whichever operand was made first: in a database, in logs of version 1, and for what it is fused with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.autotune.jobs.tune import tune
from tensorlang.autotune.log.anchors import anchors
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.first_use import by_first_use
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import CHECKSUM, RecordParser, to_line
from tensorlang.ops.spec import Spec
from tensorlang.schedules.schedule import Schedule
from tensorlang.serialization.canonical import fingerprint
from tests.autotune.matmul_records import record
from tests.autotune.test_log import checksummed

pytestmark = pytest.mark.usefixtures("one_thread")


def product(*, weight_first: bool, n: int = 32) -> Any:
    names = ("B", "A") if weight_first else ("A", "B")
    made = {name: tl.placeholder((n, n), name=name) for name in names}
    return tl.ops.matmul(made["A"], made["B"], name="C")


def of_version_1(fields: dict[str, Any], stale: str) -> bytes:
    """A record as version 1 wrote it: under a fingerprint by order of creation, which its schedule names too."""
    ours = fields["task"]["fingerprint"]
    body = to_line({**fields, "task": {**fields["task"], "fingerprint": stale}, "schedule": fields["schedule"].replace(ours, stale)})
    return checksummed(body[:-1][:-CHECKSUM].replace(b'{"v":2,', b'{"v":1,'))


@pytest.mark.parametrize("weight_first", [True, False])
def test_what_was_tuned_with_the_weight_first_is_found_either_way(log: Log, weight_first: bool) -> None:
    log.append(record(0, product(weight_first=True)))
    match = Database(log).best(product(weight_first=weight_first), threads=1)
    assert match.kind == "tuned" and match.schedule() is not None


def test_a_record_of_version_1_is_known_by_first_use(tmp_path: Path) -> None:
    outputs, stale = product(weight_first=True), "0" * 64
    path = tmp_path / "a.jsonl"
    path.write_bytes(of_version_1(record(0, outputs), stale))
    for weight_first in (True, False):
        match = Database(path).best(product(weight_first=weight_first), threads=1)
        assert match.kind == "tuned" and match.record is not None and match.record.task["fingerprint"] == fingerprint(outputs)
    schedule = next(iter(Log(path))).schedule
    assert isinstance(schedule, str) and Schedule.from_json(outputs, schedule).directives  # it names its program anew


@pytest.mark.parametrize("definition", [None, 3, {}, {"schema": 1}, {"schema": 1, "definitions": [], "reducers": [], "outputs": [0]}])
def test_a_record_whose_definition_means_nothing_stays_as_it_is(definition: Any) -> None:
    fields = {"v": 1, "task": {"fingerprint": "x", "definition": definition}, "schedule": "x"}
    assert by_first_use(fields) is fields
    assert by_first_use({"v": 1, "task": definition}) == {"v": 1, "task": definition}


def test_the_records_of_version_1_that_stood_in_order_of_use_are_what_they_were() -> None:
    read = RecordParser()
    for line in (Path(__file__).parent / "fixtures" / "v1.jsonl").read_bytes().splitlines():
        before = json.loads(line[:-CHECKSUM] + b"}")
        assert read(line) == {**before, "v": 2}


def relu(value: Any, *axes: Any) -> Any:
    return tl.maximum(value, 0.0)


@pytest.mark.parametrize("stages", [1, 3])
def test_the_anchor_is_the_stage_with_most_work(stages: int) -> None:
    C = product(weight_first=False)
    tensor = C
    for _ in range(stages):
        tensor = tl.compute((32, 32), lambda i, j, before=tensor: relu(before[i, j]))
    (found,) = anchors(tensor, fingerprint(tensor))
    assert (found.name, found.fingerprint) == ("C", fingerprint(C))
    assert list(anchors(C, fingerprint(C))) == []
    assert list(anchors(tl.ops.relu(tl.placeholder((5,))), "")) == []


def test_an_anchor_behind_a_prologue_is_looked_for_with_its_operands_as_they_come() -> None:
    A, B = tl.placeholder((32, 32)), tl.placeholder((32, 32))
    X = tl.compute((32, 32), lambda i, j: tl.exp(A[i, j]))
    tensor = tl.ops.relu(tl.ops.matmul(X, B))
    assert [found.fingerprint for found in anchors(tensor, fingerprint(tensor))] == [
        fingerprint(tl.ops.matmul(X, B)),
        fingerprint(product(weight_first=False)),
    ]


def test_a_convolution_is_looked_for_with_its_padding() -> None:
    spec = Spec("conv2d", ((1, 4, 9, 9), (8, 4, 3, 3)), attributes={"padding": 1})
    C = spec.define()
    tensor = tl.ops.relu(C)
    assert fingerprint(C) in [found.fingerprint for found in anchors(tensor, fingerprint(tensor))]


@pytest.mark.usefixtures("brief_jobs")
def test_tuning_with_an_epilogue_tunes_just_that_kernel(tmp_path: Path) -> None:
    spec = Spec("matmul", ((24, 16), (16, 20)))
    bias = tl.placeholder((20,), name="bias")
    result = tune(spec, trials=3, threads=1, log=tmp_path / "a.jsonl", epilogue=lambda c, i, j: relu(c + bias[j]), prologue={"A": relu})
    assert {argument.name for argument in result.kernel.program.signature.inputs} == {"A", "B", "bias"}
    A, B, b = tl.placeholder((24, 16)), tl.placeholder((16, 20)), tl.placeholder((20,))
    C = tl.ops.matmul(tl.ops.relu(A), B)
    fused = tl.compute((24, 20), lambda i, j: relu(C[i, j] + b[j]))
    assert len(Database(tmp_path / "a.jsonl")) == 1
    assert {trial.task["fingerprint"] for trial in Log(tmp_path / "a.jsonl")} == {fingerprint(fused)}
