"""Arithmetic in machine code: the edge cases of every type, in scalars and in masked vectors, against Python integers and NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest

from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.llvm.binding import compile_module
from tensorlang.codegen.runtime.symbols import undefined_symbols
from tensorlang.codegen.target import target
from tensorlang.errors import InternalError
from tensorlang.ir import (
    Axis,
    Binary,
    Block,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    If,
    Load,
    Nest,
    Param,
    Reduce,
    Reducer,
    Select,
    Stmt,
    Unary,
    const,
)
from tensorlang.ir.dtype import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64, DType
from tensorlang.ir.traverse import dtype_of
from tests.codegen.nests import SUM, Array, Run, arg, index, loop, store
from tests.thinned import crossed, few

Meaning: TypeAlias = Callable[..., Expr]

INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]
FLOATS = [dtype for dtype in DTYPES if dtype.is_floating]
TARGETS = ["native", "x86-64", "x86-64-v3"]


def elementwise(exprs: Sequence[Meaning], inputs: Sequence[DType], n: int, lanes: int = 0) -> Nest:
    """`Yk[i] = exprs[k](loads of inputs at i)` over n elements: a serial loop, or masked vectors of `lanes`."""
    buffers = tuple(arg(f"X{k}", n, dtype=dtype) for k, dtype in enumerate(inputs))

    def values(place: Expr) -> list[Expr]:
        return [expr(*(Load(buffer, (place,)) for buffer in buffers)) for expr in exprs]

    outs = tuple(arg(f"Y{k}", n, dtype=dtype_of(value)) for k, value in enumerate(values(Axis("i"))))

    def body(place: Expr) -> Stmt:
        return Block(tuple(store(out, (place,), value) for out, value in zip(outs, values(place), strict=True)))

    if not lanes:
        return Nest("f", buffers, outs, (), loop("i", n, body(Axis("i"))))
    place = index((lanes, "o"), "l")
    inner = loop("l", lanes, If(Compare("lt", place, const(n)), body(place)), "vector")
    return Nest("f", buffers, outs, (), loop("o", -(-n // lanes), inner))


def both_ways(run: Run, exprs: Sequence[Meaning], arrays: Sequence[Array], on: str = "native", lanes: int = 16) -> list[Array]:
    """The values of expressions over arrays, computed in scalars and in vectors, which must agree bit for bit."""
    inputs = [DType(array.dtype.name) for array in arrays]
    found = []
    for width in (0, lanes):
        nest = elementwise(exprs, inputs, len(arrays[0]), width)
        outs = [np.ones(len(arrays[0]), out.dtype.numpy) for out in nest.outputs]
        assert run(nest, *arrays, *outs, on=on) == 0
        found.append(outs)
    for scalar, vector in zip(*found, strict=True):
        assert scalar.tobytes() == vector.tobytes()
    return found[0]


def integers(dtype: DType) -> list[int]:
    """Values near the limits of a type, near 0, and around the widths that a shift may have."""
    low, high = int(dtype.lowest), int(dtype.highest)
    wanted = {low, low + 1, low + 2, high // 2, high - 1, high, *range(-9, 10), 15, 16, 31, 32, 33, 63, 64, 65}
    return sorted(value for value in wanted if low <= value <= high)


def pairs(values: Sequence[float], dtype: DType) -> list[Array]:
    """Every pair of values, as two arrays."""
    left, right = zip(*itertools.product(values, values), strict=True)
    return [np.array(side, dtype.numpy) for side in (left, right)]


def wrapped(number: int, dtype: DType) -> int:
    """An integer modulo the width of a type."""
    number %= 1 << dtype.bits
    return number - (1 << dtype.bits) if dtype.kind == "signed" and number >> (dtype.bits - 1) else number


def shift(op: str, a: int, b: int, bits: int) -> int:
    """A shift by any count: `bits` or more, and any negative count, shift everything out."""
    count = b if 0 <= b < bits else bits
    return a << count if op == "shl" else a >> count


PYTHON: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "floordiv": lambda a, b, _: a // b if b else 0,
    "mod": lambda a, b, _: a % b if b else 0,
    "and": lambda a, b, _: a & b,
    "or": lambda a, b, _: a | b,
    "xor": lambda a, b, _: a ^ b,
    "shl": lambda a, b, bits: shift("shl", a, b, bits) & ((1 << bits) - 1) if 0 <= b < bits else 0,
    "shr": lambda a, b, bits: shift("shr", a, b, bits),
    "min": lambda a, b, _: min(a, b),
    "max": lambda a, b, _: max(a, b),
}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_is_python_s_modulo_the_width(run: Run, dtype: DType) -> None:
    a, b = pairs(integers(dtype), dtype)
    found = both_ways(run, [lambda x, y, op=op: Binary(op, x, y) for op in PYTHON], [a, b])
    for out, (op, meaning) in zip(found, PYTHON.items(), strict=True):
        assert out.tolist() == [wrapped(meaning(int(x), int(y), dtype.bits), dtype) for x, y in zip(a, b, strict=True)], op


@crossed({"dtype": INTEGERS, "op": ["floordiv", "mod"]})
def test_division_by_a_constant_floors(run: Run, dtype: DType, op: str) -> None:
    values = np.array(integers(dtype), dtype.numpy)
    divisors = [0, 1, 2, 3, 7, 8, 10, int(dtype.highest)] + ([-1, -2, -7, int(dtype.lowest)] if dtype.kind == "signed" else [])
    found = both_ways(run, [lambda x, d=divisor: Binary(op, x, Const(d, dtype)) for divisor in divisors], [values])
    for out, divisor in zip(found, divisors, strict=True):
        assert out.tolist() == [wrapped(PYTHON[op](int(x), divisor, dtype.bits), dtype) for x in values], divisor


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_unary_operations_wrap(run: Run, dtype: DType) -> None:
    values = np.array(integers(dtype), dtype.numpy)
    meanings: dict[str, Callable[[int], int]] = {"neg": lambda x: -x, "abs": abs, "not": lambda x: ~x}
    found = both_ways(run, [lambda x, op=op: Unary(op, x) for op in meanings], [values])
    for out, (op, meaning) in zip(found, meanings.items(), strict=True):
        assert out.tolist() == [wrapped(meaning(int(x)), dtype) for x in values], op


def floats(dtype: DType) -> list[float]:
    """Special values, values near the limits of a type, and values that round."""
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    limits = [float(limit) for limit in (info.max, info.tiny, info.smallest_subnormal, info.eps)]
    edge = [0.0, 1.0, 1.5, 3.14159, 7.0, 0.1, 1e4, np.inf, *limits]
    return [*edge, *(-x for x in edge), np.nan]


NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
}


@crossed({"dtype": FLOATS, "on": TARGETS})
def test_floating_arithmetic_is_numpy_s(run: Run, dtype: DType, on: str) -> None:
    a, b = pairs(floats(dtype), dtype)
    found = both_ways(run, [lambda x, y, op=op: Binary(op, x, y) for op in NUMPY], [a, b], on)
    with np.errstate(all="ignore"):
        for out, (op, meaning) in zip(found, NUMPY.items(), strict=True):
            expected = meaning(a, b)
            assert np.all((out == expected) | (np.isnan(out) & np.isnan(expected))), op  # the sign of zero is free


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs_of_floating_values_are_flipped_and_cleared(run: Run, dtype: DType) -> None:
    values = np.array(floats(dtype), dtype.numpy)
    negated, cleared = both_ways(run, [lambda x: Unary("neg", x), lambda x: Unary("abs", x)], [values])
    assert negated.tobytes() == (-values).tobytes()
    assert cleared.tobytes() == np.abs(values).tobytes()


COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != BOOL])
def test_comparisons_are_numpy_s(run: Run, dtype: DType) -> None:
    a, b = pairs(floats(dtype) if dtype.is_floating else integers(dtype), dtype)
    found = both_ways(run, [lambda x, y, op=op: Compare(op, x, y) for op in COMPARE], [a, b])
    with np.errstate(all="ignore"):
        for out, (op, meaning) in zip(found, COMPARE.items(), strict=True):
            assert np.array_equal(out, meaning(a, b)), op


def test_logic_is_on_truth_values(run: Run) -> None:
    a, b = pairs([False, True], BOOL)
    meanings = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    *found, inverse = both_ways(run, [*(lambda x, y, op=op: Binary(op, x, y) for op in meanings), lambda x, _: Unary("not", x)], [a, b])
    for out, meaning in zip(found, meanings.values(), strict=True):
        assert np.array_equal(out, meaning(a, b))
    assert np.array_equal(inverse, ~a)


def saturated(number: float, dtype: DType) -> int:
    """A floating-point number as an integer of a type: towards zero, to the nearest limit, 0 for NaN."""
    number = float(number)
    if np.isnan(number):
        return 0
    whole = int(number) if np.isfinite(number) else (1 if number > 0 else -1) << 70
    return max(int(dtype.lowest), min(int(dtype.highest), whole))


@crossed({"source": DTYPES, "on": TARGETS})
def test_casts_wrap_saturate_and_round(run: Run, source: DType, on: str) -> None:
    values = [False, True] if source == BOOL else floats(source) if source.is_floating else integers(source)
    array = np.array(values, source.numpy)
    found = both_ways(run, [lambda x, to=to: Cast(x, to) for to in DTYPES], [array], on)
    with np.errstate(all="ignore"):
        for out, to in zip(found, DTYPES, strict=True):
            if to == BOOL:
                expected = array.astype(bool)
            elif to.is_integer and source.is_floating:
                expected = np.array([saturated(x, to) for x in array], to.numpy)
            elif to.is_integer:
                expected = np.array([wrapped(int(x), to) for x in array], to.numpy)
            else:
                expected = array.astype(to.numpy)
            assert np.array_equal(out, expected, equal_nan=to.is_floating), to


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("dtype", [DType("float16"), DType("bfloat16")])
def test_every_half_becomes_its_float32_and_back(run: Run, dtype: DType, on: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    (wide,) = both_ways(run, [lambda x: Cast(x, FLOAT32)], [halves], on)
    with np.errstate(all="ignore"):
        assert np.array_equal(wide, halves.astype(np.float32), equal_nan=True)
    (back,) = both_ways(run, [lambda x: Cast(x, dtype)], [wide], on)
    real = ~np.isnan(wide)
    assert np.array_equal(back.view(np.uint16)[real], np.arange(1 << 16)[real])
    assert np.all(np.isnan(back[~real]))


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("dtype", [DType("float16"), DType("bfloat16")])
@pytest.mark.parametrize("source", [FLOAT32, FLOAT64])
def test_halves_round_once_to_nearest_even(run: Run, source: DType, dtype: DType, on: str) -> None:
    with np.errstate(all="ignore"):
        halves = np.arange(1 << 15, dtype=np.uint16).view(dtype.numpy).astype(np.float64)
        places = np.flatnonzero(np.isfinite(halves[1:]))
        middle = ((halves[places] + halves[places + 1]) / 2).astype(source.numpy)
        kind = source.numpy.type
        values = np.concatenate([np.nextafter(middle, kind(-np.inf)), middle, np.nextafter(middle, kind(np.inf)), [kind(1e300)]])
        wanted = np.concatenate([places, places + places % 2, places + 1, [np.flatnonzero(np.isinf(halves))[0]]])
        assert_cast(run, np.concatenate([values, -values]), dtype, np.concatenate([wanted, wanted + (1 << 15)]), on)


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("source", [kind for kind in INTEGERS if kind.bits >= 32])
def test_integers_round_once_to_bfloat16(run: Run, source: DType, on: str) -> None:
    dtype = DType("bfloat16")
    with np.errstate(all="ignore"):
        halves = np.arange(1 << 15, dtype=np.uint16).view(dtype.numpy).astype(np.float64)
    places = np.flatnonzero((halves[:-1] >= 1 << 10) & (halves[1:] < float(source.highest)))
    middle = ((halves[places] + halves[places + 1]) / 2).astype(source.numpy)
    values, wanted = np.concatenate([middle - 1, middle, middle + 1]), np.concatenate([places, places + places % 2, places + 1])
    if source.kind == "signed":
        values, wanted = np.concatenate([values, -values]), np.concatenate([wanted, wanted + (1 << 15)])
    assert_cast(run, values, dtype, wanted, on)


def assert_cast(run: Run, values: np.ndarray, dtype: DType, wanted: np.ndarray, on: str) -> None:
    """Kernels and the meaning of a cast to a half give these bits."""
    (found,) = both_ways(run, [lambda x: Cast(x, dtype)], [values], on)
    assert np.array_equal(found.view(np.uint16), wanted)
    assert np.array_equal(dtype.rounded(values).view(np.uint16), wanted)


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_halves_round_once(run: Run, dtype: DType) -> None:
    values = np.array([0.0, 0.5, 1.0, 2.25, 9.0, 1e-4, np.inf], dtype.numpy)
    roots, infinite = both_ways(run, [lambda x: Call("sqrt", (x,), dtype), lambda x: Call("isinf", (x,), BOOL)], [values])
    assert np.array_equal(roots, np.sqrt(values.astype(np.float64)).astype(dtype.numpy))
    assert infinite.tolist() == [False] * 6 + [True]


def test_generated_code_holds_no_flag_that_licenses_another_result() -> None:
    divide = elementwise([lambda x, y: Binary("floordiv", Binary("add", x, y), Binary("mul", x, y))], [INT32] * 2, 20, 16)
    text = emit(divide, target("x86-64"), name="f")
    for flag in ("fast", "nnan", "inttoptr", "ptrtoint", "inbounds", "dereferenceable", "add nsw i32", "mul nsw"):
        assert flag not in text


def test_a_constant_keeps_every_bit(run: Run) -> None:
    for number in (0.1, 1 / 3, -0.0, float("inf"), float("nan"), 5e-324, 1e308):
        (found,) = both_ways(run, [lambda x, c=number: Select(Const(True, BOOL), Const(c, FLOAT64), x)], [np.zeros(3)])
        assert found.tobytes() == np.full(3, number).tobytes()


@pytest.mark.parametrize("on", TARGETS)
def test_a_sum_of_products_is_fused_where_the_target_can(run: Run, on: str) -> None:
    x, y, out = (arg(name, 40) for name in "XYZ")
    i = (Axis("i"),)
    body = store(out, i, Binary("mul", Load(x, i), Load(y, i)), SUM)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(40).astype(np.float32) for _ in range(3))
    fused = (a.astype(np.longdouble) * b + c).astype(np.float32)
    for kind in ("serial", "vector"):
        found = c.copy()
        run(Nest("f", (x, y), (out,), (), loop("i", 40, body, kind)), a, b, found, on=on)
        assert np.array_equal(found, fused if target(on).has_fma else c + a * b)


@pytest.mark.parametrize("dtype", [DType("float16"), DType("bfloat16")])
def test_a_sum_of_half_products_rounds_once_on_every_target(run: Run, dtype: DType) -> None:
    x, y, out = (arg(name, 64, dtype=dtype) for name in "XYZ")
    total = Reducer("sum", (Const(0.0, dtype),), (Binary("add", Param("a0", dtype), Param("b0", dtype)),))
    i = (Axis("i"),)
    body = store(out, i, Binary("mul", Load(x, i), Load(y, i)), total)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(64).astype(dtype.numpy) for _ in range(3))
    expected = (a.astype(np.float32) * b.astype(np.float32) + c.astype(np.float32)).astype(dtype.numpy)
    for on in TARGETS:
        found = c.copy()
        run(Nest("f", (x, y), (out,), (), loop("i", 64, body, "vector")), a, b, found, on=on)
        assert np.array_equal(found, expected)


def test_index_arithmetic_of_known_loops_folds() -> None:
    out, i = arg("Y", 8, dtype=INT64), Axis("i")
    odd = If(Compare("eq", Binary("mod", i, const(2)), const(1)), store(out, (i,), Binary("floordiv", i, const(3))))
    text = emit(Nest("f", (), (out,), (), loop("i", 8, odd, "unroll")), target("x86-64"), name="f")
    assert text.count("store") == 4
    assert "icmp" not in text
    assert "div" not in text


def test_an_operation_that_a_type_lacks_is_an_internal_error(run: Run) -> None:
    one = [np.zeros(3, np.float32)]
    with pytest.raises(InternalError, match="shl has no meaning for float32"):
        both_ways(run, [lambda x: Binary("shl", x, x)], one)
    with pytest.raises(InternalError, match="reduction"):
        both_ways(run, [lambda x: Reduce(SUM, (x,), (), None)], one)


@pytest.mark.parametrize("dtype", few(DTYPES, 5))
def test_no_cast_calls_a_library(dtype: DType) -> None:
    machine = target("x86-64")
    nest = elementwise([lambda x, to=to: Cast(x, to) for to in DTYPES], [dtype], 40, 16)
    code = compile_module(emit(nest, machine, name="f"), machine.machine).object
    assert undefined_symbols(code) == ()
