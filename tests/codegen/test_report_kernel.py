"""`Kernel.report` says what a kernel does, in text, JSON and a picture, for any kernel and any extents."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.calling.sample_operands import values
from tensorlang.codegen.cost.operation_count import OperationCount
from tensorlang.codegen.reports import machine
from tensorlang.codegen.reports.levels import HOMES, levels
from tensorlang.codegen.reports.machine import Rates
from tensorlang.codegen.reports.report import Report
from tensorlang.codegen.reports.spelling import percent, rate, seconds, size
from tensorlang.codegen.runtime.timing import Timing
from tensorlang.codegen.target.caches import Caches
from tensorlang.errors import BuildError, CallError
from tensorlang.ir.dtype import dtype

RATES = Rates(100e9, {"L1": 400e9, "L2": 200e9, "L3": 100e9, "memory": 20e9}, call=100e-9, fork=2e-6, kind="float32", threads=1)
CACHES = Caches(l1=32 << 10, l2=1 << 20, l3=16 << 20, cores=1)


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that need not be measured."""
    monkeypatch.setattr("tensorlang.codegen.reports.make.rates", lambda kind, threads: RATES)


def product(n: Any = 64) -> tl.Kernel:
    A, B = tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B")
    return tl.build(tl.ops.matmul(A, B))


def scaled() -> tl.Kernel:
    n = tl.dim("n")
    x = tl.placeholder((n,), name="x")
    return tl.build(tl.compute((n,), lambda i: x[i] * 2, name="y"))


@pytest.fixture(scope="module")
def report() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensorlang.codegen.reports.make.rates", lambda kind, threads: RATES)
        return product().report(repeats=3)


def test_the_numbers_of_a_matrix_product(report: Report) -> None:
    assert report.flops == OperationCount(2 * 64**3)
    assert report.bytes == 3 * 64 * 64 * 4
    assert report.intensity == pytest.approx(2 * 64**3 / (3 * 64 * 64 * 4))
    assert report.peak_share == pytest.approx(report.flops.value / report.time / 100e9)
    assert 0 < report.time <= report.timing.median
    assert report.spills == 0


@pytest.mark.skipif(not tl.target("native").is_x86, reason="reads x86 assembly")
def test_the_hot_loop_has_the_widest_vectors(report: Report) -> None:
    assert report.vector_bits == tl.target("native").vector_bits
    assert report.vector_share == 1


def test_the_text_is_a_table_that_ends_with_the_verdict(report: Report) -> None:
    text = str(report)
    assert text.startswith("matmul(A: float32[64, 64], B: float32[64, 64]) -> matmul: float32[64, 64]\non ")
    assert [line.split()[0] for line in text.splitlines()[3:7]] == ["time", "arithmetic", "operands", "code"]
    assert "524,288 operations" in text
    assert "48.0 KiB" in text
    assert " ".join(text.split()).endswith(report.sentence)
    assert repr(report) == text


def test_json_is_plain_and_holds_the_numbers(report: Report) -> None:
    told = json.loads(json.dumps(report.to_json()))
    assert told["flops"] == 2 * 64**3
    assert told["bound"] == report.bound
    assert told["rates"]["bandwidth"]["L1"] == 400e9
    assert [level["loop"] for level in told["levels"]] == [level.loop for level in report.levels]


def test_the_picture_is_an_svg_that_needs_nothing_else(report: Report, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "roofline.svg"
    svg = report.picture(path)
    assert path.read_text() == svg
    root = ET.fromstring(svg)  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "href" not in svg
    assert svg in report._repr_html_()
    with pytest.raises(BuildError, match="picture"):
        report.picture(tmp_path / "none" / "roofline.svg")


def test_every_mark_of_a_picture_is_inside() -> None:
    x = tl.placeholder((16,), name="x")
    for kernel in (
        product(),
        tl.build(tl.compute((16,), lambda i: x[i], name="y")),
        tl.build(tl.compute((16,), lambda i: x[i] + 1, name="y")),
    ):
        root = ET.fromstring(kernel.report(repeats=2).picture())  # noqa: S314 - our own
        for line in root.iter("{http://www.w3.org/2000/svg}line"):
            assert all(-1 <= float(line.get(key, "nan")) <= 641 for key in ("x1", "x2", "y1", "y2"))


def test_a_definition_that_writes_more_than_is_done_is_told_so(report: Report) -> None:
    """The roof is what was measured: a count above it is drawn, and said to be more than was done."""
    above = replace(report, flops=OperationCount(round(5 * report.time * RATES.flops)))
    assert "500% of the 100 GFLOP/s of float32 multiply-adds (less is done than the definition writes, or narrower)" in str(above)
    root = ET.fromstring(above.picture())  # noqa: S314 - our own
    (dot,) = root.iter("{http://www.w3.org/2000/svg}circle")
    assert 0 <= float(dot.get("cy", "nan")) <= 400
    within = replace(report, flops=OperationCount(round(0.5 * report.time * RATES.flops)))
    assert "than the definition writes" not in str(within)


def test_arrays_of_ones_own_are_used_and_give_the_dims() -> None:
    kernel = scaled()
    x, y = np.arange(10, dtype="f4"), np.zeros(10, "f4")
    assert kernel.report(x, out=y, repeats=2).dims == {"n": 10}
    assert (y == 2 * x).all()
    assert kernel.report(x=x, repeats=2).flops == OperationCount(10)
    with pytest.raises(CallError, match="dtype"):
        kernel.report(x.astype("f8"))


def test_a_recurrence_beside_a_vector_loop_is_not_called_vector_arithmetic() -> None:
    x = tl.placeholder((4096,), name="x")
    total = tl.recurrence((4096,), lambda t, itself: itself[t - 1] + x[t], name="total")
    report = tl.build(tl.compute((4096,), lambda i: total[i] * 3, name="y")).report(repeats=2)
    assert report.vector_share == 0.5
    assert "50% of arithmetic on vectors" in str(report)


def test_dims_are_given_by_keyword() -> None:
    kernel = scaled()
    assert kernel.report(n=1000, repeats=2).bytes == 8000
    assert kernel.report(n=0, repeats=2).flops == OperationCount(0)


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({}, r"needs the dim 'n'; write report\(n=\.\.\.\)"),
        ({"m": 3}, "knows no 'm'"),
        ({"n": -1}, "from 0 to"),
        ({"n": 1 << 60}, "the dim n is from 0 to"),
        ({"n": 1 << 47}, "cannot be made"),
    ],
)
def test_what_does_not_fit_is_a_call_error(keywords: dict[str, int], says: str) -> None:
    with pytest.raises(CallError, match=says):
        scaled().report(**keywords)


def test_the_number_of_samples_is_checked() -> None:
    with pytest.raises(CallError, match="repeats"):
        scaled().report(n=4, repeats=0)


def test_a_saved_kernel_reports_without_its_definition(tmp_path: pathlib.Path) -> None:
    scaled().save(tmp_path / "k")
    found = tl.load(tmp_path / "k").report(n=64, repeats=2)
    assert found.flops == OperationCount(64, exact=False)
    assert found.levels == ()
    assert "at most 64 operations" in str(found)


def test_bound_operands_and_indices_from_data_are_fine() -> None:
    table = tl.buffer(np.ones((20, 4), "f4"), name="table")
    index = tl.placeholder((9,), "int64", name="index")
    kernel = tl.build(tl.compute((9, 4), lambda i, j: table[tl.clamp(index[i], 0, 19), j], name="rows"))
    found = kernel.report(repeats=2)
    assert found.flops == OperationCount(0)
    assert "none" in str(found)
    assert found.sent["L1"] < 10 * found.bytes


def test_a_kernel_for_another_machine_has_no_time() -> None:
    x = tl.placeholder((4,), name="x")
    with pytest.raises(CallError, match="cannot run here"):
        tl.build(tl.compute((4,), lambda i: x[i] + 1, name="y"), target="aarch64-unknown-linux-gnu:generic").report()


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int32", "uint64", "float16", "bfloat16", "float32", "float64"])
def test_operands_of_every_type_can_be_made(kind: str) -> None:
    made = values(np.random.default_rng(0), (5, 3), dtype(kind), signed=False)
    assert made.dtype == dtype(kind).numpy
    assert made.shape == (5, 3)
    assert np.isfinite(made.astype("f8")).all()
    assert (made.astype("f8") > 0).all() or not dtype(kind).is_floating


# Working sets --------------------------------------------------------------------------------------------------------------------


def blocked() -> tl.Schedule:
    A, B = tl.placeholder((64, 64), name="A"), tl.placeholder((64, 64), name="B")
    s = tl.Schedule(tl.ops.matmul(A, B), name="matmul")
    s.tile("i", "j", 8, 16)
    return s


def test_working_sets_are_those_of_the_tiles() -> None:
    found = {level.loop: level.bytes for level in levels(blocked().nest, "matmul", {}, CACHES)}
    row = 64 * 4
    assert found["i_o"] == 8 * row + 64 * row + 8 * row
    assert found["j_o"] == 8 * row + 64 * 16 * 4 + 8 * 16 * 4
    assert found["k"] == 3 * 4


def test_what_moves_is_what_the_model_says() -> None:
    schedule = blocked()
    found, said = tl.build(schedule).report(repeats=2), schedule.estimate()
    levels_of_48_kib = HOMES[: HOMES.index(found.home) + 1]
    assert found.sent == {name: round(said.bytes[name]) for name in levels_of_48_kib}
    assert said.bytes["L1"] == 4 * (2 * 64**3 + 3 * 64**2)  # A and B for each product; C as 0, before and after its sums


def test_lanes_load_a_vector_and_rows_a_number() -> None:
    """A row of B in four vectors of 16 for each step, a number of A for each of 6 rows; fused rows are no more than that."""
    image, weights = tl.placeholder((10, 12, 32), name="image"), tl.placeholder((32, 64), name="weights")
    c = tl.reduce_axis(32, name="c")
    s = tl.Schedule(tl.compute((10, 12, 64), lambda y, x, o: tl.sum(image[y, x, c] * weights[c, o], axis=c), name="layer"))
    rows, inner = s.split(s.fuse("y", "x"), 6)
    s.reorder(rows, "c", inner, "o")
    s.accumulate("layer", at=rows)
    s.vectorize("o")
    s.unroll(inner)
    assert s.estimate("znver4").bytes["L1"] == 20 * (32 * (6 + 64) + 6 * 64) * 4


def test_a_last_tile_that_is_not_whole_is_loaded_and_stored_too() -> None:
    """Of 100 rows in tiles of 64, and of 96: about as many bytes for each row."""
    found = []
    for rows in (96, 100):
        x = tl.placeholder((rows, 64), name="x")
        s = tl.Schedule(tl.compute((64, rows), lambda j, i, x=x: x[i, j] + 1.0, name="y"))
        s.reorder("i", "j")
        outer, inner = s.split("i", 64, tail="peel")
        s.reorder(outer, "j", inner)
        s.unroll(inner)
        found.append(s.estimate("znver4").bytes["L1"] / rows)
    assert found[0] == pytest.approx(found[1], rel=0.1) and found[0] >= 2 * 64 * 4


def test_a_stage_that_is_gone_has_no_levels() -> None:
    assert levels(blocked().nest, "inlined", {}, CACHES) == ()


# Rates and spelling --------------------------------------------------------------------------------------------------------------


def test_samples_that_differ_much_are_pointed_out(report: Report) -> None:
    assert "disturbed" in str(replace(report, timing=Timing((1e-6, 5e-6, 6e-6))))
    assert "disturbed" not in str(replace(report, timing=Timing((1e-6, 1.1e-6))))


@pytest.mark.slow
def test_the_machine_is_measured_once() -> None:
    found = machine.rates("float32", 1)
    assert 1e9 < found.flops < 1e13
    assert all(1e8 < bandwidth < 1e13 for bandwidth in found.bandwidth.values())
    assert found.bandwidth["L1"] > found.bandwidth["memory"]
    assert 1e-9 < found.call < 1e-3
    assert machine.rates("float32", 1) is found


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (seconds(128e-9), "128 ns"), (seconds(4.211e-3), "4.21 ms"), (seconds(0.9999e-3), "1.00 ms"), (seconds(72.0), "72.0 s"),
        (size(280), "280 B"), (size(73216), "71.5 KiB"), (size(12328960), "11.8 MiB"),
        (rate(429e9, "FLOP"), "429 GFLOP/s"), (rate(1.5e3, "B"), "1.50 kB/s"), (rate(2e12, "B"), "2.00 TB/s"),
        (percent(0.84), "84%"), (percent(0.003), "under 1%"), (percent(0), "0%"),
    ],
)  # fmt: skip
def test_quantities_have_three_digits(told: str, text: str) -> None:
    assert told == text


@pytest.mark.parametrize("rows", [0, tl.dim("rows")])
def test_a_kernel_that_computes_nothing_has_a_report_and_pages(rows: Any, tmp_path: pathlib.Path) -> None:
    """They divided by the bytes that it moves, and by what it was predicted to take."""
    dims = {} if rows == 0 else {"rows": 0}
    X = tl.placeholder((rows, 4), name="X")
    nothing = tl.compute((rows, 4), lambda i, j: X[i, j] + 1, name="nothing")
    assert "nothing to compute" in tl.build(nothing).report(**dims)._repr_html_()
    assert "there is nothing to compute" in pathlib.Path(tl.Schedule(nothing).visualize(tmp_path / "page.html", **dims)).read_text()
