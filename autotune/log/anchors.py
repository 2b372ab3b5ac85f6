"""The anchor of a program: the stage with most work, as a program of its own.

What is fused with a product costs little beside it, so the schedule that was found for the product alone is a good one for it with a bias
and an activation. The anchor is looked for with all that it is computed from (a convolution and its padding), then with its operands as
they come (a product behind a prologue).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tensorlang import ir
from tensorlang.definition.first_use import by_first_use
from tensorlang.definition.naming import tensor_names
from tensorlang.definition.tensor import Placeholder, Stage, Tensor, as_outputs, definitions, operands, serial
from tensorlang.ir.integers import ASSUMED_EXTENT, known_value
from tensorlang.ir.traverse import rewrite, walk
from tensorlang.serialization import canonical


class Anchor(NamedTuple):
    """A stage of a program by name, what its own program is called, and where in that the operands are that stay fixed, by first use."""

    name: str
    fingerprint: str
    places: tuple[int, ...] = ()


def anchors(outputs: object, program: str, constants: frozenset[str] = frozenset()) -> Iterator[Anchor]:
    """What the stage with most work would be tuned as; nothing where it is the whole program, whose fingerprint is `program`.

    `constants` are operands of the program that stay fixed, by name.
    """
    stages = [part for part in by_first_use(as_outputs(outputs)) if isinstance(part, Stage) and not part.itself]
    stage = max(stages, key=_work, default=None)
    if stage is None or not any(True for _ in _reductions(stage)):
        return
    seen = {program}
    names = tensor_names(definitions(as_outputs(outputs))) if constants else {}
    fixed = {id(part) for part, name in names.items() if isinstance(part, Placeholder) and name in constants}
    given, sources = _with_operands_given(stage)
    for alone in (stage, given):
        tensors = tuple(Tensor(alone, component) for component in range(len(alone.values)))
        found = canonical.fingerprint(tensors)
        if found not in seen:
            seen.add(found)
            operands_read = [part for part in by_first_use(tensors) if isinstance(part, Placeholder)] if fixed else []
            places = tuple(place for place, part in enumerate(operands_read) if sources.get(id(part), id(part)) in fixed)
            yield Anchor(stage.name or "the main stage", found, places)


def _work(stage: Stage) -> int:
    """How often the body runs."""
    lengths = [[(axis.lo, axis.hi) for axis in node.axes] for node in _reductions(stage)]
    terms = [math.prod(_value(hi) - _value(lo) for lo, hi in axes) for axes in lengths]
    return math.prod(map(_value, stage.shape)) * max(terms, default=1)


def _reductions(stage: Stage) -> Iterator[ir.Reduce]:
    return (node for value in stage.values for node in walk(value) if isinstance(node, ir.Reduce))


def _value(extent: ir.Expr) -> int:
    found = known_value(extent, {})
    return ASSUMED_EXTENT if found is None else found


def _with_operands_given(stage: Stage) -> tuple[Stage, dict[int, int]]:
    """The stage, reading operands of a call in place of what is computed; and for each of these what it stands for, both by identity."""
    given = {
        (id(tensor.definition), tensor.component): Tensor(Placeholder(None, tensor.extents, tensor.dtype, serial()))
        for tensor in operands(stage)
    }

    def read(node: ir.Expr) -> ir.Expr:
        if isinstance(node, ir.Load) and isinstance(node.buffer, Tensor):
            return replace(node, buffer=given[id(node.buffer.definition), node.buffer.component])
        return node

    sources = {id(tensor.definition): source for (source, _), tensor in given.items()}
    return replace(stage, values=tuple(rewrite(value, read) for value in stage.values), order=serial()), sources
