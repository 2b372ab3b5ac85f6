"""A database never hurts: what is doubtful is not served, what comes from elsewhere has to be faster here, and each choice says why."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.autotune.jobs.compile import compile as tuned
from tensorlang.autotune.log import lending
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.lending import NEAR, by_distance, by_model
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement import host
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.autotune.matmul_records import another, matmul, record

pytestmark = pytest.mark.usefixtures("one_thread")


def study(log: Log, n: int = 32, *, winner: int = 1, **final: Any) -> None:
    """A default (id-0), another schedule (id-1), and their final measurement."""
    outputs = matmul(n)
    log.append(record(0, outputs, source="default", samples=[2e-3], software=host.software()))
    log.append(record(1, outputs, samples=[1e-3], software=host.software(), **another(outputs)))
    told = {"default": "id-0", "default_time": 2e-3, "speedup": 1.0 if winner == 0 else 2.0, **final}
    log.append({"kind": "final", "id": "x", "winner": f"id-{winner}", "time": 1e-3, **told})


@pytest.mark.parametrize("doubt", [{"quality": "noisy"}, {"quality": "undecided"}, {"speedup_interval": [0.22, 68.0]}])
def test_instead_of_a_doubtful_winner_the_default_is_served_as_it_was_measured(log: Log, doubt: dict[str, Any]) -> None:
    study(log, **doubt)
    match, last = Database(log).matches(matmul(32), threads=1)
    assert match.record is not None and match.record.id == "id-0" and last.kind is None
    assert match.reason.startswith("tuned: the default id-0: ") and (doubt.get("quality") or "undecided") in match.reason
    kernel = tuned(matmul(32), database=Database(log))
    assert kernel.provenance == "tuned" and kernel.provenance_reason == match.reason


def test_a_doubtful_winner_is_not_served_where_its_log_has_no_default(log: Log) -> None:
    log.append(record(1, matmul(32), samples=[1e-3], software=host.software(), **another(matmul(32))))
    log.append({"kind": "final", "id": "x", "winner": "id-1", "time": 1e-3, "quality": "noisy"})
    match = Database(log).best(matmul(32), threads=1)
    assert match.kind is None and "noisy" in match.reason
    assert tuned(matmul(32), database=Database(log)).provenance == "default"


@pytest.mark.parametrize("doubt", ["undecided", "noisy"])
def test_a_default_that_nothing_surely_beat_is_served_as_it_was_measured_and_says_so(log: Log, doubt: str) -> None:
    study(log, winner=0, quality=doubt)
    kernel = tuned(matmul(32), database=Database(log))
    assert kernel.provenance == "tuned"
    assert kernel.provenance_reason == f"tuned: the winner id-0, the default itself ({doubt})"


@pytest.mark.parametrize(
    "sure", [{"quality": "clean"}, {"quality": "shared"}, {"quality": "drifted"}, {"speedup_interval": [1.9, 2.1]}, {}]
)
def test_a_winner_that_is_sure_or_older_than_the_word_is_served_and_says_why(log: Log, sure: dict[str, Any]) -> None:
    study(log, **sure)
    kernel = tuned(matmul(32), database=Database(log))
    assert kernel.provenance == "tuned"
    assert kernel.provenance_reason.startswith("tuned: the winner id-1, 2.00x its default")


@pytest.mark.parametrize(("time", "quality", "kind"), [
    (1e-3, "clean", "tuned"), (1e-3, None, "tuned"), (1.95e-3, "clean", None), (1e-3, "noisy", None), (1e-3, "drifted", None),
])  # fmt: skip
def test_of_a_job_that_did_not_end_only_a_clear_lead_is_served(log: Log, time: float, quality: str | None, kind: str | None) -> None:
    told = {} if quality is None else {"quality": quality}
    log.append(record(1, matmul(32), samples=[time], **told, **another(matmul(32))))
    log.append(record(0, matmul(32), source="default", samples=[2e-3], quality="noisy"))
    match = Database(log).best(matmul(32), threads=1)
    assert match.kind == kind, match.reason
    assert match.record is None or match.record.id == "id-1"


def test_trials_that_lost_to_the_default_are_not_served_where_the_default_cannot_be(log: Log) -> None:
    study(log, winner=0)
    matches = list(Database(log).matches(matmul(32), threads=1))
    assert [(match.kind, match.record and match.record.id) for match in matches] == [("tuned", "id-0"), (None, None)]


def test_the_default_of_another_version_is_not_served_before_ours(log: Log) -> None:
    outputs = matmul(32)
    log.append(record(0, outputs, source="default", software={"tensorlang": "0.0", "llvmlite": "0"}))
    log.append({"kind": "final", "id": "x", "winner": "id-0", "default": "id-0", "time": 1e-3, "speedup": 1.0})
    assert Database(log).best(outputs, threads=1).kind is None


@pytest.mark.parametrize("final", [{"winner": 0}, {"quality": "undecided"}])
def test_a_neighbour_without_a_better_schedule_than_its_default_gives_this_shapes_default(
    log: Log, monkeypatch: pytest.MonkeyPatch, final: dict[str, Any]
) -> None:
    study(log, 36, **final)
    monkeypatch.setattr(lending, "by_model", None)  # it is not even asked
    match = Database(log).best(matmul(32), threads=1)
    assert match.kind is None and "36x36" in match.reason and "so this one has its own" in match.reason


def test_a_small_matmul_whose_default_won_does_not_slow_down_a_large_one(log: Log) -> None:
    small = tl.ops.matmul(tl.placeholder((128, 512)), tl.placeholder((512, 256)))
    log.append(record(0, small, source="default"))
    log.append({"kind": "final", "id": "x", "winner": "id-0", "default": "id-0", "time": 1e-3, "speedup": 1.0})
    big = tl.ops.matmul(tl.placeholder((512, 512)), tl.placeholder((512, 512)))
    assert Database(log).best(big, threads=1).kind is None


def test_shapes_that_are_far_apart_lend_nothing(log: Log) -> None:
    study(log, 32)
    match = Database(log).best(matmul(512), threads=1)
    assert match.kind is None and "too far away" in match.reason
    assert by_distance(NEAR) is None and by_distance(math.log(1e3)) is not None


def lent(distance: float, gain: float | None, ratio: float, monkeypatch: pytest.MonkeyPatch) -> lending.Loan:
    """What another schedule comes to that the model finds `ratio` times as fast as the default."""
    outputs, told = matmul(32), iter([ratio, 1.0])

    class Estimate:
        seconds = property(lambda _: next(told))

    monkeypatch.setattr("tensorlang.schedules.schedule.Schedule.estimate", lambda *_: Estimate())
    trial = Trial.of(record(0, outputs, **another(outputs)))
    return by_model(outputs, target(), 1, trial, distance, gain)


@pytest.mark.parametrize(
    ("distance", "gain", "ratio", "served"),
    [
        (2 * NEAR, 1.5, 1.2, True),
        (2 * NEAR, 1.5, 1.05, False),
        (NEAR / 2, 1.5, 1.0, True),
        (NEAR / 2, 1.5, 0.9, False),
        (NEAR / 2, 1.01, 1.0, False),
        (NEAR / 2, None, 1.0, False),
        (NEAR / 2, None, 1.2, True),
    ],
)
def test_what_is_lent_is_faster_by_the_model_or_near_and_not_slower(
    distance: float, gain: float | None, ratio: float, served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loan = lent(distance, gain, ratio, monkeypatch)
    assert (loan.config is not None) is served and f"{ratio:.2f} times as fast" in loan.reason


def test_a_configuration_that_leads_to_the_default_is_called_that(log: Log) -> None:
    outputs = matmul(32)
    loan = by_model(outputs, target(), 1, Trial.of(record(0, outputs)), 0.1, 2.0)
    assert loan.config is None and "this shape's default" in loan.reason
    foreign = Trial.of(record(0, outputs, strategy={"name": "another"}))
    assert by_model(outputs, target(), 1, foreign, 0.1, 2.0).reason == lending.NO_COUNTERPART


def test_for_several_threads_the_loops_have_to_be_shared_as_in_the_default() -> None:
    outputs = tl.ops.matmul(tl.placeholder((256, 256)), tl.placeholder((256, 256)))
    strategy = choose(outputs, target(), 2)
    knob = next((knob for knob in strategy.space.knobs if knob.name == "parallel"), None)
    assert knob is not None, "contractions have it"
    others = ({**strategy.default, "parallel": value} for value in knob.values if value != strategy.default["parallel"])
    config = next(config for config in others if strategy.space.contains(config))
    loan = by_model(outputs, target(), 2, Trial.of(record(0, outputs, config=config)), 0.0, 2.0)
    assert loan.config is None and "shared among the threads" in loan.reason


def test_every_choice_is_logged_and_stays_with_the_kernel(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(log, 32, quality="clean")
    database = Database(log)
    monkeypatch.setattr(lending, "AHEAD", 0.0)
    monkeypatch.setattr(lending, "LEAST", 0.0)
    with caplog.at_level(logging.INFO, logger="tensorlang"):
        kernels = [tuned(matmul(n), database=database) for n in (32, 34)] + [tuned(matmul(32)), tuned(matmul(512), database=database)]
    assert [kernel.provenance for kernel in kernels] == ["tuned", "nearest", "default", "default"]
    for kernel in kernels:
        assert kernel.provenance_reason and kernel.provenance_reason in caplog.text
    kernels[1].save(tmp_path / "kernel.tlk")
    assert tl.load(tmp_path / "kernel.tlk").provenance_reason == kernels[1].provenance_reason
    assert tl.build(matmul(32)).provenance_reason == ""
    assert tuned(matmul(32)) is kernels[2] and kernels[2].provenance_reason == "no database was asked"
