"""A log stays readable: what any version wrote is read by this one, and what a later one wrote is left alone and reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.jobs.compile import compile as tuned
from tensorlang.autotune.log import migrate
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import SCHEMA, Trial, from_line
from tensorlang.autotune.log.study_records import FinalRecord, RunEnd, RunStart, StudyFields
from tensorlang.autotune.reporting.report import studies
from tensorlang.codegen.target import target
from tensorlang.serialization.rebuild import rebuild
from tests.autotune.test_log import checksummed, written

FIXTURES = Path(__file__).parent / "fixtures"


def test_there_is_a_frozen_log_of_every_version_that_was_written_and_a_step_from_each_to_the_next() -> None:
    assert sorted(path.stem for path in FIXTURES.glob("v*.jsonl")) == [f"v{version}" for version in range(1, SCHEMA + 1)]
    assert sorted(migrate.STEPS) == list(range(1, SCHEMA))


@pytest.mark.parametrize("version", range(1, SCHEMA + 1))
def test_a_log_of_every_version_is_read_whole(version: int) -> None:
    log = Log(FIXTURES / f"v{version}.jsonl")
    records = list(log.records())
    assert not log.problems
    assert len(records) == 17
    assert all(record["v"] == SCHEMA for record in records if isinstance(record, dict))


@pytest.mark.parametrize("version", range(1, SCHEMA + 1))
def test_what_a_log_of_every_version_says_beside_trials_is_of_its_type(version: int) -> None:
    kinds: dict[str, Any] = {"final": FinalRecord, "run_start": RunStart, "run_end": RunEnd}
    records = [record for record in Log(FIXTURES / f"v{version}.jsonl").records() if isinstance(record, dict)]
    assert {record["kind"] for record in records} == kinds.keys()
    for record in records:
        assert StudyFields.of(record).target["fingerprint"]
        said = json.loads(json.dumps(kinds[record["kind"]].of(record).to_json()))
        own = {name: value for name, value in said.items() if name in record and name != "finalists"}
        assert own == {name: record[name] for name in own} and len(own) >= 4
        for read, written_down in zip(said.get("finalists", ()), record.get("finalists", ()), strict=True):
            assert {name: read[name] for name in written_down} == written_down


def test_the_log_of_version_1_says_what_it_said() -> None:
    log = Log(FIXTURES / "v1.jsonl")
    trials = list(log)
    first = trials[0]
    assert [trial.task["op"] for trial in trials] == ["matmul"] * 6 + ["softmax"] * 5
    assert (first.id, first.seq, first.status, first.source, first.threads, first.cache) == (
        "5dbb759b43a94f2bb7c1a6ada1c93e26", 0, "ok", "default", 1, "warm",
    )  # fmt: skip
    assert first.time == 3.282591534666321e-07
    assert first.samples[2] == 1.3725170085692028e-06
    assert first.config == {
        "vectors": 3, "depth": 16, "unroll": 1, "rows": 8, "order": "jki", "pack_vector": False, "pack_row": False,
    }  # fmt: skip
    assert first.target["cpu"] == "znver5"
    assert first.fields["software"]["llvmlite"] == "0.50.0"
    tuned = studies(log)
    assert [study.speedup is not None for study in tuned] == [True, True]


def test_the_definitions_of_version_1_are_rebuilt_and_compiled_here() -> None:
    database = Database(FIXTURES / "v1.jsonl")
    assert len(database) == 2
    for study in studies(Log(FIXTURES / "v1.jsonl")):
        outputs = rebuild(study.trials[0].task["definition"])
        kernel = tuned(outputs, database=database)
        assert kernel.provenance in ("tuned", "nearest", "default")  # by the CPU and the number of threads here
        assert database.best(outputs, target(), threads=1).kind in ("tuned", "nearest", None)


def test_a_record_of_a_later_version_is_skipped_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 1).path
    with path.open("ab") as file:
        file.write(checksummed(b'{"v":%d,"kind":"dream","id":7' % (SCHEMA + 1)))
    log = Log(path)
    assert len(list(log)) == 1
    assert len(Database(path).problems) == len(log.problems) == 1
    assert log.problems[0].line == 2
    assert f"version {SCHEMA + 1} is newer" in log.problems[0].reason


@pytest.mark.parametrize("version", [b"0", b"-1", b"true", b"1.0", b'"1"', b"null", b"[1]"])
def test_a_version_that_never_was_is_no_record(version: bytes) -> None:
    with pytest.raises(ValueError, match="never was"):
        from_line(checksummed(b'{"v":' + version + b',"kind":"trial"'))


def test_steps_run_one_after_the_other_and_leave_newer_records_alone() -> None:
    steps = {1: lambda fields: {**fields, "seconds": fields["time"] / 1000}, 2: lambda fields: {**fields, "seconds": [fields["seconds"]]}}
    assert migrate.migrate({"v": 1, "time": 5.0}, 3, steps) == {"v": 3, "time": 5.0, "seconds": [0.005]}
    assert migrate.migrate({"v": 3}, 3, steps) == {"v": 3}
    with pytest.raises(migrate.Newer):
        migrate.migrate({"v": 4}, 3, steps)


def test_a_field_that_is_added_later_does_not_hide_a_record() -> None:
    trial = next(iter(Log(FIXTURES / "v1.jsonl")))
    assert Trial.of({**trial.fields, "weather": {"rain": True}}).time == trial.time
