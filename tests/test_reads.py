"""What a definition may read: every acceptance is right, every example in a refusal occurs, and refusals of axes alone are never wrong."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tensorlang as tl
from tensorlang.algebra import bounds
from tests.draws import examples

Tree: TypeAlias = Any
ROWS, COLUMNS = 7, 5
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "min": tl.minimum,
    "max": tl.maximum,
}
UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "abs": tl.abs, "~": operator.invert}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

LITERALS = st.sampled_from([-9, -4, -1, 0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 63])
AXES = st.sampled_from(["i", "j"])


def trees(leaves: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    """Integer expressions as trees."""

    def larger(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        mask = st.sampled_from([1, 2, 3, 6, 7, 12, 15, -2, -4])
        return (
            st.tuples(st.sampled_from(list(BINARY)), inner, inner)
            | st.tuples(st.sampled_from(["&", "|", "^", "%", "//"]), inner, mask)
            | st.tuples(st.sampled_from(["<<", ">>"]), inner, st.integers(0, 4))
            | st.tuples(st.sampled_from(list(UNARY)), inner)
            | st.tuples(st.just("cast"), st.sampled_from(TYPES), inner)
            | st.tuples(st.just("clamp"), inner, st.integers(-2, 3), st.integers(3, 12))
            | st.tuples(st.just("select"), conditions(inner), inner, inner)
        )

    return st.recursive(leaves, larger, max_leaves=5)


def conditions(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    compared = st.tuples(st.sampled_from(list(COMPARE)), inner, inner | LITERALS)
    return compared | st.tuples(st.sampled_from(["and", "or"]), compared, compared) | st.tuples(st.just("not"), compared)


PLAIN = AXES | LITERALS
LOADS = st.tuples(st.just("load"), st.sampled_from(TYPES), st.sampled_from(["i", "j", "last"]))
DATA = LOADS | PLAIN | st.tuples(st.just("float"), st.sampled_from(TYPES), st.integers(-3, 2), st.integers(2, 12)) | st.just(("argmax",))


@dataclass(slots=True)
class Place:
    """The operands and axes over which a tree is spelled."""

    operands: dict[str, tl.Tensor]
    axes: dict[str, Any]

    def expr(self, tree: Tree) -> Any:
        match tree:
            case int():
                return tree
            case "i" | "j":
                return self.axes[tree]
            case ("load", of, at):
                return self.operand(of)[ROWS - 1 - self.axes["i"] if at == "last" else self.axes[at]]
            case ("float", of, low, high):
                return tl.cast(tl.clamp(self.operand("float32")[self.axes["i"]], low, high), of)
            case ("argmax",):
                k = tl.reduce_axis(ROWS, name="k")
                return tl.argmax(self.operand("int8")[k], axis=k)
            case ("cast", of, inner):
                return tl.cast(self.expr(inner), of)
            case ("clamp", inner, low, high):
                return tl.clamp(wide(self.expr(inner)), low, high)
            case ("select", condition, yes, no):
                return tl.select(self.condition(condition), wide(self.expr(yes)), wide(self.expr(no)))
            case (op, inner) if op in UNARY:
                return UNARY[op](wide(self.expr(inner)) if isinstance(self.expr(inner), int) else self.expr(inner))
            case (op, left, right):
                return joined(BINARY[op], self.expr(left), self.expr(right))
            case _:
                raise AssertionError(tree)

    def condition(self, tree: Tree) -> Any:
        match tree:
            case ("and", left, right):
                return self.condition(left) & self.condition(right)
            case ("or", left, right):
                return self.condition(left) | self.condition(right)
            case ("not", inner):
                return ~self.condition(inner)
            case (op, left, right):
                return joined(COMPARE[op], wide(self.expr(left)), self.expr(right))
            case _:
                raise AssertionError(tree)

    def operand(self, of: str) -> tl.Tensor:
        return self.operands.setdefault(of, tl.placeholder((ROWS,), of, name=f"D_{of}"))


def wide(value: Any) -> Any:
    return tl.cast(value, "int64")


def joined(op: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """In the type that both have, or where they have none, in int64."""
    if isinstance(left, int) and isinstance(right, int):
        left = wide(left)
    try:
        return op(left, right)
    except tl.DefinitionError:
        return op(wide(left), wide(right))


def defined(place: Place, index: Tree, condition: Tree, extent: int, form: str) -> tl.Tensor:
    """A read, or a store, of a tensor of `extent` at an index under a condition."""
    table = place.operands["table"] = tl.placeholder((extent,), name="T")
    if form == "scatter":
        i, j = (tl.reduce_axis(size, name=name) for size, name in ((ROWS, "i"), (COLUMNS, "j")))

        def at(*axes: Any) -> Place:
            return Place(place.operands, dict(zip("ij", axes, strict=True)))

        where = None if condition is None else lambda *axes: at(*axes).condition(condition)
        return tl.scatter(table, (i, j), lambda *axes: wide(at(*axes).expr(index)), lambda i, j: 1.0, where=where)

    def body(i: Any, j: Any) -> Any:
        place.axes = {"i": i, "j": j}
        read = table[wide(place.expr(index))]
        return read if condition is None else tl.select(place.condition(condition), read, 0.0)

    if form == "select":
        return tl.compute((ROWS, COLUMNS), body, name="Y")  # type: ignore[no-any-return]
    j = tl.reduce_axis(COLUMNS, name="j")

    def summed(i: Any) -> Any:
        place.axes = {"i": i, "j": j}
        where = None if condition is None else place.condition(condition)
        return tl.sum(table[wide(place.expr(index))], axis=j, where=where)

    return tl.compute((ROWS,), summed, name="Y")  # type: ignore[no-any-return]


def contents(place: Place, seed: int) -> dict[tl.Tensor, Any]:
    """Data at the ends of types, near zero, and anywhere."""
    rng = np.random.default_rng(seed)
    found = {}
    for tensor in place.operands.values():
        shape, of = tensor.shape, tensor.dtype
        if of.is_floating:
            found[tensor] = rng.choice(np.array([-np.inf, np.inf, np.nan, -1.5, 0.0, 2.5, 1e30]), shape).astype(of)
            continue
        ends = [int(of.lowest), int(of.highest), 0, 1, 5, 12, int(of.highest) - 1]
        anything = rng.integers(int(of.lowest), int(of.highest), shape, of.numpy, endpoint=True)
        found[tensor] = np.where(rng.random(shape) < 0.5, rng.choice(np.array(ends, of.numpy), shape), anything).astype(of.numpy)
    return found


@examples(40)
@given(
    trees(DATA), st.none() | conditions(trees(DATA)), st.sampled_from([1, 4, 8, 13, 16, 256]), st.sampled_from(["select", "sum", "scatter"])
)
def test_what_is_accepted_reads_inside_for_all_data(index: Tree, condition: Tree, extent: int, form: str) -> None:
    place = Place({}, {})
    try:
        result = defined(place, index, condition, extent, form)
    except tl.DefinitionError:
        return
    for seed in range(6):
        tl.evaluate(result, {tensor: array for tensor, array in contents(place, seed).items() if tensor.name != "unused"})


@examples(120)
@given(trees(PLAIN), st.none() | conditions(trees(PLAIN)), st.sampled_from([1, 4, 8, 13, 16, 256]), st.sampled_from(["select", "sum"]))
def test_without_data_a_read_is_refused_just_where_it_can_be_outside(index: Tree, condition: Tree, extent: int, form: str) -> None:
    place = Place({}, {})

    def at(expr: Callable[[], Any]) -> Any:
        def body(i: Any, j: Any) -> Any:
            place.axes = {"i": i, "j": j}
            return expr()

        return tl.evaluate(tl.compute((ROWS, COLUMNS), body), {})

    where = at(lambda: wide(place.expr(index)))
    inside = (where >= 0) & (where < extent)
    if condition is not None:
        inside |= ~at(lambda: place.condition(condition))
    try:
        defined(place, index, condition, extent, form)
    except tl.DefinitionError:
        assert not inside.all()
    else:
        assert inside.all()


SHOWN = re.compile(r"(\w+)(?:\[(\d+)\])? = (-?[\d.e+]+|nan|-?inf)")


@examples(120)
@given(trees(LOADS | PLAIN), st.sampled_from([1, 4, 8, 13]))
def test_an_example_occurs(index: Tree, extent: int) -> None:
    """The elements that the error shows, in operands that are 0 elsewhere, give the index that it shows."""
    place = Place({}, {})
    try:
        defined(place, index, None, extent, "select")
    except tl.DefinitionError as error:
        message = str(error)
    else:
        assume(False)
    assert "outside" in message or "cannot be proved" in message
    if "outside" not in message or "do not count from the end" in message:
        return
    shown, value = re.search(r": at (.*), axis 0 is read at (-?\d+); ", message).groups()  # type: ignore[union-attr]
    arrays = {tensor.name: np.zeros(tensor.shape, tensor.dtype.numpy) for tensor in place.operands.values()}
    axes = {"i": 0, "j": 0}
    for name, at, number in SHOWN.findall(shown):
        if at:
            arrays[name][int(at)] = int(number)
        else:
            axes[name] = int(number)
    reads = Place(dict(place.operands), {})

    def body(i: Any, j: Any) -> Any:
        reads.axes = {"i": i, "j": j}
        return wide(reads.expr(index))

    point = tl.compute((ROWS, COLUMNS), body)
    feeds = {tensor: arrays[tensor.name] for tensor in place.operands.values()}
    assert tl.evaluate(point, feeds, [(axes["i"], axes["j"])])[0] == int(value)
    assert not 0 <= int(value) < extent


def test_a_refusal_without_an_example_says_so() -> None:
    """What a scan computes is not made up, so nobody can say which values it has."""
    T, X = tl.placeholder((16,), name="T"), tl.placeholder((4,), "int64", name="X")
    state = tl.scan(lambda t, s: tl.compute((4,), lambda i: s[i] * 2), X, 3, keep="last")
    with pytest.raises(tl.DefinitionError, match=r"reads T\[.*\] of T: float32\[16\], and axis 0 cannot be proved to stay inside; keep"):
        tl.compute((4,), lambda i: T[state[i]])


def chased(steps: int) -> tl.Tensor:
    """A pointer followed several times, each time where it leads inside."""
    n = tl.dim("n", 1, 100)
    table = tl.placeholder((n,), "int64", name="T")

    def body(i: Any) -> Any:
        for _ in range(steps):
            place = i + 1
            i = tl.select((place >= 0) & (place < n), table[place], 0)
        return i

    made: tl.Tensor = tl.compute((n,), body, name="C")
    return made


def test_guarded_look_ups_in_a_row_do_not_multiply_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [0]

    def counted(conditions: Any, *rest: Any) -> Any:
        asked[0] += 1
        return assume_of(conditions, *rest)

    assume_of = bounds.assume
    monkeypatch.setattr(bounds, "assume", counted)
    numbers = []
    for steps in (3, 6):
        asked[0] = 0
        chased(steps)
        numbers.append(asked[0])
    assert numbers[1] < 10 * numbers[0], "each look-up asks for what those inside it do, several times at most"
    chased(12)  # in parts, each of which is asked of once


@pytest.mark.parametrize("steps", [4, 9, 12])
def test_guarded_look_ups_in_a_row_read_what_they_say(steps: int) -> None:
    table = np.random.default_rng(0).integers(-3, 12, 10)
    wanted = np.arange(10)
    for _ in range(steps):
        wanted = np.array([table[i + 1] if 0 <= i + 1 < 10 else 0 for i in wanted])
    np.testing.assert_array_equal(tl.build(chased(steps))(table), wanted)


def test_a_message_is_no_longer_than_anyone_reads() -> None:
    x = tl.placeholder((8,), name="X")
    with pytest.raises(tl.DefinitionError) as told:
        tl.compute((8,), lambda i: x[sum(((i * k) % 7 for k in range(80)), i)], name="far")
    assert len(str(told.value)) < 600 and " ... " in str(told.value)


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_rows_of_an_extent_without_bounds_are_read_as_one_line(rows: int) -> None:
    n = tl.dim("n")
    x, y = tl.placeholder((rows, n), name="X"), tl.placeholder((4, rows, n), name="Y")
    line = tl.compute((rows * n,), lambda i: x[i // n, i % n], name="L")
    block = tl.compute((4 * rows * n,), lambda i: y[i // (rows * n), i // n % rows, i % n], name="B")
    for size in (0, 1, 5):
        data = np.arange(4 * rows * size, dtype="f4").reshape(4, rows, size)
        np.testing.assert_array_equal(tl.evaluate(line, {x: data[0]}), data[0].reshape(-1))
        np.testing.assert_array_equal(tl.build(block)(data), data.reshape(-1))
    for longer in (rows * n + 1, (rows + 1) * n):
        with pytest.raises(tl.DefinitionError, match=f"axis 0 is read at {rows}"):
            tl.compute((longer,), lambda i: x[i // n, i % n], name="L")
