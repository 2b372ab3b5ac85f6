"""Other tools read what a log says: Kernel Tuner's T4, pandas, CSV, JSON."""

import csv
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.log.export import COLUMNS, FORMATS, INVALIDITY, rows, text, to_pandas, to_t4, write
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import to_line
from tensorlang.autotune.log.status import STATUSES
from tensorlang.errors import LogError
from tests.autotune.test_log import checksummed, fields

FIXTURE = Path(__file__).parent / "fixtures" / "v1.jsonl"

T4_REQUIRED = {"configuration": dict, "times": dict, "invalidity": str, "correctness": float}
"""Of https://github.com/odgaard/TuningSchema/blob/T4/results-schema.json, as are the words and types below."""
T4_INVALIDITY = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
T4_TIMES = {"compilation_time", "runtimes", "framework", "search_algorithm", "validation"}


def log_of(path: Path, *records: dict[str, Any]) -> Log:
    path.write_bytes(b"".join(map(to_line, records)))
    return Log(path)


def test_every_result_is_as_the_t4_schema_wants_it() -> None:
    document = json.loads(text(Log(FIXTURE), "t4"))
    assert document["schema_version"] == "1.0.0"
    assert len(document["results"]) == 11
    for result in document["results"]:
        assert all(isinstance(result[name], kind) for name, kind in T4_REQUIRED.items())
        assert datetime.fromisoformat(result["timestamp"]).year == 2026
        assert result["invalidity"] in T4_INVALIDITY
        assert set(result["times"]) <= T4_TIMES
        assert all(isinstance(result["times"][name], (int, float)) for name in T4_TIMES - {"runtimes"})
        assert result["objectives"] == ["time"]
        for measurement in result["measurements"]:
            assert isinstance(measurement["name"], str)
            assert isinstance(measurement["value"], (int, float, str, list))
            assert isinstance(measurement["unit"], str)
    hardware = document["metadata"]["hardware"]
    assert isinstance(hardware["hardware_description"], list)
    assert hardware["operating_system"] == "x86_64-unknown-linux-gnu"
    assert "llvmlite==0.50.0" in document["metadata"]["environment"]["requirements"]


def test_t4_has_times_in_milliseconds_and_the_configuration_that_ran() -> None:
    first = next(iter(Log(FIXTURE)))
    result = to_t4(Log(FIXTURE))["results"][0]
    measured = {measurement["name"]: measurement["value"] for measurement in result["measurements"]}
    assert result["configuration"] == first.config
    assert result["times"]["runtimes"] == pytest.approx([1e3 * sample for sample in first.samples])
    assert result["times"]["compilation_time"] == pytest.approx(1e3 * first.compile_s)
    assert measured["time"] == pytest.approx(1e3 * first.time)
    assert measured["GFLOP/s"] == pytest.approx(30720 / first.time / 1e9)
    assert measured["id"] == first.id


def test_every_status_has_a_word_in_t4_except_the_one_that_is_not_the_candidates_fault(tmp_path: Path) -> None:
    assert set(INVALIDITY) == set(STATUSES) - {"infra"}
    assert set(INVALIDITY.values()) <= T4_INVALIDITY
    log = log_of(tmp_path / "a.jsonl", *(fields(n, status=status) for n, status in enumerate(STATUSES)))
    results = to_t4(log)["results"]
    assert [result["invalidity"] for result in results] == [INVALIDITY[status] for status in STATUSES if status != "infra"]
    assert [result["correctness"] for result in results] == [1.0] + [0.0] * 8
    assert len(rows(log)) == len(STATUSES)


def test_a_table_has_one_row_a_trial_and_a_column_for_each_knob() -> None:
    log = Log(FIXTURE)
    table, trials = to_pandas(log, knobs=True), list(log)
    assert list(table.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert list(table["id"]) == [trial.id for trial in trials]
    assert table["time"].tolist() == [trial.time for trial in trials]
    assert table["op"].tolist() == ["matmul"] * 6 + ["softmax"] * 5
    assert table["config.vectors"].tolist()[:6] == [trial.config["vectors"] for trial in trials[:6]]
    assert table["noise"].tolist() == pytest.approx([trial.noise for trial in trials])
    assert list(to_pandas(log).columns) == list(COLUMNS)


def test_csv_and_json_say_the_same_as_the_table() -> None:
    log = Log(FIXTURE)
    table = to_pandas(log, knobs=True)
    import pandas as pd

    read = pd.read_csv(io.StringIO(text(log, "csv")))
    assert list(read.columns) == list(table.columns)
    assert read["time"].tolist() == table["time"].tolist()
    assert [json.loads(entry) for entry in read["config"]] == table["config"].tolist()
    assert [json.loads(entry) for entry in read["samples"]] == table["samples"].tolist()
    found = json.loads(text(log, "json"))
    assert [row["samples"] for row in found] == table["samples"].tolist()
    assert all(list(row) == list(COLUMNS) for row in found)


def test_an_empty_log_exports_to_nothing(tmp_path: Path) -> None:
    log = log_of(tmp_path / "a.jsonl")
    assert to_t4(log)["results"] == []
    assert json.loads(text(log, "json")) == []
    assert next(csv.reader(io.StringIO(text(log, "csv")))) == list(COLUMNS)
    assert list(to_pandas(log).columns) == list(COLUMNS)


def test_numbers_and_text_that_json_cannot_hold_do_not_stop_an_export(tmp_path: Path) -> None:
    body = to_line(fields(0, prediction=None, config={"a": 1}, time_unix=1e20))[:-27]
    path = tmp_path / "a.jsonl"
    path.write_bytes(checksummed(body.replace(b'"prediction":null', b'"prediction":{"mean":1e999}').replace(b'"a":1', b'"a":-1e999')))
    log = Log(path)
    for format in FORMATS:
        assert "Infinity" not in text(log, format)
    assert to_t4(log)["results"][0]["configuration"] == {"a": None}
    assert to_t4(log)["results"][0]["timestamp"] == ""


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    write(Log(FIXTURE), "t4", out)
    assert json.loads(out.read_text())["schema_version"] == "1.0.0"
    with pytest.raises(LogError, match="cannot write"):
        write(Log(FIXTURE), "t4", tmp_path / "nowhere" / "out.json")
    with pytest.raises(LogError, match="did you mean 'json'"):
        write(Log(FIXTURE), "jsn", out)
