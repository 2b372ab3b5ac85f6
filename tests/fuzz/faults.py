"""The fuzzer, tested: faults injected into the compiler one at a time, and how long each lives.

    python -m tests.fuzz.faults [--cases 2000] [--seed 0] [--only NAME*] [--shard 0/2] [--again] [--round 100] [--results docs/faults.json]
    python -m tests.fuzz.faults --reached reached.json           only the cases in which a fault makes a difference (`reached`)
    python -m tests.fuzz.faults --table docs/fuzzing.md          the results into a page

A fault is killed by the first case that fails with it and passes without it. Results accumulate in a file; a fault that has one is not
run again unless its name, or `--again`, asks for it. One that has lived through fewer cases goes on from there: a run may be stopped, and
with `--round` every fault gets so many cases before the first one gets more.
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
DRAWS: Final = 3
"""Which draws a life belongs to: one more wherever what is drawn changes."""


@dataclass(frozen=True, slots=True)
class Life:
    """How a fault ended: after how many cases and seconds, by which oracle (none: it lives), what that said, and in which draws."""

    what: str
    cases: int
    seconds: float
    killer: str | None
    kind: str
    draws: int = 1


def inject(name: str) -> None:
    """Make the compiler of this process faulty."""
    from .mutants import FAULTS

    FAULTS[name][1]()


def live(
    what: str,
    numbers: range,
    ask: Callable[[dict[str, Any]], dict[str, Any]],
    healthy: Callable[[dict[str, Any]], dict[str, Any]],
    before: Life | None = None,
) -> Life:
    """Run cases against a fault until one kills it: `ask` judges with the fault, `healthy` without; `before` is what it lived through."""
    start = time.monotonic()
    seen, spent = (before.cases, before.seconds) if before is not None else (0, 0.0)
    draws = DRAWS if before is None else before.draws
    for count, number in enumerate(numbers):
        answer = ask({"seed": number})
        if answer["done"] is None:
            continue
        case = answer["case"]
        if healthy({"seed": number} if case is None else {"case": case})["done"] is None:
            spent += time.monotonic() - start
            return Life(what, seen + count + 1, round(spent, 1), str(answer["done"]), signature(answer), draws)
    return Life(what, seen + len(numbers), round(spent + time.monotonic() - start, 1), None, "", draws)


def ended(life: Life, cases: int) -> str:
    """The oracle that killed a fault, or how it lives."""
    return life.killer or ("**lives**" if life.cases >= cases else "lives so far")


def table(lives: dict[str, Life], cases: int, every: int) -> str:
    """The lives as a table; `every`: how many faults there are."""
    killed = [life for life in lives.values() if life.killer is not None]
    done = [life for life in lives.values() if through(life, cases)]
    share = 100 * len(killed) / max(1, every)
    median = sorted(life.cases for life in done)[len(done) // 2] if done else 0
    left, begun = every - len(done), len(lives) - len(done)
    fresh = sum(life.draws == DRAWS for life in killed)
    summary = (
        f"{len(killed)} of {every} faults ({share:.1f} %) are killed within {cases:,} cases, the median one after {median}; "
        f"{len(done) - len(killed)} live through these, and {left} are not decided, {begun} of which have lived through some cases so far. "
        f"{fresh} lives are of today's draws, the others of earlier ones."
    )
    rows = [
        summary,
        "",
        "| fault | what is wrong | killed by | after cases | seconds | draws |",
        "| --- | --- | --- | ---: | ---: | --- |",
    ]
    for name, life in sorted(lives.items(), key=lambda entry: (entry[1].killer is None, entry[1].cases)):
        when = "today" if life.draws == DRAWS else "earlier"
        rows.append(f"| `{name}` | {life.what} | {ended(life, cases)} | {life.cases} | {life.seconds:.0f} | {when} |")
    return "\n".join(rows)


def results(file: Path) -> dict[str, Life]:
    """The results in a file, those of faults that exist no more left out."""
    from .mutants import FAULTS

    text = file.read_text() if file.exists() else ""
    return {name: Life(**entry) for name, entry in (json.loads(text) if text else {}).items() if name in FAULTS}


def chosen(arguments: argparse.Namespace) -> list[str]:
    """The names of the faults to run: those that were named, or all that are neither killed nor through."""
    from .mutants import FAULTS

    part, parts = map(int, arguments.shard.split("/"))
    known = results(arguments.results)
    names = arguments.only or [name for name in FAULTS if arguments.again or not through(known.get(name), arguments.cases)]
    return [name for place, name in enumerate(names) if place % parts == part]


def through(life: Life | None, cases: int) -> bool:
    """Is nothing left to run?"""
    return life is not None and (life.killer is not None or life.cases >= cases)


def among(name: str, numbers: list[int], arguments: argparse.Namespace) -> Life | None:
    """The life of a fault that one of these cases kills, noted in the results; None where none does."""
    from .mutants import FAULTS

    worker, healthy = Worker(name), Worker()
    spent = 0.0
    try:
        for number in numbers:
            first = arguments.seed * STRIDE + number
            life = live(FAULTS[name][0], range(first, first + 1), worker.ask, healthy.ask, Life("", number, spent, None, "", DRAWS))
            if life.killer is not None:
                with locked(arguments.results) as kept:
                    kept[name] = asdict(life)
                return life
            spent = life.seconds
    finally:
        worker.close()
        healthy.close()
    return None


def run(name: str, arguments: argparse.Namespace, before: Life | None) -> Life:
    """Some more cases against a fault, noted in the results."""
    from .mutants import FAULTS

    first = 0 if before is None else before.cases
    numbers = range(arguments.seed * STRIDE + first, arguments.seed * STRIDE + min(arguments.cases, first + arguments.round))
    worker, healthy = Worker(name), Worker()  # fresh ones: the sources may have changed
    try:
        life = live(FAULTS[name][0], numbers, worker.ask, healthy.ask, before)
    finally:
        worker.close()
        healthy.close()
    with locked(arguments.results) as kept:
        kept[name] = asdict(life)
    return life


def main(words: list[str] | None = None) -> int:
    """The command."""
    from .mutants import FAULTS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.faults", description="Does the fuzzer notice faults?")
    parser.add_argument("--cases", type=int, default=2000, help="how many cases a fault may live")
    parser.add_argument("--seed", type=int, default=0, help="the campaign")
    parser.add_argument("--only", nargs="*", help="names of faults")
    parser.add_argument("--shard", default="0/1", help="which part of the faults: I/N")
    parser.add_argument("--again", action="store_true", help="run faults that have a result, too")
    parser.add_argument("--round", type=int, default=1 << 30, help="how many cases a fault gets before the others get theirs")
    parser.add_argument("--reached", type=Path, help="a file of `reached`: only these cases are run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file in which results accumulate")
    parser.add_argument("--table", type=Path, help="a page into which the results are put; nothing is run")
    arguments = parser.parse_args(words)
    if arguments.reached is not None:
        for name, numbers in json.loads(arguments.reached.read_text()).items():
            found = among(name, numbers, arguments)
            tell(f"{name:24} {'lives' if found is None else found.killer:10} {len(numbers)} cases of {arguments.reached}")
    names = [] if arguments.table is not None or arguments.reached is not None else chosen(arguments)
    known = {} if arguments.again or arguments.only else results(arguments.results)
    alive: dict[str, Life | None] = {name: known.get(name) for name in names}
    while alive:
        for count, name in enumerate([*alive]):
            life = alive[name] = run(name, arguments, alive[name])
            end = f"{life.killer or 'LIVES':10} {life.cases:5} cases {life.seconds:6.1f} s  {life.kind}"
            tell(f"{count + 1:3} of {len(alive)}  {name:24} {end}")
        alive = {name: life for name, life in alive.items() if not through(life, arguments.cases)}
    lives = results(arguments.results)
    if arguments.table is not None:
        written(arguments.table, table(lives, arguments.cases, len(FAULTS)), MARK)
    tell(table(lives, arguments.cases, len(FAULTS)))
    done = [life for life in lives.values() if through(life, arguments.cases)]
    return int(sum(life.killer is not None for life in done) < SHARE * len(done))


if __name__ == "__main__":
    sys.exit(main())
