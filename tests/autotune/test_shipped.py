"""The database that comes with the package: found by name, for a class of processors, right without being validated where it is used."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import numpy as np
import pytest

import tensorlang as tl
from bench import ship
from tensorlang import kernels
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.shipped.classes import FOLDER, class_of, classes
from tensorlang.autotune.shipped.database import Shipped, shipped
from tensorlang.codegen.target import target
from tests.autotune.made_logs import Made, matmul
from tests.thinned import few


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package folder with a winner that this machine found, as `bench.ship` writes it."""
    if ship.level_of(target()) is None:
        pytest.skip("this processor is in no class")
    made = Made(matmul(48, 64, 32))
    config = next(one for one in made.configs(20) if one != made.plan.default)
    base, best = made.trial(0, made.plan.default, 2e-4, "default"), made.trial(1, config, 1e-4)
    for trial in (base, best):
        trial["schedule"] = made.plan.schedule(trial["config"]).to_json()
    unsure = Made(matmul(32, 32, 32), run="other")
    first, second = unsure.trial(0, unsure.plan.default, 2e-4, "default"), unsure.trial(1, unsure.configs(3)[1], 1e-4)
    log = Log(tmp_path / "log.jsonl")
    for record in (base, best, made.final(best, base, quality="clean"), first, second, unsure.final(second, first, quality="noisy")):
        log.append(record)
    into = tmp_path / "package"
    into.mkdir()
    assert ship.main([str(log.path)], into) == 0
    return into


def test_what_is_shipped_can_be_trusted_and_names_no_computer(folder: Path) -> None:
    (one,) = classes(folder)
    trials = [record for record in Log(folder / one.log).records("trial") if isinstance(record, Trial)]
    assert one.programs == 1 and {trial.task["extents"][0] for trial in trials} == {48}
    level = ship.level_of(target())
    assert level is not None
    for trial in trials:
        assert trial.fields["machine"]["host"] == "" and set(trial.target["features"]) == level.isa


@pytest.mark.parametrize(("seconds", "stays"), [(1.5, True), (1.01, False)])
def test_what_the_default_of_today_overtakes_goes(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, stays: bool) -> None:
    class Measured:
        """A winner of a second, and the default of today."""

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def paired(self, candidates: list[object]) -> SimpleNamespace:
            assert len(candidates) == 2
            return SimpleNamespace(status="ok", rows=[SimpleNamespace(samples=(1.0,) * 3), SimpleNamespace(samples=(seconds,) * 3)])

    monkeypatch.setattr(ship, "Runner", Measured)
    assert ship.main([], folder, measure=True) == 0
    assert classes(folder)[0].programs == stays


def test_it_serves_without_validation_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, why = shipped(target(), folder)
    assert found is not None, why
    match = next(found.matches((matmul(48, 64, 32),), target(), 1))
    assert match.kind == "tuned" and match.reason.startswith(f"shipped for {found.processors.name}: tuned")
    monkeypatch.setattr("tensorlang.autotune.log.match.software", lambda: {"tensorlang": "9", "llvmlite": "9"})
    assert match.stale and not match.needs_validation
    kernel = kernels.compile(matmul(48, 64, 32), database=found, threads=1)
    a, b = (np.random.default_rng(0).random(shape, np.float32) for shape in ((48, 32), (32, 64)))
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    assert kernel.provenance == "tuned"


def test_another_processor_of_the_class_is_asked_by_the_model_and_validates_nothing(folder: Path) -> None:
    found, _ = shipped(target(), folder)
    assert isinstance(found, Shipped)
    level = ship.level_of(target())
    assert level is not None
    of_class = ("haswell", "znver3") if level.name == "x86-64-v3" else ("sapphirerapids", "znver4")
    other = target(next(cpu for cpu in of_class if cpu != target().cpu))
    assert found.processors.has(other)
    for match in found.matches((matmul(48, 64, 32),), other, 1):
        assert match.kind in ("nearest", None) and not match.needs_validation


def test_a_processor_out_of_all_classes_gets_the_default_and_the_reason(folder: Path) -> None:
    found, why = shipped(target("x86-64"), folder)
    assert found is None and "ships no records for x86-64" in why
    kernel = kernels.compile(matmul(8, 8, 8), "x86-64", database="shipped", threads=1)
    assert kernel.provenance == "default" and "ships no records for x86-64" in kernel.provenance_reason


@pytest.mark.parametrize("file", ["log", "index"])
def test_a_damaged_file_serves_nothing_with_one_line_in_the_log(folder: Path, file: str, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / (classes(folder)[0].log if file == "log" else "index.json")
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1) if file == "log" else b"[{")
    class_of.cache_clear()
    with caplog.at_level(logging.WARNING, "tensorlang"):
        found, why = shipped(target(), folder)
    assert found is None and why
    assert len(caplog.records) == 1


def test_what_is_shipped_again_keeps_other_programs(folder: Path, tmp_path: Path) -> None:
    made = Made(matmul(96, 64, 32), run="third")
    base = made.trial(0, made.plan.default, 2e-4, "default")
    log = Log(tmp_path / "more.jsonl")
    for record in (base, made.final(base, base, quality="shared")):
        log.append(record)
    assert ship.main([str(log.path)], folder) == 0
    assert classes(folder)[0].programs == 2


def test_the_package_finds_its_database_by_name() -> None:
    for kernel in (kernels.compile(matmul(40, 24, 8), database="shipped"), tl.compile(matmul(40, 24, 8), database="shipped")):
        assert kernel.provenance in ("default", "nearest") and kernel.provenance_reason


def test_every_file_of_the_package_is_the_one_that_its_index_says() -> None:
    for one in classes():
        level = target(one.name)
        assert class_of(replace(level)) == (one, "")
        assert set(one.features) == level.isa and one.vector_bits == level.vector_bits
        tasks = {json.dumps(trial.task, sort_keys=True) for trial in _shipped(one.log)}
        assert len(tasks) == one.programs
    assert {path.name for path in FOLDER.glob("*.json*")} == {"index.json", *(one.log for one in classes())}


def _shipped(log: str) -> list[Trial]:
    return [record for record in Log(FOLDER / log).records("trial") if isinstance(record, Trial)]


SHIPPED = [(one, trial) for one in classes() for trial in _shipped(one.log)]


@pytest.mark.parametrize("place", few(range(len(SHIPPED)), 12))
def test_every_shipped_schedule_computes_its_definition(place: int) -> None:
    (processors, trial), machine = SHIPPED[place], target()
    if not processors.has(machine):
        pytest.skip("this processor is not of the class")
    assert ship.wrong(trial, machine) is None, (trial.task["op"], trial.task.get("shape"))
