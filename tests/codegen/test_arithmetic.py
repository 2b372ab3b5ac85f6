"""Arithmetic in machine code: the edge cases of every type, in scalars and in masked vectors, against Python integers and NumPy."""

import itertools

import numpy as np
import pytest

from tensorlang import ir
from tensorlang.codegen.emit import emit
from tensorlang.codegen.target import target
from tensorlang.dtype import BOOL, DTYPES, FLOAT32, DType
from tensorlang.ir import Axis, Binary, Block, Buffer, Call, Cast, Compare, Const, For, If, Load, Nest, Param, Reducer, Select, Store, Unary, const

INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]
FLOATS = [dtype for dtype in DTYPES if dtype.is_floating]
TARGETS = ["native", "x86-64", "x86-64-v3"]


def elementwise(expr, inputs, result, n, lanes=0):
    """`result[i] = expr(loads of inputs at i)` over n elements: a serial loop, or masked vectors of `lanes`."""
    buffers = tuple(Buffer(f"X{k}", (const(n),), dtype, "argument") for k, dtype in enumerate(inputs))
    out = Buffer("Y", (const(n),), result, "argument")

    def store(index):
        return Store("Y", (out,), (index,), (expr(*(Load(buffer, (index,)) for buffer in buffers)),))

    if not lanes:
        return Nest("f", buffers, (out,), (), For("i", const(0), const(n), store(Axis("i"))))
    index = Binary("add", Binary("mul", Axis("o"), const(lanes)), Axis("l"))
    body = If(Compare("lt", index, const(n)), store(index))
    return Nest("f", buffers, (out,), (), For("o", const(0), const(-(-n // lanes)), For("l", const(0), const(lanes), body, "vector")))


def both_ways(run, expr, arrays, result, on="native", lanes=16):
    """The values of an expression over arrays, computed in scalars and in vectors, which must agree bit for bit."""
    inputs = [DType(array.dtype.name) for array in arrays]
    found = []
    for width in (0, lanes):
        out = np.full(len(arrays[0]), 1, result.numpy)
        assert run(elementwise(expr, inputs, result, len(out), width), *arrays, out, on=on) == 0
        found.append(out)
    assert found[0].tobytes() == found[1].tobytes()
    return found[0]


def integers(dtype):
    """Values near the limits of a type and near 0."""
    low, high = int(dtype.lowest), int(dtype.highest)
    return sorted({low, low + 1, low + 2, high - 1, high, high // 2, *range(max(low, -9), min(high, 10)), 31, 32, 33, 63, 64, 65} & set(range(low, low + 1000)) | {low, high, high - 1, *range(max(low, -9), 10), 31, 32, 33, 63, 64, 65})


def pairs(values, dtype):
    """Every pair of values, as two arrays."""
    left, right = zip(*itertools.product(values, values), strict=True)
    return [np.array(side, dtype.numpy) for side in (left, right)]


def wrapped(number, dtype):
    """An integer modulo the width of a type."""
    number %= 1 << dtype.bits
    return number - (1 << dtype.bits) if dtype.kind == "signed" and number >> (dtype.bits - 1) else number


def shift(op, a, b, bits):
    """A shift by any count: `bits` or more, and any negative count, shift everything out."""
    count = b if 0 <= b < bits else bits
    return a << count if op == "shl" else a >> count


PYTHON = {
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
def test_integer_arithmetic_is_python_s_modulo_the_width(run, dtype):
    a, b = pairs(integers(dtype), dtype)
    for op, meaning in PYTHON.items():
        found = both_ways(run, lambda x, y, op=op: Binary(op, x, y), [a, b], dtype)
        expected = [wrapped(meaning(int(x), int(y), dtype.bits), dtype) for x, y in zip(a, b, strict=True)]
        assert found.tolist() == expected, op


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_division_by_a_constant_floors(run, dtype, op):
    values = np.array(integers(dtype), dtype.numpy)
    for divisor in {0, 1, 2, 3, 7, 8, 10, int(dtype.highest)} | ({-1, -2, -7, int(dtype.lowest)} if dtype.kind == "signed" else set()):
        found = both_ways(run, lambda x, d=divisor: Binary(op, x, Const(d, dtype)), [values], dtype)
        assert found.tolist() == [wrapped(PYTHON[op](int(x), divisor, dtype.bits), dtype) for x in values], divisor


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_unary_operations_wrap(run, dtype):
    values = np.array(integers(dtype), dtype.numpy)
    for op, meaning in {"neg": lambda x: -x, "abs": abs, "not": lambda x: ~x}.items():
        found = both_ways(run, lambda x, op=op: Unary(op, x), [values], dtype)
        assert found.tolist() == [wrapped(meaning(int(x)), dtype) for x in values], op


def floats(dtype):
    """Special values, values near the limits of a type, and values that round."""
    kind = dtype.numpy
    import ml_dtypes

    info = ml_dtypes.finfo(kind) if dtype == "bfloat16" else np.finfo(kind)
    edge = [0.0, 1.0, 1.5, 3.14159, 7.0, float(info.max), float(info.tiny), float(info.smallest_subnormal), float(info.eps), 0.1, 1e4, np.inf]
    return [*edge, *(-x for x in edge), np.nan]


NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum, "fmin": np.fmin, "fmax": np.fmax}


def same(found, expected):
    """Equal values, NaN where NaN; the sign of zero is free."""
    return bool(np.all((found == expected) | (np.isnan(found) & np.isnan(expected))))


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floating_arithmetic_is_numpy_s(run, dtype, on):
    a, b = pairs(floats(dtype), dtype)
    with np.errstate(all="ignore"):
        for op, meaning in NUMPY.items():
            assert same(both_ways(run, lambda x, y, op=op: Binary(op, x, y), [a, b], dtype, on), meaning(a, b)), op


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs_of_floating_values_are_flipped_and_cleared(run, dtype):
    values = np.array(floats(dtype), dtype.numpy)
    with np.errstate(all="ignore"):
        assert both_ways(run, lambda x: Unary("neg", x), [values], dtype).tobytes() == (-values).tobytes()
        assert both_ways(run, lambda x: Unary("abs", x), [values], dtype).tobytes() == np.abs(values).tobytes()


COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != BOOL])
def test_comparisons_are_numpy_s(run, dtype):
    a, b = pairs(floats(dtype) if dtype.is_floating else integers(dtype), dtype)
    with np.errstate(all="ignore"):
        for op, meaning in COMPARE.items():
            assert np.array_equal(both_ways(run, lambda x, y, op=op: Compare(op, x, y), [a, b], BOOL), meaning(a, b)), op


def test_logic_is_on_truth_values(run):
    a, b = pairs([False, True], BOOL)
    for op, meaning in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.items():
        assert np.array_equal(both_ways(run, lambda x, y, op=op: Binary(op, x, y), [a, b], BOOL), meaning(a, b))
    assert np.array_equal(both_ways(run, lambda x: Unary("not", x), [a], BOOL), ~a)


def saturated(number, dtype):
    """A floating-point number as an integer of a type: towards zero, to the nearest limit, 0 for NaN."""
    number = float(number)
    if np.isnan(number):
        return 0
    return max(int(dtype.lowest), min(int(dtype.highest), int(number) if np.isfinite(number) else (1 if number > 0 else -1) << 70))


@pytest.mark.parametrize("source", DTYPES)
def test_casts_wrap_saturate_and_round(run, source):
    values = [False, True] if source == BOOL else floats(source) if source.is_floating else integers(source)
    array = np.array(values, source.numpy)
    with np.errstate(all="ignore"):
        for to in DTYPES:
            found = both_ways(run, lambda x, to=to: Cast(x, to), [array], to)
            if to == BOOL:
                expected = array.astype(bool)
            elif to.is_integer and source.is_floating:
                expected = np.array([saturated(x, to) for x in array], to.numpy)
            elif to.is_integer:
                expected = np.array([wrapped(int(x), to) for x in array], to.numpy)
            else:
                expected = array.astype(to.numpy)
            assert np.array_equal(found, expected, equal_nan=to.is_floating), to


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_becomes_its_float32_and_back(run, dtype, on):
    dtype = DType(dtype)
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    wide = both_ways(run, lambda x: Cast(x, FLOAT32), [halves], FLOAT32, on)
    with np.errstate(all="ignore"):
        assert np.array_equal(wide, halves.astype(np.float32), equal_nan=True)
    back = both_ways(run, lambda x: Cast(x, dtype), [wide], dtype, on)
    real = ~np.isnan(wide)
    assert np.array_equal(back.view(np.uint16)[real], np.arange(1 << 16)[real])
    assert np.all(np.isnan(back[~real]))


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_halves_round_to_nearest_even(run, source, dtype, on):
    source, dtype = DType(source), DType(dtype)
    with np.errstate(all="ignore"):
        halves = np.arange(1 << 15, dtype=np.uint16).view(dtype.numpy).astype(np.float64)
        middle = (halves[:-1] + halves[1:]) / 2
        middle = middle[np.isfinite(middle)]
        kind = source.numpy.type
        near = [np.nextafter(middle.astype(kind), kind(way)) for way in (-np.inf, np.inf)]
        values = np.concatenate([middle.astype(kind), *near, [kind(65519.996), kind(65520), kind(1e300)]])
        values = np.concatenate([values, -values])
        found = both_ways(run, lambda x: Cast(x, dtype), [values], dtype, on)
        assert np.array_equal(found.view(np.uint16), values.astype(dtype.numpy).view(np.uint16))


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_halves_round_once(run, dtype):
    values = np.array([0.0, 0.5, 1.0, 2.25, 9.0, 1e-4, np.inf], dtype.numpy)
    found = both_ways(run, lambda x: Call("sqrt", (x,), dtype), [values], dtype)
    assert np.array_equal(found, np.sqrt(values.astype(np.float64)).astype(dtype.numpy))
    assert both_ways(run, lambda x: Call("isinf", (x,), BOOL), [values], BOOL).tolist() == [False] * 6 + [True]


def test_generated_code_holds_no_flag_that_licenses_another_result():
    text = emit(
        elementwise(lambda x, y: Binary("floordiv", Binary("add", x, y), Binary("mul", x, y)), [DType("int32")] * 2, DType("int32"), 20, 16),
        target("native"),
        name="f",
    )
    for flag in ("fast", "nnan", "inttoptr", "ptrtoint", "inbounds", "dereferenceable", "add nsw i32", "mul nsw"):
        assert flag not in text


def test_a_constant_keeps_every_bit(run):
    for number in (0.1, 1 / 3, -0.0, float("inf"), float("nan"), 5e-324, 1e308):
        found = both_ways(run, lambda x, c=number: Select(Const(True, BOOL), Const(c, DType("float64")), x), [np.zeros(3)], DType("float64"))
        assert found.tobytes() == np.full(3, number).tobytes()


@pytest.mark.parametrize("on", TARGETS)
def test_a_sum_of_products_is_fused_where_the_target_can(run, on):
    n = 40
    x, y, out = (Buffer(name, (const(n),), FLOAT32, "argument") for name in "XYZ")
    total = Reducer("sum", (Const(0.0, FLOAT32),), (Binary("add", Param("a0", FLOAT32), Param("b0", FLOAT32)),))
    i = (Axis("i"),)
    body = Store("Z", (out,), i, (Binary("mul", Load(x, i), Load(y, i)),), total)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(n).astype(np.float32) for _ in range(3))
    exact = a.astype(np.float64) * b.astype(np.float64)
    fused = (exact + c).astype(np.float32)
    expected = fused if target(on).has_fma else (c + a * b)
    for kind, lanes in (("serial", n), ("vector", n)):
        found = c.copy()
        run(Nest("f", (x, y), (out,), (), Block((For("i", const(0), const(lanes), body, kind),))), a, b, found, on=on)
        assert np.array_equal(found, expected)


def test_index_arithmetic_of_known_loops_folds():
    out = Buffer("Y", (const(8),), DType("int64"), "argument")
    i = Axis("i")
    odd = If(Compare("eq", Binary("mod", i, const(2)), const(1)), Store("Y", (out,), (i,), (Binary("floordiv", i, const(3)),)))
    text = emit(Nest("f", (), (out,), (), For("i", const(0), const(8), odd, "unroll")), target("native"), name="f")
    assert text.count("store") == 4
    assert "icmp" not in text
    assert "div" not in text


def test_an_operation_that_a_type_lacks_is_an_internal_error(run):
    from tensorlang.errors import InternalError

    with pytest.raises(InternalError, match="shl has no meaning for float32"):
        both_ways(run, lambda x: Binary("shl", x, x), [np.zeros(3, np.float32)], FLOAT32)
    with pytest.raises(InternalError, match="reduction"):
        identity = ir.Reducer("sum", (Const(0.0, FLOAT32),), (Param("a0", FLOAT32),))
        both_ways(run, lambda x: ir.Reduce(identity, (x,), (), None), [np.zeros(3, np.float32)], FLOAT32)
