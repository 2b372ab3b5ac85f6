"""The comparison with peers: what can be held to without any of them."""

from __future__ import annotations

import dataclasses
import functools
import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.peers import history, isa, page, rounds, run, summary, supervise, tuning
from bench.peers.definitions import definition
from bench.peers.engines import ENGINES, OURS, loaded
from bench.peers.workload import Workload
from bench.peers.workloads import FAMILIES, named, variants
from bench.peers.workloads.family import Family
from bench.peers.workloads.matmul import product
from bench.sections import sections, written
from tensorlang.codegen.target import target
from tensorlang.codegen.target.description import needed
from tests.thinned import few

WORKLOADS = [workload for family in FAMILIES.values() for workload in family.workloads]
SMALL = (
    product("matmul", 9, 8, 7),
    Workload("matvec", "matmul", ((9, 8), (8,)), 1),
    Workload("vecmat", "matmul", ((9,), (9, 8)), 1, constants=(1,)),
    Workload("batch", "matmul", ((2, 9, 8), (2, 8, 7)), 1),
    Workload("bytes", "matmul", ((9, 8), (8, 7)), 1, dtypes=("uint8", "int8"), tolerance=0.0),
    Workload("half", "matmul", ((9, 8), (8, 7)), 1, dtypes=("bfloat16",) * 2, constants=(1,), tolerance=1e-2),
    Workload("conv2d", "conv2d", ((1, 3, 9, 9), (4, 3, 3, 3)), 1, constants=(1,), attributes={"stride": 2, "padding": 1}),
    Workload(
        "conv2d_bytes",
        "conv2d",
        ((1, 3, 9, 9), (4, 3, 3, 3)),
        1,
        dtypes=("uint8", "int8"),
        constants=(1,),
        attributes={"stride": 2, "padding": 1},
        tolerance=0.0,
    ),
    Workload("depthwise", "depthwise", ((1, 4, 9, 9), (4, 1, 5, 5)), 1, constants=(1,), attributes={"stride": 2, "padding": 2}),
    variants.workload("convolution", "groups", (1, 4, 9, 8), (6, 2, 3, 3), stride=2, padding=1, groups=2, dilation=2),
    variants.workload("convolution_nhwc", "nhwc", (1, 9, 8, 4), (3, 3, 2, 6), stride=1, padding=1, groups=2),
    variants.workload("convolution_blocked", "blocked", (1, 2, 9, 8, 4), (3, 2, 3, 3, 4, 4), stride=2, padding=1),
    variants.workload("convolution_transposed", "transposed", (1, 4, 5, 6), (4, 3, 4, 4), stride=2, padding=1),
    variants.workload("convolution_1d", "conv1d", (1, 4, 9), (3, 4, 3), stride=1, padding=1),
    Workload("softmax", "softmax", ((5, 9),), 1),
    Workload("layer_norm", "layer_norm", ((5, 9), (9,), (9,)), 1),
    Workload("gelu", "gelu", ((5, 9),), 1),
    Workload("chain", "chain", ((9,),), 1),
    Workload("add", "add", ((9,), (9,)), 1),
    Workload("transpose", "transpose", ((5, 9),), 1),
    Workload("attention", "attention", ((1, 2, 6, 4),) * 3, 1),
    Workload("jacobi", "jacobi", ((7, 9),), 1, attributes={"steps": 3}),
    Workload("harris", "harris", ((3, 9, 11),), 1),
)
FAMILY = Family("matmul", "Products", (named("matmul_64"),), geomean=1.0, least=0.9)


def test_names_are_unique_and_every_operator_is_tried_small() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
    assert {workload.operator for workload in WORKLOADS} == {workload.operator for workload in SMALL}


@pytest.mark.parametrize("engine", [OURS, "numpy"])
@pytest.mark.parametrize("workload", few(SMALL, 4), ids=lambda workload: workload.name)
def test_ours_and_numpys_candidates_give_the_reference(workload: Workload, engine: str) -> None:
    operands = workload.operands()
    expected = workload.expected(operands)
    assert expected.shape == workload.result[0]
    assert tuple(map(int, definition(workload).shape)) == expected.shape
    for maker in loaded(engine).make(workload, operands).values():
        candidate = maker()
        found = candidate.result(candidate.call())
        assert workload.why_wrong(found, expected) is None
        wrong = found.astype("float64")
        wrong.flat[-1] += 1 + np.abs(wrong).max()
        assert workload.why_wrong(wrong, expected)
        assert workload.why_wrong(np.full_like(wrong, np.nan), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_is_not_installed_says_so(engine: str) -> None:
    reason = loaded(engine).available()
    assert reason is None or "Error" in reason


@pytest.mark.parametrize(("ratio", "verdict"), [(1.08, "win"), (1.06, "tie"), (0.94, "tie"), (0.93, "loss")])
def test_less_than_seven_per_cent_is_a_tie(ratio: float, verdict: str) -> None:
    assert summary.verdict(ratio) == verdict


def test_candidates_take_turns_and_the_slow_sit_out() -> None:
    order: list[str] = []
    turns = {name: rounds.Turn(functools.partial(order.append, name), stays=True) for name in "ab"}
    samples = rounds.take(turns, seconds=0.0)
    assert order[:8] == ["a", "b", "a", "b", "b", "a", "b", "a"]  # drawn, and the same each time
    assert [len(column) for column in samples.values()] == [rounds.FEWEST] * 2
    slow = {"quick": rounds.Turn(lambda: None), "slow": rounds.Turn(lambda: sum(range(100_000)))}
    column = rounds.take(slow, seconds=0.0)["slow"]
    assert None not in column[:2]
    assert column[2:] == [None] * (rounds.FEWEST - 2)
    assert None not in rounds.take({**slow, "slow": dataclasses.replace(slow["slow"], stays=True)}, seconds=0.0)["slow"]
    assert None not in rounds.take({**slow, "quick": dataclasses.replace(slow["quick"], apart=True)}, seconds=0.0)["slow"]


def process(allocator: supervise.Allocator, **samples: list[float | None]) -> supervise.Found:
    """A process in which these candidates took turns at matmul_64."""
    about = {
        name: {"aside": "another layout" if name == "aside" else "", "note": "", "seconds": 0.5, "allocates": name == "fast"}
        for name in samples
    }
    event = {"samples": samples, "about": about}
    return supervise.Found(allocator, done={"matmul_64": event}, versions={"numpy": "2"})


def test_ratios_are_of_pairs_and_the_better_allocator_counts_for_a_peer() -> None:
    found = [
        process("heap", tensorlang=[1.0, 2.0, 4.0], fast=[0.9, 1.8, 3.6], slow=[3.0, None, None], aside=[0.5, 1.0, 2.0]),
        process("default", tensorlang=[1.0, 1.0], fast=[2.0, 2.0]),
    ]
    row = summary.row(named("matmul_64"), FAMILY, found)
    assert row["best_peer"] == "fast"
    assert row["verdict"] == "loss"
    assert row["ratio"] == pytest.approx(0.9)
    assert row["peers"]["fast"]["allocator"] == "heap"
    assert row["peers"]["slow"]["rounds"] == 1
    assert row["peers"]["aside"]["ratio"] == pytest.approx(0.5)
    assert summary.contenders(named("matmul_64"), found[0], 2.0) == ["tensorlang", "fast", "aside"]


def facts(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it stands in the history."""
    machine = {"cpu": "a CPU", "cpus": 2, "python": "3"}
    return {**row, "run": "r", "quick": False, "date": "today", "machine": machine, "versions": {"numpy": "2"}, "absent": {"jax": "no jax"}}


def test_the_page_shows_losses_as_plainly_as_wins(tmp_path: Path) -> None:
    lost = summary.row(named("matmul_64"), FAMILY, [process("heap", tensorlang=[2.0], fast=[1.0], aside=[0.5])])
    won = {**summary.row(named("matmul_64"), FAMILY, [process("heap", tensorlang=[1.0], fast=[2.0])]), "workload": "matmul_128"}
    nothing = {**summary.row(named("matmul_64"), FAMILY, [supervise.Found("heap", failed={"matmul_64": {"all": "crashed"}})])}
    file = tmp_path / "history.jsonl"
    for row in (nothing | {"workload": "matmul_256"}, won, facts(lost) | {"quick": True, "ratio": 9.0}, lost):
        history.append(file, {**facts(row), **row})
    with file.open("a") as lines:
        lines.write('{"torn')
    text = written(tmp_path / "page.md", page.sections(history.latest(file), tmp_path))
    slower = text[text.index("## What is slower") : text.index("## float32 matrix products")]
    assert slower.index("| aside | 0.00 GFLOP/s | 0.00 | 0.25 | another layout |") < slower.index("| 0.50 | the best |")
    assert "matmul_128" not in slower
    assert "| 1.00 | 0.50 | 1 / 0 / 1 | **no** |" in text
    assert "| **loss** | aside 0.25 (another layout), fast 0.50 |" in text
    assert "| fast | 2 | 0.500 | 0.500 |" in text
    assert "`matmul_256`: all: crashed" in text
    assert "jax is not here: no jax" in text
    assert "No run has been made yet" in written(tmp_path / "new.md", page.sections({}, tmp_path))


def test_each_machine_has_its_own_table_and_none_is_overwritten(tmp_path: Path) -> None:
    """Also where the history of the other machine is not at hand, and where another bench wrote on the page."""
    file, text = tmp_path / "history.jsonl", tmp_path / "page.md"
    row = facts(summary.row(named("matmul_64"), FAMILY, [process("heap", tensorlang=[1.0], fast=[2.0])]))
    other = {"cpu": "another CPU", "core": "znver9", "cpus": 2, "python": "3"}
    for more in ({}, {"isa": "x86-64-v3"}, {"machine": other}):
        history.append(file, {**row, **more})
    written(text, page.sections(history.latest(file), tmp_path))
    written(text, {("model", "a CPU"): "what another bench found"})
    before = sections(text.read_text())
    assert {("peers", "a CPU"), ("peers", "a CPU, held to x86-64-v3"), ("peers", "another CPU (znver9)"), ("model", "a CPU")} < set(before)
    alone = tmp_path / "alone.jsonl"
    history.append(alone, {**row, "ratio": 1.5, "run": "r2"})
    written(text, page.sections(history.latest(alone), tmp_path))
    after = sections(text.read_text())
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {("peers", "a CPU")} and "Run r2" in after["peers", "a CPU"] and set(before) == set(after)
    assert before["peers", "a CPU"] != before["peers", "a CPU, held to x86-64-v3"]


BAD_ENGINE = """
import os, signal, time
import numpy as np
from bench.peers.engines import Candidate, returned

def available():
    return None

def make(workload, operands):
    def crash(): os.kill(os.getpid(), signal.SIGSEGV)
    def hang(): time.sleep(60)
    def refuse(): raise ValueError("not this one")
    def wrong(): return Candidate(lambda: np.zeros((64, 64), "float32"), returned)
    def right(): return Candidate(lambda: operands[0] @ operands[1], returned)
    return {"crash": crash, "refuse": refuse, "hang": hang, "wrong": wrong, "right": right}
"""


def test_a_peer_that_crashes_hangs_refuses_or_errs_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "standins"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "bad.py").write_text(BAD_ENGINE)
    (package / "dead.py").write_text("import os\n\ndef available():\n    os._exit(3)\n")
    (package / "odd.py").write_text("def available():\n    return None\n\ndef make(workload, operands):\n    return 1 / 0\n")
    (package / "gone.py").write_text("def available():\n    return 'not installed'\n")
    (package / "tensorlang.py").write_text(
        textwrap.dedent("""
            from bench.peers.engines import Candidate, returned

            def available():
                return None

            def make(workload, operands):
                return {"": lambda: Candidate(lambda: operands[0] @ operands[1], returned)}
        """)
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    job = {"engines": ["dead", "gone", "odd", OURS, "bad"], "package": "standins", "seconds": 0.0, "most": 5, "skip": {}, "keep": {}}
    found = supervise.run(["matmul_64"], {**job, "make_seconds": 1}, "heap", 1, tmp_path)
    assert found.absent == {"dead": "crashed with exit code 3", "gone": "not installed"}
    assert set(found.done["matmul_64"]["samples"]) == {OURS, "bad right"}
    failed = found.failed["matmul_64"]
    assert failed["odd"].startswith("ZeroDivisionError")
    assert failed["bad crash"] == "crashed with SIGSEGV"
    assert failed["bad hang"] == "no answer within 1 s"
    assert failed["bad refuse"] == "ValueError: not this one"
    assert failed["bad wrong"].startswith("wrong result: off by")


def test_a_run_writes_rows_and_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "history.jsonl"
    asked: list[list[str]] = []

    def instead(workloads: Any, *_: Any) -> supervise.Found:
        asked.append(list(workloads))
        found = process("heap", tensorlang=[1.0], fast=[2.0])
        return supervise.Found("heap", done=dict.fromkeys(workloads, found.done["matmul_64"]))

    monkeypatch.setattr(supervise, "run", instead)
    arguments = ["--quick", "--history", str(file), "--only", "matmul_64"]
    assert run.main(arguments) == 0
    (row,) = history.read(file)
    assert json.loads(json.dumps(row)) == row
    assert row["ratio"] == 2.0
    assert run.main([*arguments, "matmul_128", "--resume", row["run"]]) == 0
    assert asked == [["matmul_64"], ["matmul_128"]]
    assert {row["run"] for row in history.read(file)} == {row["run"]}


def test_workers_have_one_thread_and_openblas_its_own_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    plain = supervise.environment("default", 1, tmp_path)
    assert "OPENBLAS_CORETYPE" not in plain
    assert not any(key.startswith("MALLOC_") for key in plain)
    assert plain["OMP_NUM_THREADS"] == "1"
    assert any(key.startswith("MALLOC_") for key in supervise.environment("heap", 1, tmp_path))


ECHO = """
import json, os
import numpy as np
from bench.peers.engines import Candidate, returned

def available():
    return None

def make(workload, operands):
    told = json.dumps(dict(os.environ))
    return {"": lambda: Candidate(lambda: operands[0] @ operands[1], returned, note=told)}
"""


def test_instructions_are_told_to_peers_before_they_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that prints its environment has what holds it to AVX2, and nothing of it where nobody is held."""
    package = tmp_path / "echoes"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tensorlang.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    job = {"engines": [OURS], "package": "echoes", "seconds": 0.0, "most": 5, "skip": {}, "keep": {}}
    seen = {}
    for name in isa.ISAS:
        found = supervise.run(["matmul_64"], job, "heap", 1, tmp_path, name)
        seen[name] = json.loads(found.done["matmul_64"]["about"][OURS]["note"])
    held = isa.ENVIRONMENT[isa.AVX2]
    assert {name: seen[isa.AVX2][name] for name in held if name != "XLA_FLAGS"} == {n: v for n, v in held.items() if n != "XLA_FLAGS"}
    assert held["XLA_FLAGS"] in seen[isa.AVX2]["XLA_FLAGS"] and "eigen=false" in seen[isa.AVX2]["XLA_FLAGS"]
    assert not (set(held) - {"XLA_FLAGS"}) & set(seen[isa.NATIVE]) and "max_isa" not in seen[isa.NATIVE]["XLA_FLAGS"]


def test_who_cannot_be_held_is_left_out_with_the_reason_and_only_where_there_is_something_to_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def instead(workloads: Any, job: Any, *_: Any) -> supervise.Found:
        asked.append(dict(job))
        return supervise.Found("heap", done=dict.fromkeys(workloads, process("heap", tensorlang=[1.0], numpy=[2.0]).done["matmul_64"]))

    monkeypatch.setattr(supervise, "run", instead)
    file = tmp_path / "history.jsonl"
    for wider in (False, True):
        monkeypatch.setattr(isa, "is_wider", lambda _, wider=wider: wider)
        monkeypatch.setattr(isa, "why_not", lambda _: None)
        assert run.main(["--quick", "--isa", isa.AVX2, "--only", "matmul_64", "--history", str(file)]) == 0
    first, second = asked
    assert set(first["engines"]) - set(second["engines"]) == {"onnxruntime", "openvino", "jax"} and "numpy" in second["engines"]
    assert "torch compile" in second["skip"]["matmul_64"] and "torch compile" not in first["skip"]["matmul_64"]
    assert "onnxruntime is left out: its own kernels (MLAS) go by CPUID" in capsys.readouterr().out
    rows = list(history.read(file))
    assert [row["isa"] for row in rows] == [isa.AVX2] * 2 and set(rows[1]["absent"]) - set(rows[0]["absent"]) >= {"onnxruntime", "openvino"}


def test_our_own_candidate_is_built_for_the_instructions_that_everybody_is_held_to(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    engine = loaded(OURS)
    monkeypatch.setattr(engine.tl, "compile", lambda outputs, target, **_: built.append(target) or engine.tl.build(outputs))
    workload = named("matmul_64")
    for name in isa.ISAS:
        for variable, value in isa.ENVIRONMENT[name].items():
            if variable == isa.VARIABLE:
                monkeypatch.setenv(variable, value)
        engine.candidate(workload, workload.operands(), 1)
    native, held = map(target, built)
    assert native == target("native")
    assert (held.core.caches, held.core.memory) == (native.core.caches, native.core.memory)  # the machine is as it was
    assert needed(held) == needed(native) & needed(target(isa.AVX2))


@pytest.mark.parametrize("arguments", [["--only", "matmul_65"], ["--family", "poems"], ["--engine", "abacus"]])
def test_a_name_that_is_unknown_is_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run.main(arguments)
    assert stopped.value.code == 2


def test_what_is_tuned_is_a_part_of_the_workloads_and_stands_beside_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen = tuning.workloads()
    assert {workload.name for workload in chosen} == set(tuning.SUBSET)
    assert Counter(workload.operator for workload in chosen) == {"matmul": 6, "conv2d": 8, "depthwise": 3}
    engine = loaded(OURS)
    other = next(workload for workload in FAMILIES["matmul"].workloads if workload.name not in tuning.SUBSET)
    assert "default" not in engine.make(chosen[0], ())
    monkeypatch.setenv(engine.DATABASE, str(tmp_path))
    assert "default" in engine.make(chosen[0], ()) and "default" not in engine.make(other, ())


def test_a_peer_that_was_found_not_to_be_held_takes_no_part_on_the_page() -> None:
    part = {"aside": "", "note": "", "rate": 1.0, "ratio_best": 1.0}
    peers = {"jax": {**part, "ratio": 0.7}, "numpy": {**part, "ratio": 1.2}}
    row = {"workload": "matmul_64", "family": "matmul", "absent": {}, "best_peer": "jax", "ratio": 0.7, "verdict": "loss", "peers": peers}
    assert page.held({**row, "isa": isa.NATIVE}) == {**row, "isa": isa.NATIVE}
    found = page.held({**row, "isa": isa.AVX2})
    assert (found["best_peer"], found["ratio"], found["verdict"]) == ("numpy", 1.2, "win")
    assert set(found["peers"]) == {"numpy"} and "YNNPACK" in found["absent"]["jax"]
    alone = page.held({**row, "isa": isa.AVX2, "peers": {"jax": peers["jax"]}})
    assert "ratio" not in alone and not alone["peers"]
