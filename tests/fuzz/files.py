"""The command: read many mutated files in disposable processes; whatever ends, hangs or raises a raw error is a failure.

    python -m tests.fuzz.files --mutations 100000 --seed 0 [--minutes M] [--workers N] [--tally docs/fuzz_files.json]
    python -m tests.fuzz.files --only kernel:0:17            one mutation: subject, seed, number; --only kernel:0:17:1 of one of its steps
    python -m tests.fuzz.files --table docs/fuzz_files.json docs/fuzzing.md

Mutation K of seed N is the same everywhere. The exit code is 1 where one failed.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import faulthandler
import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .tally import locked, written
from .worker import DEATH_SIGNAL, ROOT, tell

LIMIT: Final = 60.0
"""Seconds that one file may take; the machine may be busy."""

MEMORY: Final = 6 << 30
SHARE: Final = {"kernel": 24, "schedule": 25, "definition": 22, "space": 16, "log": 4, "job": 4, "machine": 5}
"""Of a hundred mutations, how many are of which files."""

CHUNK: Final = 2000
"""Mutations that a process reads before another one takes its place."""


def subject_of(number: int) -> str:
    """The kind of file of a mutation."""
    place = number * 37 % 100  # each hundred holds every kind, mixed
    for subject, share in SHARE.items():
        place -= share
        if place < 0:
            return subject
    raise AssertionError


def serve() -> None:
    """Judge what is asked, a line each: `subject seed number mask`; the answers are lines of JSON."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    logging.disable()
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from . import contents

    for line in sys.stdin:
        subject, seed, number, mask = line.split()
        found = contents.judged(subject, int(seed), int(number), None if mask == "all" else int(mask))
        out.write(json.dumps(found) + "\n")


@dataclass(slots=True)
class Reader:
    """A process that reads files, and its replacements."""

    process: subprocess.Popen[bytes] | None = None
    answered: int = 0

    def ask(self, name: str) -> tuple[str, str] | None:
        """What went wrong with a mutation, "subject:seed:number" or with a mask of its steps behind."""
        subject, seed, number, *mask = name.split(":")
        if self.process is None:
            environment = {**os.environ, "PYTHONHASHSEED": "0", "TENSORLANG_NUM_THREADS": "2", "TENSORLANG_CACHE": "off"}
            command = [sys.executable, "-m", "tests.fuzz.files", "--serve"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment
            )
            self.answered = 0
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{subject} {seed} {number} {mask[0] if mask else 'all'}\n".encode())
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], LIMIT)
            line = process.stdout.readline() if ready else None
        except BrokenPipeError:
            line = b""
        if line:
            self.answered += 1
            found = json.loads(line)
            if self.answered >= CHUNK:
                self.stop()
            return None if found is None else (found[0], found[1])
        code = self.stop()
        return ("hang", f"no answer in {LIMIT:.0f} s") if line is None else (f"exit {code}", f"the process ended with {code}")

    def stop(self) -> int:
        """End the process; how it ended."""
        process, self.process = self.process, None
        if process is None:
            return 0
        try:
            code = process.wait(0.05)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        return code


@dataclass(slots=True)
class Campaign:
    """What a run has seen."""

    seed: int
    read: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, numbers: Iterator[int], end: float) -> None:
        """Judge mutations until there are no more, or the time is up."""
        reader = Reader()
        while time.monotonic() < end:
            with self.lock:
                number = next(numbers, None)
            if number is None:
                break
            subject = subject_of(number)
            found = reader.ask(name := f"{subject}:{self.seed}:{number}")
            with self.lock:
                self.read[subject] += 1
                new = found is not None and f"{subject}: {found[0]}" not in self.failures
                if found is not None:
                    self.failures.setdefault(f"{subject}: {found[0]}", []).append(name)
                if (count := self.read.total()) % 5000 == 0:
                    tell(f"{count} files, {sum(map(len, self.failures.values()))} failures")
            if new and found is not None:
                tell(f"FAILURE {found[1]}\n    python -m tests.fuzz.files --only {smaller(reader, name, found[0])}")
        reader.stop()


def smaller(reader: Reader, name: str, kind: str) -> str:
    """The same failure by one of its steps alone, if one is enough."""
    for mask in (1, 2, 4):
        if (found := reader.ask(f"{name}:{mask}")) is not None and found[0] == kind:
            return f"{name}:{mask}"
    return name


def shard(found: Campaign, seconds: float) -> dict[str, object]:
    """A run as an entry of the table."""
    return {
        "seed": found.seed,
        "files": dict(sorted(found.read.items())),
        "seconds": round(seconds),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "failures": {kind: names[:20] for kind, names in sorted(found.failures.items())},
    }


def rendered(table: dict[str, list[dict[str, object]]]) -> str:
    """The table as text for a page."""
    total, failed, last = Counter[str](), 0, ""
    for entry in table["shards"]:
        total.update(entry["files"])  # type: ignore[arg-type]
        failed += sum(map(len, entry["failures"].values()))  # type: ignore[attr-defined]
        last = max(last, str(entry["date"]))
    rows = [f"| {subject} | {count:,} |" for subject, count in sorted(total.items())]
    head = f"{total.total():,} mutated files, last on {last}: {failed} that ended, hung or raised a raw error."
    return "\n".join([head, "", "| files | mutations |", "| --- | ---: |", *rows])


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.files", description="Fuzzing of file contents with right checksums.")
    parser.add_argument("--mutations", type=int, default=1000, help="how many files")
    parser.add_argument("--seed", type=int, default=0, help="the campaign")
    parser.add_argument("--minutes", type=float, help="the longest time")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--tally", type=Path, help="a JSON table that the run is added to")
    parser.add_argument("--only", help="one mutation, as subject:seed:number or subject:seed:number:steps")
    parser.add_argument("--table", nargs=2, type=Path, metavar=("TABLE", "PAGE"), help="put the totals of a table into a page")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.serve:
        serve()
        return 0
    if options.table is not None:
        written(options.table[1], rendered(json.loads(options.table[0].read_text())), "<!-- files -->")
        return 0
    if options.only is not None:
        reader = Reader()
        wrong = reader.ask(options.only)
        reader.stop()
        tell("read or refused as it should be" if wrong is None else wrong[1])
        return int(wrong is not None)
    found, start = Campaign(options.seed), time.monotonic()
    numbers, end = iter(range(options.mutations)), start + 60 * (options.minutes or 1e6)
    threads = [threading.Thread(target=found.work, args=(numbers, end)) for _ in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    if options.tally is not None:
        with locked(options.tally) as table:
            table.setdefault("shards", []).append(shard(found, seconds))
    failed = sum(map(len, found.failures.values()))
    tell(f"{found.read.total()} files of seed {found.seed} in {seconds:.0f} s: {failed} failures of {len(found.failures)} kinds")
    for kind, names in sorted(found.failures.items()):
        tell(f"  {len(names):4} x {kind}: {', '.join(names[:4])}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
