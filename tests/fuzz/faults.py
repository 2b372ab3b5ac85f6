"""The fuzzer, tested: faults injected into the compiler one at a time, and how long each lives.

    python -m tests.fuzz.faults [--cases 2000] [--seed 0] [--only NAME*] [--table docs/fuzzing.md]

A fault is killed by the first case that fails with it and passes without it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .run import STRIDE
from .worker import Worker, tell

MARK: Final = "<!-- time to kill -->"


@dataclass(frozen=True, slots=True)
class Life:
    """How a fault ended: after how many cases and seconds, and by which oracle (none: it lives)."""

    name: str
    what: str
    cases: int
    seconds: float
    killer: str | None


def inject(name: str) -> None:
    """Make the compiler of this process faulty."""
    from .mutants import FAULTS

    FAULTS[name][1]()


def live(name: str, what: str, seed: int, cases: int, healthy: Worker, sound: dict[int, bool]) -> Life:
    """Run cases against a fault until one kills it. `sound` remembers which cases pass without it."""
    worker, start = Worker(name), time.monotonic()
    try:
        for number in range(cases):
            answer = worker.ask({"seed": seed * STRIDE + number})
            if answer["done"] is None:
                continue
            if number not in sound:
                healthy.stop()  # a fresh process: the sources may have changed since it started
                sound[number] = healthy.ask({"seed": seed * STRIDE + number})["done"] is None
            if sound[number]:
                return Life(name, what, number + 1, time.monotonic() - start, str(answer["done"]))
    finally:
        worker.stop()
    return Life(name, what, cases, time.monotonic() - start, None)


def table(lives: list[Life], cases: int) -> str:
    """The lives as a table."""
    killed = [life for life in lives if life.killer is not None]
    share, median = 100 * len(killed) / max(1, len(lives)), sorted(life.cases for life in lives)[len(lives) // 2]
    rows = [
        f"{len(killed)} of {len(lives)} faults ({share:.0f} %) are killed within {cases} cases; the median one after {median} cases.",
        "",
        "| fault | what is wrong | killed by | after cases | seconds |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    rows += [
        f"| `{life.name}` | {life.what} | {life.killer or '**lives**'} | {life.cases} | {life.seconds:.0f} |"
        for life in sorted(lives, key=lambda life: (life.killer is None, life.cases))
    ]
    return "\n".join(rows)


def written(file: Path, text: str) -> None:
    """Put a table between the marks of a page."""
    page = file.read_text() if file.exists() else f"{MARK}\n{MARK}\n"
    before, _, after = page.split(MARK)
    file.write_text(f"{before}{MARK}\n\n{text}\n\n{MARK}{after}")


def main(words: list[str] | None = None) -> int:
    """The command."""
    from .mutants import FAULTS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.faults", description="Does the fuzzer notice faults?")
    parser.add_argument("--cases", type=int, default=2000, help="how many cases a fault may live")
    parser.add_argument("--seed", type=int, default=0, help="the campaign")
    parser.add_argument("--only", nargs="*", help="names of faults")
    parser.add_argument("--table", type=Path, help="a page whose table is rewritten")
    arguments = parser.parse_args(words)
    healthy, sound, lives = Worker(), dict[int, bool](), list[Life]()
    chosen: dict[str, Any] = {name: fault for name, fault in FAULTS.items() if not arguments.only or name in arguments.only}
    for count, (name, (what, _)) in enumerate(chosen.items()):
        life = live(name, what, arguments.seed, arguments.cases, healthy, sound)
        lives.append(life)
        tell(f"{count + 1:3} of {len(chosen)}  {name:24} {life.killer or 'LIVES':10} {life.cases:5} cases {life.seconds:6.1f} s")
    healthy.stop()
    tell(table(lives, arguments.cases))
    if arguments.table is not None:
        written(arguments.table, table(lives, arguments.cases))
    return int(sum(life.killer is not None for life in lives) < 0.95 * len(lives))


if __name__ == "__main__":
    sys.exit(main())
