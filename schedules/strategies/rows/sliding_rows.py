"""How much of a stencil is in flight: vectors of a row that is read around an element, and rows side by side.

    for i: for j: Y[i, j] = X[i, j] + X[i, j + 2] + X[i + 1, j] + ...       # 25 loads a vector of a window of 5 x 5

The more vectors of a row, the fewer are loaded whose registers lie on two lines (`emission.neighbours`). And rows that are computed side by
side load once what several of them read: four rows of that window 40 vectors, where one by one they load 100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from tensorlang.ir import Axis, Load, Select
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, nodes
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies.analysis.stages import is_literal, size, tensor_of
from tensorlang.schedules.strategies.descent import CODE_COST
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors

TALL: Final = (2, 4)
"""Rows side by side."""


def sliding_rows(rows: RowVectors, plain: Sequence[Part], machine: Processor) -> RowVectors:
    """The rows with the vectors and rows that the model names; as they were where nothing is read around an element."""
    stage, vector = rows.stage, rows.vector
    if vector is None or not rows.may_be_reordered:
        return rows
    reads = [load for load in stage.loads if stage.moves(load, vector) == 1]
    tall = _tall(rows, reads, machine)
    most = max(Counter(tensor_of(load).name for load in reads).values(), default=0)
    along = most > 1 and machine.core.vector_bits >= 8 * machine.core.line
    if not (tall or along):
        return rows
    sketch = Sketch.of(plain, stage.name)
    code = CODE_COST * (sketch.statement.operations + sketch.statement.touched)

    def seconds(point: tuple[int, int]) -> float:
        found, (beside, count) = sketch.copy(), point
        outer, inner = found.split(vector.loop, count * rows.lanes, rows.lanes)
        found.mark(inner, "vector")
        if beside > 1:
            row_o, row_i = found.split(stage.outer[-2].loop, beside)
            found.reorder(row_o, outer, row_i, inner)
            found.mark(row_i, "unroll")
        return estimated(numbered(found.parts()), machine.core).seconds * (1 + code * count * beside)

    usual = rows.default()["vectors"]
    counts = [count for count in rows.counts if count >= usual] if along else [usual]
    points = [(1, count) for count in counts] + list(product(tall, [count for count in rows.counts if count <= max(counts)]))
    beside, wanted = min(points, key=seconds)
    return replace(rows, wanted=wanted, tall=tall, rows=beside)


def _tall(rows: RowVectors, reads: Sequence[Load], machine: Processor) -> tuple[int, ...]:
    """The rows that may stand side by side: they read a tensor at several places along them, or something alike; no end of a row is apart.

    Where they read something alike, as the weights of a layer, results stay in L2: beyond it lines are asked for ahead along one row. And
    no row asks anything of its lanes, of which it would have fewer at once.
    """
    stage = rows.stage
    if len(stage.outer) < 2 or stage.outer[-1] is not rows.vector or any(rows.ends):
        return ()
    above = stage.outer[-2]
    places: dict[str, set[int]] = {}
    for load in reads:
        forms = [form for form in map(linear, load.index[:-1]) if form.terms.get(Axis(above.loop)) == 1]
        if len(forms) == 1:
            places.setdefault(tensor_of(load).name, set()).add(forms[0].constant)
    near = (stage.written() or machine.l2) <= machine.l2 // 2
    choices = (node for value in stage.store.values for node in nodes(value) if isinstance(node, Select))
    asks = any(rows.vector.loop in axes_of(choice.cond) for choice in choices)
    alike = near and not asks and any(stage.moves(load, above) == 0 for load in reads)
    shared = alike or any(len(found) > 1 for found in places.values())
    return tuple(count for count in TALL if is_literal(above) and 2 * count <= size(above)) if shared else ()
