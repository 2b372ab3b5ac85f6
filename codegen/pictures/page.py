"""`s.visualize("page.html")`: the page itself, made of what the other files of this room find out.

The page is one file: style and script stand in it, it asks for nothing from anywhere, and its policy forbids it to. Every text is escaped
by the template, or put into the page by the script as text. A part that cannot be made says why in a sentence, in its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.kernel.build import build
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.pictures import shown
from tensorlang.codegen.pictures.machine_code import MachineCode, machine_code
from tensorlang.codegen.pictures.steps import steps
from tensorlang.codegen.pictures.times import Measured, guessed, measured
from tensorlang.codegen.pictures.walk import Walked, walk
from tensorlang.codegen.pictures.walk_plan import NotDrawn
from tensorlang.codegen.pictures.working_sets import working_sets
from tensorlang.codegen.target import machine as find_machine, target as find_target
from tensorlang.codegen.target.description import Target
from tensorlang.codegen.target.machines import is_description
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import BuildError, ScheduleError, TensorlangError
from tensorlang.ir.printer import print_nest
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.model.estimate import Estimate, estimate
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.names import require_extents
from tensorlang.schedules.schedule import Schedule
from tensorlang.system.files import replacing, require_regular
from tensorlang.system.pages import rendered

SIZE: Final = 96
"""The extent of a dim in the animation, where the caller does not give one."""


def visualize(
    program: Schedule | Tensor | Sequence[Tensor],
    path: str | os.PathLike[str],
    target: Any = None,
    *,
    sizes: Mapping[str, int] | None = None,
    measure: bool = True,
    **dims: int,
) -> Path:
    """Write one self-contained page that shows a schedule, or the default schedule of tensors, to `path`, and return that path.

    It has the nest, what each directive did, an animation of what is computed, read and kept when, the working set of each loop against the
    caches, the inner loops' machine code beside the nest, and predicted against measured time. `target` is what `s.estimate` takes, `dims`
    are the extents of the call that is predicted and measured (those that are not given are guessed), `sizes` those of the animation
    (default 96); `measure=False` builds and runs nothing. What cannot be shown is replaced by the reason.

    Raises `BuildError` for an unknown target and for a path that cannot be written, `ScheduleError` for an unknown dim or one that is no
    extent.
    """
    where = _writable(path)
    machine = find_machine(target)
    compiled_for = find_target("native" if is_description(target) or isinstance(target, Machine) else target)
    schedule = program if isinstance(program, Schedule) else default_schedule(program, compiled_for)
    call = guessed(schedule.nest, _extents(schedule, dims))
    small = _extents(schedule, {} if sizes is None else sizes)
    predicted = estimate(schedule.nest, machine, call)
    kernel, timed, code = _built(schedule, compiled_for, call, predicted, measure=measure)
    walked = _walked(schedule, small)
    page = rendered(
        "tensorlang.codegen.pictures",
        name=schedule.nest.name,
        signature=print_nest(schedule.nest).split("\n", 1)[0],
        where=shown.where(machine, compiled_for, call, schedule.nest.dims),
        tiles=shown.tiles(schedule, predicted, timed, kernel),
        animation=shown.about_animation(walked, schedule.nest),
        code=shown.about_code(code),
        sets=shown.sets(working_sets(schedule.nest, machine, call), machine),
        times=shown.times(predicted, timed, machine),
        python=repr(schedule),
        faults=schedule.faults,
        data=_embedded(shown.data(schedule, walked, code, steps(schedule))),
    )
    try:
        with replacing(where) as file:
            file.write(page.encode())
    except OSError as error:
        raise BuildError(f"the page cannot be written to {str(path)!r}: {error.strerror}") from None
    return where


def _built(
    schedule: Schedule, target: Target, call: Mapping[str, int], predicted: Estimate, *, measure: bool
) -> tuple[Kernel | None, Measured, MachineCode]:
    """The kernel, its times and its code; what could not be had says why."""
    if not measure:
        return None, Measured(instead="Nothing was built: the page was made with measure=False."), MachineCode(instead="Nothing was built.")
    try:
        kernel = build(schedule, target)
    except TensorlangError as error:
        told = f"The schedule cannot be built for {target}: {error}"
        return None, Measured(instead=told), MachineCode(instead=told)
    try:
        code = machine_code(kernel, schedule.nest, predicted.stages)
    except TensorlangError as error:
        code = MachineCode(instead=f"The machine code cannot be shown: {error}")
    return kernel, measured(kernel, schedule.nest, call, predicted.seconds), code


def _walked(schedule: Schedule, sizes: Mapping[str, int]) -> Walked | str:
    """What the animation shows, or why there is none."""
    try:
        return walk(schedule.nest, schedule.nests[0], guessed(schedule.nest, sizes, SIZE))
    except NotDrawn as reason:
        return f"There is no animation: {reason}."


def _extents(schedule: Schedule, given: Mapping[str, int]) -> Mapping[str, int]:
    """Raises `ScheduleError` for what is no extent of a dim of the schedule."""
    if not isinstance(given, Mapping):
        raise ScheduleError("TL-S005", f"sizes= takes a mapping from dims to extents, as {{'n': 32}}, not {given!r:.40}")
    try:
        require_extents(schedule.nest, given)
    except Refusal as refusal:
        raise ScheduleError(refusal.code, refusal.reason) from None
    return given


def _writable(path: str | os.PathLike[str]) -> Path:
    """The path, looked at before the work begins."""
    try:
        where = Path(path)
        if where.exists():
            require_regular(where.stat(), path)
        elif not where.resolve().parent.is_dir():
            raise BuildError(f"the page cannot be written to {str(path)!r}: there is no folder {str(where.parent)!r}")
    except TypeError:
        raise BuildError(f"the page is written to a path, not {path!r:.60}") from None
    except (OSError, ValueError) as error:
        raise BuildError(f"the page cannot be written to {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    return where


def _embedded(data: Any) -> str:
    """Data as text that can stand in a script element: nothing in it ends the element, or begins a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
