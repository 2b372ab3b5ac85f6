"""What a step makes of a nest is found once, whoever asks, and is told from what another step makes."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.ir import Nest
from tensorlang.schedules.directives.split import Split
from tests.schedules.programs import matmul


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The splits that were proved since the test began."""
    found, real = list[Any](), Split.apply

    def apply(self: Split, nest: Nest) -> Nest:
        found.append(self)
        return real(self, nest)

    monkeypatch.setattr(Split, "apply", apply)
    return found


def test_a_step_that_was_asked_about_is_taken_without_another_proof(asked: list[Any]) -> None:
    s = tl.Schedule(matmul())
    beside = s.copy()
    assert s.can("split", "i", 4)
    s.split("i", 4)
    beside.split("i", 4)
    assert len(asked) == 1 and s.nest is beside.nest
    s.split("j", 4)
    assert len(asked) == 2


def test_a_step_on_another_nest_and_one_that_was_refused_are_proved_anew(asked: list[Any]) -> None:
    s = tl.Schedule(matmul())
    for _ in range(2):
        assert not s.can("split", "i", 0)
    assert len(asked) == 2
    s.split("i", 4)
    tl.Schedule(matmul()).split("i", 4)
    assert len(asked) == 4


@pytest.mark.parametrize("factor", [True, 1.0])
def test_an_equal_number_of_another_type_is_refused_after_one_that_is_accepted(factor: Any) -> None:
    s = tl.Schedule(matmul())
    assert s.can("split", "i", 1)
    refused = s.can("split", "i", factor).error
    assert refused is not None and refused.code == "TL-S005"
