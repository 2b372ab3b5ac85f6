"""The fuzzer, tested: faults injected into the compiler one at a time, and how long each lives.

    python -m tests.fuzz.faults [--cases 2000] [--seed 0] [--only NAME*] [--shard 0/2] [--again] [--results docs/faults.json]
    python -m tests.fuzz.faults --table docs/fuzzing.md          the results into a page

A fault is killed by the first case that fails with it and passes without it. Results accumulate in a file; a fault that has one is not
run again unless its name, or `--again`, asks for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .shrink import signature
from .tally import STRIDE, locked, written
from .worker import Worker, tell

MARK: Final = "<!-- time to kill -->"
RESULTS: Final = Path("docs/faults.json")
SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Life:
    """How a fault ended: after how many cases and seconds, by which oracle (none: it lives), and what that said."""

    what: str
    cases: int
    seconds: float
    killer: str | None
    kind: str


def inject(name: str) -> None:
    """Make the compiler of this process faulty."""
    from .mutants import FAULTS

    FAULTS[name][1]()


def live(
    what: str, numbers: range, ask: Callable[[dict[str, Any]], dict[str, Any]], healthy: Callable[[dict[str, Any]], dict[str, Any]]
) -> Life:
    """Run cases against a fault until one kills it: `ask` judges with the fault, `healthy` without."""
    start = time.monotonic()
    for count, number in enumerate(numbers):
        answer = ask({"seed": number})
        if answer["done"] is None:
            continue
        case = answer["case"]
        if healthy({"seed": number} if case is None else {"case": case})["done"] is None:
            return Life(what, count + 1, round(time.monotonic() - start, 1), str(answer["done"]), signature(answer))
    return Life(what, len(numbers), round(time.monotonic() - start, 1), None, "")


def table(lives: dict[str, Life], cases: int) -> str:
    """The lives as a table."""
    killed = [life for life in lives.values() if life.killer is not None]
    share = 100 * len(killed) / max(1, len(lives))
    median = sorted(life.cases for life in lives.values())[len(lives) // 2] if lives else 0
    rows = [
        f"{len(killed)} of {len(lives)} faults ({share:.1f} %) are killed within {cases:,} cases; the median one after {median}.",
        "",
        "| fault | what is wrong | killed by | after cases | seconds |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    rows += [
        f"| `{name}` | {life.what} | {life.killer or '**lives**'} | {life.cases} | {life.seconds:.0f} |"
        for name, life in sorted(lives.items(), key=lambda entry: (entry[1].killer is None, entry[1].cases))
    ]
    return "\n".join(rows)


def results(file: Path) -> dict[str, Life]:
    """The results in a file, those of faults that exist no more left out."""
    from .mutants import FAULTS

    text = file.read_text() if file.exists() else ""
    return {name: Life(**entry) for name, entry in (json.loads(text) if text else {}).items() if name in FAULTS}


def chosen(arguments: argparse.Namespace) -> list[str]:
    """The names of the faults to run."""
    from .mutants import FAULTS

    part, parts = map(int, arguments.shard.split("/"))
    known = results(arguments.results)
    names = arguments.only or [name for name in FAULTS if arguments.again or name not in known]
    return [name for place, name in enumerate(names) if place % parts == part]


def main(words: list[str] | None = None) -> int:
    """The command."""
    from .mutants import FAULTS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.faults", description="Does the fuzzer notice faults?")
    parser.add_argument("--cases", type=int, default=2000, help="how many cases a fault may live")
    parser.add_argument("--seed", type=int, default=0, help="the campaign")
    parser.add_argument("--only", nargs="*", help="names of faults")
    parser.add_argument("--shard", default="0/1", help="which part of the faults: I/N")
    parser.add_argument("--again", action="store_true", help="run faults that have a result, too")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file in which results accumulate")
    parser.add_argument("--table", type=Path, help="a page into which the results are put; nothing is run")
    arguments = parser.parse_args(words)
    names = [] if arguments.table is not None else chosen(arguments)
    numbers = range(arguments.seed * STRIDE, arguments.seed * STRIDE + arguments.cases)
    for count, name in enumerate(names):
        worker, healthy = Worker(name), Worker()  # fresh ones: the sources may have changed
        try:
            life = live(FAULTS[name][0], numbers, worker.ask, healthy.ask)
        finally:
            worker.close()
            healthy.close()
        with locked(arguments.results) as kept:
            kept[name] = asdict(life)
        tell(
            f"{count + 1:3} of {len(names)}  {name:24} {life.killer or 'LIVES':10} {life.cases:5} cases {life.seconds:6.1f} s  {life.kind}"
        )
    lives = results(arguments.results)
    if arguments.table is not None:
        written(arguments.table, table(lives, arguments.cases), MARK)
    tell(table(lives, arguments.cases))
    return int(sum(life.killer is not None for life in lives.values()) < SHARE * len(lives))


if __name__ == "__main__":
    sys.exit(main())
