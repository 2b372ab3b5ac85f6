"""`autotune calibrate` prints measured beside shipped and stores what is then in force; records name the description in force."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.index import study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial, to_line
from tensorlang.autotune.log.study_records import StudyFields
from tensorlang.autotune.measurement import host
from tensorlang.codegen.calibration import calibrate as calibration
from tensorlang.codegen.calibration.calibrate import Calibration
from tensorlang.codegen.calibration.figures import believed
from tensorlang.codegen.target import calibrated, described, target
from tensorlang.codegen.target.cores import digest, shipped
from tests.autotune.command import here

FIXTURE = Path(__file__).parent / "fixtures" / "v1.jsonl"
SHIPPED = shipped(target())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A calibration that has been made, and an empty cache folder."""
    found = {"hertz": SHIPPED.hertz * 1.25, "caches.1.bandwidth": 10 * SHIPPED.caches[0].bandwidth}
    machine, told = believed(SHIPPED, found)
    monkeypatch.setattr(calibration, "calibrate", lambda: Calibration(replace(machine, source="measured here"), told, 1.25))
    monkeypatch.delenv(calibrated.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calibrated.forget()
    yield
    calibrated.forget()


def test_measured_stands_beside_shipped_and_is_in_force_afterwards(tmp_path: Path) -> None:
    done = here("calibrate")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "cache" / "tensorlang" / "machines" / f"{target().cpu}.json"
    assert f"stored: {path}" in done.stdout
    rows = [line for line in done.stdout.splitlines() if "clock under vector code" in line]
    assert f"{SHIPPED.hertz * 1e-9:.3g}" in rows[0] and f"{SHIPPED.hertz * 1.25e-9:.3g}" in rows[0]
    assert "more than 5 times more than what ships" in done.stdout and "not measured twice alike" in done.stdout
    assert tl.machine().hertz == pytest.approx(SHIPPED.hertz * 1.25, rel=0.01)
    assert described.read(path).measured == ("hertz",)
    shown = here("calibrate", "--show").stdout
    assert f"from {path}" in shown and digest(tl.machine()) in shown


def test_the_file_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(calibrated.VARIABLE, str(tmp_path / "deep" / "mine.json"))
    assert here("calibrate").returncode == 0
    assert tl.machine().source == "measured here"
    assert here("calibrate", "--out", tmp_path / "other.json").returncode == 0
    assert described.read(tmp_path / "other.json").machine == tl.machine()


def test_what_is_measured_can_be_printed_as_json_and_not_stored(tmp_path: Path) -> None:
    done = here("calibrate", "--json", "--dry-run")
    told = json.loads(done.stdout)
    assert (told["path"], told["seconds"]) == (None, 1.25)
    first = told["figures"][0]
    assert first == {"field": "hertz", "shipped": SHIPPED.hertz, "measured": SHIPPED.hertz * 1.25, "value": first["value"], "why": ""}
    assert not (tmp_path / "cache").exists()
    assert json.loads(here("calibrate", "--json").stdout)["digest"] == digest(tl.machine())
    assert json.loads(here("calibrate", "--show", "--json").stdout)["machine"]["hertz"] == tl.machine().hertz


def test_without_a_file_what_ships_is_shown(tmp_path: Path) -> None:
    shown = here("calibrate", "--show")
    assert SHIPPED.source in shown.stdout
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--show", "--dry-run"), "--show measures nothing"),
        (("--show", "--out", "a.json"), "--show measures nothing"),
        (("--dry-run", "--out", "a.json"), "--dry-run stores nothing"),
    ],
)
def test_options_that_contradict_are_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    done = here("calibrate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_what_cannot_be_written_or_read_is_one_line_and_exit_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    done = here("calibrate", "--out", tmp_path / "file" / "a.json")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1) and "cannot be written" in done.stderr
    monkeypatch.setenv(calibrated.VARIABLE, str(tmp_path / "file" / "a.json"))
    done = here("calibrate")
    assert done.returncode == 1 and "cannot be made" in done.stderr
    done = here("calibrate", "--show")
    assert done.returncode == 1 and "no description of a machine can be read" in done.stderr


# Records -----------------------------------------------------------------------------------------------------------------------------


def test_a_record_names_the_description_that_schedules_were_chosen_by() -> None:
    before = host.described_target(target())
    assert before["description"] == {"digest": digest(SHIPPED), "calibrated": False}
    here("calibrate")
    calibrated.forget()
    after = host.described_target(target())
    assert after["description"] == {"digest": digest(tl.machine()), "calibrated": True}
    assert after["description"]["digest"] != before["description"]["digest"]
    assert after["fingerprint"] == before["fingerprint"] == host.target_fields(target())["fingerprint"]
    named = host.described_target(tl.target("haswell"))
    assert named["description"] == {"digest": digest(tl.machine("haswell")), "calibrated": False}


def test_records_with_and_without_a_description_are_read_and_compete(tmp_path: Path) -> None:
    old = next(iter(Log(FIXTURE))).fields
    new = {**old, "id": "another", "target": {**old["target"], "description": {"digest": "0123456789abcdef", "calibrated": True}}}
    assert "description" not in StudyFields.of(old).target
    assert StudyFields.of(new).target == new["target"]
    assert study_of(Trial.of(old)) == study_of(Trial.of(new))
    (tmp_path / "a.jsonl").write_bytes(to_line(old) + to_line(new))
    assert len(Database(tmp_path / "a.jsonl")) == 1
    assert [trial.target.get("description") for trial in Log(tmp_path / "a.jsonl")] == [None, new["target"]["description"]]


def test_what_is_no_description_is_malformed() -> None:
    old = next(iter(Log(FIXTURE))).fields
    with pytest.raises(ValueError, match="description"):
        StudyFields.of({**old, "target": {**old["target"], "description": {"digest": 3, "calibrated": True}}})
