"""What this version and this machine add to a log that was written anywhere: the space, the winning loop nest, the measured peak.

Each is only given where it is certain to be what the log means (same instruction set and CPU, same fingerprint of the space, a schedule
that is still accepted); else the reason is. A log can be anyone's, so nothing that rebuilding raises is fatal.
"""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tensorlang.autotune.jobs.peak import Peak, measure_peak
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement import host
from tensorlang.autotune.reporting.analysis import number
from tensorlang.autotune.reporting.display import plural
from tensorlang.codegen.target import target as named_target
from tensorlang.errors import TensorlangError
from tensorlang.schedules.spaces.space import Space, spelling
from tensorlang.serialization import rebuild

if TYPE_CHECKING:
    from tensorlang.schedules.schedule import Schedule

LONGEST_TEXT: Final = 60_000
BROKEN: Final = (TensorlangError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
"""What rebuilding a program or schedule of another version, or of a stranger, may raise."""


def peak(trial: Trial, *, measure: bool) -> tuple[Peak | None, str]:
    """The measured peak, if this is the CPU of the log, and what to know of it."""
    if not measure:
        return None, "No roofline: the peak of the machine was not to be measured."
    here, processor = host.target_fields(named_target()), host.machine()["model"]
    if here["fingerprint"] != trial.target.get("fingerprint") or processor != model(trial):
        there = f"{model(trial)} ({trial.target.get('cpu')})"
        return None, f"No roofline: the log is of {there}, and the peak can only be measured there; this is {processor} ({here['cpu']})."
    found = _measured(trial.threads, str(trial.task.get("dtype")))
    if not found.flops:
        return None, "No roofline: the peak of this machine could not be measured."
    where = f"on {platform.node()}, the same CPU, with {plural(trial.threads, 'thread')}"
    load, cores = host.load(), len(host.cores())
    busy = (
        f" The machine was busy (load {load:g} on {cores} cores), so they may be too low." if load is not None and load > cores / 2 else ""
    )
    return found, f"The roofs were measured while this page was written, {where}.{busy}"


@lru_cache(maxsize=32)
def _measured(threads: int, kind: str) -> Peak:
    try:
        return measure_peak(named_target(), threads, kind)
    except BROKEN:
        return Peak(None, None)


def fits(moved: float) -> str:
    """Whether so many bytes fit this machine's last-level cache, in words."""
    cache = named_target().l3
    if moved <= cache:
        return f"A call's {moved / 1e6:.3g} MB fit the last-level cache ({cache / 1e6:.3g} MB), so memory need not bound it."
    return f"A call's {moved / 1e6:.3g} MB do not fit the last-level cache ({cache / 1e6:.3g} MB)."


@lru_cache(maxsize=32)
def _rebuilt_space(definition: str, threads: int) -> Space | None:
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415 - other pages do without

    try:
        space = choose(rebuild.rebuild(json.loads(definition)), named_target(), threads).space
        return space if isinstance(space, Space) else None
    except BROKEN:
        return None


def space(trial: Trial) -> Space | None:
    """The space that was searched, if this version and machine still make the same one."""
    if host.target_fields(named_target())["fingerprint"] != trial.target.get("fingerprint"):
        return None
    space = _rebuilt_space(spelling(trial.task.get("definition")), trial.threads)
    return space if space is not None and space.fingerprint == mapping(trial, "strategy").get("space") else None


def values(space: Space | None, trials: Sequence[Trial]) -> dict[str, list[Any]]:
    """The values of each knob: of the space, or those that the trials have."""
    found: dict[str, dict[str, Any]] = {}
    if space is not None:
        todo, seen = list(space.knobs), set[int]()
        while todo:
            knob = todo.pop(0)
            if id(knob) in seen:
                continue
            seen.add(id(knob))
            found.setdefault(knob.name, {}).update((spelling(value), value) for value in knob.values)
            todo.extend(child for children in knob.opens.values() for child in children)
    else:
        for trial in trials:
            for name, value in trial.config.items():
                found.setdefault(name, {})[spelling(value)] = value
    return {
        name: sorted(own.values(), key=lambda value: (number(value) is None, number(value) or 0.0, spelling(value)))[:200]
        for name, own in list(found.items())[:60]
    }


def schedule(trial: Trial) -> Schedule:
    """The schedule of a trial. Raises one of `BROKEN` where this version cannot rebuild it."""
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415 - other pages do without

    return Schedule.from_json(rebuild.rebuild(trial.task.get("definition")), trial.schedule or "")


def texts(trial: Trial) -> tuple[str, str]:
    """The loop nest and the Python of a schedule; the reason and the directives where this version cannot rebuild it."""
    try:
        made = schedule(trial)
        return str(made)[:LONGEST_TEXT], repr(made)[:LONGEST_TEXT]
    except BROKEN as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return f"This version cannot rebuild the schedule: {why}", f"directives: {str(trial.schedule)[:LONGEST_TEXT]}"


def python_of(trial: Trial) -> str:
    """The Python of a schedule; the reason and the directives where this version cannot rebuild it.

    What this version measured it accepted, so its directives are spelled as they stand in the record; others are replayed.
    """
    from tensorlang.schedules import trace  # noqa: PLC0415 - as above
    from tensorlang.schedules.directive import Refusal  # noqa: PLC0415

    wrote = mapping(trial, "software").get("tensorlang")
    if wrote == host.software()["tensorlang"] and (names := _outputs(trial.task.get("definition"))) is not None:
        try:
            steps, made_for = trace.from_json(trial.schedule or "")
            if made_for == trial.task.get("fingerprint"):
                return "\n".join([f"s = tl.Schedule({', '.join(names)})", *map(trace.call, steps)])[:LONGEST_TEXT]
        except (Refusal, *BROKEN):
            pass  # replaying it says what is wrong
    nest, python = texts(trial)
    return python if python.startswith("s = ") else f"{nest}\n{python}"


def _outputs(document: object) -> list[str] | None:
    """The names of a program's results, where its description alone tells them: stages of one tensor each, all of different names."""
    match document:
        case {"definitions": [*found], "outputs": [*outputs]} if all(isinstance(entry, dict) for entry in found):
            names = [entry.get("name") for entry in found]
            simple = all(entry.get("kind") == "placeholder" or len(entry.get("values", ())) == 1 for entry in found)
            if simple and len({*names}) == len(names) and all(isinstance(name, str) and name.isidentifier() for name in names):
                with contextlib.suppress(IndexError, TypeError):
                    return [str(names[place]) for place in outputs]
    return None


def definition(trial: Trial) -> str:
    """The program as a loop nest without a schedule; the reason where this version cannot rebuild it."""
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415 - as above

    try:
        return str(Schedule(rebuild.rebuild(trial.task.get("definition"))))[:LONGEST_TEXT]
    except BROKEN as error:
        return f"This version cannot rebuild the definition: {(str(error).splitlines() or [type(error).__name__])[0]}"


def mapping(trial: Trial, name: str) -> Mapping[str, Any]:
    """A field of a record that is an object; empty if it is not."""
    value = trial.fields.get(name)
    return value if isinstance(value, dict) else {}


def model(trial: Trial) -> str:
    """The processor that a trial ran on."""
    return str(mapping(trial, "machine").get("model"))
