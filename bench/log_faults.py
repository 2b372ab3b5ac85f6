"""What a log survives: mutated bytes, many writers, killed writers, full disks. Every claim is counted, none is sampled by eye.

python -m bench.log_faults          the whole campaign, some minutes; the exit code is 1 where anything was lost
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from tensorlang.autotune.log.log import Log
from tensorlang.errors import LogError

FIXTURE: Final = Path(__file__).parent.parent / "tests" / "autotune" / "fixtures" / "v1.jsonl"
READ: Final = ("run_start", "trial", "final", "run_end")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One kind of fault: how often it was tried, what may not happen and how often it did, and what else is worth knowing."""

    fault: str
    times: int
    lost: int
    crashes: int
    note: str = ""

    @property
    def survived(self) -> bool:
        """Did nothing happen that may not?"""
        return not self.lost and not self.crashes


def mutated_bytes(folder: Path, times: int = 10_000, seed: int = 0) -> Outcome:
    """Change one byte of a real log, insert one or remove one: every line that the byte is not part of must still be read.

    A newline is part of no record, so both records around it must be.
    """
    whole = FIXTURE.read_bytes()
    lines = whole.splitlines(keepends=True)
    ids = [record["id"] if isinstance(record, dict) else record.id for record in Log(FIXTURE).records()]
    ends = [sum(map(len, lines[: number + 1])) for number in range(len(lines))]
    rng, path = random.Random(seed), folder / "mutated.jsonl"
    lost = crashes = silent = 0
    for _ in range(times):
        at = rng.randrange(len(whole))
        change = rng.choice((b"", bytes([rng.randrange(256)]), bytes([rng.randrange(256), whole[at]])))
        path.write_bytes(whole[:at] + change + whole[at + 1 :])
        touched = next(number for number, end in enumerate(ends) if at < end)
        needed = set(ids) - ({ids[touched]} if at != ends[touched] - 1 else set())
        log = Log(path)
        try:
            found = {record["id"] if isinstance(record, dict) else record.id for record in log.records(*READ)}
        except Exception:  # noqa: BLE001 - that is what is counted
            crashes += 1
            continue
        lost += len(needed - found)
        silent += len(set(ids) - found) > 0 and not log.problems
    return Outcome("mutated bytes", times, lost, crashes + silent, f"{len(lines)} records in the log, each loss is reported")


def writers(folder: Path, processes: int = 8, each: int = 1000) -> Outcome:
    """Processes append to one file at once: every record must be read, none torn."""
    path = folder / "shared.jsonl"
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=_write, args=(str(path), writer, each)) for writer in range(processes)]
    begun = time.perf_counter()
    for process in started:
        process.start()
    for process in started:
        process.join()
    took = time.perf_counter() - begun
    log = Log(path)
    found = {trial.id for trial in log}
    failed = sum(process.exitcode != 0 for process in started)
    wanted = {f"{writer}-{number}" for writer in range(processes) for number in range(each)}
    note = f"{len(log.problems)} torn lines, {len(wanted) / took:.0f} records a second"
    return Outcome(f"{processes} writers of {each} records", processes * each, len(wanted - found) + len(log.problems), failed, note)


def killed_writers(folder: Path, times: int = 200, seed: int = 0) -> Outcome:
    """SIGKILL at random moments of appending: every record whose `append` returned must be read."""
    path, rng, crashes = folder / "killed.jsonl", random.Random(seed), 0
    told: list[str] = []
    context = multiprocessing.get_context("fork")
    for number in range(times):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_write_until_killed, args=(str(path), number, theirs))
        process.start()
        theirs.close()
        assert ours.recv() == "ready"
        time.sleep(rng.random() * 0.02)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        try:
            while True:
                told.append(ours.recv())
        except (EOFError, OSError):  # a message may be cut, too
            ours.close()
    log = Log(path)
    try:
        found = {trial.id for trial in log}
    except LogError:
        found, crashes = set(), 1
    return Outcome("killed writers", times, len(set(told) - found), crashes, f"{len(told)} records, {len(log.problems)} torn lines")


def full_disk(folder: Path, times: int = 200) -> Outcome:
    """`/dev/full`, and a file that may not grow further at some byte of a record: a `LogError`, and what was there stays."""
    crashes = lost = 0
    for path in (Path("/dev/full"),):
        try:
            Log(path).append(fields("x"))
            crashes += 1
        except LogError:
            pass
    context = multiprocessing.get_context("fork")
    for number in range(times):
        path = folder / "limited.jsonl"
        path.unlink(missing_ok=True)
        log = Log(path)
        log.append(fields("before"))
        process = context.Process(target=_write_limited, args=(str(path), path.stat().st_size + 1 + number * 7))
        process.start()
        process.join()
        crashes += process.exitcode != 0
        log.append(fields("after"))
        found = [trial.id for trial in log]
        lost += len({"before", "after"} - set(found)) + len(log.problems)
    return Outcome("full disks", times + 1, lost, crashes)


def fields(name: str) -> dict[str, Any]:
    """A trial, real but for its id."""
    trial = next(iter(Log(FIXTURE)))
    return {**trial.fields, "id": name}


def _write(path: str, writer: int, count: int) -> None:
    log, record = Log(path), fields("")
    for number in range(count):
        log.append({**record, "id": f"{writer}-{number}"})


def _write_until_killed(path: str, writer: int, told: Connection) -> None:
    log, record = Log(path), fields("")
    told.send("ready")
    for number in range(100_000):
        log.append({**record, "id": f"{writer}-{number}"})
        told.send(f"{writer}-{number}")


def _write_limited(path: str, size: int) -> None:
    """Exits with 0 if appending ends in a `LogError`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    log, record = Log(path), fields("")
    try:
        for number in range(3):
            log.append({**record, "id": str(number)})
    except LogError:
        os._exit(0)
    os._exit(1)


CAMPAIGN: Final[Sequence[Callable[[Path], Outcome]]] = (mutated_bytes, writers, killed_writers, full_disk)


def table(outcomes: Sequence[Outcome]) -> str:
    """As Markdown."""
    head = ["| fault | times | records lost | crashes | survived | |", "| --- | ---: | ---: | ---: | --- | --- |"]
    rows = [
        f"| {one.fault} | {one.times:,} | {one.lost} | {one.crashes} | {'yes' if one.survived else 'NO'} | {one.note} |" for one in outcomes
    ]
    return "\n".join([*head, *rows]) + "\n"


def main() -> int:
    """Run the campaign and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [run(Path(folder)) for run in CAMPAIGN]
    print(table(outcomes))
    return 0 if all(outcome.survived for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
