"""The comparison of programs: what can be held to without any peer."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from bench.programs import engines, halide as pipelines, two_threads
from bench.programs.__main__ import Part, Row, left_out, line, means, page
from bench.programs.families import FAMILIES
from bench.programs.known import PROGRAMS
from bench.programs.photographs import photograph
from bench.programs.program import Program
from bench.programs.timing import same
from bench.programs.whole import FORMS, MODULES, dialects

ABOUT = {"cpu": "a processor"}
KNOWN = {program.name: program for program in PROGRAMS}
CHEAP = (
    *("halved", "edges", "time_warping", "butterflies", "sparse_product", "bags", "determinants", "folding", "fdtd", "blur16", "equalised"),
    *("embedded", "delta_rule", "compacted", "waves", "both_ways", "alignments", "triangular_product", "mobile_block"),
)
ROWS = (
    Row("far", 1e-3, 0.1, {"numba": Part(4e-3, 4.0), "jax": Part(3e-3, 3.0), "torch": Part(2e-3, 2.0)}, two=1.5),
    Row("lost", 2e-3, 0.1, {"numba": Part(1e-3, 0.5), "jax": Part(4e-3, 2.0)}, {"torch": "a long loop"}),
    Row("near", 1e-3, 0.1, {"numba": Part(8e-3, 8.0), "jax": Part(1e-3, 1.0)}, {"torch": "a long loop"}),
)


@pytest.fixture(scope="module")
def xp() -> Any:
    """NumPy, which is the standard's namespace from 2.1 on."""
    return np if hasattr(np, "cumulative_sum") else pytest.importorskip("array_api_compat.numpy")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_form_has_the_name_of_a_program(module: Any) -> None:
    own = {name for name, made in vars(module).items() if getattr(made, "__module__", "") == module.__name__ and name[0] != "_"}
    assert own == {form.__name__ for form in module.FORMS} <= set(KNOWN)


@pytest.mark.parametrize("program", [KNOWN[name] for name in CHEAP], ids=CHEAP)
def test_a_form_computes_what_the_program_computes(program: Program, xp: Any) -> None:
    outputs, given = program.define()
    assert same(engines.results(tl.build(outputs)(*given)), engines.results(FORMS[program.name](xp, *given)))


def test_every_pipeline_has_the_name_of_a_program() -> None:
    assert set(pipelines.PIPELINES) <= set(KNOWN)


@pytest.mark.parametrize("name", pipelines.MODULES)
def test_a_module_of_pipelines_has_those_of_the_table(name: str) -> None:
    pytest.importorskip("halide")
    module = importlib.import_module(f"bench.programs.halide.{name}")
    assert set(pipelines.MODULES[name]) <= set(vars(module))


@pytest.mark.parametrize("name", ["dilation", "edges", "equalised"])
@pytest.mark.parametrize("peer", ["halide", "mullapudi2016"])
def test_a_pipeline_computes_what_a_form_computes(name: str, peer: str, xp: Any) -> None:
    pytest.importorskip("halide")
    _, given = KNOWN[name].define()
    result = engines.results(FORMS[name](xp, *given))
    call = engines.compiled(peer, KNOWN[name], given, result)
    assert not isinstance(call, str), call
    assert same(result, engines.results(call()))


def test_a_program_without_a_pipeline_says_so() -> None:
    assert engines.compiled("halide", KNOWN["viterbi"], (), ()) == "no pipeline"


def test_a_photograph_goes_on_as_its_mirror_image() -> None:
    photo = photograph(500, 1300)
    assert np.array_equal(photo[:427, :640], photo[:427, 1279:639:-1])
    assert np.array_equal(photo[427:], photo[426:353:-1])


def test_levels_of_words_are_the_same_one_apart() -> None:
    level = np.full(10, 1000, "uint16")
    assert same((level,), (level + np.uint16(1),))
    assert not same((level,), (level + np.uint16(2),))
    assert not same((level.astype("int32"),), (level.astype("int32") + 1,))


def test_torch_has_no_form_with_a_long_loop() -> None:
    class Torch:
        __name__ = "array_api_compat.torch"

    with pytest.raises(dialects.NoFormError, match="a loop of more than 64 steps"):
        dialects.stepped(Torch(), 65, lambda _, state: state + 1, 0)


def test_a_peer_that_fails_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: Any) -> Any:
        raise ValueError("no such thing\nat all")

    monkeypatch.setattr(engines, "PEERS", {"jax": engines.Peer("JAX", "whole arrays", ("jax",), made)})
    assert engines.compiled("jax", PROGRAMS[0], (), ()) == "ValueError: no such thing"


def test_results_of_another_shape_are_others() -> None:
    assert same((np.ones(3),), (np.ones(3),))
    assert not same((np.ones((3, 3)),), (np.ones(3),))
    assert not same((np.ones(3),), (np.ones(3), np.ones(3)))


def test_the_ratio_of_a_row_is_to_its_best_peer() -> None:
    assert [row.ratio for row in ROWS] == [2.0, 0.5, 1.0]
    assert Row("alone", 1e-3, 0.1, {}, {"jax": "no whole-array form"}).ratio is None


def test_the_page_has_a_column_for_each_peer_and_the_slowest_first() -> None:
    text = page(ROWS, ABOUT, ("numba", "jax", "torch"))
    assert [[cell.strip() for cell in found.split("|")[1:-1]] for found in re.findall(r"^\| .*$", text, re.MULTILINE)] == [
        ["program", "tensorlang", "numba", "jax", "torch", "ratio", "seconds to build", "two threads"],
        ["---", *["---:"] * 7],
        ["`lost`", "2000", "1000", "4000", "none", "0.50", "0.10", ""],
        ["`near`", "1000", "8000", "1000", "none", "1.00", "0.10", ""],
        ["`far`", "1000", "4000", "3000", "2000", "2.00", "0.10", "1.50"],
    ]


def test_the_head_of_the_page_says_who_took_part() -> None:
    text = page(ROWS, ABOUT, ("numba", "jax", "torch"))
    assert "`python -m bench.programs --page --peers numba jax torch`" in text
    assert "3 programs: geometric mean 1.00, least 0.50, 1 slower than the best peer." in text
    assert "torch.compile took no part in lost, near: a long loop." in text
    assert list(means(ROWS)) == [
        "Numba (loops with fastmath) took part in 3, geometric mean 2.52",
        "JAX (whole arrays) took part in 3, geometric mean 1.82",
        "torch.compile (whole arrays) took part in 1, geometric mean 2.00",
    ]


def test_a_program_without_a_form_is_named_once_with_its_reason() -> None:
    rows = [Row("alone", 1e-3, 0.1, {}, {"jax": "no whole-array form", "torch": "no whole-array form"}), *ROWS]
    assert list(left_out(rows)) == [
        "JAX took no part in alone: no whole-array form",
        "torch.compile took no part in alone: no whole-array form",
        "torch.compile took no part in lost, near: a long loop",
    ]
    assert "| `alone` | 1000 | none | none |  | 0.10 |" in page(rows, ABOUT, ("jax", "torch"))


def test_every_program_is_of_one_family() -> None:
    assert sorted(name for family in FAMILIES for name in family.names) == sorted(program.name for program in PROGRAMS)


def test_families_are_judged_by_their_goals() -> None:
    """By default, and where programs were tuned by what that found, on a section of its own."""
    rows = [replace(ROWS[0], name="blur"), replace(ROWS[1], name="heat")]
    text = page(rows, ABOUT, ("numba",))
    assert "### Programs without a schedule on" in text
    assert "| images | 0.9, none below 0.70 | 1 | 2.00 | 2.00 | yes |" in text
    assert "| stencils in time | 1.2 | 1 | 0.50 | 0.50 | **no** |" in text
    text = page([replace(row, tuned=1e-3, tuned_ratio=1.05) for row in rows], ABOUT, ("numba",))
    assert "### Programs that were tuned on" in text
    assert "| images | 1.1, none below 0.95 | 1 | 1.05 | 1.05 | **no** |" in text


def test_a_row_on_the_screen_has_every_ratio() -> None:
    assert line(ROWS[0]) == (
        "far                        1000.0 us, numba     4000.0 (  4.00), jax     3000.0 (  3.00), torch     2000.0 (  2.00), "
        "ratio   2.00, two threads   1.50"
    )


def test_what_is_over_in_a_moment_is_not_tried_on_two_threads() -> None:
    assert two_threads.gains(["alignments"]) == {}
