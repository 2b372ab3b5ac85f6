"""How many vectors of a row are in flight where it is read around an element: the more, the fewer are loaded (`emission.neighbours`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies.analysis.stages import tensor_of
from tensorlang.schedules.strategies.descent import CODE_COST
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors


def sliding_rows(rows: RowVectors, plain: Sequence[Part], machine: Processor) -> RowVectors:
    """The rows with the vectors that the model names; as they were where no register is a line, or nothing is read a few elements on."""
    stage, vector = rows.stage, rows.vector
    if vector is None or not rows.may_be_reordered or machine.core.vector_bits < 8 * machine.core.line:
        return rows
    reads = Counter(tensor_of(load).name for load in stage.loads if stage.moves(load, vector) == 1)
    if max(reads.values(), default=0) < 2:
        return rows
    sketch = Sketch.of(plain, stage.name)
    code = CODE_COST * (sketch.statement.operations + len(sketch.statement.accesses))

    def seconds(count: int) -> float:
        found = sketch.copy()
        found.mark(found.split(vector.loop, count * rows.lanes, rows.lanes)[1], "vector")
        return estimated(numbered(found.parts()), machine.core).seconds * (1 + code * count)

    usual = rows.default()["vectors"]
    return replace(rows, wanted=min((count for count in rows.counts if count >= usual), key=seconds))
