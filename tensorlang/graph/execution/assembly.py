"""One native call for a graph: work in stages, places in an arena, a sequence of the kernel library.

    kernels ──▶ ordered work ──▶ stages ──▶ lifetimes ──▶ plan ──▶ steps on places ──▶ sequence

A moment of the plan is a stage. A result that a kernel may write over an operand, which nobody needs afterwards, has its memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorlang import kernels
from tensorlang.graph.definition import shape_at
from tensorlang.graph.execution.lanes import Stage
from tensorlang.graph.execution.ordering import Ordered, Work
from tensorlang.graph.execution.plan import Lifetime, Plan, plan
from tensorlang.graph.execution.steps import KernelStep
from tensorlang.graph.places import Place
from tensorlang.graph.strided import Strided


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """A graph for certain sizes of its dims: what is done, where everything lies, and the function that does it."""

    stages: Sequence[Stage]
    plan: Plan
    sequence: kernels.Sequence

    @property
    def work(self) -> tuple[Work, ...]:
        """Everything that is done, in an order in which it can be done."""
        return tuple(one for stage in self.stages for lane in stage for one in lane)


def workspace_name(work: Work) -> str:
    """What the plan calls the memory of a kernel's intermediates."""
    return f"workspace of {work.writes[0]}"


def lifetimes(made: Ordered, stages: Sequence[Stage]) -> tuple[list[Lifetime], dict[str, str]]:
    """The memories that want a place in the arena, and which others are the same memory, by the name of what they are written over."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    found: list[Lifetime] = []
    for moment, stage in enumerate(stages):
        for work in (one for lane in stage for one in lane):
            for name in work.writes:
                first[name] = last[name] = moment
            for place in work.reads:
                last[place.memory] = moment
            if isinstance(work.step, KernelStep) and (room := work.step.kernel.workspace_bytes):
                found.append(Lifetime(workspace_name(work), room, moment, moment))
    inside = [name for name in first if name not in made.outputs]
    below = _over(made, stages, last, frozenset(inside))
    for name in below:  # what is written over another one keeps its memory for longer
        last[_root(name, below)] = max(last[_root(name, below)], last[name])
    found += [Lifetime(name, made.sizes[name], first[name], last[name]) for name in inside if name not in below]
    return found, {name: _root(name, below) for name in below}


def _root(name: str, below: Mapping[str, str]) -> str:
    while name in below:
        name = below[name]
    return name


def _over(made: Ordered, stages: Sequence[Stage], last: Mapping[str, int], inside: frozenset[str]) -> dict[str, str]:
    """The memories that are written over operands, as kernels allow, and these: of the same size, whole, read here alone from now on."""
    found: dict[str, str] = {}
    for moment, stage in enumerate(stages):
        for work in stage[0] if len(stage) == 1 else ():
            if not isinstance(work.step, KernelStep):
                continue
            signature, fixed = work.step.kernel.program.signature, work.step.kernel.program.bound
            passed = [argument.name for argument in signature.passed if argument.name not in fixed]
            reads = dict(zip(passed, work.reads, strict=True))
            for name, result in zip(work.writes, signature.outputs, strict=True):
                place = None if result.over is None else reads.get(signature.inputs[result.over].name)
                if place is None or {name, place.memory} - inside or made.sizes[name] != made.sizes[place.memory]:
                    continue
                whole = place.lying.offset == 0 and place.lying.is_contiguous and math.prod(place.lying.shape) > 0
                alone = [other.memory for other in work.reads].count(place.memory) == 1
                if whole and alone and last[place.memory] == moment and place.memory not in found.values():
                    found[name] = place.memory
    return found


def assembled(made: Ordered, stages: Sequence[Stage], threads: int | None) -> Assembly:
    """The function of a graph for these sizes of dims, on so many threads."""
    graph, dims = made.graph, made.dims
    wanted, over = lifetimes(made, stages)
    found = plan(wanted)
    slots = {value.name: kernels.Slot.input(place) for place, value in enumerate(graph.inputs)}
    slots |= {name: kernels.Slot.constant(array) for name, array in made.constants.items()}
    slots |= {name: kernels.Slot.arena(offset) for name, offset in found.offsets.items()}
    slots |= {name: slots[root] for name, root in over.items()}
    slots |= {name: kernels.Slot.output(place) for place, name in enumerate(made.outputs)}
    writer = _Writer(slots, dims)
    steps: list[kernels.Call | kernels.Copy | kernels.Together] = []
    for stage in stages:
        lanes = tuple(tuple(writer.step(one) for one in lane) for lane in stage)
        steps += lanes[0] if len(lanes) == 1 else (kernels.Together(lanes),)
    ins, outs = (
        [kernels.Port(name, shape_at(value, dims), value.dtype) for name, value in side]
        for side in (
            [(value.name, value) for value in graph.inputs],
            [
                (f"{value.name}", value) if graph.outputs.count(value) == 1 else (f"{value.name}.{place}", value)
                for place, value in enumerate(graph.outputs)
            ],
        )
    )
    return Assembly(stages, found, kernels.sequence(graph.name, ins, outs, steps, found.bytes, threads))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Work as steps of the kernel library."""

    slots: Mapping[str, kernels.Slot]
    dims: Mapping[str, int]

    def step(self, work: Work) -> kernels.Call | kernels.Copy:
        """A call of the kernel, or a copy."""
        step = work.step
        if isinstance(step, KernelStep):
            reads = tuple(self._at(place, value.dtype.bytes) for place, value in zip(work.reads, step.operands, strict=True))
            results = tuple(self.slots[name] for name in work.writes)
            workspace = self.slots.get(workspace_name(work))
            sizes = {name: self.dims[name] for name in step.kernel.program.signature.dims}
            return kernels.Call(step.kernel, reads, results, sizes, workspace)
        lying = step.source.lying
        plain = Strided.contiguous(lying.shape).strides
        source = self._at(step.source, step.itemsize)
        return kernels.Copy(source, self.slots[step.result], lying.shape, lying.strides, plain, step.itemsize)

    def _at(self, place: Place, itemsize: int) -> kernels.Slot:
        slot = self.slots[place.memory]
        return kernels.Slot(slot.memory, slot.number, slot.offset + place.lying.offset * itemsize, slot.array)
