"""Logs for the fuzzer of file contents: mutated with their checksums right, and all who read logs."""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import tensorlang as tl
from bench import simulate
from tensorlang.autotune.jobs import tune
from tensorlang.autotune.log import export
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.merge import merge
from tensorlang.autotune.log.record import SCHEMA, to_line
from tensorlang.autotune.reporting import compare, html, report
from tensorlang.autotune.reporting.activity import show

from .mutate import copied, restructured, shaken, written


@cache
def logs() -> tuple[tuple[dict[str, Any], ...], ...]:
    """The records of logs."""
    folder = Path(__file__).resolve().parents[1] / "autotune"
    fixture = [json.loads(line) for line in (folder / "fixtures" / "v1.jsonl").read_text().splitlines()]
    return tuple(map(tuple, (fixture, *_made())))


def tuned() -> Any:
    """The program that the made logs are of."""
    a, b, k = tl.placeholder((12, 16), name="A"), tl.placeholder((16, 8), name="B"), tl.reduce_axis(16, name="k")
    return tl.compute((12, 8), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C")


def _made() -> list[list[dict[str, Any]]]:
    from tests.autotune.made_logs import Made

    made = Made(tuned())
    space = {"v": SCHEMA, "kind": "run_start", "id": "space", "run": "run", "space": made.plan.space.to_json()}
    return [made.study(12), [space, *made.study(6)]]


def mutated_log(rng: random.Random, steps: list[random.Random]) -> bytes:
    """A log; its lines have right checksums, except where bytes are mutated."""
    records = [dict(record) for record in rng.choice(logs())]
    lines, last = [], steps[-1] if steps else rng
    chosen = {rng.randrange(len(records)) for _ in range(rng.choice([1, 1, 3]))}
    by_bytes = rng.random() < 0.1
    for place, record in enumerate(records):
        record.pop("sum", None)
        if place not in chosen or by_bytes:
            lines.append(to_line(record))
            continue
        value: Any = copied(record)
        for step in steps:
            value = restructured(step, value)
        if isinstance(value, dict):
            value = {"v": SCHEMA, **value} if last.random() < 0.9 else value
        text = written(value).decode()
        text = text if last.random() < 0.5 else json.dumps(value, separators=(",", ":")) if "@deep" not in text else text
        lines.append(_summed(text.encode()))
    data = b"".join(lines)
    for step in steps if by_bytes else ():
        data = shaken(step, data)
    return data


def _summed(text: bytes) -> bytes:
    """A line with its checksum, whatever it says."""
    body = text.rstrip()[:-1] if text.rstrip().endswith(b"}") else text
    return body + b',"sum":"' + hashlib.sha256(body).hexdigest()[:16].encode() + b'"}\n'


def _console() -> Any:
    from rich.console import Console

    return Console(file=io.StringIO(), width=160)


def _lookup(log: Log, rng: random.Random, folder: Path) -> None:
    database = Database(log)
    for match in database.matches(tuned(), threads=1):
        _ = (match.needs_validation, match.dims, match.schedule())
    len(database)


def _resumed(log: Log, rng: random.Random, folder: Path) -> None:
    job = tune.session(tuned(), log, name="matmul", threads=1, trials=64, strategy=rng.choice(["random", "evolutionary"]))
    job._recall()
    job._finished()
    search = job._ready()
    for _ in range(3):
        search.ask()


def _simulated(log: Log, rng: random.Random, folder: Path) -> None:
    table = simulate.Table.of(log.records())
    simulate.simulate(table, rng.choice(["random", "evolutionary"]), trials=5)
    table.goal()


def _merged(log: Log, rng: random.Random, folder: Path) -> None:
    merge([log.path], folder / "merged.jsonl")
    first = (folder / "merged.jsonl").read_bytes()
    merge([log.path], folder / "merged.jsonl")
    assert (folder / "merged.jsonl").read_bytes() == first


READERS: Final[tuple[Callable[[Log, random.Random, Path], object], ...]] = (
    lambda log, rng, folder: list(log.records()),
    lambda log, rng, folder: report.status(_console(), log),
    lambda log, rng, folder: report.best(_console(), log),
    lambda log, rng, folder: report.report(_console(), log),
    lambda log, rng, folder: show(_console(), log),
    lambda log, rng, folder: export.text(log, rng.choice(export.FORMATS)),
    lambda log, rng, folder: export.to_pandas(log, knobs=True),
    lambda log, rng, folder: html.write(log, folder / "page.html", measure=False),
    lambda log, rng, folder: _console().print(compare.table(compare.compare(log, log))),
    _lookup,
    _resumed,
    _simulated,
    _merged,
)


def read_log(rng: random.Random, data: bytes, folder: Path) -> None:
    """One of those who read logs."""
    path = folder / "log.jsonl"
    path.write_bytes(data)
    (folder / "merged.jsonl").unlink(missing_ok=True)
    READERS[rng.randrange(len(READERS))](Log(path), rng, folder)
