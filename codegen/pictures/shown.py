"""What the page says of what was found out: words and numbers for the template, and the data that its script draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.pictures.machine_code import InnerLoop, MachineCode
from tensorlang.codegen.pictures.steps import Steps
from tensorlang.codegen.pictures.times import Measured
from tensorlang.codegen.pictures.walk import Walked
from tensorlang.codegen.pictures.working_sets import WorkingSet
from tensorlang.codegen.reports.spelling import percent, seconds, size
from tensorlang.codegen.target import Target
from tensorlang.ir import For, Nest, Store
from tensorlang.ir.dtype import DType
from tensorlang.ir.printer import printed_lines
from tensorlang.schedules.model.estimate import Estimate, levels
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.schedule import Schedule

RESOURCES: Final = {"arithmetic": "arithmetic", "L1": "loads and stores (L1)", "memory": "memory", "pages": "page walks"}
BARS: Final = 60
"""Loops whose working sets are drawn."""
_MEMORY: Final = {"register": "in registers", "stack": "on the stack", "heap": "on the heap"}


def where(machine: Machine, target: Target, call: Mapping[str, int], dims: Sequence[str]) -> str:
    """For which machine, and for which call."""
    sized = f"; one call with {', '.join(f'{name} = {call[name]:,}' for name in dims)}" if dims else ""
    return f"machine code for {target}; predicted for {machine.name}{sized}"


def tiles(schedule: Schedule, predicted: Estimate, timed: Measured, kernel: Kernel | None) -> list[tuple[str, str, str]]:
    """The figures at the top: name, value, note."""
    report = timed.report
    told = [("predicted", seconds(predicted.seconds), f"bound by {predicted.bound}, one core")]
    if report is not None:
        share = f"{ratio(report.time / predicted.seconds)} of the prediction" if predicted.seconds else "there is nothing to compute"
        told.append(("measured", seconds(report.time), share))
        if timed.shared is not None:
            told.append((f"on {timed.threads} threads", seconds(timed.shared), f"{report.time / timed.shared:.2f} times as fast"))
        told.append(
            (
                "bound by",
                "no one limit" if report.bound == "unclear" else report.bound,
                f"{percent(report.peak_share)} of the multiply-add peak",
            )
        )
    told.append(("steps", str(len(schedule.directives)), f"{len(schedule.stages())} stage{'s' * (len(schedule.stages()) > 1)} left"))
    if kernel is not None:
        told.append(("workspace", size(kernel.workspace_bytes), "beside inputs and outputs"))
    return told


def ratio(value: float) -> str:
    """`1.07 times`, `84%`."""
    return f"{value:.2f} times" if value >= 1 else f"{value:.0%}"


def about_animation(walked: Walked | str, nest: Nest) -> dict[str, Any]:
    """The sentences beside the animation, or the reason why there is none."""
    if isinstance(walked, str):
        return {"instead": walked, "notes": []}
    notes = []
    if walked.dims:
        notes.append(f"Drawn with {', '.join(f'{name} = {value:,}' for name, value in walked.dims.items())}.")
    if walked.partly:
        loops = ", ".join(walked.partly[:6])
        notes.append(f"The program is long: of the loops {loops} a part of the iterations is drawn, spread evenly, or the first ones.")
    if walked.unknown:
        notes.append(f"Where {', '.join(walked.unknown)} is read depends on values that are computed; these reads are not drawn.")
    if walked.made:
        notes.append(f"The values of {', '.join(walked.made)} decide what is touched; they are made up, at random.")
    if any(isinstance(stmt, For) and stmt.kind == "parallel" for _, stmt in printed_lines(nest)):
        notes.append("Iterations that threads share are drawn one after the other.")
    hidden = sum(1 for name in walked.held if name not in walked.film.panels)
    if hidden:
        notes.append(f"{hidden} more intermediate{'s' * (hidden > 1)} of the program {'are' if hidden > 1 else 'is'} not drawn.")
    return {"instead": "", "notes": notes}


def about_code(code: MachineCode) -> dict[str, Any]:
    """What there is to say of the machine code."""
    notes = [] if code.traced else ["With debug information LLVM makes other code here, so no instruction is traced to its line."]
    return {"instead": code.instead, "notes": notes}


def _loop(loop: InnerLoop) -> dict[str, Any]:
    """An innermost loop for the script."""
    counts = loop.counts
    kind = f"Loop {counts.label}" if counts.label else "All code outside of loops"
    whose = f" of {', '.join(loop.stages[:4])}" if loop.stages else ""
    vectors = f"{counts.width}-bit vectors" if counts.width else "no vectors"
    told = f"{counts.vector} arithmetic on vectors, {counts.scalar} on single numbers, {counts.fused} multiply and add"
    more = f" {loop.left_out} more lines are not shown." if loop.left_out else ""
    time = f"; by the model {whose[4:]} takes {seconds(loop.seconds)}" if len(loop.stages) == 1 and loop.seconds else ""
    return {
        "about": f"{kind}{whose}: {vectors}, {counts.spills} spills{time}. {counts.instructions} instructions: {told}.{more}",
        "label": f"{loop.stages[0] if loop.stages else counts.label or 'outside of loops'}",
        "code": [[text.replace("\t", "    "), line] for text, line in loop.code],
    }


def sets(found: Sequence[WorkingSet], machine: Machine) -> dict[str, Any]:
    """The working sets as bars on a logarithmic scale, and where the caches stand on it."""
    caches = [(name, float(cache.size)) for name, cache in zip(levels(machine), machine.caches, strict=False)]
    least = math.log(64.0)
    most = math.log(max([2 * caches[-1][1], *(2 * one.bytes for one in found)]))

    def at(value: float) -> float:
        return round(100 * min(max((math.log(max(value, 1.0)) - least) / (most - least), 0.0), 1.0), 2)

    rows = [
        {
            "name": one.loop or "one call", "kind": "" if one.kind in ("", "serial") else one.kind, "depth": one.depth,
            "trips": f"{one.trips:,.4g}" if one.loop else "", "size": size(one.bytes), "home": one.home, "at": max(at(one.bytes), 0.6),
            "level": min(levels(machine).index(one.home), 3),
            "parts": ", ".join(f"{name} {size(part)}" for name, part in sorted(one.buffers.items(), key=lambda item: -item[1])),
        }
        for one in found[:BARS]
    ]  # fmt: skip
    return {
        "rows": rows,
        "caches": [(name, size(value), at(value)) for name, value in caches],
        "left_out": max(0, len(found) - BARS),
        "machine": machine.name,
    }


def times(predicted: Estimate, timed: Measured, machine: Machine) -> dict[str, Any]:
    """Predicted and measured seconds, and of what the prediction is made."""
    report = timed.report
    both = [("predicted", predicted.seconds)] + ([] if report is None else [("measured", report.time)])
    longest = max([value for _, value in both] + [1e-12])
    limits = sorted(((value, name) for name, value in predicted.shares.items() if value > 0), reverse=True)
    stages = sorted(((value, name) for name, value in predicted.stages.items()), reverse=True)[:12]
    return {
        "both": [(name, seconds(value), round(100 * value / longest, 2)) for name, value in both],
        "limits": [
            (RESOURCES.get(name, name), seconds(value), round(100 * min(value / predicted.seconds, 1.0), 2)) for value, name in limits
        ],
        "stages": [(name, seconds(value), round(100 * value / max(predicted.seconds, 1e-12), 2)) for value, name in stages],
        "moved": [(name, size(value)) for name, value in predicted.bytes.items() if value],
        "sentence": "" if report is None else report.sentence,
        "instead": timed.instead,
        "machine": machine.name,
    }


def data(schedule: Schedule, walked: Walked | str, code: MachineCode, steps: Steps) -> dict[str, Any]:
    """What the script draws."""
    lines = printed_lines(schedule.nest)
    return {
        "nest": [[line, stmt.stage if isinstance(stmt, Store) else ""] for line, stmt in lines],
        "loops": [_loop(loop) for loop in code.loops],
        "steps": {"lines": steps.lines, "first": steps.first, "calls": steps.calls},
        "film": None if isinstance(walked, str) else _film(walked, schedule.nest),
    }


def _film(walked: Walked, nest: Nest) -> dict[str, Any]:
    film = walked.film
    panels = []
    for buffer in walked.shown:
        panel, held, shape = film.panels[buffer.name], walked.held.get(buffer.name), walked.shapes[buffer.name]
        role = "input" if buffer in nest.inputs else "output" if buffer in nest.outputs else "intermediate"
        grid = panel.grid
        notes = (
            [] if held is None else _held(held.places, prod(shape), buffer.dtype, int(held.times.max(initial=0)), _mean(held.times), walked)
        )
        if role == "intermediate":
            notes = [_MEMORY.get(buffer.memory, ""), *notes]
        panels.append(
            {
                "name": buffer.name, "role": role, "shape": f"{buffer.dtype}[{', '.join(f'{extent:,}' for extent in shape)}]",
                "rows": grid.rows, "columns": grid.columns, "height": grid.height, "width": grid.width, "across": grid.across,
                "notes": "; ".join(filter(None, notes)),
            }
        )  # fmt: skip
    return {"panels": panels, "pictures": film.pictures, "bytes": any(panel["role"] == "intermediate" for panel in panels)}


def _mean(counts: Any) -> float:
    """How often an element is computed that is computed at all."""
    computed = counts > 0
    return float(counts[computed].mean()) if computed.any() else 0.0


def _held(places: int, elements: int, dtype: DType, most: int, mean: float, walked: Walked) -> list[str]:
    notes = [f"storage for {places:,} elements ({size(places * dtype.bytes)})"] if places < elements else []
    if most > 1 and places < elements and not walked.partly:
        notes.append(f"each element computed {mean:.3g} times, at most {most}")
    return notes
