"""What a computed tensor holds is known where it is an index: by its definition, for all data, in whatever is made of the program."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tensorlang as tl
from tensorlang.checks.elements import elements
from tensorlang.ir.printer import text
from tests.codegen.exported import called, compiled, needs_cc
from tests.draws import examples
from tests.test_reads import DATA, ROWS, Place, Tree, contents, trees, wide

N = 12
RNG = np.random.default_rng(0)
BYTES = RNG.integers(-128, 128, N).astype("int8")
FLOATS = RNG.standard_normal((N, 16)).astype("float32")
TABLE = RNG.standard_normal((16, 3)).astype("float32")
FLOATS[2] = np.nan
FLOATS[3, 5] = np.nan

x = tl.placeholder((N, 16), name="x")
b = tl.placeholder((N,), "int8", name="b")
table = tl.placeholder((16, 3), name="table")
k = tl.reduce_axis(16, name="k")


def named(body: Callable[..., Any], name: str = "which") -> tl.Tensor:
    return tl.compute((N,), body, name=name)  # type: ignore[no-any-return]


def taken(which: tl.Tensor, name: str = "taken") -> tl.Tensor:
    return tl.compute((N, 3), lambda i, c: table[which[i], c], name=name)  # type: ignore[no-any-return]


KNOWN: dict[str, tuple[Callable[..., Any], tuple[int, int]]] = {
    "argmin": (lambda i: tl.argmin(x[i, k], axis=k), (0, 15)),
    "argmax": (lambda i: tl.argmax(x[i, k], axis=k), (0, 15)),
    "any": (lambda i: tl.cast(tl.any(x[i, k] > 1, axis=k), "int32"), (0, 1)),
    "max": (lambda i: tl.max(tl.select(x[i, k] > 0, tl.cast(k, "int32"), 0), axis=k), (0, 15)),
    "bits": (lambda i: b[i] & 3, (0, 3)),
    "clamp": (lambda i: tl.clamp(b[i], 2, 9), (2, 9)),
    "literals": (lambda i: tl.select(b[i] > 5, 7, tl.select(b[i] > 0, 15, 4)), (4, 15)),
    "wraps": (lambda i: ((b[i] & 15) << 4) >> 4, (-8, 7)),
    "itself": (lambda i: tl.clamp(tl.cast(b[i] * 3 + b[i], "int64"), 1, 3), (1, 3)),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_a_definition_says_what_its_elements_are(kind: str) -> None:
    body, expected = KNOWN[kind]
    assert elements(named(body)) == expected


@pytest.mark.parametrize("kind", [kind for kind, (_, (low, high)) in KNOWN.items() if low >= 0 and high < 16])
def test_what_is_within_is_an_index(kind: str) -> None:
    which = named(KNOWN[kind][0])
    feeds = {x: FLOATS, b: BYTES, table: TABLE}
    wanted = TABLE[tl.evaluate(which, feeds)]
    np.testing.assert_array_equal(tl.evaluate(taken(which), feeds), wanted)
    np.testing.assert_array_equal(tl.build(taken(which), inputs=(x, b, table))(FLOATS, BYTES, TABLE), wanted)


@needs_cc
def test_the_c_source_reads_what_is_within(tmp_path: pathlib.Path) -> None:
    kernel = tl.build(taken(named(KNOWN["argmin"][0])), inputs=(x, table))
    kernel.export(tmp_path, formats=("c", "h"))
    (got,) = called(compiled(tmp_path, [kernel.name]), kernel, {"x": FLOATS, "table": TABLE}, {})
    np.testing.assert_array_equal(got, TABLE[np.argmin(FLOATS, axis=1)])


@pytest.mark.parametrize("name", ["compute_inline", "compute_at", "cache_read", "none"])
def test_directives_make_such_reads_anew(name: str) -> None:
    which = named(KNOWN["argmin"][0])
    chosen = named(lambda i: (which[i] ^ 5) & 14, "chosen")
    s = tl.Schedule(taken(chosen), inputs=(x, b, table))
    match name:
        case "compute_inline":
            s.compute_inline("chosen")
        case "compute_at":
            s.compute_at("chosen", "taken.i")
            s.compute_at("which", "taken.i")
        case "cache_read":
            s.cache_read("table", "taken.i")
        case _:
            pass
    wanted = TABLE[(np.argmin(FLOATS, axis=1) ^ 5) & 14]
    np.testing.assert_array_equal(tl.build(s)(FLOATS, BYTES, TABLE), wanted)


def test_a_chain_of_tensors_is_followed_to_its_start() -> None:
    which = named(lambda i: b[i] & 3)
    for _ in range(1500):
        which = named(lambda i, before=which: before[i] ^ 1)
    assert elements(which) == (0, 3)


def test_a_tensor_of_several_components_and_dims() -> None:
    n = tl.dim("n", 1, 10)
    first, second = tl.compute((n,), lambda i: (i, tl.cast(i, "int64") * 2), name="both")
    assert elements(first) == (0, 9)
    assert elements(second) == (0, 18)


def test_a_recurrence_is_known_by_its_last_operation() -> None:
    walked = tl.recurrence((N,), lambda i, itself: (itself[i - 1] + b[i]) & 7, name="walked")
    assert elements(walked) == (0, 7)
    free = tl.recurrence((N,), lambda i, itself: itself[i - 1] + (b[i] & 7), name="free")
    assert elements(free) == (-128, 127)


def test_a_recurrence_reads_as_far_back_as_elements_say() -> None:
    lag = named(lambda i: tl.clamp(b[i], 1, 3), "lag")
    walked = tl.recurrence((N,), lambda i, itself: itself[i - lag[i]] + 1, outside=0, dtype="int32", name="walked")
    want = np.zeros(N, "int32")
    for i, back in enumerate(np.clip(BYTES, 1, 3)):
        want[i] = (want[i - back] if back <= i else 0) + 1
    np.testing.assert_array_equal(tl.build(walked)(BYTES), want)
    np.testing.assert_array_equal(tl.evaluate(walked, {b: BYTES}), want)
    none = named(lambda i: tl.clamp(b[i], 0, 3), "none")
    with pytest.raises(tl.DefinitionError, match=r"which is walked\[(\d+)\] while walked\[\1\] is computed; a recurrence may read"):
        tl.recurrence((N,), lambda i, itself: itself[i - none[i]] + 1, outside=0, dtype="int32", name="walked")


def test_ranges_begin_where_elements_say() -> None:
    start = tl.placeholder((17,), "int32", name="start")
    which = named(KNOWN["argmin"][0])

    def row(i: Any) -> Any:
        j = tl.reduce_axis((start[which[i]], start[which[i] + 1]), name="j", within=N)
        return tl.sum(tl.cast(b[j], "int32"), axis=j)

    ends = np.sort(RNG.integers(0, N + 1, 17)).astype("int32")
    want = [BYTES[ends[at] : ends[at + 1]].sum(dtype="int32") for at in np.argmin(FLOATS, axis=1)]
    np.testing.assert_array_equal(tl.build(named(row, "rows"), inputs=(x, start, b))(FLOATS, ends, BYTES), want)


def test_scatters_write_where_elements_say() -> None:
    which = named(KNOWN["bits"][0])
    zero = tl.compute((4,), lambda i: tl.cast(0, "int32"), name="zero")
    r = tl.reduce_axis(N, name="r")
    counts = tl.scatter(zero, r, lambda r: which[r], lambda r: 1, name="counts")
    np.testing.assert_array_equal(tl.build(counts)(BYTES), np.bincount(BYTES & 3, minlength=4))


def test_parts_of_data_that_elements_begin() -> None:
    """Positions of positions: each is kept where it is used, and is read once."""
    inner, outer = named(KNOWN["argmin"][0], "inner"), named(lambda i: (b[i] & 7) + 4, "outer")
    twice = tl.compute((N, 3), lambda i, c: table[inner[outer[i]], c], name="twice")
    wanted = TABLE[np.argmin(FLOATS, axis=1)[(BYTES & 7) + 4]]
    np.testing.assert_array_equal(tl.build(twice, inputs=(x, b, table))(FLOATS, BYTES, TABLE), wanted)


@pytest.mark.parametrize(
    "which",
    [
        tl.placeholder((N,), "int64", name="which"),
        named(lambda i: tl.argmin(x[i, k], axis=k, where=x[i, k] > 0)),  # -1 where there is none
        named(lambda i: (b[i] & 15) + 1),
        named(lambda i: tl.sum(b[(r := tl.reduce_axis(N, name="r"))] & 15, axis=r)),
        tl.scan(lambda t, state: tl.compute((N,), lambda i: state[i] & 3), named(KNOWN["bits"][0]), 3, keep="last", name="which"),
    ],
    ids=["placeholder", "perhaps none", "one more", "sum", "scan"],
)
def test_what_is_not_known_is_refused(which: tl.Tensor) -> None:
    small = tl.placeholder((16, 3), name="small")
    with pytest.raises(tl.DefinitionError, match=r"taken reads small\[.*which.*; keep a data-dependent index inside with tl.clamp"):
        tl.compute((N, 3), lambda i, c: small[which[i], c], name="taken")


def test_an_example_is_of_elements_that_there_can_be() -> None:
    which = named(KNOWN["clamp"][0])
    small = tl.placeholder((3,), name="small")
    with pytest.raises(tl.DefinitionError, match=r"outside small: float32\[3\]: at i = \d+, which\[\d+\] = ([3-9]), axis 0 is read at \1;"):
        named(lambda i: small[which[i]])
    with pytest.raises(tl.DefinitionError, match=r"which\[\d+\] = ([2-9]), axis 0 is read at -9[1-8];"):
        named(lambda i: small[which[i] - 100])


def test_a_read_that_is_inside_anyway_stays_as_it_is_written() -> None:
    which = named(KNOWN["bits"][0])
    clamped = named(lambda i: table[tl.clamp(which[i], 1, 2), 0], "clamped")
    assert text(clamped.definition.values[0]).count("min") == 1
    under = named(lambda i: tl.select((which[i] >= 0) & (which[i] < 4), table[which[i], 0], 0.0), "under")
    assert "min" not in text(under.definition.values[0])


@examples(60)
@given(trees(DATA), trees(DATA))
def test_elements_are_what_is_said_for_all_data(first: Tree, second: Tree) -> None:
    """Of a tensor, and of one that is made of it in place of an operand."""
    start, then = Place({}, {}), Place({}, {})

    def tensor(place: Place, tree: Tree) -> tl.Tensor:
        def body(i: Any) -> Any:
            place.axes = {"i": i, "j": ROWS - 1 - i}
            return wide(place.expr(tree))

        return tl.compute((ROWS,), body)  # type: ignore[no-any-return]

    made = tensor(start, first)
    then.operands |= {**start.operands, "int64": made}
    results = made, tensor(then, second)
    operands = {of: operand for of, operand in {**then.operands, **start.operands}.items() if operand is not made}
    spans = [elements(result) for result in results]
    for seed in range(4):
        feeds = contents(Place(operands, {}), seed)
        for result, (low, high) in zip(results, spans, strict=True):
            values = tl.evaluate(result, feeds)
            assert low <= values.min()
            assert values.max() <= high
