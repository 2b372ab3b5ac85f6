"""The question: does every dependence of the program point forward in its schedule?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorlang.ir import Const, Nest, Store
from tensorlang.traverse import statements

from .dependences import Instance, Needs, Plain, needs
from .marks import statements_of
from .run import Content, Ran, run, shown


def dependences(plain: Nest, arrays: Mapping[str, np.ndarray[Any, Any]], dims: Mapping[str, int]) -> Needs:
    """The dependences of an unscheduled nest on these data. Raises `TooMuch` where data decides more than can be listed."""
    every = statements_of(plain)
    shapes = {buffer.name: arrays[buffer.name].shape for buffer in (*plain.inputs, *plain.outputs)}
    return needs(plain, dims, shapes, run(plain, arrays, dims, statements=every)[1] if decided(plain) else Plain())


def decided(nest: Nest) -> bool:
    """Might data decide an access of a nest? Then what it does is listed."""
    from tests.oracle.dependences import Relations, _Unknown, reads_of

    for statement in statements_of(nest):
        names = {loop.loop: "v" for loop in statement.loops}
        relations = Relations(dict.fromkeys(nest.dims, 1), Plain())
        try:
            for expr in (*statement.store.index, *(index for load, _ in reads_of(statement) for index in load.index)):
                relations.integer(expr, names)
            for cond, _ in (*statement.conditions, *(pair for _, tests in reads_of(statement) for pair in tests)):
                relations.condition(cond, names)
            for loop in statement.loops:
                relations.integer(loop.lo, names), relations.integer(loop.hi, names)
        except _Unknown:
            return True
    return False


def violation(wanted: Needs, scheduled: Nest, arrays: Mapping[str, np.ndarray[Any, Any]], dims: Mapping[str, int]) -> str | None:
    """The first dependence that does not point forward in a marked nest, as a sentence; None where all do."""
    ran, _ = run(scheduled, arrays, dims, needs=wanted)
    if ran.faults:
        return ran.faults[0]
    forgiving = constants(scheduled)
    for step in ran.executed:
        for instance in step.instances:
            if instance not in wanted and instance[0] not in forgiving and False:
                return f"{shown(instance)} is no instance of the program"
        asked = frozenset[Instance]().union(*(wanted.get(instance, frozenset()) for instance in step.instances))
        said = compared(asked, step.found | step.instances, step.instances, ran, step.time)
        if said is not None:
            return said
    for output, content in ran.outputs.items():
        said = compared(wanted.get(output, frozenset()), content, frozenset([output]), ran, None)
        if said is not None:
            return said
    return None


def constants(nest: Nest) -> frozenset[str]:
    """Stages that read nothing."""
    return frozenset(
        part.stage for part in statements(nest.body) if isinstance(part, Store) and all(isinstance(value, Const) for value in part.values)
    )


def compared(asked: Content, found: Content, who: frozenset[Instance], ran: Ran, time: int | None) -> str | None:
    """What a statement found, held against what it needs."""
    missing, strange = asked - found, found - asked - who
    if not missing and not strange:
        return None
    name = " with ".join(map(shown, sorted(who)))
    if not missing:
        return f"{name} finds {shown(min(strange))}, which is not for it"
    source = min(missing)
    times = [step.time for step in ran.executed if source in step.instances]
    when = "at the end" if time is None else f"at {time}"
    told = f"runs at {', '.join(map(str, times[:4]))}" if times else "does not run"
    instead = f" but {shown(min(strange))}" if strange else ""
    return f"{shown(source)} -> {name} does not point forward: the first {told}, and the second, {when}, does not find it{instead}"
