"""Logs for other tools: T4, the exchange format of autotuners (Kernel Tuner's), and tables for pandas, CSV and JSON.

T4 (https://github.com/odgaard/TuningSchema, version 1.0.0) has one result for each configuration that was tried. Its times are in
milliseconds, as Kernel Tuner writes them. It cannot say that the machine and not the candidate failed, so trials of status "infra" are
left out of it. Tables have every trial.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.naming import file_stem, named_extents, spelled_extents
from tensorlang.autotune.log.record import Trial, moment
from tensorlang.errors import LogError, did_you_mean
from tensorlang.system.files import replacing

if TYPE_CHECKING:
    import pandas as pd

FORMATS: Final = ("t4", "csv", "json")

COLUMNS: Final = (
    "id",
    "seq",
    "op",
    "task",
    "shape",
    "extents",
    "dtype",
    "config",
    "status",
    "time",
    "median",
    "mad",
    "noise",
    "samples",
    "number",
    "source",
    "prediction",
    "censored",
    "compile_s",
    "run_s",
    "wall_s",
    "threads",
    "cache",
    "cpu",
    "target",
    "host",
    "strategy",
    "tensorlang",
    "llvmlite",
    "run",
    "time_unix",
    "flops",
    "bytes",
    "load",
    "error",
)
"""Columns of a table: times in seconds, `shape` has extents by name, `task` and `target` are fingerprints.

`prediction` is what the search expected.
"""

T4_VERSION: Final = "1.0.0"

INVALIDITY: Final[Mapping[str, str]] = {
    "ok": "correct",
    "compile_error": "compile",
    "compile_crash": "compile",
    "compile_timeout": "timeout",
    "run_timeout": "timeout",
    "crash": "runtime",
    "wrong_result": "correctness",
    "oom": "runtime",
    "killed": "runtime",
}
"""T4's word for each status; "infra" has none."""


def rows(log: Log) -> list[JsonObject]:
    """One row for each trial, with `COLUMNS`. Raises `LogError` if the log cannot be read."""
    return [_row(trial) for trial in log]


def to_pandas(log: Log, *, knobs: bool = False) -> pd.DataFrame:
    """One row for each trial; with `knobs` also a column for each knob, named `config.` and the knob."""
    import pandas as pd  # noqa: PLC0415 - loaded on use

    found = rows(log)
    names = _knobs(found) if knobs else []
    table = [{**row, **{f"config.{name}": row["config"].get(name) for name in names}} for row in found]
    return pd.DataFrame(table, columns=[*COLUMNS, *(f"config.{name}" for name in names)])


def to_t4(log: Log) -> JsonObject:
    """The log in the T4 format, as plain JSON: `results` one by one, and `metadata` of the machines that they come from."""
    return t4_of(log)


def t4_of(trials: Iterable[Trial]) -> JsonObject:
    """The same of some trials."""
    results: list[JsonObject] = []
    machines: dict[str, JsonObject] = {}
    software: dict[str, None] = {}
    for trial in trials:
        if trial.status not in INVALIDITY:
            continue
        results.append(_result(trial))
        machine, versions = trial.fields.get("machine"), trial.fields.get("software")
        described = {"machine": machine, "target": trial.target}
        machines.setdefault(json.dumps(described, sort_keys=True), described)
        if isinstance(versions, dict):
            software |= dict.fromkeys(f"{name}=={version}" for name, version in versions.items() if name != "kernel")
    environment = {"device_query": {}, "requirements": list(software)}
    hardware = {"hardware_description": list(machines.values()), "operating_system": _systems(machines.values())}
    return {"schema_version": T4_VERSION, "metadata": {"hardware": hardware, "environment": environment}, "results": _plain(results)}


def text(log: Log, format: str) -> str:
    """The log as "t4", "csv" or "json". Raises `LogError` for another format or a log that cannot be read."""
    match format:
        case "t4":
            return json.dumps(to_t4(log), indent=1, allow_nan=False) + "\n"
        case "json":
            return "[\n" + ",\n".join(json.dumps(_plain(row), allow_nan=False) for row in rows(log)) + "\n]\n"
        case "csv":
            return _csv(rows(log))
        case _:
            raise LogError(f"no export to {format!r}{did_you_mean(format, FORMATS)}")


def write(log: Log, format: str, path: Path) -> None:
    """Put `text` into a file, whole or not at all. Raises `LogError` if it cannot be written."""
    _put(path, text(log, format))


def write_tasks(log: Log, folder: Path) -> list[Path]:
    """A T4 file for each task of the log: T4 knows no tasks, and a space has one objective. Raises `LogError` as `write` does."""
    tasks: dict[str, list[Trial]] = {}
    for trial in log:
        tasks.setdefault(file_stem(trial.task), []).append(trial)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogError(f"cannot make the folder {folder}: {error.strerror}") from None
    written = []
    for stem, trials in tasks.items():
        _put(path := folder / f"{stem}.t4.json", json.dumps(t4_of(trials), indent=1, allow_nan=False) + "\n")
        written.append(path)
    return written


def _put(path: Path, content: str) -> None:
    try:
        with replacing(path) as file:
            file.write(content.encode())
    except OSError as error:
        raise LogError(f"cannot write {path}: {error.strerror}") from None


def _row(trial: Trial) -> JsonObject:
    fields, task = trial.fields, trial.task
    parts = {name: value if isinstance(value := fields.get(name), dict) else {} for name in ("machine", "software", "strategy")}
    row = {
        **{name: getattr(trial, name, fields.get(name)) for name in COLUMNS},
        "op": task.get("op"),
        "task": task.get("fingerprint"),
        "shape": named_extents(task) or None,
        "extents": task.get("extents"),
        "dtype": task.get("dtype"),
        "noise": trial.noise if trial.status == "ok" else None,
        "samples": list(trial.samples),
        "cpu": trial.target.get("cpu"),
        "target": trial.target.get("fingerprint"),
        "host": parts["machine"].get("host"),
        "strategy": parts["strategy"].get("name"),
        "tensorlang": parts["software"].get("tensorlang"),
        "llvmlite": parts["software"].get("llvmlite"),
        "error": trial.why or None,
    }
    return {name: row[name] for name in COLUMNS}


def _knobs(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The knobs of all configurations, in order of appearance."""
    return list(dict.fromkeys(name for row in found for name in row["config"]))


def _csv(found: list[JsonObject]) -> str:
    """Lists and objects as JSON; a column for each knob behind the others."""
    names = _knobs(found)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"config.{name}" for name in names)])
    for row in found:
        values = [*(row[name] for name in COLUMNS), *(row["config"].get(name) for name in names)]
        writer.writerow(
            ["" if value is None else json.dumps(_plain(value)) if isinstance(value, (list, dict)) else value for value in values]
        )
    return out.getvalue()


def _result(trial: Trial) -> JsonObject:
    """One entry of T4's `results`."""
    measured = {"time": trial.time, "median": trial.median, "mad": trial.mad} if trial.status == "ok" else {}
    measurements = [{"name": name, "value": 1e3 * value, "unit": "ms"} for name, value in measured.items() if value is not None]
    flops = trial.fields.get("flops")
    if trial.time and isinstance(flops, float):
        measurements.append({"name": "GFLOP/s", "value": flops / trial.time / 1e9, "unit": "GFLOP/s"})
    measurements += [
        {"name": name, "value": str(value), "unit": ""}
        for name, value in (
            ("id", trial.id),
            ("operator", trial.task.get("op")),
            ("extents", spelled_extents(trial.task)),
            ("task", trial.task.get("fingerprint")),
            ("status", trial.status),
        )
    ]
    overhead = max(trial.wall_s - trial.compile_s - trial.run_s, 0.0)
    return {
        "timestamp": _timestamp(trial.fields),
        "configuration": trial.config,
        "objectives": ["time"],
        "times": {
            "compilation_time": 1e3 * trial.compile_s,
            "runtimes": [1e3 * sample for sample in trial.samples],
            "framework": 1e3 * overhead,
            "search_algorithm": 0.0,
            "validation": 0.0,
        },
        "invalidity": INVALIDITY[trial.status],
        "correctness": float(trial.status == "ok"),
        "measurements": measurements,
    }


def _timestamp(fields: Mapping[str, Any]) -> str:
    try:
        return datetime.fromtimestamp(moment(fields, math.nan), UTC).isoformat(" ")
    except (ValueError, OverflowError, OSError):
        return ""


def _systems(machines: Any) -> str:
    return ", ".join(sorted({str(described["target"].get("triple")) for described in machines}))


def _plain(value: Any) -> Any:
    """JSON that every reader takes: a number that is not finite is null."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _plain(entry) for name, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case _:
            return value
