"""The job of the kernels that ten models need: every one is an operator of the library, and none is there twice."""

from __future__ import annotations

from pathlib import Path

from tensorlang import kernels
from tensorlang.autotune.jobs.jobfile import read
from tensorlang.ops.table import OPERATORS

JOB = Path(__file__).parents[2] / "jobs" / "shipped.toml"


def test_every_task_of_the_job_is_a_kernel_that_the_library_has() -> None:
    tasks = read(JOB).specs
    specs = [kernels.Spec.at(row, {**row.defaults, **task.shape}) for task in tasks for row in [OPERATORS[task.operator]]]
    assert len({spec.text for spec in specs}) == len(specs) >= 170
    assert [kernels.supports(spec).reason for spec in specs] == [""] * len(specs)
    assert {task.threads for task in tasks} == {1}
