"""Windows over data that neighbours only share are tiled in registers, by default and at every point, and compute what NumPy does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import tensorlang as tl
from bench.programs.outside import folding
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.faults import unforeseen
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.spaces.space import spelling
from tensorlang.schedules.strategies import choose
from tests.thinned import crossed, few


def strategy(outputs: Any, cpu: str = "znver4", threads: int = 1) -> Any:
    return choose(outputs, target(cpu), threads)


def depthwise(channels: int = 3, extent: int = 20, size: int = 3, layout: str = "NCHW", **options: Any) -> Tensor:
    image = (1, channels, extent, extent) if layout == "NCHW" else (1, extent, extent, channels)
    weight = (channels, 1, size, size) if layout == "NCHW" else (size, size, 1, channels)
    x, w = tl.placeholder(image, name="X"), tl.placeholder(weight, name="W")
    options = {"padding": size // 2, **options}
    return tl.ops.depthwise_conv2d(x, w, layout=layout, name="D", **options)


@dataclass(frozen=True)
class Case:
    """A window over an image: what is done with it, the image's height and width, and how the window moves."""

    kind: str
    layout: str
    dtype: str
    batch: int
    channels: int
    extent: tuple[int, int]
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @property
    def fits(self) -> bool:
        spans = zip(self.extent, self.size, self.padding, strict=True)
        return all(extent + 2 * pad >= size and (self.kind == "depthwise" or 2 * pad <= size) for extent, size, pad in spans)

    def image(self) -> Any:
        rng = np.random.default_rng(0)
        return rng.integers(-8, 9, (self.batch, self.channels, *self.extent)).astype(self.dtype)

    def weight(self) -> Any:
        return np.random.default_rng(1).integers(-4, 5, (2 * self.channels, 1, *self.size)).astype(self.dtype)

    def expected(self) -> Any:
        (sy, sx), (py, px) = self.stride, self.padding
        fill = -np.inf if self.kind == "max" else 0
        x = np.pad(self.image().astype("float64"), ((0, 0), (0, 0), (py, py), (px, px)), constant_values=fill)
        seen = sliding_window_view(x, self.size, axis=(2, 3))[:, :, ::sy, ::sx]
        match self.kind:
            case "max":
                return seen.max(axis=(4, 5))
            case "avg":
                return seen.mean(axis=(4, 5))
            case _:
                weight = self.weight()[:, 0].astype("float64")
                return np.einsum("ncyxrs,crs->ncyx", np.repeat(seen, 2, axis=1), weight)

    def output(self) -> Tensor:
        def shape(array: Any) -> tuple[int, ...]:
            return tuple(self._laid(array).shape)

        x = tl.placeholder(shape(self.image()), self.dtype, name="X")
        options: dict[str, Any] = {"stride": self.stride, "padding": self.padding, "layout": self.layout}
        if self.kind == "depthwise":
            weight = self.weight() if self.layout == "NCHW" else self.weight().transpose(2, 3, 1, 0)
            return tl.ops.depthwise_conv2d(x, tl.placeholder(weight.shape, self.dtype, name="W"), **options)
        return (tl.ops.max_pool2d if self.kind == "max" else tl.ops.avg_pool2d)(x, self.size, **options)

    def operands(self) -> list[Any]:
        x = np.ascontiguousarray(self._laid(self.image()))
        if self.kind != "depthwise":
            return [x]
        weight = self.weight() if self.layout == "NCHW" else self.weight().transpose(2, 3, 1, 0)
        return [x, np.ascontiguousarray(weight)]

    def _laid(self, array: Any) -> Any:
        return array if self.layout == "NCHW" else array.transpose(0, 2, 3, 1)

    def check(self, found: Any) -> None:
        loose = 2e-2 if self.dtype == "float16" else 1e-6
        np.testing.assert_allclose(found.astype("float64"), self._laid(self.expected()), rtol=loose, atol=loose)


def cases(count: int) -> Iterator[Case]:
    """Extents from 1 on, windows up to larger than the image, strides beyond the window."""
    rng = np.random.default_rng(11)
    found = 0
    while found < count:
        kind = str(rng.choice(["depthwise", "max", "avg"]))
        case = Case(
            kind,
            str(rng.choice(["NCHW", "NHWC"])),
            str(rng.choice(["float32", "float64", "float16"] + ["int32"] * (kind != "avg"))),
            int(rng.integers(1, 3)),
            int(rng.choice([2, 5, 16, 19])),
            (int(rng.integers(1, 24)), int(rng.choice([1, 3, 4, 7, 8, 15, 16, 17, 33]))),
            (int(rng.integers(1, 6)), int(rng.integers(1, 6))),
            (int(rng.integers(1, 4)), int(rng.integers(1, 4))),
            (int(rng.integers(0, 4)), int(rng.integers(0, 4))),
        )
        if case.fits and not (kind == "max" and case.dtype == "int32"):
            found += 1
            yield case


@pytest.mark.parametrize("case", few(cases(30), 5), ids=str)
def test_the_default_computes_what_numpy_does(case: Case) -> None:
    case.check(tl.build(case.output())(*case.operands()))


@pytest.mark.parametrize("case", few(cases(8), 2), ids=str)
def test_points_of_the_space_compute_the_same(case: Case) -> None:
    kinds = strategy(case.output(), threads=2)
    for config in kinds.space.sample(np.random.default_rng(0), 2):
        case.check(tl.build(kinds.schedule(config))(*case.operands()))


POINTS: dict[str, Callable[[], Tensor]] = {
    "padded": depthwise,
    "plain": lambda: depthwise(padding=0),
    "channels last": lambda: depthwise(20, 9, layout="NHWC"),
    "strided": lambda: depthwise(stride=2),
    "with bias": lambda: tl.ops.relu(depthwise(bias=tl.placeholder((3,), name="B"))),
    "averages": lambda: tl.ops.avg_pool2d(tl.placeholder((2, 3, 20, 20), name="X"), 3, 2, 1, count_include_pad=False),
}


@pytest.mark.parametrize("name", POINTS)
def test_every_point_keeps_its_sums_in_registers(name: str) -> None:
    """No directive of a point is refused: else the schedule would fall back to plain loops."""
    kinds = strategy(POINTS[name](), threads=2)
    assert kinds.name == "windows" and kinds.space.contains(kinds.default)
    for config in kinds.space.sample(np.random.default_rng(1), 6):
        text = str(kinds.schedule(config))
        rows = config.get("rows", 1)
        assert "in registers" in text and (rows == 1 or f"unroll y_i in range({rows})" in text or f"unroll x_i in range({rows})" in text)
        assert ("parallel" in text) == ("outer" in {value for key, value in config.items() if key.endswith("parallel")})


@pytest.mark.parametrize("name", POINTS)
def test_the_points_are_counted_as_brute_force_counts_them(name: str) -> None:
    space = strategy(POINTS[name]()).space
    points = [space.at(rank) for rank in range(space.total)]
    held = {spelling(point) for point in points if all(constraint.holds(point) for constraint in space.constraints)}
    assert space.count.exact and space.count.feasible == len(held) and {spelling(point) for point in space} == held


def test_windows_are_told_from_contractions() -> None:
    x, w = tl.placeholder((1, 1, 20, 20), name="X"), tl.placeholder((16, 1, 3, 3), name="W")
    full = tl.placeholder((16, 8, 3, 3), name="W"), tl.placeholder((1, 8, 20, 20), name="X")
    assert strategy(tl.ops.conv2d(x, w)).name == "contraction"  # each window is read by 16 outputs
    assert strategy(tl.ops.conv2d(full[1], full[0], padding=1)).name == "contraction"
    assert strategy(tl.ops.max_pool2d(full[1], 2)).name == strategy(depthwise()).name == "windows"
    assert strategy(tl.ops.avg_pool2d(full[1], 20)).name == "rows"  # nothing slides


def test_a_sum_in_blocks_is_a_contraction() -> None:
    """`g * 64 + b` goes through a row in blocks that share nothing, each for itself: what is read again are both operands."""
    x, w, b = tl.placeholder((64, 512), name="X"), tl.placeholder((512, 96), name="W"), tl.reduce_axis(64, name="b")
    blocks = tl.compute((8, 64, 96), lambda g, t, j: tl.sum(x[t, g * 64 + b] * w[g * 64 + b, j], axis=b), name="blocks")
    assert strategy(blocks).name == "contraction"
    given, weights = (np.random.default_rng(5).standard_normal(part.shape).astype("float32") for part in (x, w))
    expected = np.einsum("tgb,gbj->gtj", given.reshape(64, 8, 64), weights.reshape(8, 64, 96))
    np.testing.assert_allclose(tl.build(blocks)(given, weights), expected, rtol=1e-4, atol=1e-4)


def test_a_padded_source_is_made_where_the_point_says() -> None:
    kinds = strategy(depthwise())
    whole = {"rows": 2, "vectors": 1, "unroll": "whole"}
    texts = {
        place: str(kinds.schedule({**whole, "source": place, **({} if place == "inlined" else {"D_pad.vectors": 1})}))
        for place in ("inlined", "plane", "rows", "apart")
    }
    first = {place: (text.find("D_pad:"), text.find("for o "), text.find("for y_o")) for place, text in texts.items()}
    order = {place: sorted(range(3), key=lambda part: first[place][part]) for place in first}
    assert order == {"inlined": [0, 1, 2], "apart": [0, 1, 2], "plane": [1, 0, 2], "rows": [1, 2, 0]}
    assert "D_pad" not in texts["inlined"] and "D_pad: float32[1, 3, 22, 22]" in texts["apart"]
    assert "D_pad: float32[1, 1, 22, 22]" in texts["plane"] and "D_pad: float32[1, 1, 4, 22]" in texts["rows"]


@crossed(
    {
        "cpu": ["znver4", "x86-64-v3", "haswell", "cortex-a72"],
        "stride": [1, 2],
        "size, extent": [(3, 14), (3, 56), (5, 28), (7, 7), (5, 112)],
        "layout": ["NCHW", "NHWC"],
    }
)
def test_the_default_is_about_as_cheap_as_any_point(cpu: str, stride: int, size: int, extent: int, layout: str) -> None:
    """By the cost model; a descent need not find the very best."""
    kinds = strategy(depthwise(channels=32, extent=extent, size=size, stride=stride, layout=layout), cpu)
    (tile,) = kinds._tiles.values()
    points = kinds.space.sample(np.random.default_rng(0), 60)
    assert tile.search.cost(kinds.default) <= 1.05 * min(map(tile.search.cost, points))


@crossed({"cpu": ["znver4", "x86-64-v3", "cortex-a72"], "stride": [1, 2], "size": [3, 5], "layout": ["NCHW", "NHWC"]})
def test_the_model_reads_of_a_sketch_what_it_reads_of_the_schedule(cpu: str, stride: int, size: int, layout: str) -> None:
    """But for rows that are no whole tiles, whose rest a schedule masks."""
    kinds = strategy(depthwise(channels=16, extent=32 * stride, size=size, stride=stride, layout=layout), cpu)
    (tile,) = kinds._tiles.values()
    for point in (kinds.default, *kinds.space.sample(np.random.default_rng(1), 6)):
        predicted = estimate(kinds.schedule(point).nest, target(cpu).core).seconds
        assert tile.search.seconds(point) == pytest.approx(predicted, rel=0.2), point


@pytest.mark.parametrize(
    ("layout", "unroll", "order"),
    [
        ("NCHW", "whole", ["unroll s", "unroll y_i", "unroll r"]),
        ("NCHW", "inner", ["for r", "unroll s", "unroll y_i"]),
        ("NHWC", "whole", ["unroll r", "unroll x_i", "unroll s"]),
        ("NHWC", "none", ["for r", "for s", "unroll x_i"]),
    ],
)
def test_taps_that_slide_along_the_rows_of_a_tile_stand_inside_them_where_they_are_unrolled(
    layout: str, unroll: str, order: list[str]
) -> None:
    kinds = strategy(depthwise(channels=32, layout=layout))
    text = str(kinds.schedule({**kinds.default, "source": "inlined", "rows": 4, "unroll": unroll}))
    sums = text[text.index("# D_acc.init") : text.index("+=")]
    places = [sums.index(f"{loop} in ") for loop in order]
    assert places == sorted(places)


@pytest.mark.parametrize("cpu", ["znver4", "skylake-avx512"])
def test_orders_of_unrolled_loops_move_the_same_memory(cpu: str) -> None:
    """They are one moment: what is read is as near to what was read before in either."""

    def moved(*taps: str) -> float:
        s = tl.Schedule(tl.ops.max_pool2d(tl.placeholder((1, 64, 56, 56), name="X"), 3, 2, name="P"))
        s.reorder("P.n", "P.c", "P.y", *taps, "P.x")
        s.accumulate("P", at="P.y")
        s.vectorize("P.x")
        for tap in taps:
            s.unroll(tap)
        shares = s.estimate(cpu).shares
        return sum(seconds for level, seconds in shares.items() if level != "arithmetic")

    assert moved("P.r", "P.s") == pytest.approx(moved("P.s", "P.r"))


def test_an_image_whose_edges_are_other_elements_of_it_is_not_read_in_place() -> None:
    edge = tl.pad(tl.placeholder((3, 20, 20), name="X"), ((0, 0), (1, 1), (1, 1)), mode="reflect")
    r, q = tl.reduce_axis(3, name="r"), tl.reduce_axis(3, name="q")
    blur = tl.compute((3, 20, 20), lambda c, y, x: tl.sum(edge[c, y + r, x + q], axis=(r, q)), name="blur")
    assert "inlined" not in dict(strategy(blur).space.knobs[3].opens)  # lanes would be gathered
    assert strategy(blur).default["source"] != "inlined"


@crossed({"size": [3, 5], "extent": [14, 56, 112]}, count=1)
def test_ragged_rows_of_lanes_that_lie_apart_are_never_gathered(size: int, extent: int) -> None:
    built = tl.build(depthwise(extent=extent, size=size, stride=2), target="x86-64-v4")
    assert "gather" not in str(built.inspect("asm"))


@pytest.mark.parametrize(("cpu", "masked"), [("x86-64-v3", "vmaskmovps"), ("x86-64-v4", "{%k")])
def test_loads_of_a_ragged_row_are_masked_and_its_sums_not_blended(cpu: str, masked: str) -> None:
    text = str(tl.build(depthwise(extent=7), target=cpu).inspect("asm"))
    assert "vblend" not in text and masked in text


def test_a_window_that_a_condition_cuts_is_not_unrolled() -> None:
    """Copies ask for it one by one to the end, where a loop runs no further: on a Zen 4 they take 2.9 times as long."""
    strategy = choose(folding()[0], target("cascadelake"), 1)
    assert strategy.name == "windows" and strategy.default["unroll"] == "none"


def test_a_result_is_consumed_in_registers() -> None:
    sums = depthwise(bias=tl.placeholder((3,), name="B"))
    kinds = strategy(tl.ops.relu(sums))
    assert kinds.default["epilogue"] == "fused" and len(kinds.schedule(kinds.default).nest.outputs) == 1
    assert {name for name in kinds.schedule(kinds.default).stages() if "_acc" not in name} <= {"D_pad", "D_sum", "D_sum.init"}
    averages = strategy(POINTS["averages"]())
    assert averages.default["epilogue"] == "fused" and "in registers" in str(averages.schedule(averages.default))


@crossed({"n": [1, 2], "h": [1, 4, 13], "w": [1, 9, 33]}, count=3)
def test_extents_known_at_run_time_are_right_at_every_size(n: int, h: int, w: int) -> None:
    found = _symbolic()
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal((n, 2, h, w), "float32"), rng.standard_normal((2, 1, 3, 3), "float32")
    seen = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    np.testing.assert_allclose(found(x, k), np.einsum("ncyxrs,crs->ncyx", seen, k[:, 0]), rtol=1e-4, atol=1e-4)


_BUILT: list[Any] = []


def _symbolic() -> Any:
    if not _BUILT:
        x = tl.placeholder((tl.dim("n"), 2, tl.dim("h"), tl.dim("w")), name="X")
        output = tl.ops.depthwise_conv2d(x, tl.placeholder((2, 1, 3, 3), name="K"), padding=1)
        assert strategy(output).name == "windows"
        _BUILT.append(tl.build(output))
    return _BUILT[0]


def test_windows_after_one_another_and_after_a_contraction() -> None:
    """What one of them consumes is not placed by the next one as well."""
    x, w, d = (tl.placeholder(shape, name=name) for name, shape in (("X", (1, 4, 12, 12)), ("W", (8, 4, 1, 1)), ("D", (8, 1, 3, 3))))
    first = tl.ops.relu(tl.ops.conv2d(x, w))
    second = tl.ops.relu(tl.ops.depthwise_conv2d(first, d, padding=1))
    pooled = tl.ops.max_pool2d(second, 3, 2, 1)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(t.shape, "float32") for t in (x, w, d))
    middle = np.maximum(np.einsum("nchw,oc->nohw", a, b[:, :, 0, 0]), 0)
    seen = sliding_window_view(np.pad(middle, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    deep = np.maximum(np.einsum("ncyxrs,crs->ncyx", seen, c[:, 0]), 0)
    seen = sliding_window_view(np.pad(deep, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf), (3, 3), axis=(2, 3))
    np.testing.assert_allclose(tl.build(pooled)(a, b, c), seen[:, :, ::2, ::2].max(axis=(4, 5)), rtol=1e-4, atol=1e-4)


def test_a_blur_whose_scaled_result_is_blurred_again() -> None:
    x = tl.placeholder((30, 40), name="X")
    r, q = tl.reduce_axis(3, name="r"), tl.reduce_axis(5, name="q")
    across = tl.compute((30, 36), lambda y, z: tl.sum(x[y, z + q], axis=q), name="across")
    scaled = tl.compute((30, 36), lambda y, z: across[y, z] * 0.2, name="scaled")
    down = tl.compute((28, 36), lambda y, z: tl.sum(scaled[y + r, z], axis=r), name="down")
    a = np.random.default_rng(0).standard_normal((30, 40), "float32")
    want = sliding_window_view(a, (3, 5)).astype("float64").sum(axis=(2, 3)) * 0.2
    for threads in (1, 2):
        kinds = strategy(down, threads=threads)
        for config in (kinds.default, *kinds.space.sample(np.random.default_rng(0), 1)):
            np.testing.assert_allclose(tl.build(kinds.schedule(config))(a), want, rtol=1e-4, atol=1e-4)


@crossed({"cpu": ["x86-64", "x86-64-v3", "cortex-a72"], "name": ["channels last", "maxima", "padded"]})
def test_other_processors_get_objects(cpu: str, name: str) -> None:
    output = {
        "channels last": lambda: depthwise(8, 9, layout="NHWC"),
        "maxima": lambda: tl.ops.max_pool2d(tl.placeholder((1, 2, 9, 9), name="X"), 3, 2, 1),
        "padded": depthwise,
    }[name]()
    assert strategy(output, cpu).name == "windows"
    assert tl.build(output, target=cpu if cpu != "cortex-a72" else "aarch64-linux-gnu:cortex-a72").inspect("asm")


@pytest.mark.parametrize("read", [0, 1, 2])
def test_windows_over_one_of_several_results_are_tiled(read: int) -> None:
    x = tl.placeholder((17, 8), name="X")
    made = tl.compute((17, 8), lambda i, j: tuple(x[i, j] * (factor + 2) for factor in range(3)), name="S")
    rows, columns = tl.reduce_axis(3, name="r"), tl.reduce_axis(3, name="q")
    v = tl.compute((15, 6), lambda i, j: tl.sum(made[read][i + rows, j + columns], axis=(rows, columns)), name="V")
    found = strategy(v)
    image = np.random.default_rng(0).random((17, 8), np.float32)
    wanted = sliding_window_view(image * (read + 2), (3, 3)).sum((-1, -2))
    for config in (found.default, *found.space.sample(np.random.default_rng(1), 4)):
        schedule = found.schedule(config)
        assert not unforeseen(schedule.faults)
        np.testing.assert_allclose(tl.build(schedule)(image), wanted, rtol=1e-5)
