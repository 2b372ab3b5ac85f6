"""Planes side by side: what all of a few read, or compute, is there once for each place.

    for c: for i: for j:                                        for i: for j_o: unroll c: vector j_i:
        Y[c, i, j] = X[c, i, j] / A[i, j]            ->             Y[c, i, j] = X[c, i, j] / A[i, j]

The colours of an image that one mask weights, or products of a matrix of 3 x 3 with each pixel. So it is of sums in lanes, as the forces on
an atom along three axes, which all ask how far its neighbours are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tensorlang.ir import For
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies.analysis.stages import is_literal, size
from tensorlang.schedules.strategies.descent import CODE_COST, OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors

MOST: Final = 16
"""Planes, at most."""
VECTORS: Final = 4
"""Vectors of each that are written out, at most: more are code alone."""
SUMS: Final = 4
"""Of sums: each has vectors of its own in registers."""


def planes_side_by_side(rows: RowVectors, plain: Sequence[Part], machine: Processor) -> RowVectors:
    """The rows with planes that may stand side by side, and whether the model says so; as they were where none share anything."""
    stage, vector = rows.stage, rows.vector
    if vector is None or not (rows.may_be_reordered or _sums_in_lanes(rows)) or any(rows.ends) or rows.rows > 1:
        return rows
    found = next((loop for loop in stage.outer if loop is not vector and _share(rows, loop)), None)
    if found is None:
        return rows
    usual: int = rows.default()["vectors"]
    vectors = max((count for count in rows.counts if count <= VECTORS), default=usual) if usual > VECTORS else usual
    if rows.streamed and vectors * rows.lanes * stage.store.buffers[0].dtype.bytes < LINE_BYTES:  # a line is written at once, or slowly
        return rows
    sketch = Sketch.of(plain, stage.name)
    code = CODE_COST * (sketch.statement.operations + sketch.statement.touched) * vectors

    def seconds(planes: str) -> float:
        sketched = sketch.copy()
        lanes = sketched.split(vector.loop, vectors * rows.lanes, rows.lanes)[1]
        sketched.mark(lanes, "vector")
        beside(sketched, planes, lanes)
        return estimated(numbered(sketched.parts()), machine.core).seconds * (1 + code * (size(found) if planes else 1))

    pays = seconds(found.loop) < OTHER_WAY * seconds("")
    return replace(rows, planes=found.loop, beside=pays, wanted=vectors if pays else rows.wanted)


def beside(sketch: Sketch, planes: str, lanes: str) -> None:
    """Put the loop over planes directly around the lanes, in a sketch; nothing where it is not there."""
    names = [loop.name for loop in sketch.loops]
    if planes in names and names.index(planes) < names.index(lanes):
        between = names[names.index(planes) + 1 : names.index(lanes)]
        sketch.reorder(*between, planes, lanes)
        sketch.mark(planes, "unroll")


def _sums_in_lanes(rows: RowVectors) -> bool:
    """Is it a sum whose only loop has the lanes, so that each of the planes has sums of its own in registers?"""
    return rows.run is None and rows.reduces and len(rows.stage.reduced) == 1 and not rows.stage.is_idle


def _share(rows: RowVectors, loop: For) -> bool:
    """Are there a few iterations of a loop that read some of the same?"""
    follow = [any(loop.loop in axes_of(part) for part in load.index) for load in rows.stage.loads]
    most = SUMS if rows.reduces else MOST
    return is_literal(loop) and 1 < size(loop) <= most and any(follow) and not all(follow)
