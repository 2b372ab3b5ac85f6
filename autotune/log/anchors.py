"""The anchor of a program: the stage with most work, as a program of its own.

What is fused with a product costs little beside it, so the schedule that was found for the product alone is a good one for it with a bias
and an activation. The anchor is looked for with all that it is computed from (a convolution and its padding), then with its operands as
they come (a product behind a prologue).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from tensorlang import ir
from tensorlang.definition.first_use import by_first_use
from tensorlang.definition.tensor import Placeholder, Stage, Tensor, as_outputs, operands, serial
from tensorlang.ir.integers import known_value
from tensorlang.ir.traverse import rewrite, walk
from tensorlang.serialization import canonical

UNKNOWN: Final = 1024
"""Iterations assumed of an extent that only a call tells."""


class Anchor(NamedTuple):
    """A stage of a program by name, and what its own program is called."""

    name: str
    fingerprint: str


def anchors(outputs: object, program: str) -> Iterator[Anchor]:
    """What the stage with most work would be tuned as; nothing where it is the whole program, whose fingerprint is `program`."""
    stages = [part for part in by_first_use(as_outputs(outputs)) if isinstance(part, Stage) and not part.itself]
    stage = max(stages, key=_work, default=None)
    if stage is None or not any(True for _ in _reductions(stage)):
        return
    seen = {program}
    for alone in (stage, _with_operands_given(stage)):
        found = canonical.fingerprint(tuple(Tensor(alone, component) for component in range(len(alone.values))))
        if found not in seen:
            seen.add(found)
            yield Anchor(stage.name or "the main stage", found)


def _work(stage: Stage) -> int:
    """How often the body runs."""
    lengths = [[(axis.lo, axis.hi) for axis in node.axes] for node in _reductions(stage)]
    terms = [math.prod(_value(hi) - _value(lo) for lo, hi in axes) for axes in lengths]
    return math.prod(map(_value, stage.shape)) * max(terms, default=1)


def _reductions(stage: Stage) -> Iterator[ir.Reduce]:
    return (node for value in stage.values for node in walk(value) if isinstance(node, ir.Reduce))


def _value(extent: ir.Expr) -> int:
    found = known_value(extent, {})
    return UNKNOWN if found is None else found


def _with_operands_given(stage: Stage) -> Stage:
    """The stage, reading operands of a call in place of what is computed."""
    given = {
        (id(tensor.definition), tensor.component): Tensor(Placeholder(None, tensor.extents, tensor.dtype, serial()))
        for tensor in operands(stage)
    }

    def read(node: ir.Expr) -> ir.Expr:
        if isinstance(node, ir.Load) and isinstance(node.buffer, Tensor):
            return replace(node, buffer=given[id(node.buffer.definition), node.buffer.component])
        return node

    return replace(stage, values=tuple(rewrite(value, read) for value in stage.values), order=serial())
