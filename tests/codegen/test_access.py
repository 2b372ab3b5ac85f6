"""Loads and stores of vectors: which pattern an index makes, and that only the wanted elements are touched (guard pages stand around)."""

from __future__ import annotations

import itertools
import mmap
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.emission.affine import LANE, MAX_TERMS, Pattern, PolynomialScope, Strided, Uniform, Varying, classify, number, of
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.emission.summands import summands
from tensorlang.codegen.target import target
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Cast, Compare, Const, Dim, Expr, If, Load, Nest, Stmt, Unary, const
from tensorlang.ir.dtype import INT32, INT64, DType
from tensorlang.ir.traverse import substitute
from tests.codegen.nests import Guarded, Run, arg, index, loop, store
from tests.thinned import crossed

LANES = 12
ARM = "aarch64-unknown-linux-gnu:neoverse-n1"
SPACE = PolynomialScope()
SPACE.loop("i")
SPACE.loop("j")
SPACE.axes["l"] = of(LANE) + number(5)
SPACE.axes["u"] = number(3)


def times(a: Expr, b: Expr) -> Expr:
    return Binary("mul", a, b)


@pytest.mark.parametrize(
    ("expr", "pattern"),
    [
        (index("i", (3, "j"), 7), Uniform()),
        (index("l"), Strided(1)),
        (index((16, "i"), "l", 2), Strided(1)),
        (Binary("sub", Dim("n"), index((2, "l"))), Strided(-2)),
        (Unary("neg", index("l")), Strided(-1)),
        (times(index("l", "i"), const(4)), Strided(4)),
        (times(index("l", "i"), Axis("u")), Strided(3)),
        (Binary("sub", index("l", "i"), index("l")), Uniform()),
        (times(index("l"), const(0)), Uniform()),
        (times(index("l"), Dim("n")), Varying()),
        (times(index("l"), index("l")), Varying()),
        (Binary("floordiv", index("l"), const(2)), Varying()),
        (Binary("floordiv", index("i"), const(2)), Uniform()),
        (Binary("add", index("l"), Cast(Load(arg("X", 9, dtype=INT32), (Axis("i"),)), INT64)), Strided(1)),
        (Cast(Load(arg("X", 9, dtype=INT32), (Axis("l"),)), INT64), Varying()),
    ],
)
def test_an_index_is_uniform_strided_or_varying(expr: Expr, pattern: Pattern) -> None:
    _, moving = SPACE.polynomial(expr).parted()
    assert classify(moving) == pattern


@pytest.mark.parametrize(
    "places",
    [
        (index("i"), index("l")),
        (index("i", (3, "j"), 7), Binary("sub", const(5), index("l"))),
        (index(7), index("u")),
        (times(index("i"), const(-1)), Binary("sub", index("j"), index("j"))),
        (Binary("sub", index("i", 1), index("j", (2, "u"))), times(const(1 << 62), index("l"))),
    ],
)
def test_the_offset_of_a_sum_of_axes_is_that_of_its_parts_multiplied_out(places: tuple[Expr, Expr]) -> None:
    shape = const(6), const(1 << 40)
    assert summands(places, shape) is not None
    assert SPACE.offset(places, shape).terms == (SPACE.polynomial(places[0]) * number(1 << 40) + SPACE.polynomial(places[1])).terms
    assert summands((times(index("i"), index("j")), const(0)), shape) is None
    assert summands(places, (const(6), Dim("n"))) is None


def test_arithmetic_on_known_loops_is_a_number() -> None:
    expr = Binary("mod", Binary("floordiv", index((7, "u"), -50), const(4)), const(5))
    assert SPACE.polynomial(expr).constant == (7 * 3 - 50) // 4 % 5
    assert SPACE.polynomial(times(const(1 << 62), const(4))).constant == 0
    assert SPACE.polynomial(Binary("floordiv", Axis("u"), const(0))).constant == 0


def test_a_polynomial_is_what_its_expression_computes() -> None:
    axes = {"i": 5, "j": -3, "l": 9, "u": 3}
    expr = times(Binary("sub", index("i", (3, "l"), -4), index((2, "j"))), Binary("add", index("u", "j"), const(11)))
    terms = SPACE.polynomial(expr).terms
    names = {"i": 5, "j": -3, "lane": 4}
    total = sum(c * np.prod([names[atom.name] for atom in monomial], dtype=np.int64) for monomial, c in terms.items())
    assert total == (axes["i"] + 27 - 4 + 6) * (3 - 3 + 11)


def test_long_products_stay_whole() -> None:
    wide = index(*(f"a{n}" for n in range(8)))
    space = PolynomialScope()
    for n in range(8):
        space.loop(f"a{n}")
    assert len(space.polynomial(times(wide, wide)).terms) == 1
    assert MAX_TERMS < 36


PATTERNS: dict[str, tuple[Expr | None, Callable[[int, int], int]]] = {
    "once": (const(3), lambda n, live: 3 + 0 * n + 0 * live),
    "step": (Axis("l"), lambda n, _: n),
    "back": (None, lambda n, live: live - 1 - n),
    "two": (index((2, "l")), lambda n, _: 2 * n),
    "three": (index((3, "l")), lambda n, _: 3 * n),
    "four": (index((4, "l")), lambda n, _: 4 * n),
    "five": (index((5, "l")), lambda n, _: 5 * n),
    "minus": (None, lambda n, live: 2 * (live - 1 - n)),
}


def vector(body: Stmt, live: int) -> Stmt:
    return loop("l", LANES, If(Compare("lt", Axis("l"), const(live)), body), "vector")


@crossed(
    {
        "name, on, live": [
            (name, *place)
            for name in PATTERNS
            for place in [("native", 9), ("native", 12), ("x86-64-v3", 9), ("x86-64", 9), ("x86-64", 12)]
        ],
        "dtype": ["float32", "float64", "int8", "bool", "bfloat16"],
    }
)
def test_every_pattern_moves_the_right_elements(run: Run, guarded: Guarded, name: str, dtype: DType, on: str, live: int) -> None:
    dtype, l = DType(dtype), Axis("l")
    place, meaning = PATTERNS[name]
    if place is None:
        place = index((-1, "l"), live - 1) if name == "back" else index((-2, "l"), 2 * live - 2)
    where = np.array([meaning(n, live) for n in range(live)])
    size = int(where.max()) + 1
    wide, flat = arg("W", size, dtype=dtype), arg("F", live, dtype=dtype)
    data = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, size).astype(dtype.numpy)
    found = guarded(np.zeros(live, dtype.numpy))
    assert run(Nest("f", (wide,), (flat,), (), vector(store(flat, (l,), Load(wide, (place,))), live)), guarded(data), found, on=on) == 0
    assert np.array_equal(found, data[where])
    if name != "once":
        spread = guarded(np.zeros(size, dtype.numpy))
        assert run(Nest("f", (flat,), (wide,), (), vector(store(wide, (place,), Load(flat, (l,))), live)), found, spread, on=on) == 0
        assert np.array_equal(spread[where], found)
        assert np.count_nonzero(spread) == np.count_nonzero(found)


@pytest.mark.parametrize(("on", "masked"), [("x86-64-v4", True), ("x86-64-v3", False), ("x86-64", False), (ARM, False)])
def test_lanes_left_over_are_stored_under_a_mask_only_where_masks_have_registers(on: str, masked: bool) -> None:
    """Elsewhere a masked store takes forty steps (AVX2 on processors of AMD), or one for each lane: they are stored in parts."""
    x, y, l = arg("X", 11), arg("Y", 11), Axis("l")
    text = emit(Nest("f", (x,), (y,), (), vector(store(y, (l,), Load(x, (l,))), 11)), target(on), name="f")
    assert ("masked.store" in text) == masked
    assert len(re.findall(r"store (<8 x float>|<2 x float>|float)", text)) == (0 if masked else 3)


def test_lanes_left_over_of_a_row_that_is_updated_are_stored_in_parts() -> None:
    """The lanes that are off would belong to the store where the next row's load looks for what was written before it, and waits."""
    x, y, l = arg("X", 11), arg("Y", 11), Axis("l")
    text = emit(
        Nest("f", (x,), (y,), (), vector(store(y, (l,), Binary("add", Load(x, (l,)), Load(y, (l,)))), 11)), target("x86-64-v4"), name="f"
    )
    assert "masked.store" not in text
    assert len(re.findall(r"store (<8 x float>|<2 x float>|float)", text)) == 3


@crossed(
    {
        "step, on, lanes": [
            (step, *place)
            for step in (-4, -2, 2, 3, 4)
            for place in [("native", 16), ("native", 2), ("native", 12), ("native", 64), ("x86-64-v3", 8), ("x86-64", 4)]
        ],
        "dtype": ["float32", "float64", "int16", "bool"],
    }
)
def test_no_byte_between_or_beyond_the_lanes_that_are_on_is_needed(
    run: Run, guarded: Guarded, step: int, dtype: DType, on: str, lanes: int
) -> None:
    """Masks of any shape: what an access means outside of a tensor, at either end of it, is off, and a page there may not be touched."""
    dtype, rng, l = DType(dtype), np.random.default_rng(lanes), Axis("l")
    size = max(1, (lanes - 3) * abs(step))
    data = rng.integers(1, 2 if dtype == "bool" else 100, size).astype(dtype.numpy)
    x, flags, y = arg("X", size, dtype=dtype), arg("M", lanes, dtype=INT32), arg("Y", lanes, dtype=dtype)
    wanted = Compare("ne", Load(flags, (l,)), Const(0, INT32))
    body = If(wanted, store(y, (l,), Load(x, (index((step, "l"), Dim("start")),))))
    nest = Nest("f", (x, flags), (y,), ("start",), loop("l", lanes, body, "vector"))
    for start, before in itertools.product((0, -2 * step, size - 1, size - 1 - abs(step), size // 2), (True, False)):
        where = start + step * np.arange(lanes)
        inside = (where >= 0) & (where < size)
        for mask in (inside, inside & (rng.random(lanes) < 0.5), inside & False):
            found = np.zeros(lanes, dtype.numpy)
            assert run(nest, guarded(data, before=before), mask.astype(np.int32), found, dims=(start,), on=on) == 0
            assert np.array_equal(found[mask], data[where[mask]]) and not found[~mask].any()


@pytest.mark.parametrize("step", [2, 3, 4, -2, -4])
def test_lanes_a_few_elements_apart_are_loaded_as_vectors(step: int) -> None:
    """Neither element by element nor as a gather, whether all lanes are wanted or those below a limit."""
    x, y, l = arg("X", 100), arg("Y", 16), Axis("l")
    load = store(y, (l,), Load(x, (Binary("add", Binary("mul", l, const(step)), const(70)),)))
    for body in (load, If(Compare("lt", l, Dim("n")), load)):
        text = emit(Nest("f", (x,), (y,), ("n",), loop("l", 16, body, "vector")), target("x86-64-v4"), name="f")
        assert "masked.gather" not in text and "insertelement <16 x float>" not in text
        assert len(re.findall(r"load <16 x float>|call <16 x float>.*masked.load", text)) == abs(step)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "bfloat16"])
@pytest.mark.parametrize(("on", "live"), [("native", 9), ("native", 12), ("x86-64-v3", 9), ("x86-64-v3", 12), ("x86-64", 9)])
def test_indices_that_are_data_gather_and_scatter(run: Run, guarded: Guarded, dtype: DType, on: str, live: int) -> None:
    dtype, l = DType(dtype), Axis("l")
    rng = np.random.default_rng(1)
    data = rng.integers(0, 2 if dtype == "bool" else 100, live).astype(dtype.numpy)
    order = rng.permutation(live).astype(np.int32)
    x, y, p = arg("X", live, dtype=dtype), arg("Y", live, dtype=dtype), arg("P", live, dtype=INT32)
    entry = Cast(Load(p, (l,)), INT64)
    gathered, scattered = (guarded(np.zeros(live, dtype.numpy)) for _ in range(2))
    run(Nest("f", (x, p), (y,), (), vector(store(y, (l,), Load(x, (entry,))), live)), guarded(data), guarded(order), gathered, on=on)
    run(Nest("f", (x, p), (y,), (), vector(store(y, (entry,), Load(x, (l,))), live)), guarded(data), guarded(order), scattered, on=on)
    assert np.array_equal(gathered, data[order])
    assert np.array_equal(scattered[order], data)


def test_offsets_are_64_bits_wide(run: Run) -> None:
    size, row = (1 << 32) + 100, (1 << 16) + 1
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # without reserving pages
    x = np.frombuffer(memory, np.uint8)
    x[-1], x[1 << 31] = 7, 5
    big, y = arg("X", 1 << 16, row, dtype="uint8"), arg("Y", 1, dtype="uint8")
    body = Block((store(y, (const(0),), Load(big, (Dim("r"), Dim("c")))),))
    found = np.zeros(1, np.uint8)
    for spot in (1 << 31, size - 1):
        run(Nest("f", (big,), (y,), ("r", "c"), body), x, found, dims=(spot // row, spot % row))
        assert found[0] == x[spot]


def test_a_bool_in_memory_is_any_byte_but_zero(run: Run) -> None:
    x, y = arg("X", 16, dtype="bool"), arg("Y", 16, dtype="bool")
    data, found = np.arange(16, dtype=np.uint8), np.zeros(16, np.uint8)
    for kind in ("serial", "vector"):
        run(Nest("f", (x,), (y,), (), loop("i", 16, store(y, (Axis("i"),), Unary("not", Load(x, (Axis("i"),)))), kind)), data, found)
        assert found.tolist() == [1] + [0] * 15


@pytest.mark.parametrize("lanes", [2, 3, 8, 12, 16, 64])
@pytest.mark.parametrize("on", ["native", "x86-64-v3"])
def test_a_blend_keeps_the_lanes_of_our_own_storage_that_are_off(run: Run, lanes: int, on: str) -> None:
    """Three times under masks that differ: what a lane holds is what the last store that wanted it wrote."""
    for dtype in ("float32", "float64", "int32"):
        kind, l = DType(dtype), Axis("l")
        x, y, acc = arg("X", lanes, dtype=dtype), arg("Y", lanes, dtype=dtype), Buffer("acc", (const(lanes),), kind, "register")

        def below(name: str, limit: str, value: Expr, lanes: int = lanes, acc: Buffer = acc) -> Stmt:
            return loop(name, lanes, If(Compare("lt", Axis(name), Dim(limit)), store(acc, (Axis(name),), value)), "vector")

        body = Block(
            (
                loop("z", lanes, store(acc, (Axis("z"),), Const(1, kind)), "vector"),
                below("a", "m", Load(x, (Axis("a"),))),
                below("b", "n", Binary("add", Load(acc, (Axis("b"),)), Load(x, (Axis("b"),)))),
                below("c", "m", Binary("mul", Load(acc, (Axis("c"),)), Load(acc, (Axis("c"),)))),
                loop("l", lanes, store(y, (l,), Load(acc, (l,))), "vector"),
            )
        )
        data = np.arange(2, lanes + 2).astype(kind.numpy)
        for m, n in itertools.product((0, 1, lanes - 1, lanes), repeat=2):
            where, found = np.arange(lanes), np.zeros(lanes, kind.numpy)
            run(Nest("f", (x,), (y,), ("m", "n"), Alloc((acc,), body)), data, found, dims=(m, n), on=on)
            want = np.where(where < m, data, 1)
            want = np.where(where < n, want + data, want)
            assert np.array_equal(found, np.where(where < m, want * want, want))


@crossed(
    {
        "dtype": ["float32", "float64", "int32", "int8", "uint16", "bool"],
        "on, lanes": [
            *(("native", lanes) for lanes in (12, 16, 64)),
            *(("x86-64-v3", lanes) for lanes in (4, 8, 32)),
            ("x86-64-v2", 16),
            ("x86-64", 4),
        ],
    }
)
def test_elements_that_lie_near_each_other_are_read_where_some_lane_takes_them(
    run: Run, guarded: Guarded, dtype: DType, on: str, lanes: int
) -> None:
    """Channels of groups (`l // 4 * 4 + 1`), an image twice as large (`l // 2`), turned and longer groups, and what takes several loads.

    No page beyond is touched.
    """
    dtype, rng, l = DType(dtype), np.random.default_rng(lanes), Axis("l")
    places: dict[str, tuple[Expr, Callable[[int], int]]] = {
        "group": (index((4, "q"), 1), lambda n: n // 4 * 4 + 1),
        "twice": (Binary("floordiv", l, const(2)), lambda n: n // 2),
        "between": (Binary("floordiv", index("l", 1), const(2)), lambda n: (n + 1) // 2),
        "four times": (Binary("floordiv", l, const(4)), lambda n: n // 4),
        "four of three": (index((3, "q"), 2), lambda n: n // 4 * 3 + 2),
        "turned": (Binary("sub", const(lanes - 1), Binary("mod", index((3, "l")), const(4))), lambda n: lanes - 1 - 3 * n % 4),
        "two of three": (Binary("add", Binary("mul", Binary("floordiv", l, const(2)), const(3)), const(1)), lambda n: n // 2 * 3 + 1),
        "four of nine": (Binary("add", index((9, "q"), 2), Binary("mod", index((3, "l")), const(4))), lambda n: n // 4 * 9 + 2 + 3 * n % 4),
        "six apart": (index((6, "l"), 1), lambda n: 6 * n + 1),
    }
    quotient = Binary("floordiv", l, const(4))
    for place, meaning in places.values():
        where = np.array([meaning(n) for n in range(lanes)])
        data = rng.integers(1, 2 if dtype == "bool" else 100, int(where.max()) + 1).astype(dtype.numpy)
        x, flags, y = arg("X", len(data), dtype=dtype), arg("M", lanes, dtype=INT32), arg("Y", lanes, dtype=dtype)
        value = Load(x, (substitute(place, {"q": quotient}),))
        plain = Nest("f", (x,), (y,), (), loop("l", lanes, store(y, (l,), value), "vector"))
        found = np.zeros(lanes, dtype.numpy)
        assert run(plain, guarded(data), found, on=on) == 0
        assert np.array_equal(found, data[where])
        masked = If(Compare("ne", Load(flags, (l,)), Const(0, INT32)), store(y, (l,), value))
        nest = Nest("f", (x, flags), (y,), (), loop("l", lanes, masked, "vector"))
        for mask in (rng.random(lanes) < 0.5, np.arange(lanes) < lanes // 2, np.arange(lanes) < 0):
            reached = data[: int(where[mask].max(initial=0)) + 1]
            found = np.zeros(lanes, dtype.numpy)
            assert run(nest, guarded(reached), mask.astype(np.int32), found, on=on) == 0
            assert np.array_equal(found[mask], data[where[mask]]) and not found[~mask].any()


def _put_one_by_one(place: Expr, dtype: str, on: str) -> int:
    """The lanes that are put into a vector of 64 one by one."""
    x, y, l = arg("X", 192, dtype=dtype), arg("Y", 64, dtype=dtype), Axis("l")
    text = emit(Nest("f", (x,), (y,), (), loop("l", 64, store(y, (l,), Load(x, (place,))), "vector")), target(on), name="f")
    return text.count("insertelement")


@pytest.mark.parametrize("on", ["x86-64-v4", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_narrow_elements_near_each_other_are_not_put_into_lanes_one_by_one(on: str, dtype: str) -> None:
    """Letters of three bytes each: four lanes take three elements."""
    assert _put_one_by_one(Binary("mul", Binary("floordiv", Axis("l"), const(4)), const(3)), dtype, on) <= 1


@pytest.mark.parametrize("on", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_narrow_elements_further_apart_are_taken_out_of_several_loads(on: str, dtype: str) -> None:
    """Numbers of twelve bits: two lanes take three bytes."""
    assert _put_one_by_one(Binary("mul", Binary("floordiv", Axis("l"), const(2)), const(3)), dtype, on) == 0


@pytest.mark.parametrize(
    "place",
    [lambda j: 2 * j & 63, lambda j: (2 * j & 63) | 1, lambda j: 3 * (j & 15) % 64, lambda j: 40 - (j & 15), lambda j: (j & 15) + (j & 16)],
)
def test_places_that_turn_out_evenly_apart_are_loaded_as_vectors(place: Callable[[Any], Any]) -> None:
    """Bits and remainders say it of no loop, the lanes of a vector all the same."""
    x, numbers = tl.placeholder((64,), "int32", name="X"), np.arange(64, dtype=np.int32) * 7
    s = tl.Schedule(tl.compute((64,), lambda j: x[place(j)], name="Y"))
    s.vectorize("j")
    assert "insertelement" not in tl.build(s, target="skylake-avx512").inspect("llvm")
    assert np.array_equal(tl.build(s)(numbers), [numbers[place(j)] for j in range(64)])


def test_without_masks_no_lane_crosses_from_one_half_of_a_register_into_the_other() -> None:
    """An image twice as large: a masked load and a shuffle across halves took a third longer on a Zen 3."""
    x = tl.placeholder((65,), name="X")
    s = tl.Schedule(tl.compute((128,), lambda i: x[i // 2] + x[(i + 1) // 2], name="Y"))
    s.vectorize(s.split("i", 16)[1])
    text = tl.build(s, target="x86-64-v3").inspect("asm")
    assert not {"vmaskmovps", "vpermps", "vpermpd"} & {line.split("\t")[1] for line in text.splitlines() if line.startswith("\t")}


@pytest.mark.parametrize("kind", ["float32", "int32", "float64"])
@pytest.mark.parametrize("lanes", [3, 5, 6, 7])
def test_lanes_that_are_off_for_good_are_not_loaded(lanes: int, kind: str) -> None:
    """LLVM adds lanes to what is no power of two; a mask that began and ended with these was one that is on."""
    m = tl.dim("m")
    A = tl.placeholder((4 * lanes,), kind, name="A")
    for step in (1, 2, 3, 4):

        def last(p: Any, step: int = step) -> Any:
            at = step * p - m
            return tl.select((p >= lanes - 1) & (at >= 0) & (at < 4 * lanes), tl.cast(A[at], "float64"), -1.0)

        s = tl.Schedule(tl.compute((lanes,), last, name="Y"))
        s.vectorize("Y.p")
        kernel, data = tl.build(s), np.arange(4 * lanes).astype(kind)
        for far in (0, 1, 1 << 27):
            at = step * (lanes - 1) - far
            assert kernel(data, m=far).tolist() == [-1.0] * (lanes - 1) + [float(at) if at >= 0 else -1.0]


@pytest.mark.parametrize("cpu", ["znver4", "skylake-avx512"])
def test_a_masked_load_is_in_no_shuffle(cpu: str) -> None:
    """A shuffle of AVX-512 reads all of what it takes from memory, whatever its mask: LLVM 22 puts a load of the same mask into it."""
    m = tl.dim("m")
    A = tl.placeholder((20,), "float64", name="A")
    s = tl.Schedule(tl.compute((5,), lambda p: tl.select((p >= 4) & (3 * p >= m) & (3 * p - m < 20), A[3 * p - m], -1.0), name="Y"))
    s.vectorize("Y.p")
    lines = tl.build(s, target=cpu).inspect("asm").splitlines()
    assert any("{%k" in line and "(%rdi)" in line for line in lines)  # the load is masked
    assert not any(re.search(r"v(p?shuf|perm|unpck|p?blend)\w*.*\(%r\w+\).*\{%k", line) for line in lines)
