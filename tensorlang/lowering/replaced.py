"""States of a scan that need no second place: the next one takes that of the last, element by element.

    x = x[i, j] + v[i, j]                     the element of x is read where it is written, and by nobody after that
    v = v[i, j] - (x[i + 1, j] - x[i, j])     v as well; x is another one, which the step has already made

Right where the stage that makes the next state reads the last one at the very element that it writes, outside of sums, which are whole
before anything is written and go through other elements; where every other stage of the step that reads the last one comes before; and
where no next state is what a last one was. Values of an element are all computed before one of them is stored, all at the same index: so
the states that one stage makes are replaced together or not at all.

Stages between, which make no state, count for what they read: `x[i, j] + d[i, j]` after `d = x[i + 1, j] - x[i, j]` keeps two places, for
`d` had else to be stored, which is better written into its reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tensorlang.definition.tensor import Scan, Scatter, Stage, State, Tensor
from tensorlang.ir import Axis, Load, Reduce
from tensorlang.ir.traverse import nodes

_Reads: TypeAlias = Mapping[int, bool]
"""Of the definitions that a stage reads, by identity: only at the element that it writes, and in no sum?"""


def replaced(scan: Scan) -> frozenset[int]:
    """The components whose next states may take the place of the last ones: all those that a stage of the step makes, or none of them."""
    makers = [new.definition for new in scan.following]
    body = [(stage, _reads(stage)) for stage in scan.body if isinstance(stage, Stage)]
    if len(body) < len(scan.body) or any(isinstance(maker, State) for maker in makers):
        return frozenset()
    kept = {id(maker) for component, maker in enumerate(makers) if not _is_replaced(scan, component, body)}
    return frozenset(component for component, maker in enumerate(makers) if id(maker) not in kept)


def direct(scan: Scan) -> set[int]:
    """The components of the next state that the stage of the step which computes them stores where they belong."""
    found: set[int] = set()
    for component, new in enumerate(scan.following):
        definition = new.definition
        if all(definition is not part for part in scan.body):
            continue
        match definition:
            case Scatter():
                wanted = 1
            case Stage(values=(Reduce(reducer=reducer),)) if len(reducer.identities) > 1:
                continue
            case Stage(values=values):
                wanted = len(values)
            case _:
                continue
        same = [(other, keep) for other, keep in zip(scan.following, scan.keep, strict=True) if other.definition is definition]
        alike = len({keep for _, keep in same}) == 1  # the values of a stage are stored at one index
        if alike and len(same) == wanted == len({other.component for other, _ in same}):
            found.add(component)
    return found


def _is_replaced(scan: Scan, component: int, body: list[tuple[Stage, _Reads]]) -> bool:
    maker, makers = scan.following[component].definition, {id(new.definition) for new in scan.following}
    speaking = {id(scan.states[component])}
    made = False
    for stage, reads in body:
        met = [own for definition, own in reads.items() if definition in speaking]
        if made and met:
            return False
        between = id(stage) not in makers
        if not all(met) and (stage is maker or between):
            return False
        if between and met:
            speaking.add(id(stage))
        made = made or stage is maker
    return made


def _reads(stage: Stage) -> _Reads:
    own = tuple(Axis(axis) for axis in stage.axes)
    every = list(nodes(*stage.values))
    in_sums = {id(node) for node in nodes(*(node for node in every if isinstance(node, Reduce)))}
    found: dict[int, bool] = {}
    for load in every:
        if isinstance(load, Load) and isinstance(load.buffer, Tensor):
            read = id(load.buffer.definition)
            found[read] = found.get(read, True) and id(load) not in in_sums and load.index == own
    return found
