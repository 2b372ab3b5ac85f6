"""ONNX's node tests, run as kernels, beside the list of those that are expected not to pass, each with its reason.

    python -m tensorlang.bridges.onnx.conformance                    all of them
    python -m tensorlang.bridges.onnx.conformance --fraction 1/5     each fifth, by name
    python -m tensorlang.bridges.onnx.conformance --match resize     those whose names hold this
    python -m tensorlang.bridges.onnx.conformance --update           write the list anew

A test that fails and is not on the list is unexpected, and so is one that is on the list and passes: the exit code is 1. Tests run in
processes of their own, so that one which ends its process costs only itself.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

import tensorlang as tl
from tensorlang.bridges.onnx import Backend
from tensorlang.bridges.packages import required

EXPECTED: Final = Path(__file__).with_name("conformance.json")
"""The version of onnx, and for each reason the tests that do not pass for it."""
LONGEST: Final = 160
"""Letters of a reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A test that was run: why it did not pass, None where it did, and how long it took in seconds."""

    name: str
    reason: str | None
    seconds: float


def cases() -> list[Any]:
    """The node tests of the onnx that is installed, by name. Raises `BuildError` where there is none."""
    required("onnx", "onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = import_module("onnx.backend.test.case.node").collect_testcases(None)
    return sorted(found, key=lambda case: str(case.name))


def chosen(found: Sequence[Any], fraction: Fraction = Fraction(1), match: str = "") -> list[Any]:
    """Each so manieth test of those whose names hold a pattern; of two fifths, the first and the second of each five."""
    named = [case for case in found if re.search(match, case.name)]
    return [case for place, case in enumerate(named) if place % fraction.denominator < fraction.numerator]


def checked(case: Any) -> str | None:
    """Run a test: None where its outputs are those that ONNX says, else why not."""
    try:
        prepared = Backend.prepare(case.model)
        for inputs, outputs in case.data_sets:
            given, wanted = ([_array(one) for one in side] for side in (inputs, outputs))
            compared(wanted, list(prepared.run(given)), case)
    except tl.GraphError as error:
        return re.sub(r"^(\S+) [^:]*: ", r"\1: ", str(error).partition("\n")[0])[:LONGEST]
    except AssertionError as error:
        return f"differs: {' '.join(str(error).split())}"[:LONGEST]
    except Exception as error:  # noqa: BLE001 - a test that breaks is an outcome
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]
    return None


def compared(wanted: Any, found: Any, case: Any) -> None:
    """Hold results against those of a test, by ONNX's own comparison of tensors. Raises `AssertionError`."""
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            raise AssertionError(f"{len(wanted)} results are expected")
        for one, other in zip(wanted, found, strict=True):
            compared(one, other, case)
    else:
        import_module("onnx.backend.test.runner").Runner.assert_similar_outputs([wanted], [found], rtol=case.rtol, atol=case.atol)


def _array(value: Any) -> Any:
    helper = import_module("onnx.numpy_helper")
    match type(value).__name__:
        case "TensorProto":
            return helper.to_array(value)
        case "SequenceProto":
            return helper.to_list(value)
        case "OptionalProto":
            return helper.to_optional(value)
    return value


def run(found: Sequence[Any], jobs: int) -> Iterator[Outcome]:
    """Run tests in processes, and give outcomes as they come."""
    context = multiprocessing.get_context("fork")
    shares = [list(range(place, len(found), jobs)) for place in range(jobs)]
    running: dict[Connection, tuple[list[int], Any]] = {}

    def start(share: list[int]) -> None:
        if share:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(found, share, there), daemon=True)
            process.start()
            there.close()
            running[here] = share, process

    for share in shares:
        start(share)
    while running:
        ready = wait(list(running))
        for pipe in [one for one in running if one in ready]:
            share, process = running[pipe]
            try:
                place, outcome = pipe.recv()
            except EOFError:
                del running[pipe]
                process.join()
                if share:
                    yield Outcome(str(found[share[0]].name), f"ended its process with code {process.exitcode}", 0.0)
                    start(share[1:])
                continue
            share.remove(place)
            yield outcome


def _work(found: Sequence[Any], share: list[int], pipe: Connection) -> None:
    warnings.simplefilter("ignore")
    for place in share:
        begun = time.perf_counter()
        reason = checked(found[place])
        pipe.send((place, Outcome(found[place].name, reason, time.perf_counter() - begun)))


def expected() -> dict[str, str]:
    """The reason of each test that is expected not to pass."""
    listed = json.loads(EXPECTED.read_text())["reasons"]
    return {name: reason for reason, names in listed.items() for name in names}


def unexpected(outcomes: Sequence[Outcome], listed: Mapping[str, str]) -> list[str]:
    """What differs from the list, in words."""
    made = []
    for outcome in outcomes:
        if outcome.reason is not None and outcome.name not in listed:
            made.append(f"{outcome.name} should pass: {outcome.reason}")
        if outcome.reason is None and outcome.name in listed:
            made.append(f"{outcome.name} passes, and is listed: {listed[outcome.name]}")
    return made


def written(outcomes: Sequence[Outcome], listed: Mapping[str, str]) -> str:
    """The list as a file: reasons that stand there stay, unless the test now fails otherwise than by being refused."""
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.reason is not None:
            reasons.setdefault(listed.get(outcome.name, outcome.reason), []).append(outcome.name)
    ordered = {reason: sorted(names) for reason, names in sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0]))}
    return json.dumps({"onnx": import_module("onnx").__version__, "reasons": ordered}, indent=1) + "\n"


def table(outcomes: Sequence[Outcome], listed: Mapping[str, str]) -> str:
    """What came of it: numbers, and for each reason how many tests do not pass for it."""
    passed = sum(outcome.reason is None for outcome in outcomes)
    count = Counter(listed.get(outcome.name, outcome.reason) for outcome in outcomes if outcome.reason is not None)
    rows = [f"{number:5}  {reason}" for reason, number in count.most_common()]
    return "\n".join([f"{len(outcomes):5}  tests", f"{passed:5}  passed", f"{len(outcomes) - passed:5}  not passed, of which", *rows])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 for anything unexpected."""
    parser = argparse.ArgumentParser(prog="python -m tensorlang.bridges.onnx.conformance", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fraction", type=Fraction, default=Fraction(1), help="which part of the tests, as 1/5")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--match", default="", help="a regular expression that names hold")
    parser.add_argument("--update", action="store_true", help="write the list of tests that do not pass")
    options = parser.parse_args(arguments)
    if not 0 < options.fraction <= 1 or options.jobs < 1:
        parser.error("--fraction is above 0 and at most 1, and --jobs at least 1")
    if options.update and (options.fraction != 1 or options.match):
        parser.error("--update writes the list of all tests")
    begun = time.perf_counter()
    listed = expected() if EXPECTED.exists() else {}
    outcomes = sorted(run(chosen(cases(), options.fraction, options.match), options.jobs), key=lambda outcome: outcome.name)
    if options.update:
        EXPECTED.write_text(written(outcomes, listed))
        listed = expected()
    say = sys.stdout.write
    say(table(outcomes, listed) + "\n")
    slowest = sorted(outcomes, key=lambda outcome: -outcome.seconds)[:5]
    say(f"{time.perf_counter() - begun:.0f} s; slowest: {', '.join(f'{one.name} {one.seconds:.1f} s' for one in slowest)}\n")
    wrong = unexpected(outcomes, listed)
    say("\n".join([f"{len(wrong)} unexpected", *wrong]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
