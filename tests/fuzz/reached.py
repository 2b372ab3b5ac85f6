"""Which cases an injected fault can make a difference in: they are drawn once, without faults, for all faults together.

    python -m tests.fuzz.reached reached.json [--cases 2000] [--seed 0] [--only NAME*]
    python -m tests.fuzz.faults --reached reached.json        only these cases, each fault until one kills it

While the steps of a case are drawn, every function that a fault replaces is asked beside its replacement. A case in which all answers are
alike is drawn as without the fault. (Default schedules, and the code, are made later: a fault that shows there alone is not told of.)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from .faults import results
from .mutants import FAULTS
from .oracles import Judge
from .tally import STRIDE
from .worker import tell

LIMIT: Final = 120
"""Seconds for the drawing of a case."""


def replacements(inject: Any) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What a fault replaces: the owner, the name, and what wraps the old function; nothing where it does something else."""
    held = dict(zip(inject.__code__.co_freevars, (cell.cell_contents for cell in inject.__closure__ or ()), strict=True))
    if {"owner", "name", "wrap"} <= held.keys():
        yield held["owner"], held["name"], held["wrap"]
        return
    for value in held.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if callable(part) and getattr(part, "__closure__", None):
                yield from replacements(part)


def answer(function: Callable[..., Any], *args: Any, **named: Any) -> tuple[Any, BaseException | None]:
    """What a function gives, or raises."""
    try:
        return function(*args, **named), None
    except Exception as error:  # noqa: BLE001 - a fault may break anything
        return None, error


def watch(fault: str, seen: set[str]) -> None:
    """Note in `seen` when a replacement of a fault would answer otherwise; what is answered stays as it is."""
    for owner, name, wrap in replacements(FAULTS[fault][1]):
        setattr(owner, name, beside(getattr(owner, name), wrap, fault, seen))


def beside(old: Callable[..., Any], wrap: Callable[..., Any], fault: str, seen: set[str]) -> Callable[..., Any]:
    """A function that asks its replacement, too."""

    def asked(*args: Any, **named: Any) -> Any:
        given, raised = answer(old, *args, **named)
        if fault not in seen:
            other, error = answer(wrap, old, *args, **named)
            if type(raised) is not type(error) or isinstance(given, Iterator) or given != other:
                seen.add(fault)
        if raised is not None:
            raise raised
        return given

    return asked


def late(*_: object) -> None:
    """Give up a case that is drawn for too long."""
    raise TimeoutError


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.reached", description="In which cases do faults make a difference?")
    parser.add_argument("file", type=Path, help="where the numbers of the cases go, by fault")
    parser.add_argument("--cases", type=int, default=2000, help="how many cases are drawn")
    parser.add_argument("--seed", type=int, default=0, help="the campaign")
    parser.add_argument("--only", nargs="*", help="names of faults; otherwise all that are not known to be killed")
    parser.add_argument("--results", type=Path, default=Path("docs/faults.json"), help="what is known already")
    arguments = parser.parse_args(words)
    killed = {name for name, life in results(arguments.results).items() if life.killer is not None}
    seen: set[str] = set()
    found: dict[str, list[int]] = {name: [] for name in arguments.only or [name for name in FAULTS if name not in killed]}
    for name in found:
        watch(name, seen)
    judge = Judge()
    signal.signal(signal.SIGALRM, late)
    for number in range(arguments.cases):
        seen.clear()
        signal.alarm(LIMIT)
        with contextlib.suppress(TimeoutError):
            judge.generate(arguments.seed * STRIDE + number)
        signal.alarm(0)
        for name in seen:
            found[name].append(number)
        if number % 50 == 49 or number == arguments.cases - 1:
            arguments.file.write_text(json.dumps(found))
            tell(f"{number + 1} cases: {', '.join(f'{name} {len(numbers)}' for name, numbers in found.items())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
