"""`python -m bench.ship [--target x86-64-v3] LOG...`: put what logs have won for a class of processors, this machine's, into the package.

Of each task the last final measurement is taken, with its winner and its default, where it can be trusted: of quality clean or shared, and
the winner ahead of the default by an interval that does not hold 1, or the default itself. A winner is first compared with the definition,
as it is replayed now. What the class has of other tasks stays. With `--measure` each schedule runs in turns with the default that is
chosen today, and goes where it is no longer ahead: a default gets better, and no log knows. That needs a quiet machine.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from tensorlang.autotune.log.fixed_operands import constant_names, constants_of
from tensorlang.autotune.log.glimpse import Study, study_of
from tensorlang.autotune.log.index import dims_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial, to_line
from tensorlang.autotune.log.study_records import FinalRecord
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.autotune.shipped.classes import FOLDER, INDEX, Processors, classes
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.check import why_wrong
from tensorlang.autotune.verification.reference import worker_task
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate
from tensorlang.autotune.workers.runner import Runner
from tensorlang.codegen.kernel.build import build
from tensorlang.codegen.target import Target, target
from tensorlang.definition.tensor import as_outputs
from tensorlang.errors import TensorlangError
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import Strategy, choose
from tensorlang.serialization.rebuild import rebuild
from tensorlang.system import files
from tensorlang.system.memory import memory

LEVELS: Final = ("x86-64-v4", "x86-64-v3")
"""The classes there may be, the most demanding first."""
SURE: Final = (Quality.CLEAN, Quality.SHARED)
WORTH: Final = 1.02
"""How much faster than the default of today what is shipped has to be."""

Record = dict[str, Any]


def level_of(machine: Target) -> Target | None:
    """The class that a machine is the best of: it has its features and its width of vectors."""
    levels = (target(name) for name in LEVELS)
    return next((one for one in levels if machine.isa >= one.isa and machine.vector_bits == one.vector_bits), None)


def decided(paths: list[str], level: Target) -> dict[Study, tuple[Record, Trial, Trial]]:
    """The last final measurement that can be trusted of each study of a class, its winner and its default."""
    trials: dict[str, Trial] = {}
    finals: list[Record] = []
    for path in paths:
        for record in Log(path).records("trial", "final"):
            if isinstance(record, Trial):
                trials[record.id] = record
            elif isinstance(record, dict):
                finals.append(record)
    found: dict[Study, tuple[Record, Trial, Trial]] = {}
    for fields in sorted(finals, key=lambda one: one.get("time_unix") or 0.0):
        final = FinalRecord.of(fields)
        winner, base = trials.get(final.winner), trials.get(final.default or "")
        if winner is None or base is None or (study := study_of(winner)) is None or level_of(target(winner.target["cpu"])) != level:
            continue
        found.pop(study, None)
        interval = final.interval
        if final.verdict in SURE and (final.default_stands or (interval is not None and interval[0] > 1)):
            found[study] = fields, winner, base
    return found


def strategy_of(winner: Trial, machine: Target) -> Strategy:
    """The strategy by which the program of a winner is scheduled today. Raises `TensorlangError`."""
    outputs = as_outputs(rebuild(winner.task.get("definition")))
    return choose(outputs, machine, winner.threads, constant_names(outputs, constants_of(winner.task)))


def replayed(winner: Trial, machine: Target) -> Schedule:
    """The schedule of a winner. Raises `TensorlangError`."""
    if winner.schedule:
        return Schedule.from_json(as_outputs(rebuild(winner.task.get("definition"))), winner.schedule)
    return strategy_of(winner, machine).schedule(winner.config)


def wrong(winner: Trial, machine: Target, *, measure: bool = False) -> str | None:
    """Why a winner must not be shipped; None if it computes what its definition says, and is not `overtaken` where that is measured."""
    try:
        won = replayed(winner, machine)
        return why_wrong(build(won, target=machine), won.outputs) or (overtaken(winner, won, machine) if measure else None)
    except TensorlangError as error:
        return str(error).splitlines()[0]


def overtaken(winner: Trial, won: Schedule, machine: Target) -> str | None:
    """Why the schedule of a winner need not be shipped any more; None if it is the default of today, or faster than that."""
    strategy = strategy_of(winner, machine)
    default = strategy.schedule(strategy.default)
    if won.directives == default.directives:
        return None
    task = Task.of(won.outputs, str(winner.task.get("op")), dims_of(winner), constants=constants_of(winner.task))
    with Runner(worker_task(task, machine, winner.threads, Policy(cache=winner.cache)), Limits(memory=memory())) as runner:
        outcome = runner.paired([Candidate(schedule=one.to_json()) for one in (won, default)])
    if outcome.status != "ok":
        return outcome.why
    ours, theirs = (row.samples for row in outcome.rows)
    lead = median(other / own for own, other in zip(ours, theirs, strict=True))
    return None if lead >= WORTH else f"{lead:.2f} times as fast as the default of today"


def lines(chosen: Mapping[Study, tuple[Record, Trial, Trial]], level: Target) -> Iterator[bytes]:
    """What of the records is shipped: each names the features of the class, and none the computer on which it was made.

    A verdict goes without the samples that led to it, which are most of a log.
    """
    for final, winner, base in chosen.values():
        judged = FinalRecord.of(final)
        told = {**final, "finalists": [], "speedup_interval": judged.interval, "quality": judged.verdict}
        for fields in (base.fields, *([] if winner.id == base.id else [winner.fields]), told):
            about = {**fields["target"], "features": sorted(level.isa)}
            machine = {**fields["machine"], "host": ""} if isinstance(fields.get("machine"), dict) else {}
            software = {name: version for name, version in fields.get("software", {}).items() if name != "kernel"}
            kept = {name: value for name, value in fields.items() if name != "clock"}
            yield to_line({**kept, "target": about, "machine": machine, "software": software})


def main(paths: list[str], folder: Path = FOLDER, cpu: str | None = None, *, measure: bool = False) -> int:
    """Choose, compare, write; what is said goes to the standard output."""
    machine = target(cpu)
    level = level_of(machine)
    if level is None:
        print(f"{machine.cpu} is in none of the classes {', '.join(LEVELS)}", file=sys.stderr)
        return 1
    log = folder / f"{level.name}.jsonl"
    chosen = decided([*([str(log)] if log.exists() else []), *paths], level)
    for study, (_, winner, base) in list(chosen.items()):
        told = f"{winner.task.get('op')} {winner.task.get('shape')}"
        if (why := wrong(winner, machine, measure=measure)) is not None:
            print(f"{told}: left out: {why}")
            del chosen[study]
        else:
            print(f"{told}: {'the default' if winner.id == base.id else 'a winner'}")
    data = b"".join(lines(chosen, level))
    models = {str(winner.fields.get("machine", {}).get("model")) for _, winner, _ in chosen.values()}
    made = Processors(
        name=level.name, arch=level.arch, features=tuple(sorted(level.isa)), vector_bits=level.vector_bits, log=log.name,
        sha256=hashlib.sha256(data).hexdigest(), tuned_on=tuple(sorted(models)), programs=len(chosen),
    )  # fmt: skip
    others = [one for one in (classes(folder) if (folder / INDEX).exists() else ()) if one.name != made.name]
    for path, contents in ((log, data), (folder / INDEX, msgspec.json.format(msgspec.json.encode([*others, made])) + b"\n")):
        with files.replacing(path) as file:
            file.write(contents)
    print(f"{len(chosen)} programs for {made.name} in {log}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.ship", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="the CPU that the logs are of, as x86-64-v3 (default: this machine's)")
    parser.add_argument("--measure", action="store_true", help="leave out what is no longer faster than the default")
    parser.add_argument("log", nargs="*", help="a log, or a folder of logs; without any, what the package has is looked at again")
    options = parser.parse_args()
    sys.exit(main(options.log, cpu=options.target, measure=options.measure))
