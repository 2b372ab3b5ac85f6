"""`legal_moves` finds every place that a loop may take, and where a stage may be computed."""

from __future__ import annotations

import itertools

import pytest

import tensorlang as tl
from tensorlang.schedules.directives.reorder import Reorder
from tests.schedules.programs import blur, matmul


@pytest.mark.parametrize("loop", ["C.i", "C.j", "C.k"])
def test_every_legal_place_of_a_loop_is_found(loop: str) -> None:
    s = tl.Schedule(matmul())
    chain = [str(name) for name in s.loops("C")]
    found: set[tuple[str, ...]] = set()
    for move in s.legal_moves(loop):
        if isinstance(move, Reorder):
            moved = s.copy()
            moved.apply(move)
            found.add(tuple(map(str, moved.loops("C"))))
    rest = [name for name in chain if name != loop]
    wanted = {(*rest[:place], loop, *rest[place:]) for place in range(len(chain))} - {tuple(chain)}
    assert wanted <= found
    assert all(s.can("reorder", *order) for order in itertools.permutations(chain) if order != tuple(chain))


def test_the_moves_of_a_stage_are_those_that_its_directives_accept() -> None:
    s = tl.Schedule(blur())
    assert [repr(move) for move in s.legal_moves("h")] == [
        "ComputeInline(stage='h')",
        "ComputeAt(stage='h', loop='v.y')",
        "ComputeAt(stage='h', loop='v.x')",
    ]
    s.compute_at("h", "v.x")
    found = [repr(move) for move in s.legal_moves("h")]
    assert "StoreAt(stage='h', loop='v.y', reuse='slide')" in found
    assert "StoreRoot(stage='h', reuse='slide')" in found
    assert "ComputeRoot(stage='h')" in found
    for move in s.legal_moves("h"):
        s.copy().apply(move)


def test_a_name_of_neither_is_refused_with_what_there_is() -> None:
    with pytest.raises(tl.ScheduleError, match="there is no loop 'q'"):
        tl.Schedule(matmul()).legal_moves("q")
