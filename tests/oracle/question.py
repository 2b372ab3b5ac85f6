"""The question: does every dependence of the program point forward in its schedule?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorlang.ir import Nest

from .dependences import Need, Needs, Plain, decided, needs
from .flow import Instance
from .marks import statements_of
from .run import CONSTANT, NOTHING, Content, Ran, run, shown

Arrays = Mapping[str, np.ndarray[Any, Any]]


def dependences(plain: Nest, arrays: Arrays, dims: Mapping[str, int]) -> Needs:
    """The dependences of an unscheduled nest on these data. Raises `TooMuch` where data decides more than can be listed."""
    shapes = {buffer.name: arrays[buffer.name].shape for buffer in (*plain.inputs, *plain.outputs)}
    listed = run(plain, arrays, dims, statements=statements_of(plain))[1] if decided(plain) else Plain()
    return needs(plain, dims, shapes, listed)


def observed(plain: Nest, marks: Nest, arrays: Arrays, dims: Mapping[str, int]) -> Needs:
    """The same dependences as a run of the nest with its `marks` shows them: those on these data, however many data decide."""
    ran, _ = run(marks, arrays, dims)
    combining = {statement.label for statement in statements_of(plain) if statement.store.reducer is not None}
    found = {
        instance: Need(step.value - CONSTANT, step.all - CONSTANT, instance[0] in combining)
        for step in ran.executed
        for instance in step.instances
    }
    return found | {output: Need(content - CONSTANT) for output, content in ran.outputs.items()}


def violation(wanted: Needs, scheduled: Nest, arrays: Arrays, dims: Mapping[str, int]) -> str | None:
    """The first dependence that does not point forward in a marked nest, as a sentence; None where all do.

    Raises `InternalError` where the nest leaves a buffer.
    """
    ran, _ = run(scheduled, arrays, dims, needs=wanted)
    if ran.faults:
        return ran.faults[0]
    for step in ran.executed:
        alien = [instance for instance in step.instances if instance not in wanted]
        if alien:
            return f"{shown(min(alien))} is executed, which is no instance of the program"
        needed = [wanted[instance] for instance in step.instances]
        found = step.all | step.instances
        # Operands are there from the start: where one is not read, nobody asks for what it would be part of.
        missing = frozenset(source for need in needed for source in need.value if source not in found and source in wanted)
        strange = step.value - NOTHING.union(*(need.all for need in needed)) - CONSTANT
        if not strange and not step.all & CONSTANT:  # what is simplified away is not read: x % 1 is 0
            missing = frozenset(source for source in missing if wanted[source].combines)
        if missing or strange:
            return told(missing, strange, step.instances, ran, f"at {step.time}")
    for output, content in ran.outputs.items():
        need = wanted.get(output, Need())
        if need.value != content - CONSTANT:
            return told(need.value - content, content - need.value - CONSTANT, frozenset([output]), ran, "at the end")
    return None


def told(missing: Content, strange: Content, who: frozenset[Instance], ran: Ran, when: str) -> str:
    """What a statement found in place of what it needs, as a sentence."""
    name = " with ".join(map(shown, sorted(who)))
    if not missing:
        return f"{name} finds {shown(min(strange))}, which is not for it"
    source = min(missing)
    times = [str(step.time) for step in ran.executed if source in step.instances]
    first = f"runs at {', '.join(times[:4])}" if times else "does not run"
    instead = f" but {shown(min(strange))}" if strange else ""
    return f"{shown(source)} -> {name} does not point forward: the first {first}, and the second, {when}, does not find it{instead}"
