"""The command: judge many cases in disposable processes, make failures small, print a line that reproduces each, keep a tally.

    python -m tests.fuzz.run --cases 2000 --seed 0 [--minutes M] [--workers N] [--tally docs/fuzz.json] [--aim docs/fuzz.json]
    python -m tests.fuzz.run --seed 0 --only 17         one case of a campaign
    python -m tests.fuzz.run --case '<json>'            one case as printed
    python -m tests.fuzz.run --recheck docs/fuzz.json   the open cases of a table once more
    python -m tests.fuzz.run --merge other.json --tally docs/fuzz.json   the shards of another file of tallies into one
    python -m tests.fuzz.run --table docs/fuzz.json docs/fuzzing.md   the totals of a table into a page

Case K of seed N is the same everywhere, but with `--aim`: then every second case is drawn for a cell of the coverage table, the likelier
the fewer cases of these tallies have covered it. The line that reproduces a case holds all of it. The exit code is 1 where a case failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import shlex
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import coverage
from .case import Case, from_json, to_json
from .shrink import shrink, signature
from .tally import COVERAGE, STRIDE, Shard, added, cleared, opened, rechecked, rendered, summed, written
from .worker import Worker, serve, tell


@dataclass(slots=True)
class Campaign:
    """What a run has seen so far."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[int]] = field(default_factory=dict)
    cases: dict[int, Case | None] = field(default_factory=dict)
    rejects: list[str] = field(default_factory=list)
    judged: int = 0
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def request(self, number: int, known: Counter[str] | None) -> dict[str, Any]:
        """What a worker is asked for: a case of the campaign, or, every second time, one for a cell that few have covered so far."""
        request: dict[str, Any] = {"seed": self.seed * STRIDE + number}
        if known is None or number % 2:
            return request
        with self.lock:
            return {**request, "cell": coverage.rarest(known + self.counts, random.Random(request["seed"]))}

    def record(self, number: int, answer: dict[str, Any]) -> str | None:
        """Count an answer; the signature of a failure that is new."""
        with self.lock:
            self.judged += 1
            self.counts.update(answer["counts"])
            again = reproduce(answer["case"]) if answer["rejects"] else ""
            self.rejects += [f"case {number}: {text}\n      {again}" for text in answer["rejects"]]
            self.counts.update(f"spare {text.split()[1]}" for text in answer["rejects"])
            if answer["done"] is None:
                return None
            kind = signature(answer)
            new = kind not in self.failures
            self.failures.setdefault(kind, []).append(number)
            self.cases[number] = answer["case"]
            return kind if new else None


def reproduce(case: Case) -> str:
    """The line that runs a case again."""
    return f"python -m tests.fuzz.run --case {shlex.quote(to_json(case))}"


def explained(worker: Worker, answer: dict[str, Any], kind: str, seconds: float) -> tuple[str, Case | None]:
    """A failure as text, what disagreed and the line that reproduces it, and its smallest case."""
    case = answer["case"]
    if case is None:
        return f"{answer['done']}: {answer['text']}", None
    small = shrink(worker, case, kind, seconds) if seconds else case
    last = worker.ask({"case": small})
    return f"{last['done']}: {last.get('text', '')}\n    {reproduce(small)}", small


def campaign(arguments: argparse.Namespace) -> Campaign:
    """Judge the cases of a seed."""
    found, numbers = Campaign(arguments.seed), iter([arguments.only] if arguments.only is not None else range(arguments.cases))
    known = None if arguments.aim is None else summed(json.loads(arguments.aim.read_text()))
    start, end = time.monotonic(), time.monotonic() + 60 * (arguments.minutes or 1e6)
    printing = threading.Lock()

    def work() -> None:
        worker = Worker(arguments.fault)
        while time.monotonic() < end:
            with found.lock:
                number = next(numbers, None)
            if number is None:
                break
            answer = worker.ask(found.request(number, known))
            new = found.record(number, answer)
            if new is not None:
                text, found.cases[number] = explained(worker, answer, new, 0.0 if arguments.no_shrink else arguments.shrink)
                with printing:
                    tell(f"FAILURE case {number} ({new})\n  {text}")
            if found.judged % 250 == 0:
                keep(found, arguments, start)
            if found.judged % 100 == 0 and not arguments.quiet:
                tell(f"{found.judged} cases, {sum(map(len, found.failures.values()))} failures, {time.monotonic() - start:.0f} s")
        worker.stop()

    threads = [threading.Thread(target=work) for _ in range(arguments.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keep(found, arguments, start)
    return found


def keep(found: Campaign, arguments: argparse.Namespace, start: float) -> None:
    """Put what was seen so far into the table: a run that is stopped leaves its cases behind."""
    with found.lock:
        found.seconds = time.monotonic() - start
        if arguments.tally is not None and arguments.only is None:
            with opened(arguments.tally) as table:
                added(table, shard(found))


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
    covered = sum(name.startswith("cover ") for name in found.counts)
    rows.append(f"  cells of the coverage table: {covered}, of {sum(1 for _ in coverage.cells())}")
    verdicts = ("needed", "needed for other values", "not needed", "not judged")
    needed, apart, spare, unknown = (found.counts[f"refusal {verdict}"] for verdict in verdicts)
    share = 100 * spare / max(1, needed + apart + spare)
    rows.append(
        f"  refusals for a dependence: {needed} needed, {apart} for other values, {spare} not needed ({share:.1f} %), {unknown} not judged"
    )
    rows += [f"    {text}" for text in found.rejects[:10]]
    return "\n".join(rows)


def shard(found: Campaign) -> Shard:
    """A run as an entry of the table."""
    kinds = {number: kind for kind, numbers in found.failures.items() for number in numbers}
    return {
        "seed": found.seed,
        "cases": found.judged,
        "seconds": round(found.seconds),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "failures": {kind: sorted(numbers) for kind, numbers in sorted(found.failures.items())},
        "open": {
            str(number): {"kind": kinds[number], "json": to_json(case) if case else ""} for number, case in sorted(found.cases.items())
        },
        "counts": dict(sorted(found.counts.items())),
    }


def recheck(file: Path) -> int:
    """Judge the open cases of a table again; the exit code."""
    worker = Worker()
    verdicts = rechecked(json.loads(file.read_text()), worker.ask, tell)
    worker.stop()
    with opened(file) as table:
        still = cleared(table, verdicts)
    tell(f"{still} open")
    return int(still > 0)


def merge(source: Path, into: Path) -> int:
    """Put the shards of one file of tallies into another; the exit code."""
    shards = json.loads(source.read_text())["shards"]
    with opened(into) as table:
        for entry in shards:
            added(table, entry)
    tell(f"{len(shards)} shards of {source} are in {into}")
    return 0


def show(file: Path, page: Path) -> int:
    """Put the totals of a table, and the table of coverage, into a page; the exit code, 1 where a cell is empty or one too many."""
    found = json.loads(file.read_text())
    counts = summed(found)
    written(page, rendered(found))
    written(page, coverage.table(counts), COVERAGE)
    still, wrong = coverage.empty(counts), coverage.refuted(counts)
    if wrong:
        tell(f"{len(wrong)} cells that no program has were covered: {', '.join(' '.join(cell) for cell in wrong)}")
    tell(f"{len(still)} empty cells: {', '.join(' '.join(cell) for cell in still)}" if still else "no empty cell")
    return int(bool(still or wrong))


def one(text: str) -> int:
    """Judge one case given as JSON; the exit code."""
    worker = Worker()
    answer = worker.ask({"case": from_json(text)})
    worker.stop()
    tell("passed" if answer["done"] is None else f"{answer['done']}: {answer['text']}")
    for reject in answer["rejects"]:
        tell(f"not needed: {reject}")
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
    parser.add_argument("--recheck", type=Path, help="a file of tallies whose open cases are judged again")
    parser.add_argument("--merge", type=Path, help="a file of tallies whose shards are put into that of --tally")
    parser.add_argument("--table", type=Path, nargs=2, metavar=("TALLIES", "PAGE"), help="put the totals of a file into a page")
    parser.add_argument("--aim", type=Path, help="a file of tallies: every second case is drawn for what it has covered least")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--fault", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.serve:
        serve(arguments.fault)
        return 0
    if arguments.case is not None:
        return one(arguments.case)
    if arguments.recheck is not None:
        return recheck(arguments.recheck)
    if arguments.merge is not None:
        if arguments.tally is None:
            parser.error("--merge needs the file of --tally to put the shards into")
        return merge(arguments.merge, arguments.tally)
    if arguments.table is not None:
        return show(*arguments.table)
    found = campaign(arguments)
    tell(summary(found))
    return int(bool(found.failures))


if __name__ == "__main__":
    sys.exit(main())
