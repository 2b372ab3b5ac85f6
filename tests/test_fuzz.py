"""The fuzzer in small: fixed seeds in one disposable process, and the parts on which its verdicts rest."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.ir import For, Stmt
from tensorlang.ir.traverse import map_statements
from tests.fuzz import case as cases
from tests.fuzz.coverage import reductions
from tests.fuzz.definitions import definition, empty_case, finished
from tests.fuzz.draft import Draft
from tests.fuzz.memory import PAGE, Memory
from tests.fuzz.oracles import Judge
from tests.fuzz.ordered import recurrence
from tests.fuzz.program import Builder, operands
from tests.fuzz.ragged import ragged
from tests.fuzz.replay import Wrong
from tests.fuzz.shrink import candidates, signature
from tests.fuzz.tags import Terms, trace
from tests.fuzz.templates import pointwise
from tests.fuzz.worker import Worker

ROOT = Path(__file__).resolve().parents[1]
REGRESSIONS = [json.loads(line) for line in (ROOT / "tests" / "fuzz" / "regressions.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_some_cases_agree_in_every_oracle(count: int) -> None:
    words = [sys.executable, "-m", "tests.fuzz.run", "--cases", str(count), "--seed", "20", "--workers", "1", "--quiet", "--shrink", "20"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=400)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    process = Worker()
    yield process
    process.close()


@pytest.mark.parametrize(
    "regression",
    [pytest.param(one, id=one["found"][:60], marks=[pytest.mark.slow] if one.get("slow") else []) for one in REGRESSIONS],
)
def test_what_the_fuzzer_found_stays_fixed(worker: Worker, regression: dict[str, Any]) -> None:
    answer = worker.ask({"case": cases.from_json(json.dumps(regression["case"]))})
    assert answer["done"] is None, answer["text"]


def test_a_seed_gives_the_same_case_every_time() -> None:
    judge = Judge()
    assert cases.to_json(judge.generate(5)) == cases.to_json(Judge().generate(5))


def test_a_case_survives_its_own_json() -> None:
    case = Judge().generate(3)
    assert cases.from_json(cases.to_json(case)) == case


def test_the_twin_of_a_program_has_its_stages_over_integers() -> None:
    for seed in range(30):
        case = definition(seed)
        try:
            given, twin = Builder(case).program(), Builder(case, twin=True).program()
        except tl.DefinitionError:
            continue
        assert tl.Schedule(given.outputs).stages() == tl.Schedule(twin.outputs).stages()
        assert not any(tensor.dtype.is_floating for tensor in twin.outputs)


def drawn(template: Callable[[Draft], None], seed: int, dynamic: float = 0.0) -> cases.Case | None:
    rng = random.Random(seed)
    draft = Draft(rng, empty_case(seed, rng, dynamic))
    template(draft)
    return finished(draft) if draft.case["stages"] else None


@pytest.mark.parametrize("template", [ragged, recurrence])
def test_ranges_that_data_decide_and_recurrences_of_several_tensors_have_twins(template: Callable[[Draft], None]) -> None:
    seen = 0
    for seed in range(40):
        case = drawn(template, seed)
        if case is None:
            continue
        given, twin = Builder(case).program(), Builder(case, twin=True).program()
        assert tl.Schedule(given.outputs).stages() == tl.Schedule(twin.outputs).stages()
        several = len(given.outputs) > 1
        data = any(cases.bounds_of(axis) for stage in case["stages"] for node in reductions(stage) for axis in node[2])
        seen += data if template is ragged else several
    assert seen > 5


def test_a_range_that_data_decide_shrinks_to_the_whole_range() -> None:
    case = next(case for seed in range(20) if (case := drawn(ragged, seed)) is not None)
    kept = [[cases.bounds_of(axis) for node in reductions(small["stages"][0]) for axis in node[2]] for small in candidates(case)]
    assert any(axes and not any(axes) for axes in kept)


def test_dims_are_promised_only_what_the_case_keeps() -> None:
    promised = [case for seed in range(150) if (case := drawn(pointwise, seed, 1.0)) is not None and case.get("bounds")]
    assert promised
    for case in promised:
        dims = {name: Builder(case).extents[name].node for name in case["bounds"]}
        for values in [*cases.sizes(case), *cases.fives(case)]:
            assert all(dim.least <= values[name] <= dim.most for name, dim in dims.items())


def prefix_sums(steps: list[dict[str, object]]) -> dict[str, object]:
    body = [["red", "sum", [["k", 0, "e1"]], ["ld", "A", [["ax", "i"], ["ax", "k"]]], None, "float32"]]
    stage = {"name": "S", "kind": "reduce", "type": "float32", "axes": ["i"], "shape": ["e0"], "body": body}
    return {
        "seed": 1,
        "extents": {"e0": 5, "e1": 6},
        "symbolic": [],
        "inputs": [{"name": "A", "shape": ["e0", "e1"], "dtype": "float32"}],
        "stages": [stage],
        "outputs": ["S"],
        "steps": steps,
        "fill": "small",
    }


def test_tags_allow_a_reduction_in_another_order_and_nothing_else() -> None:
    case = prefix_sums([])
    program = Builder(case).program()
    plain, other = tl.Schedule(program.outputs), tl.Schedule(program.outputs)
    io, ii = other.split("S.k", 4)
    other.reorder(ii, io)
    terms = Terms(operands(program, case, case["extents"], twin=False))  # type: ignore[arg-type]
    wanted, races = trace(plain.nest, terms, {})
    assert races == []
    assert trace(other.nest, terms, {})[0] == wanted
    shorter = tl.Schedule(Builder(prefix_sums([]) | {"extents": {"e0": 5, "e1": 5}}).program().outputs)
    terms.arrays = {"A": np.zeros((5, 5), np.float32)}
    assert trace(shorter.nest, terms, {})[0] != wanted


def test_tags_take_a_joined_reduction_for_two_and_see_what_one_of_them_loses() -> None:
    A, k, r = tl.placeholder((2, 5), name="A"), tl.reduce_axis(5, name="k"), tl.reduce_axis(5, name="r")
    S = tl.compute((2,), lambda i: tl.sum(A[i, k], axis=k), name="S")
    M = tl.compute((2,), lambda i: tl.argmax(A[i, r], axis=r), name="M")
    plain, joined = tl.Schedule(S, M), tl.Schedule(S, M)
    joined.join_reductions("S", "M")
    terms = Terms({"A": np.ones((2, 5), np.float32)})
    wanted, _ = trace(plain.nest, terms, {})
    assert trace(joined.nest, terms, {}) == (wanted, [])
    joined.peel("M.r", last=1)

    def lost(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.loop == "M.r_last":
            return replace(stmt, hi=stmt.lo)
        return map_statements(stmt, lost)

    short, _ = trace(replace(joined.nest, body=lost(joined.nest.body)), terms, {})
    assert [name for name in wanted if short[name] != wanted[name]] == list(wanted)


def test_tags_see_a_race_on_an_accumulator() -> None:
    from tensorlang.schedules.directives.loop_kinds import _with_kind

    case = prefix_sums([])
    program = Builder(case).program()
    racing = _with_kind(tl.Schedule(program.outputs).nest, "S.k", "parallel")
    _, races = trace(racing, Terms(operands(program, case, case["extents"], twin=False)), {})  # type: ignore[arg-type]
    assert "S.k = 0 and 1 both touch S[0]" in races


def test_an_array_ends_where_its_pages_do_and_a_write_beside_it_shows() -> None:
    memory = Memory()
    last, first = memory.array((3,), np.dtype("int32"), at_end=True), memory.array((3,), np.dtype("int32"), at_end=False)
    assert (last.array.ctypes.data + last.array.nbytes) % PAGE == 0
    assert first.array.ctypes.data % PAGE == 0
    assert not last.spoilt()
    last.rest[-1] = 0
    assert last.spoilt()


def test_a_wrong_step_is_a_verdict_and_not_a_crash() -> None:
    with pytest.raises(Wrong, match="was accepted"):
        Judge().check(prefix_sums([{"call": "split", "args": ["S.i", 2], "illegal": True}]))


def test_shrinking_only_makes_cases_smaller() -> None:
    case = Judge().generate(8)
    size = len(cases.to_json(case))
    tried = list(candidates(case))
    assert tried
    assert all(len(cases.to_json(candidate)) <= size + 60 for candidate in tried)
    assert signature({"done": "tags", "text": "at {'e0': 3}: element 2 of S"}) == "tags"
