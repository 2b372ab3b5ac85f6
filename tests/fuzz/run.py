"""The command: judge many cases in disposable processes, make failures small, print a line that reproduces each, keep a tally.

    python -m tests.fuzz.run --cases 2000 --seed 0 [--minutes M] [--workers N] [--tally docs/fuzz.json]
    python -m tests.fuzz.run --seed 0 --only 17         one case of a campaign
    python -m tests.fuzz.run --case '<json>'            one case as printed

Case K of seed N is the same everywhere. The exit code is 1 where a case failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shlex
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .case import Case, from_json, to_json
from .shrink import shrink, signature
from .worker import Worker, serve, tell

STRIDE: Final = 1_000_000
"""Seeds of a campaign: its own number times this, plus the number of the case."""


@dataclass(slots=True)
class Campaign:
    """What a run has seen so far."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[int]] = field(default_factory=dict)
    rejects: list[str] = field(default_factory=list)
    judged: int = 0
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, number: int, answer: dict[str, Any]) -> str | None:
        """Count an answer; the signature of a failure that is new."""
        with self.lock:
            self.judged += 1
            self.counts.update(answer["counts"])
            self.rejects += [f"case {number}: {text}" for text in answer["rejects"]]
            if answer["done"] is None:
                return None
            kind = signature(answer)
            new = kind not in self.failures
            self.failures.setdefault(kind, []).append(number)
            return kind if new else None


def reproduce(case: Case) -> str:
    """The line that runs a case again."""
    return f"python -m tests.fuzz.run --case {shlex.quote(to_json(case))}"


def explained(worker: Worker, answer: dict[str, Any], kind: str, seconds: float) -> str:
    """A failure as text: what disagreed, and the line that reproduces it at its smallest."""
    case = answer["case"]
    if case is None:
        return f"{answer['done']}: {answer['text']}"
    small = shrink(worker, case, kind, seconds) if seconds else case
    last = worker.ask({"case": small})
    return f"{last['done']}: {last.get('text', '')}\n    {reproduce(small)}"


def campaign(arguments: argparse.Namespace) -> Campaign:
    """Judge the cases of a seed."""
    found, numbers = Campaign(arguments.seed), iter([arguments.only] if arguments.only is not None else range(arguments.cases))
    start, end = time.monotonic(), time.monotonic() + 60 * (arguments.minutes or 1e6)
    printing = threading.Lock()

    def work() -> None:
        worker = Worker(arguments.fault)
        while time.monotonic() < end:
            with found.lock:
                number = next(numbers, None)
            if number is None:
                break
            answer = worker.ask({"seed": arguments.seed * STRIDE + number})
            new = found.record(number, answer)
            if new is not None:
                text = explained(worker, answer, new, 0.0 if arguments.no_shrink else arguments.shrink)
                with printing:
                    tell(f"FAILURE case {number} ({new})\n  {text}")
            if found.judged % 100 == 0 and not arguments.quiet:
                tell(f"{found.judged} cases, {sum(map(len, found.failures.values()))} failures, {time.monotonic() - start:.0f} s")
        worker.stop()

    threads = [threading.Thread(target=work) for _ in range(arguments.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.seconds = time.monotonic() - start
    return found


def summary(found: Campaign) -> str:
    """The tallies as text."""
    failed = sum(map(len, found.failures.values()))
    rows = [f"{found.judged} cases of seed {found.seed} in {found.seconds:.0f} s: {failed} failures of {len(found.failures)} kinds"]
    rows += [f"  {len(cases):4} x {kind}: cases {', '.join(map(str, cases[:8]))}" for kind, cases in sorted(found.failures.items())]
    for group, title in (
        ("stage", "stages"),
        ("accepted", "accepted"),
        ("refused", "refused"),
        ("illegal", "illegal, refused"),
        ("oracle", "judged by"),
    ):
        inside = {key.split(" ", 1)[1]: count for key, count in sorted(found.counts.items()) if key.startswith(f"{group} ")}
        rows.append(f"  {title}: " + ", ".join(f"{name} {count}" for name, count in inside.items()))
    needed, spare = found.counts["refusal needed"], found.counts["refusal not needed"]
    share = 100 * spare / max(1, needed + spare)
    rows.append(f"  refusals for a dependence: {needed} needed, {spare} not ({share:.1f} %)")
    rows += [f"    {text}" for text in found.rejects[:10]]
    return "\n".join(rows)


def kept(found: Campaign, file: Path) -> None:
    """Add a run to the table in `file`, in place of an earlier run of the same seed."""
    table: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"shards": []}
    shard = {
        "seed": found.seed,
        "cases": found.judged,
        "failures": {kind: len(cases) for kind, cases in sorted(found.failures.items())},
        "seconds": round(found.seconds),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "counts": dict(sorted(found.counts.items())),
    }
    shards = [entry for entry in table["shards"] if entry["seed"] != found.seed or entry["cases"] > found.judged]
    table["shards"] = sorted([*shards, shard], key=lambda entry: (entry["seed"], entry["cases"]))
    table["cases"] = sum(entry["cases"] for entry in table["shards"])
    table["open"] = sum(sum(entry["failures"].values()) for entry in table["shards"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(table, indent=1) + "\n")


def one(text: str) -> int:
    """Judge one case given as JSON; the exit code."""
    worker = Worker()
    answer = worker.ask({"case": from_json(text)})
    worker.stop()
    tell("passed" if answer["done"] is None else f"{answer['done']}: {answer['text']}")
    return int(answer["done"] is not None)


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description="Differential fuzzing of definitions and schedules.")
    parser.add_argument("--cases", type=int, default=2000, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="the campaign")
    parser.add_argument("--only", type=int, help="one case of the campaign")
    parser.add_argument("--case", help="one case as JSON")
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument("--workers", type=int, default=1, help="processes at once")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to make a failure small")
    parser.add_argument("--no-shrink", action="store_true", help="print failures as they are")
    parser.add_argument("--tally", type=Path, help="a file to which the tallies are added")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--fault", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.serve:
        serve(arguments.fault)
        return 0
    if arguments.case is not None:
        return one(arguments.case)
    found = campaign(arguments)
    tell(summary(found))
    if arguments.tally is not None:
        kept(found, arguments.tally)
    return int(bool(found.failures))


if __name__ == "__main__":
    sys.exit(main())
