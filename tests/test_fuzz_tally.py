"""The table of a fuzzing campaign: shards accumulate, failures stay counted, and a recheck clears what passes now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.run import main
from tests.fuzz.tally import MARK, STRIDE, added, cleared, opened, rechecked, rendered, totals, written


def shard(seed: int, cases: int, *failing: int) -> dict[str, Any]:
    """A run whose failures are of one kind."""
    return {
        "seed": seed,
        "cases": cases,
        "seconds": 60,
        "date": "2026-01-01",
        "failures": {"tags": list(failing)} if failing else {},
        "open": {str(number): {"kind": "tags", "json": "{}"} for number in failing},
        "counts": {"accepted split": cases, "refused fuse": 2, "stage conv": 5, "oracle tags": cases, "refusal needed": 3},
    }


def table(*shards: dict[str, Any]) -> dict[str, Any]:
    """A table that saw these runs in turn."""
    found: dict[str, Any] = {"shards": []}
    for entry in shards:
        added(found, entry)
    return found


def test_shards_of_different_seeds_add_up() -> None:
    assert totals(table(shard(2, 10, 1), shard(1, 20, 3, 4))["shards"]) == {"cases": 30, "found": 3, "fixed": 0, "open": 3}


def test_a_seed_that_is_run_again_keeps_what_was_found_and_counts_once() -> None:
    found = table(shard(1, 20, 3, 18), shard(1, 10, 5))
    assert totals(found["shards"]) == {"cases": 20, "found": 3, "fixed": 1, "open": 2}
    assert set(found["shards"][0]["open"]) == {"5", "18"}


def test_a_recheck_judges_the_number_and_the_case_and_clears_what_passes() -> None:
    found, asked = table(shard(1, 20, 3, 4)), []

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        fails = request.get("seed") == STRIDE + 4
        return {"done": "tags" if fails else None, "text": "", "case": {"seed": 4}}

    assert cleared(found, rechecked(found, ask)) == 1
    assert asked == [{"seed": STRIDE + 3}, {"case": {}}, {"seed": STRIDE + 4}, {"case": {}}]
    assert totals(found["shards"]) == {"cases": 20, "found": 2, "fixed": 1, "open": 1}
    assert found["shards"][0]["open"] == {"4": {"kind": "tags", "json": '{"seed":4}'}}


def test_a_file_holds_the_table_and_its_totals(tmp_path: Path) -> None:
    file = tmp_path / "fuzz.json"
    for seed in (1, 2):
        with opened(file) as found:
            added(found, shard(seed, 5, seed))
    kept = json.loads(file.read_text())
    assert [entry["seed"] for entry in kept["shards"]] == [1, 2]
    assert {name: kept[name] for name in ("cases", "found", "fixed", "open")} == {"cases": 10, "found": 2, "fixed": 0, "open": 2}


def test_the_shards_of_one_file_are_put_into_another_and_a_seed_counts_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    for file, shards in ((one, (shard(1, 20, 3), shard(2, 5))), (other, (shard(2, 9, 7), shard(4, 6)))):
        with opened(file) as found:
            for entry in shards:
                added(found, entry)
    for _ in range(2):
        assert main(["--merge", str(other), "--tally", str(one)]) == 0
        kept = json.loads(one.read_text())
        assert [(entry["seed"], entry["cases"]) for entry in kept["shards"]] == [(1, 20), (2, 9), (4, 6)]
        assert (kept["cases"], kept["found"], kept["open"]) == (35, 2, 2)
    with pytest.raises(SystemExit):
        main(["--merge", str(other)])


def test_the_totals_are_put_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{MARK}\nold\n{MARK}\nbelow\n")
    written(page, rendered(table(shard(1, 1000, 3), shard(2, 500))))
    text = page.read_text()
    assert text.startswith("above\n") and text.endswith("below\n") and "old" not in text
    assert "1,500 distinct seeds in 2 shards" in text and "1 failing cases, 0 of them fixed, 1 open" in text
    assert "| `split` | 1,500 | 0 | 0 | 0 |" in text and "| `tags` | 1 | 1:3 |" in text
