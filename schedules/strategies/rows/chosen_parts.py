"""How many vectors of a row are in flight where a choice takes a part of it that ends elsewhere in each row.

    for t: for i: Y[t + 1, i] = select(i < t, f(Y[t, i]), 0)        # a tile in each row does both, and chooses between the lanes

The tiles before and behind the end do one of the two (`lowering.passes.interiors`). The one in between does both under masks, all of its
vectors, so that less of a row is lost where a tile has few of them; the cost model weighs that against the steps of more tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tensorlang.algebra.bounds import conjuncts
from tensorlang.ir import Axis, Binary, Compare, For, Select
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import dtype_of, nodes
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies.analysis.stages import StageInfo
from tensorlang.schedules.strategies.descent import CODE_COST, GAIN
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors

USUAL: Final = 2
"""Vectors of a tile that asks something besides, as of other rows, if the model gives fewer no clear gain: each tile asks anew."""


def chosen_parts(rows: RowVectors, plain: Sequence[Part], machine: Processor) -> RowVectors:
    """The rows with the vectors that the model names, no more than usual; as they were where no choice ends elsewhere in each row."""
    stage, vector = rows.stage, rows.vector
    if vector is None or not rows.may_be_reordered or not _ends_elsewhere(stage, vector):
        return rows
    sketch = Sketch.of(plain, stage.name)
    code = CODE_COST * (sketch.statement.operations + sketch.statement.touched)

    def seconds(count: int) -> float:
        found = sketch.copy()
        found.mark(found.split(vector.loop, count * rows.lanes, rows.lanes)[1], "vector")
        return estimated(numbered(found.parts()), machine.core).seconds * (1 + code * count)

    usual = rows.default()["vectors"]
    costs = {count: seconds(count) for count in rows.counts if count <= usual}
    best = min(costs, key=costs.__getitem__)
    near = [count for count, cost in costs.items() if GAIN * cost <= costs[best]]
    asks = any(vector.loop not in loops for loops in sketch.statement.conditions)
    return replace(rows, wanted=min(near, key=lambda count: abs(count - USUAL)) if asks else best)


def _ends_elsewhere(stage: StageInfo, vector: For) -> bool:
    """Does a choice between reads ask for the lanes together with other loops, as to which of two sums of them is the less?"""
    choices = (node for value in stage.store.values for node in nodes(value) if isinstance(node, Select))
    for condition in conjuncts(choice.cond for choice in choices):
        if isinstance(condition, Compare) and condition.op in ("lt", "le", "gt", "ge") and dtype_of(condition.left) == INT64:
            terms = linear(Binary("sub", condition.left, condition.right)).terms
            if Axis(vector.loop) in terms and any(isinstance(atom, Axis) and atom.name != vector.loop for atom in terms):
                return True
    return False
