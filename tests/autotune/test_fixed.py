"""A search keeps what its user fixes: every trial begins with those directives, and the rest is searched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune import Log, tune
from tensorlang.autotune.jobs import session
from tensorlang.schedules import trace
from tests.autotune.answering import Answering

pytestmark = pytest.mark.usefixtures("brief_jobs")


def blurred() -> Any:
    """Two stages, the first of which can be computed whole, in strips or in its reader."""
    X = tl.placeholder((64, 66), name="X")
    h = tl.compute((64, 64), lambda i, j: (X[i, j] + X[i, j + 1] + X[i, j + 2]) / 3, name="h")
    return tl.compute((62, 64), lambda i, j: (h[i, j] + h[i + 1, j] + h[i + 2, j]) / 3, name="v")


def product() -> Any:
    return tl.ops.matmul(tl.placeholder((48, 32), name="A"), tl.placeholder((32, 40), name="B"))


def steps(text: str | None) -> list[Any]:
    found: list[Any] = json.loads(text or "{}").get("steps", [])
    return found


def test_every_trial_begins_with_the_directives_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    C = product()
    kept = tl.Schedule(C)
    kept.split("k", 8, tail="peel")
    result = tune(C, trials=3, threads=1, fixed=kept, log=tmp_path / "log.jsonl", seed=0)
    begun = steps(kept.to_json())
    assert all(steps(trial.schedule)[: len(begun)] == begun for trial in result.records if trial.status == "ok")
    assert result.best.schedule.directives[: len(kept.directives)] == kept.directives
    a, b = np.ones((48, 32), "f4"), np.ones((32, 40), "f4")
    assert (result.kernel(a, b) == 32).all()
    with monkeypatch.context() as patched:
        patched.setattr(session, "LocalEvaluator", Answering)
        plain = tune(C, trials=1, threads=1, log=tmp_path / "log.jsonl", seed=0)
    assert len(plain.records) == 1  # what kept something is no trial of the whole space
    assert len(tune(C, trials=3, threads=1, fixed=kept, log=tmp_path / "log.jsonl", seed=0).records) == 3
    assert sum(1 for _ in Log(tmp_path / "log.jsonl")) == 4


def test_a_stage_that_was_placed_is_not_placed_again() -> None:
    v = blurred()
    kept = tl.Schedule(v)
    kept.compute_at("h", "v.i")
    result = tune(v, trials=3, threads=1, fixed=kept, seed=0)
    for trial in result.records:
        assert sum(fields.get("stage") == "h" for _, fields in steps(trial.schedule)) == (trial.status == "ok")


@pytest.mark.usefixtures("answered")
def test_a_knob_is_fixed_by_its_name() -> None:
    result = tune(product(), trials=3, threads=1, fixed={"vectors": 2}, seed=0)
    assert {trial.config["vectors"] for trial in result.records} == {2}


def test_a_directive_that_contradicts_a_knob_is_named_with_it() -> None:
    v = blurred()
    kept = tl.Schedule(v)
    kept.compute_at("h", "v.i")
    with pytest.raises(tl.TuningError) as refused:
        tune(v, fixed=(kept, {"h.at": "inlined"}))
    assert str(refused.value) == (
        f"the knob 'h.at' cannot be fixed to 'inlined': {trace.call(kept.directives[0])}, which fixed= keeps too, decides that"
    )


@pytest.mark.parametrize(
    ("fixed", "reason"),
    [
        (3, "fixed= is a partial schedule, a mapping of knobs to values, or a pair of the two, not 3"),
        ({"vektors": 2}, "the knob 'vektors' cannot be fixed to 2: no knob 'vektors'; there are "),
        ({3: 1}, "fixed= names knobs by strings, as {'vectors': 2}, not by 3"),
        ((), "fixed= is a partial schedule"),
        (tl.Schedule(blurred()), "fixed= is a schedule of other tensors; make it of those that are tuned"),
    ],
)
def test_what_cannot_be_kept_is_refused(fixed: Any, reason: str) -> None:
    with pytest.raises(tl.TuningError) as refused:
        tune(product(), fixed=fixed)
    assert reason in str(refused.value)


def test_parts_are_not_kept_beside_a_space_of_ones_own() -> None:
    with pytest.raises(tl.TuningError, match="give it without space= and schedule="):
        tune(product(), fixed={"vectors": 2}, space=lambda space: space)
