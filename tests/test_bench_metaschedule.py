"""The comparison with MetaSchedule: what can be held to without TVM."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from bench import metaschedule
from tests.thinned import few


@pytest.mark.parametrize("name", few(metaschedule.OPERATORS, 2))
def test_our_definition_is_what_both_winners_are_checked_against(name: str) -> None:
    operator = metaschedule.OPERATORS[name]
    operands = operator.operands()
    found = tl.build(operator.definition())(*operands)
    metaschedule.close_to(operator, found, operands)
    found.flat[-1] += 1
    with pytest.raises(AssertionError):
        metaschedule.close_to(operator, found, operands)


def test_without_tvm_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(metaschedule, "has_tvm", lambda python: False)
    assert metaschedule.main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_python_that_was_named_has_to_have_tvm(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        metaschedule.main(["--tvm", str(tmp_path / "python")])
    assert stopped.value.code == 2


def row(operator: str, speed: float, seconds: float) -> dict[str, Any]:
    return {
        "operator": operator,
        "shapes": [[8, 8]],
        "ours": {"wall_seconds": seconds, "trials": 9},
        "tvm": {"wall_seconds": 100.0, "trials": 64, "failed": 1},
        "ours_seconds": 1e-5,
        "theirs_seconds": 1e-5 * speed,
        "speed_ratio": speed,
        "spread": 0.01,
    }


@pytest.mark.parametrize(("speed", "seconds", "kept"), [(1.1, 24.9, True), (0.99, 24.9, False), (1.1, 25.1, False)])
def test_a_winner_is_faster_and_found_in_a_quarter_of_the_time(speed: float, seconds: float, kept: bool) -> None:
    found = row("matmul", speed, seconds)
    assert all(figure.kept for figure in metaschedule.figures(found)) is kept
    assert ("NO" in metaschedule.table([found])) is not kept


def test_a_new_result_replaces_that_of_the_same_operator(tmp_path: Path) -> None:
    file = tmp_path / "metaschedule.json"
    metaschedule.written([row("matmul", 1.1, 20.0), row("softmax", 1.2, 20.0)], file)
    metaschedule.written([row("matmul", 1.3, 20.0)], file)
    assert {found["operator"]: found["speed_ratio"] for found in json.loads(file.read_text())["rows"]} == {"matmul": 1.3, "softmax": 1.2}


def test_one_core_is_given_back() -> None:
    before = os.sched_getaffinity(0)
    with metaschedule.one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
