"""A program of bounded dims has one schedule for every size, found at literal ones: it is right at all of them and loses little at any."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings, strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

import tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import For, If, Nest
from tensorlang.ir.integers import value_of
from tensorlang.ir.traverse import statements
from tensorlang.lowering.at_sizes import at_sizes
from tensorlang.lowering.program import lower_program
from tensorlang.schedules.rewriting.edit import literal_extent
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.ranged import PLANNED, RANGES, Ranged
from tensorlang.schedules.strategies.sizes import ladder
from tests.thinned import crossed, few

MACHINE = target("x86-64-v3")
Extent = Any


def product(n: Extent, k: int = 24, m: int = 40) -> Any:
    return tl.ops.matmul(tl.placeholder((n, k), name="A"), tl.placeholder((k, m), name="B"))


def dense(n: Extent, k: int = 24, m: int = 24) -> Any:
    x, w, b = tl.placeholder((n, k), name="x"), tl.placeholder((m, k), name="w"), tl.placeholder((m,), name="b")
    return tl.ops.relu(tl.ops.dense(x, w, b))


def convolution(n: Extent, channels: int = 8, side: int = 10) -> Any:
    x, w = tl.placeholder((n, channels, side, side), name="x"), tl.placeholder((16, channels, 3, 3), name="w")
    return tl.ops.conv2d(x, w, padding=1)


def attention(n: Extent, length: int = 24, width: int = 16) -> Any:
    return tl.ops.attention(*(tl.placeholder((n, 2, length, width), name=name) for name in "qkv"))


def softmax(n: Extent, width: int = 37) -> Any:
    return tl.ops.softmax(tl.placeholder((n, width), name="x"))


def products_of_batches(n: Extent, m: int = 9) -> Any:
    return tl.ops.batch_matmul(tl.placeholder((n, m, 12), name="A"), tl.placeholder((n, 12, 20), name="B"))


def convolved(x: Any, w: Any) -> Any:
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.einsum("ncyxrs,ocrs->noyx", windows, w)


def attended(q: Any, k: Any, v: Any) -> Any:
    return special.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), axis=-1) @ v


REFERENCES: dict[Callable[[Extent], Any], Callable[..., Any]] = {
    product: np.matmul,
    dense: lambda x, w, b: np.maximum(x @ w.T + b, 0),
    convolution: convolved,
    attention: attended,
    softmax: lambda x: special.softmax(x, axis=-1),
    products_of_batches: np.matmul,
}


def operands(kernel: tl.Kernel, n: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(getattr(extent, "value", n)) for extent in part.shape) for part in kernel.program.signature.passed]
    return [rng.standard_normal(shape).astype("f4") for shape in shapes]


def right(kernel: tl.Kernel, reference: Callable[..., Any], n: int) -> None:
    given = operands(kernel, n)
    np.testing.assert_allclose(kernel(*given), reference(*(array.astype("f8") for array in given)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("operator", REFERENCES, ids=lambda operator: operator.__name__)
@settings(max_examples=1, deadline=None, phases=(Phase.explicit, Phase.generate))
@example(bounds=(0, 0), sizes=(0,))
@given(bounds=st.tuples(st.integers(0, 20), st.integers(0, 70)), sizes=st.tuples(st.integers(0, 90)))
def test_every_size_of_the_range_gives_what_numpy_does(
    operator: Callable[[Extent], Any], bounds: tuple[int, int], sizes: tuple[int]
) -> None:
    least, most = bounds[0], sum(bounds)
    kernel = tl.build(operator(tl.dim("n", least, most)))
    for n in {least, most, *(min(max(size, least), most) for size in sizes)}:
        right(kernel, REFERENCES[operator], n)


@pytest.mark.parametrize(
    ("operator", "threads"),
    [
        (product, 1),
        (attention, 2),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((product, 2), (dense, 1), (dense, 2), (attention, 1))),
    ],
)
def test_every_point_of_the_space_gives_what_numpy_does(operator: Callable[[Extent], Any], threads: int) -> None:
    outputs = operator(tl.dim("n", 1, 30))
    strategy = choose(outputs, target(), threads)
    assert isinstance(strategy, Ranged)
    assert strategy.default in strategy.space
    for config in strategy.space.sample(np.random.default_rng(threads), 1):
        kernel = tl.build(strategy.schedule(config))
        for n in (1, 7, 30):
            right(kernel, REFERENCES[operator], n)


@pytest.mark.parametrize("operator", few([convolution, attention], 1))
def test_an_outer_extent_is_a_loop_around_the_nest_of_a_literal_one(operator: Callable[[Extent], Any]) -> None:
    strategy = choose(operator(tl.dim("n", 1, 64)), MACHINE, 1)
    sizes = strategy.default[PLANNED]
    assert sizes.startswith("n=")
    literal = choose(operator(int(sizes[2:])), MACHINE, 1)
    assert strategy.schedule(strategy.default).directives == literal.schedule(literal.default).directives


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(lambda n: product(n, 256, 512), id="product"),
        pytest.param(lambda n: convolution(n, 32, 28), id="convolution", marks=pytest.mark.slow),
        pytest.param(lambda n: attention(n, 64, 32), id="attention"),
    ],
)
def test_by_the_model_one_schedule_loses_little_to_that_of_each_size(operator: Callable[[Extent], Any]) -> None:
    """Two versions at most: of a product of 1 to 64 rows, one row could be had in 0.8 of the time, and then not 64 rows in theirs."""
    one = default_schedule(operator(tl.dim("n", 1, 64)), MACHINE, threads=1)
    for n in (1, 8, 64):
        own = default_schedule(operator(n), MACHINE, threads=1)
        assert one.estimate(MACHINE, n=n).seconds <= 1.3 * own.estimate(MACHINE).seconds


def test_a_product_has_a_version_for_few_rows_whose_panels_are_wider() -> None:
    outputs = product(tl.dim("n", 1, 64), 512, 512)
    strategy = choose(outputs, target("x86-64-v3"), 1)
    assert strategy.default == {PLANNED: RANGES}
    s = strategy.schedule(strategy.default)
    assert isinstance(s.nest.body, If)
    assert tl.Schedule.from_json(outputs, s.to_json()).nest == s.nest
    kernel = tl.build(s)
    for n in (1, 2, 3, 9, 64):
        right(kernel, np.matmul, n)


def test_two_dims_of_one_program_grow_together() -> None:
    n, m = tl.dim("n", 1, 32), tl.dim("m", 4, 48)
    A, B = tl.placeholder((n, 12, m), name="A"), tl.placeholder((m, 20), name="B")
    kernel = tl.build(tl.einsum("bim,mj->bij", A, B))
    rng = np.random.default_rng(0)
    for rows, depth in ((1, 4), (32, 5), (3, 48)):
        a, b = rng.standard_normal((rows, 12, depth)).astype("f4"), rng.standard_normal((depth, 20)).astype("f4")
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)


@crossed({"operator, weight": [(product, "B"), (convolution, "w"), (dense, "w")]}, count=1)
def test_constants_are_packed_as_for_a_literal_batch(operator: Callable[[Extent], Any], weight: str) -> None:
    kernel = kernels.compile(operator(tl.dim("n", 1, 64)), constants=(weight,))
    names = [argument.name for argument in kernel.program.signature.passed]
    literal = kernels.compile(operator(8), constants=(weight,))
    own = literal.prepack(**{weight: operands(literal, 8)[names.index(weight)]})
    for n in (1, 8, 64):
        given = dict(zip(names, operands(kernel, n), strict=True))
        packed = kernel.prepack(**{weight: given[weight]})
        assert packed.program.signature.inputs[names.index(weight)] == own.program.signature.inputs[names.index(weight)]
        rest = [array for name, array in given.items() if name != weight]
        np.testing.assert_allclose(packed(*rest), REFERENCES[operator](*given.values()), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [0, 65])
def test_a_call_out_of_range_leaves_its_outputs_untouched(n: int) -> None:
    kernel = tl.build(product(tl.dim("n", 1, 64)))
    out = np.full((n, 40), 7, "f4")
    with pytest.raises(tl.CallError, match=f"the dim n is from 1 to 64, and not {n}"):
        kernel(*operands(kernel, n), out=out)
    assert (out == 7).all()


def test_a_program_at_sizes_is_the_program_that_is_written_with_them() -> None:
    for operator in REFERENCES:
        found = at_sizes(lower_program(operator(tl.dim("n", 1, 64))), {"n": 5}).nest
        assert found == lower_program(operator(5)).nest


def test_sizes_grow_by_equal_factors_from_the_least_to_the_most() -> None:
    assert ladder(1, 64) == (1, 2, 4, 8, 16, 32, 64)
    assert ladder(0, 64) == ladder(1, 64)
    assert ladder(7, 7) == (7,) * 7


def depth_of_conditions(nest: Nest) -> int:
    """The conditions inside of the loops over the depth of a product."""
    loops = [part for part in statements(nest.body) if isinstance(part, For) and part.loop.endswith(".k")]
    return sum(isinstance(part, If) for loop in loops for part in statements(loop))


def test_rows_of_a_last_tile_are_counted_before_the_reduction_and_not_in_it() -> None:
    s = tl.Schedule(product(tl.dim("n")))
    s.split("i", 4, tail="mask")
    s.split("j", 8, tail="peel")
    s.reorder("j_o", "i_o", "k", "i_i", "j_i")
    s.accumulate("matmul", at="i_o")
    s.vectorize("j_i")
    s.unroll("i_i")
    assert depth_of_conditions(lower(s.nest, MACHINE)) == 1  # of one row, or none
    kernel = tl.build(s)
    for n in range(10):
        right(kernel, np.matmul, n)


def test_vectors_of_a_last_tile_are_counted_before_the_reduction() -> None:
    """Of 56 columns by tiles of 48, eight are left, for which one vector of three is computed."""
    m = tl.dim("m")
    a, b, k = tl.placeholder((4, 9), name="A"), tl.placeholder((9, m), name="B"), tl.reduce_axis(9, name="k")
    s = tl.Schedule(tl.compute((4, m), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C"))
    s.split("j", 24, tail="mask")
    s.reorder("j_o", "k", "i", "j_i")
    s.accumulate("C", at="j_o")
    s.vectorize("j_i")
    s.unroll("i")
    nest = lower(s.nest, MACHINE)
    depths = [part for part in statements(nest.body) if isinstance(part, For) and part.loop == "C.k"]
    inside = ([part for part in statements(loop.body) if isinstance(part, For)] for loop in depths)
    vectors = [prod(literal_extent(part) or 0 for part in loops if part.kind == "unroll") // 4 for loops in inside]
    assert vectors == [3, 1, 2, 3]  # whole tiles, and what is left by the number of its vectors
    kernel = tl.build(s)
    for n in (0, 1, 7, 8, 9, 16, 17, 23, 24, 25, 33, 48, 56):
        x, y = np.random.default_rng(n).random((4, 9), "float32"), np.random.default_rng(n + 1).random((9, n), "float32")
        np.testing.assert_allclose(kernel(x, y), x @ y, rtol=1e-5)


def moved_in_versions() -> tl.Schedule:
    n = tl.dim("n")
    x = tl.placeholder((n, 12), name="X")
    h = tl.compute((n, 12), lambda i, j: x[i, j] + 1, name="h")
    s = tl.Schedule(tl.compute((n, 12), lambda i, j: h[i, j] * 2, name="v"))
    s.specialize("n >= 4")
    return s


def test_a_stage_moves_in_the_version_that_is_named_and_in_no_other() -> None:
    s = moved_in_versions()
    s.compute_at("h", "v.i", within="v.i")
    s.compute_inline("h", within="v.j_generic")
    assert str(s).count("h: float32[1, 12]") == 1
    assert "h[i_generic" not in str(s)
    assert tl.Schedule.from_json(s.outputs, s.to_json()).nest == s.nest
    kernel = tl.build(s)
    for n in (0, 3, 4, 9):
        right(kernel, lambda x: (x + 1) * 2, n)


def test_a_version_is_named_by_one_of_its_loops() -> None:
    s = moved_in_versions()
    for wrong, code in (("v.q", "TL-S001"), ("", "TL-S301")):
        with pytest.raises(tl.ScheduleError) as refused:
            s.compute_inline("h", **({"within": wrong} if wrong else {}))
        assert refused.value.code == code
    x = tl.placeholder((4,), name="X")
    h = tl.compute((4,), lambda i: x[i] + 1, name="h")
    with pytest.raises(tl.ScheduleError, match="there are no versions here of which 'v.i' would name one; leave out within="):
        tl.Schedule(tl.compute((4,), lambda i: h[i] * 2, name="v")).compute_inline("h", within="v.i")


def test_the_only_dim_without_a_most_value_is_planned_as_far_as_is_assumed() -> None:
    """A row is multiplied in rows, many are tiles of weights that are packed: 300 rows took three times as long."""
    outputs = product_of_transposed(tl.dim("n", least=1), 96, 64)
    strategy = choose(outputs, target("znver4"), 1)
    assert isinstance(strategy, Ranged)
    assert {1, 1024} <= {sizes["n"] for sizes in strategy.sizes}
    kernel, rng = tl.build(outputs), np.random.default_rng(0)
    w = rng.random((64, 96), dtype="float32")
    for n in (1, 2, 7, 64, 1025):
        x = rng.random((n, 96), dtype="float32")
        np.testing.assert_allclose(kernel(x, w), x @ w.T, rtol=1e-4)


def product_of_transposed(n: Extent, k: Extent, m: Extent) -> Any:
    x, w, r = tl.placeholder((n, k), name="x"), tl.placeholder((m, k), name="w"), tl.reduce_axis(k, name="r")
    return tl.compute((n, m), lambda i, j: tl.sum(x[i, r] * w[j, r], axis=r), name="y")


@pytest.mark.parametrize("extents", [("n", 48, "m"), ("n", 48, 40), (40, 48, "m"), ("n", "k", "m")])
def test_products_of_rows_with_rows_are_tiles_of_any_depth(extents: tuple[int | str, ...]) -> None:
    """Lanes lie across memory: what is packed for them is of tiles, whatever the number of rows."""
    outputs = product_of_transposed(*(tl.dim(extent, least=1) if isinstance(extent, str) else extent for extent in extents))
    s = default_schedule(outputs, target("znver4"), threads=1)
    assert "w_pack" in s.stages()
    kernel, rng = tl.build(outputs), np.random.default_rng(1)
    for n, k, m in ((1, 48, 1), (40, 48, 40), (67, 48, 131), (9, 5, 33), (3, 1000, 7)):
        wanted = [own if isinstance(own, int) else extent for own, extent in zip(extents, (n, k, m), strict=True)]
        x, w = (rng.random((rows, wanted[1]), dtype="float32") for rows in (wanted[0], wanted[2]))
        np.testing.assert_allclose(kernel(x, w), x @ w.T, rtol=1e-4)


def blurred(h: Extent, w: Extent) -> Any:
    x = tl.placeholder((h, w), name="x")
    rows = tl.compute((h, w - 2), lambda y, i: (x[y, i] + x[y, i + 1] + x[y, i + 2]) / 3, name="rows")
    return tl.compute((h - 2, w - 2), lambda y, i: (rows[y, i] + rows[y + 1, i] + rows[y + 2, i]) / 3, name="y")


def filtered(h: Extent, w: Extent) -> Any:
    return tl.ops.conv2d(tl.placeholder((1, 4, h, w), name="x"), tl.placeholder((24, 4, 3, 3), name="w"))


def pooled(h: Extent, w: Extent) -> Any:
    return tl.ops.max_pool2d(tl.placeholder((1, 4, h, w), name="x"), 2)


IMAGES: dict[Callable[[Extent, Extent], Any], Callable[..., Any]] = {
    blurred: lambda x: sliding_window_view(x, (3, 3)).mean((2, 3)),
    filtered: lambda x, w: np.einsum("ncyxrs,ocrs->noyx", sliding_window_view(x, (3, 3), axis=(2, 3)), w),
    pooled: lambda x: sliding_window_view(x, (2, 2), axis=(2, 3))[:, :, ::2, ::2].max((4, 5)),
}


@pytest.mark.parametrize("define", IMAGES)
def test_images_of_any_height_and_width_are_planned_as_those_of_some(define: Callable[[Extent, Extent], Any]) -> None:
    """The dims grow together; what was chosen is right where they do not, and where tiles are partial both ways."""
    outputs = define(tl.dim("h", least=3), tl.dim("w", least=3))
    strategy = choose(outputs, MACHINE, 1)
    assert isinstance(strategy, Ranged)
    assert {(3, 3), (1024, 1024)} <= {tuple(sizes.values()) for sizes in strategy.sizes}
    kernel, rng = tl.build(outputs), np.random.default_rng(0)
    for h, w in ((3, 3), (4, 50), (50, 4), (19, 58), (34, 67)):
        sizes = {"h": h, "w": w}
        given = [rng.random([value_of(part, sizes) for part in a.shape], "float32") for a in kernel.program.signature.inputs]
        np.testing.assert_allclose(kernel(*given), IMAGES[define](*given), rtol=1e-5)
