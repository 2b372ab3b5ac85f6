"""Products of narrow operands in wide sums are computed by the dot products of the processor, by default and at every size."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.faults import unforeseen
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.program import ProgramStrategy
from tests.thinned import crossed

SHAPES = [(6, 64, 16), (7, 53, 29), (33, 130, 70), (4, 4, 1), (5, 17, 3)]
KINDS = [("uint8", "int8", "vpdpbusd"), ("int8", "uint8", "vpdpbusd"), ("int8", "int8", "vpdpbusd"), ("bfloat16", "bfloat16", "vdpbf16ps")]


def dense(m: int, n: int, k: int, row: str, lane: str, *, transposed: bool = False, relu: bool = False) -> Tensor:
    """X W or X W', with a rectifier if wanted."""
    sums = "float32" if row == "bfloat16" else "int32"
    x, w = tl.placeholder((m, k), row, name="X"), tl.placeholder((n, k) if transposed else (k, n), lane, name="W")
    r = tl.reduce_axis(k, name="k")

    def product(i: Any, j: Any) -> Any:
        return tl.sum(tl.cast(x[i, r], sums) * tl.cast(w[j, r] if transposed else w[r, j], sums), axis=r)

    result: Tensor = tl.compute((m, n), product, name="C")
    return tl.compute((m, n), lambda i, j: tl.maximum(result[i, j], 0), name="R") if relu else result


def operand(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Any:
    """Random values, the least and the greatest among them."""
    if kind == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True).astype(kind)


@crossed({"shape": SHAPES, "row, lane": [kind[:2] for kind in KINDS]}, count=4)
def test_the_default_is_the_product(row: str, lane: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    for transposed in (False, True):
        x, w = operand(rng, (m, k), row), operand(rng, (n, k) if transposed else (k, n), lane)
        want = np.maximum(x.astype("float64") @ (w.T if transposed else w).astype("float64"), 0)
        for machine in {"native", "x86-64-v3"} if target("x86-64-v3").is_native else {"native"}:
            found = tl.build(dense(*shape, row, lane, transposed=transposed, relu=True), target=machine)(x, w)
            np.testing.assert_allclose(found, want, rtol=0 if row != "bfloat16" else 1e-4, atol=0 if row != "bfloat16" else 1e-4)


@pytest.mark.parametrize(("row", "lane", "instruction"), KINDS)
def test_the_instruction_is_used_where_the_processor_has_it(row: str, lane: str, instruction: str) -> None:
    product = dense(64, 64, 64, row, lane)
    assert choose(product, target("cooperlake" if row == "bfloat16" else "icelake-server"), 1).name == "dots"
    assert instruction in tl.build(product, target="sapphirerapids").inspect("asm")
    for other in ("x86-64-v2", "cortex-a72"):
        assert choose(product, target(other), 1).name == "contraction"
    avx2 = tl.build(product, target="x86-64-v3").inspect("asm")
    assert ("vpmaddwd" in avx2) == (row != "bfloat16")
    assert choose(product, target("x86-64-v3"), 1).name == ("contraction" if row == "bfloat16" else "dots")


def test_every_point_of_the_space_is_a_schedule() -> None:
    strategy = choose(dense(33, 70, 37, "uint8", "int8", relu=True), target("sapphirerapids"), 2)
    assert strategy.space.contains(strategy.default)
    found = []
    for config in strategy.space.sample(np.random.default_rng(0), 12):
        s = strategy.schedule(config)
        found.append("tensor" in str(s))
        copies = config["rows"] * config["vectors"] * config["unroll"]
        assert found[-1] or 4 * copies > 256, config  # its code may be too long: plain loops
        assert not unforeseen(s.faults)
    assert sum(found) > 9


def test_a_convolution_of_bytes_takes_its_channels_as_products() -> None:
    """Channels last, weights by output channel last."""
    x, w = tl.placeholder((9, 9, 12), "uint8", name="X"), tl.placeholder((3, 3, 12, 20), "int8", name="W")
    ry, rx, c = (tl.reduce_axis(extent, name=name) for extent, name in ((3, "ry"), (3, "rx"), (12, "c")))
    result = tl.compute(
        (7, 7, 20),
        lambda y, z, o: tl.sum(tl.cast(x[y + ry, z + rx, c], "int32") * tl.cast(w[ry, rx, c, o], "int32"), axis=(ry, rx, c)),
        name="C",
    )
    rng = np.random.default_rng(0)
    a, b = operand(rng, (9, 9, 12), "uint8"), operand(rng, (3, 3, 12, 20), "int8")
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(0, 1)).astype("int64")
    np.testing.assert_array_equal(tl.build(result)(a, b), np.einsum("yzcij,ijco->yzo", windows, b.astype("int64")))
    assert choose(result, target("sapphirerapids"), 1).name == "dots"


@crossed({"shape": SHAPES[:3], "row, lane": [kind[:2] for kind in KINDS], "cpu": ["sapphirerapids", "haswell"]})
def test_a_sketch_of_dot_products_costs_what_the_schedule_does(row: str, lane: str, shape: tuple[int, int, int], cpu: str) -> None:
    m, n, k = (4 * extent for extent in shape)
    machine = target(cpu)
    strategy = choose(dense(m, n, k, row, lane), machine, 1)
    assert isinstance(strategy, ProgramStrategy)
    tile = strategy._tiles["C"]
    sketched = tile.costs()(strategy.default)
    assert sketched == pytest.approx(estimate(strategy.schedule(strategy.default).nest, machine.core).seconds, rel=0.25, abs=2e-7)


@pytest.mark.parametrize(("cpu", "times"), [("sapphirerapids", 3), ("haswell", 1.3)])
def test_four_products_in_a_lane_are_predicted_faster_than_one(cpu: str, times: float) -> None:
    machine = target(cpu)
    narrow, wide = (choose(dense(256, 256, 256, *kinds), machine, 1) for kinds in (("uint8", "int8"), ("int32", "int32")))
    assert times * narrow.costs.seconds(narrow.default) < wide.costs.seconds(wide.default)


@pytest.mark.parametrize("where", [False, True])
def test_a_product_under_a_condition_has_no_instruction(where: bool) -> None:
    """An instruction has no lanes that are off. Selects around a sum stand around its statement too."""
    a, b, k = tl.placeholder((16, 16), "uint8", name="A"), tl.placeholder((16, 16), "int8", name="B"), tl.reduce_axis(16, name="k")

    def element(i: Any, j: Any) -> Any:
        product = tl.sum(tl.cast(a[i, k], "int32") * b[j, k], axis=k, where=k <= j if where else None)
        return product if where else tl.select(j <= i, product, 7)

    s = tl.compute((16, 16), element, name="S")
    strategy = choose(s, target("cascadelake"), 1)
    assert strategy.schedule(strategy.default).faults == ()
    x, y = (np.random.default_rng(seed).integers(0, 100, (16, 16)) for seed in (0, 1))
    j = np.arange(16)
    wanted = np.array([[x[i, : j + 1] @ y[j, : j + 1] for j in range(16)] for i in range(16)])
    wanted = wanted if where else np.where(j <= j[:, None], x @ y.T, 7)
    np.testing.assert_array_equal(tl.build(s)(x.astype("u1"), y.astype("i1")), wanted)
