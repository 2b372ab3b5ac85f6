"""What a statement reads of one element many times is asked about once, and refused as if it were read once."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.schedules.legality import dependences, in_place
from tensorlang.schedules.legality.accesses import accesses, distinct
from tests.schedules.programs import check


def scan(times: int, shift: int = 0) -> tl.Schedule:
    """Six steps of two states that a step reads so many times, at elements so far in front of those that it makes."""
    X = tl.placeholder((8,), name="X")

    def step(t: Any, states: Any) -> Any:
        a, b = states

        def element(i: Any) -> Any:
            at, value = tl.maximum(i - shift, 0) if shift else i, X[i]
            for _ in range(times):
                value = a[at] * value + b[at]
            return value, value - b[at]

        return tl.compute((8,), element, name="C")

    start = tuple(tl.compute((8,), lambda i: X[i], name=name) for name in ("A", "B"))
    return tl.Schedule(tl.scan(step, start, 6, keep="last", name="S"))


def multiples(times: int) -> tl.Tensor:
    """A sum that reads each element so many times."""
    X = tl.placeholder((8,), name="X")
    result: tl.Tensor = tl.compute((8,), lambda i: sum(X[i] * k for k in range(1, times + 1)), name="Y")
    return result


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pairs of accesses of which was asked since the test began whether they conflict."""
    found, real = list[Any](), dependences.conflict

    def conflict(nest: Any, first: Any, second: Any, *more: Any, **named: Any) -> Any:
        found.append((first, second))
        return real(nest, first, second, *more, **named)

    for module in (dependences, in_place):
        monkeypatch.setattr(module, "conflict", conflict)
    return found


def test_a_new_order_is_proved_with_as_many_questions_however_often_a_state_is_read(asked: list[Any]) -> None:
    counts = []
    for times in (1, 9):
        asked.clear()
        s = scan(times)
        s.reorder("C.i", "S.t")
        counts.append(len(asked))
        check(s)
    assert counts[0] == counts[1] > 0


def test_whether_a_result_may_lie_over_an_operand_is_asked_once_for_each_element_read(asked: list[Any]) -> None:
    counts = []
    for times in (1, 9):
        asked.clear()
        assert in_place.overwritten(tl.Schedule(multiples(times)).nest, "Y", "X") is None
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0


def test_the_counterexample_is_the_same_however_often_an_element_is_read() -> None:
    examples = []
    for times in (1, 9):
        with pytest.raises(tl.ScheduleError) as refused:
            scan(times, shift=1).reorder("C.i", "S.t")
        examples.append(refused.value.counterexample)
    assert examples[0] == examples[1] and examples[0] is not None and examples[0]["element"].startswith("S_0.ring")


def test_conditions_of_different_loops_are_different_statements() -> None:
    """Both read `F[0]`, in loops of their own: one of them is not the other."""
    F, X = tl.placeholder((1,), "int32", name="F"), tl.placeholder((8,), name="X")
    start = tl.compute((8,), lambda i: X[i], name="Z")

    def once(before: tl.Tensor, name: str) -> tl.Tensor:
        r = tl.reduce_axis(8, name="r")
        return tl.scatter(before, (r,), lambda r: r, lambda r: X[r], where=lambda r: F[0] > 0, name=name)

    found = list(accesses(tl.Schedule(once(once(start, "G"), "H")).nest.body))
    conditions = [access for access in found if access.buffer.name == "F" and not access.stage]
    assert len(conditions) == 2 and [access for access in distinct(found) if access in conditions] == conditions
