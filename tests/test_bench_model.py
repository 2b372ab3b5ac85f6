"""The bench of defaults: which tasks, what is measured again, and what stands on the page. No kernel is built."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from bench import defaults
from bench.model import Row, again_over_first, section as ranking
from bench.peers.workloads import FAMILIES
from bench.sections import sections, written
from bench.simulate import read
from bench.unfitted import tasks
from tensorlang.autotune.log.record import Trial
from tensorlang.definition.tensor import as_outputs
from tensorlang.errors import TuningError


def test_forty_tasks_are_drawn_alike_in_every_process_and_the_first_are_of_many_kinds() -> None:
    found = tasks()
    assert len(found) == 40 == len({task.name for task in found}) and found == tasks()
    assert len({task.kind.name for task in found[:15]}) == 15
    assert all(as_outputs(task.outputs()) for task in found[::7])


def test_no_task_has_a_shape_that_is_compared_with_peers_or_stands_in_a_log() -> None:
    shapes = {tuple(workload.shapes[0]) for family in FAMILIES.values() for workload in family.workloads}
    for file in Path("bench/recorded").glob("*.jsonl.gz"):
        first = next(record for record in read(file) if isinstance(record, Trial))
        shapes |= {tuple(row["shape"]) for row in first.task["definition"]["definitions"] if row["kind"] == "placeholder"}
    drawn = {tuple(map(int, tensor.shape)) for task in tasks() for tensor in as_outputs(task.outputs())}
    assert shapes and not drawn & shapes


def tuned(speedups: dict[str, float | None], asked: list[str]) -> Any:
    def instead(outputs: Any, trials: int, log: Path, **how: Any) -> Any:
        name = log.stem
        asked.append(name)
        speedup = speedups.get(name, 1.0)
        if speedup is None:
            raise TuningError("no trial was valid\nmore")
        best = types.SimpleNamespace(time=1e-3, config={"rows": 1})
        default = types.SimpleNamespace(time=1e-3 * speedup)
        return types.SimpleNamespace(speedup=speedup, records=(None,) * trials, best=best, default=default, reason="trials")

    return instead


def test_what_was_measured_is_not_measured_again_and_each_task_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (task.name for task in tasks()[:3])
    asked: list[str] = []
    page = tmp_path / "page.md"
    written(page, {("model", "another machine"): "its table", ("peers", "a machine"): "another one"})
    monkeypatch.setattr(defaults, "tune", tuned({first: 1.02, second: None, third: 1.3}, asked))
    command = ["--isa", "native", "--folder", str(tmp_path / "logs"), "--page", str(page), "--no-build"]
    assert defaults.main([*command, "--trials", "5", "--tasks", "2"]) == 0
    assert asked == [first, second]
    assert defaults.main([*command, "--trials", "5", "--tasks", "3"]) == 1  # the third is slower than any may be
    assert asked == [first, second, second, third]  # what failed is tried again
    found = sections(page.read_text())
    (name,) = {key for kind, key in found if kind == "model"} - {"another machine"}
    text = found["model", name]
    assert text.index(third) < text.index(first) < text.index(second)
    assert "| **too slow** |" in text and "no trial was valid" in text and "| at most 1.2 | **no** |" in text
    assert found["model", "another machine"] == "its table\n" and found["peers", "a machine"] == "another one\n"
    asked.clear()
    assert defaults.main([*command, "--trials", "9", "--tasks", "1"]) == 1 and asked == [first]  # more trials are wanted


def test_a_budget_that_is_used_up_stops_before_the_next_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(defaults, "tune", tuned({}, asked))
    common = ["--isa", "native", "--folder", str(tmp_path), "--page", str(tmp_path / "page.md"), "--no-build", "--budget", "1e-9"]
    assert defaults.main(common) == 0 and asked == []
    assert "the same command goes on" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--trials", "0"], ["--tasks", "0"], ["--budget", "-1"], ["--isa", "sse9"]])
def test_a_number_that_makes_no_sense_is_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        defaults.main(arguments)
    assert stopped.value.code == 2


def test_a_log_tells_how_steady_its_machine_was() -> None:
    trials: list[dict[str, object]] = [{"kind": "trial", "id": "a", "min": 3e-3}, {"kind": "trial", "id": "b", "min": 1e-3}]
    assert again_over_first(trials) is None
    assert again_over_first([*trials, {"kind": "final", "default": "a", "default_time": 2.1e-3}]) == pytest.approx(0.7)


def test_the_table_of_recorded_logs_has_a_goal_for_each_processor() -> None:
    rows = [
        Row("a", "znver5", 60, 0.9, 1.0, (0.5, 1.0, 2.0), 1e-3, None),
        Row("b", "cascadelake", 30, 0.5, 1.4, (0.5, 1.0, 2.0), 1e-3, 0.7),
    ]
    text = ranking(rows)
    assert "rank correlation, cascadelake: least | 0.50 | at least 0.6 | **no** |" in text
    assert "rank correlation, znver5: median of 1 spaces | 0.90 | at least 0.85 | yes |" in text
