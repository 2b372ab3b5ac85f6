"""How long injected faults live: counted on from where a run was stopped, and only told of those that are through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import faults, reached
from tests.fuzz.faults import Life, live, main, table
from tests.fuzz.weaken import around, constant
from tests.fuzz.weaken_places import all_of

NAMES = ("region-short", "init-lost", "guard-dropped")


def fails_at(*numbers: int) -> Any:
    """A judge for whom these cases fail."""
    return lambda request: {"done": "tags" if request.get("seed") in numbers else None, "text": "", "case": None, "kind": ""}


class Stand:
    """A worker by the name of its fault: the cases that fail with it."""

    kills: dict[str | None, tuple[int, ...]]
    asked: list[tuple[str | None, int]]

    def __init__(self, fault: str | None = None) -> None:
        self.fault = fault

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((self.fault, request["seed"]))
        answer: dict[str, Any] = fails_at(*self.kills.get(self.fault, ()))(request)
        return answer

    def close(self) -> None:
        """Nothing runs."""


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> type[Stand]:
    Stand.kills, Stand.asked = {NAMES[0]: (7,), NAMES[1]: (3, 4), None: (3,)}, []
    monkeypatch.setattr(faults, "Worker", Stand)
    monkeypatch.setattr(faults, "signature", lambda answer: str(answer["done"]))
    return Stand


def test_a_fault_is_killed_by_a_case_that_passes_without_it(stand: type[Stand]) -> None:
    assert live("", range(10), fails_at(3, 4), fails_at(3)).cases == 5
    assert live("", range(10), fails_at(3), fails_at(3)).killer is None


def test_in_rounds_a_fault_goes_on_from_the_cases_that_it_has_lived_through(stand: type[Stand], tmp_path: Path) -> None:
    common = ["--results", str(tmp_path / "lives.json"), "--shard", "0/1"]
    lives = tmp_path / "lives.json"
    lives.write_text(json.dumps({name: vars_of(Life("", 0, 0.0, None, "")) for name in NAMES}))
    others = {name: vars_of(Life("", 1, 0.0, "tags", "")) for name in faults_but(NAMES)}
    lives.write_text(json.dumps({**json.loads(lives.read_text()), **others}))
    main([*common, "--cases", "6", "--round", "3"])
    kept = json.loads(lives.read_text())
    assert [(kept[name]["killer"], kept[name]["cases"]) for name in NAMES] == [(None, 6), ("tags", 5), (None, 6)]
    main([*common, "--cases", "9", "--round", "100"])
    kept = json.loads(lives.read_text())
    assert [(kept[name]["killer"], kept[name]["cases"]) for name in NAMES] == [("tags", 8), ("tags", 5), (None, 9)]
    assert [number for name, number in stand.asked if name == NAMES[2]] == list(range(9))
    first = [name for name, number in stand.asked if number == 0]
    assert [name for name, _ in stand.asked].index(NAMES[2]) < stand.asked.index((NAMES[0], 3)) and set(first) == set(NAMES)


def vars_of(life: Life) -> dict[str, Any]:
    """A life as the results hold it."""
    return {name: getattr(life, name) for name in life.__slots__}


def faults_but(names: tuple[str, ...]) -> list[str]:
    """All other faults."""
    from tests.fuzz.mutants import FAULTS

    return [name for name in FAULTS if name not in names]


def test_a_fault_counts_as_reached_where_its_replacement_would_answer_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    class Part:
        """What a fault replaces."""

        @staticmethod
        def root(x: int) -> int:
            """The square root of a square."""
            if x < 0:
                raise ValueError(x)
            return x

    inject = all_of(around(Part, "root", lambda old, x: 3 if x == 4 else old(x)), constant(Part, "root", 2))
    monkeypatch.setattr(reached, "FAULTS", {"late": ("", around(Part, "root", lambda old, x: old(abs(x)))), "wrong": ("", inject)})
    seen: set[str] = set()
    for name in ("late", "wrong"):
        reached.watch(name, seen)

    def asked(x: int) -> set[str]:
        seen.clear()
        try:
            assert Part.root(x) == x >= 0
        except ValueError:
            assert x < 0
        return {*seen}

    assert asked(2) == set() and asked(4) == {"wrong"} and asked(-2) == {"late", "wrong"}


def test_only_the_cases_that_reach_a_fault_are_run_against_it(stand: type[Stand], tmp_path: Path) -> None:
    lives, cases = tmp_path / "lives.json", tmp_path / "reached.json"
    cases.write_text(json.dumps({NAMES[0]: [2, 7, 9], NAMES[1]: [3], NAMES[2]: []}))
    main(["--results", str(lives), "--reached", str(cases)])
    assert {name: (life["killer"], life["cases"]) for name, life in json.loads(lives.read_text()).items()} == {NAMES[0]: ("tags", 8)}
    assert stand.asked == [(NAMES[0], 2), (NAMES[0], 7), (None, 7), (NAMES[1], 3), (None, 3)]


def test_the_share_is_that_of_all_faults_and_what_is_not_decided_is_told() -> None:
    lives = {"a": Life("x", 3, 1.0, "tags", ""), "b": Life("y", 2000, 9.0, None, ""), "c": Life("z", 60, 2.0, None, "")}
    text = table(lives, 2000, 5)
    assert "1 of 5 faults (20.0 %) are killed within 2,000 cases" in text
    assert "1 live through these, and 3 are not decided, 1 of which have lived through some cases so far" in text
    assert "| `b` | y | **lives** |" in text and "| `c` | z | lives so far |" in text
