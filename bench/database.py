"""How long a database takes to read 10,000 records and to look one up: a real log, written again for many tasks, shapes and machines.

python -m bench.database            as a folder of 100 files with 500 studies
python -m bench.database 100000     with so many records

Then the processor time of whole processes that open the folder and nothing else, or are `autotune status` and `autotune best`: where
nothing is remembered of it (first), and after that (later).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import tensorlang as tl
from bench.measure import Figure
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial, to_line
from tensorlang.autotune.measurement import host
from tensorlang.autotune.task import Task
from tensorlang.codegen.target import target
from tensorlang.serialization import canonical
from tensorlang.system.cache_folder import VARIABLE

FIXTURE: Final = Path(__file__).parent.parent / "tests" / "autotune" / "fixtures" / "v1.jsonl"
RECORDS: Final = 10_000
FILES: Final = 100
STUDIES: Final = 500
STEP: Final = 32
FEW: Final = 5


def matmul(n: int) -> tl.Tensor:
    """The program that is looked up; there is a record for `n` = 32, 64, ..."""
    return tl.ops.matmul(tl.placeholder((n, 64), name="A"), tl.placeholder((64, 64), name="B"), name="C")


def tasks(studies: int) -> list[dict[str, Any]]:
    """The task of each `n`; the identities are real for the first two, and made up for the others, since defining takes a while."""
    first, second = (Task.of(matmul(STEP * number), "matmul").to_json() for number in (1, 2))
    return [first, second, *(_resized(first, STEP * number) | {"fingerprint": f"{number:064x}"} for number in range(3, studies + 1))]


def _resized(value: Any, size: int) -> Any:
    match value:
        case dict():
            return {name: _resized(entry, size) for name, entry in value.items()}
        case list():
            return [_resized(entry, size) for entry in value]
        case _:
            return size if value == STEP else value


def records(count: int, studies: int) -> Iterator[dict[str, Any]]:
    """Trials of so many studies: real ones of a matmul under the identities of other shapes, every twentieth with a winner."""
    trials = [trial.fields for trial in Log(FIXTURE) if trial.task["op"] == "matmul"]
    known = tasks(studies)
    for number in range(count):
        fields = trials[number % len(trials)]
        shared: dict[str, Any] = {
            "target": host.target_fields(target()),
            "software": host.software(),
            "threads": 1,
            "task": known[number * studies // count],
        }
        own = {"id": f"{number:032x}", "samples": [sample * (1 + number % 7) for sample in fields["samples"]]}
        if isinstance(fields["schedule"], str):
            own["schedule"] = json.dumps({**json.loads(fields["schedule"]), "definition": shared["task"]["fingerprint"]})
        yield {**fields, **shared, **own}
        if number % 20 == 19:
            yield {"kind": "final", **shared, "id": f"f{number:031x}", "winner": f"{number:032x}", "time": 1e-6, "time_unix": float(number)}


def write(folder: Path, count: int, studies: int = STUDIES) -> Path:
    """A folder of logs with so many trials."""
    folder.mkdir()
    files = [(folder / f"{number:03}.jsonl").open("wb") for number in range(FILES)]
    try:
        for number, fields in enumerate(records(count, studies)):
            files[number // 21 % FILES].write(to_line(fields))
    finally:
        for file in files:
            file.close()
    return folder


def timed(call: Callable[[], object], repeats: int) -> float:
    """The seconds that a call takes: the median of many, the least of a few, as other work on the machine only ever adds to a long one."""
    samples = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples) if repeats > FEW else min(samples)


def figures(folder: Path, count: int = RECORDS) -> list[Figure]:
    """Loading, refreshing and three kinds of look-up; the last is a program like no other."""
    logs = write(folder / "logs", count)
    one = write(folder / "each", count, studies=count)
    database = Database(logs)
    here = target()
    known, other, unknown = matmul(64), matmul(100), tl.ops.softmax(tl.placeholder((8, 8)))
    abroad = replace(here, cpu="another")
    facts = {"records": count, "studies": len(database), "megabytes": sum(path.stat().st_size for path in logs.iterdir()) / 1e6}

    more = next(records(2, 2))

    def grown() -> None:
        Log(logs / "000.jsonl").append(more | {"id": str(time.perf_counter_ns())})
        database.refresh()

    def looked_up(outputs: object, machine: Any = here) -> float:
        return 1e3 * timed(lambda: database.best(outputs, machine, threads=1), 201)

    others = iter([matmul(number) for number in range(1001, 1041, 2)])
    fresh = 1e3 * timed(lambda: database.best(next(others), here, threads=1), 20)
    assert database.best(known, here, threads=1).kind == "tuned"
    assert database.find(canonical.fingerprint(known), abroad, 1) is None
    assert "nearest shape" in database.best(other, here, threads=1).reason
    assert database.best(unknown, here, threads=1).kind is None
    assert isinstance(database.find(canonical.fingerprint(known), here, 1), Trial)
    return [
        Figure(f"a database of {count:,} records: load", timed(lambda: Database(logs), FEW), 1.0, "at most", "s", facts),
        Figure("the same, each of another task: load", timed(lambda: Database(one), FEW), 1.0, "at most", "s", {}),
        Figure("look up what was tuned", looked_up(known), 1.0, "at most", "ms", {}),
        Figure("look up what was tuned on another CPU", looked_up(known, abroad), 5.0, "at most", "ms", {}),
        Figure("look up another shape", looked_up(other), 1.0, "at most", "ms", {}),
        Figure("the same for the first time, both schedules made and predicted", fresh, 100.0, "at most", "ms", {}),
        Figure("look up what is not there", looked_up(unknown), 1.0, "at most", "ms", {}),
        Figure("refresh after one more record", 1e3 * timed(grown, 21), 50.0, "at most", "ms", {}),
    ]


def processes(folder: Path) -> list[Figure]:
    """The processor time of processes that read the logs of `figures`; the least of a few, as others only add to it."""
    logs = str(folder / "logs")
    opening = [sys.executable, "-c", "import sys; from tensorlang.autotune import Database; Database(sys.argv[1])", logs]
    commands = {
        "open a database": (opening, 5.0),
        "autotune status": ([sys.executable, "-m", "autotune_command", "status", logs], 3.0),
        "autotune best": ([sys.executable, "-m", "autotune_command", "best", logs], 3.0),
    }
    found = []
    for name, (command, bound) in commands.items():
        cold, warm = list[float](), list[float]()
        for number in range(FEW):
            environment = {**os.environ, VARIABLE: str(folder / f"remembered {name} {number}")}
            cold.append(_spent(command, environment))
            warm.append(_spent(command, environment))
        found.append(Figure(f"{name}, first: processor time of the process", min(cold), 5.0, "at most", "s", {"all": cold}))
        found.append(Figure(f"{name}, later", min(warm), bound, "at most", "s", {"all": warm}))
    return found


def _spent(command: list[str], environment: dict[str, str]) -> float:
    """The seconds of processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure and print a table; 1 where a bound is not kept."""
    from bench.run import table  # noqa: PLC0415 - which imports all benches

    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = str(Path(folder) / "remembered")
        found = [*figures(Path(folder), count), *processes(Path(folder))]
    print(table(found))
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
