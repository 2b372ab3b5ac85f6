"""The mathematical functions: error in units in the last place, special values, one meaning for scalars and vectors, no libm."""

import ctypes
from functools import cache

import mpmath
import numpy as np
import pytest
from llvmlite import ir
from scipy import special

from tensorlang.codegen.emission.math import FUNCTIONS, emit, emit_fma
from tensorlang.codegen.emission.math.reduction import TWO_OVER_PI
from tensorlang.codegen.emission.math.values import Mask, Real
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime import symbols
from tensorlang.codegen.target import target
from tensorlang.errors import InternalError
from tensorlang.ir import functions
from tensorlang.ir.dtype import dtype
from tests.codegen.numpy_lanes import NumpyLanes
from tests.thinned import crossed

# NaN, overflow and underflow are the subject here; signalling NaN are among the samples.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# The greatest error in ulp that a function may have, with and without FMA: the measured one, a little rounded up.
BOUND = {
    "float32": {
        **dict.fromkeys(("exp", "exp2", "expm1"), 1.2),
        **dict.fromkeys(("log", "log2", "log10", "log1p", "sigmoid"), 0.85),
        **dict.fromkeys(("sin", "cos", "rsqrt"), 1.6),
        **dict.fromkeys(("sqrt", "tan", "pow", "asin", "acos", "atan", "atan2", "sinh", "cosh"), 0.51),
        "tanh": 1.4,
        "erf": 1.65,
    },
    "float64": {
        **dict.fromkeys(("exp", "exp2", "log", "log2", "log10", "log1p", "sin", "cos", "sigmoid", "pow"), 0.8),
        **dict.fromkeys(("tan", "tanh"), 0.95),
        **dict.fromkeys(("expm1", "erf"), 1.1),
        **dict.fromkeys(("asin", "acos", "atan", "atan2", "cosh"), 0.8),
        "sinh": 0.9,
        "rsqrt": 1.5,
        "sqrt": 0.5,
    },
}
EXACT = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}
ON_X86 = target("native").is_x86
TARGETS = ("native", "x86-64") if ON_X86 else ("native",)
KINDS = [(function, name) for function in sorted(FUNCTIONS) for name in ("float32", "float64")]
SPECIAL = [
    0.0,
    5e-324,
    1e-45,
    1e-40,
    2.0**-149,
    2.0**-126,
    2.2e-308,
    0.25,
    0.5,
    0.625,
    1.0,
    1.5,
    2.0,
    2.5,
    4.0,
    6.0,
    20.0,
    88.72,
    88.73,
    103.97,
]
SPECIAL += [
    104.0,
    128.0,
    150.0,
    709.78,
    709.79,
    745.13,
    745.14,
    1e5,
    65537.0,
    2.0**19 + 1,
    2.0**23 + 1,
    2.0**52 + 1,
    1e22,
    1e30,
    3.4e38,
    1.7e308,
]
SPECIAL += [np.inf, np.nan]


def _arity(function):
    return functions.FUNCTIONS[function].arity


def _module(function, name, width, machine):
    """for i in range(0, n, width): out[i : i + width] = function(*(x[i : i + width] for x in inputs))."""
    real = ir.FloatType() if name == "float32" else ir.DoubleType()
    test = functions.FUNCTIONS[function].gives == "bool"
    result = ir.IntType(8) if test else real
    size = ir.IntType(64)
    module = ir.Module()
    arguments = [real.as_pointer()] * _arity(function) + [result.as_pointer(), size]
    kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), "kernel")
    builder = ir.IRBuilder(kernel.append_basic_block("entry"))
    loop, done = kernel.append_basic_block("loop"), kernel.append_basic_block("done")
    *inputs, output, count = kernel.args
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(size)
    index.add_incoming(size(0), kernel.entry_basic_block)
    shape = (lambda element: element) if width == 1 else (lambda element: ir.VectorType(element, width))
    place = lambda base, element: builder.bitcast(builder.gep(base, [index]), shape(element).as_pointer())  # noqa: E731
    values = [builder.load(place(base, real), align=4) for base in inputs]
    value = emit(builder, function, dtype(name), values, has_fma=machine.has_fma, has_round=machine.has_round, has_scale=machine.has_scale)
    builder.store(builder.zext(value, shape(result)) if test else value, place(output, result), align=1)
    following = builder.add(index, size(width))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
    builder.position_at_end(done)
    builder.ret_void()
    return str(module)


@cache
def _object(function, name, width, on):
    return binding.compile_module(_module(function, name, width, target(on)), target(on).machine).object


@cache
def _loaded(function, name, width, on):
    library = symbols.load_object(_object(function, name, width, on), ("kernel",))
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (_arity(function) + 1), ctypes.c_int64)
    return library, prototype(library.address("kernel"))


def evaluate(function, *arrays, width=16, on="native"):
    """The function of arrays of one type, computed by generated code."""
    name = arrays[0].dtype.name
    length = len(arrays[0])
    padded = [np.pad(array, (0, -length % width), constant_values=1) for array in arrays]
    out = np.empty(len(padded[0]), np.uint8 if functions.FUNCTIONS[function].gives == "bool" else name)
    _loaded(function, name, width, on)[1](*(array.ctypes.data for array in (*padded, out)), len(out))
    return out[:length]


def samples(name, count=8000, seed=0):
    """Special values, every so many-th bit pattern and the ranges in which the functions are not trivial."""
    random = np.random.default_rng(seed)
    unsigned = {"float32": np.uint32, "float64": np.uint64}[name]
    patterns = random.integers(0, np.iinfo(unsigned).max, count, dtype=unsigned).view(name)
    ranges = [random.uniform(-scale, scale, count) for scale in (1, 10, 100, 700)]
    near = [1 + np.ldexp(random.uniform(-1, 1, count), random.integers(-20, 0, count)), random.integers(1, 2**18, count) * (np.pi / 2)]
    exact = np.array([*SPECIAL, *(-value for value in SPECIAL)]).astype(name)
    return np.concatenate([exact, patterns, *(part.astype(name) for part in ranges + near)])


def ulps(got, want):
    """Distance in units in the last place of the exact value; infinite where NaN, an infinity or the sign of zero is wrong."""
    kind = np.finfo(got.dtype)
    exponent = np.maximum(np.frexp(want)[1] - 1, kind.minexp)
    error = np.abs(got.astype(want.dtype) - want) / np.ldexp(want.dtype.type(1), exponent - kind.nmant)
    rounded = want.astype(got.dtype)
    overflow = np.isinf(rounded) | np.isinf(got)
    error[overflow] = np.where(got[overflow] == rounded[overflow], 0, np.inf)
    error[np.isnan(want) & np.isnan(got)] = 0
    error[np.isnan(want) != np.isnan(got)] = np.inf
    error[(want == 0) & (np.signbit(want) != np.signbit(got))] = np.inf
    return error


def reference(function, *arrays):
    """NumPy's value in the type of the arrays, which is wider than what is tested."""
    x = arrays[0]
    match function:
        case "rsqrt":
            return 1 / np.sqrt(x)
        case "sigmoid":
            power = np.exp(-np.abs(x))
            return np.where(x < 0, power, 1) / (1 + power)
        case "erf":
            return special.erf(x)
        case "pow":
            return np.power(*arrays)
        case _:
            return getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}.get(function, function))(*arrays)


def _powers(name, count=8000):
    random = np.random.default_rng(3)
    base = np.abs(samples(name, count, seed=1))
    end = 150 if name == "float32" else 1076
    exponent = (random.uniform(-end, end, len(base)) / np.log2(base.astype(np.longdouble))).astype(name)
    small = random.integers(-30, 30, count).astype(name)
    table = np.array([*SPECIAL, *(-value for value in SPECIAL), 3.0, -3.0, 7.0, -7.0]).astype(name)
    left, right = (grid.ravel() for grid in np.meshgrid(table, table))
    return np.concatenate([base, small, left]), np.concatenate([exponent, small[::-1], right])


def _points(name, count=8000):
    """Every pair of special values, points near the axes and the diagonals, and points of like and of unlike magnitude."""
    random = np.random.default_rng(5)
    table = np.array([*SPECIAL, *(-value for value in SPECIAL), 1.0 + 2.0**-20]).astype(name)
    y, x = (grid.ravel() for grid in np.meshgrid(table, table))
    any_y, any_x = samples(name, count, seed=6), samples(name, count, seed=7)
    close = (any_x * (1 + np.ldexp(random.uniform(-1, 1, len(any_x)), random.integers(-20, 3, len(any_x))))).astype(name)
    return np.concatenate([y, any_y, close]), np.concatenate([x, any_x, any_x])


def _arguments(function, name):
    if _arity(function) == 2:
        return _powers(name) if function == "pow" else _points(name)
    return (samples(name),)


def test_every_function_of_the_language_has_machine_code():
    assert set(FUNCTIONS) == set(functions.FUNCTIONS)


@crossed({"function": sorted(BOUND["float32"]), "on": TARGETS})
def test_float32_is_within_its_bound_of_the_exact_value(function, on):
    arrays = _arguments(function, "float32")
    got = evaluate(function, *arrays, on=on)
    error = ulps(got, reference(function, *(array.astype(np.float64) for array in arrays)))
    worst = int(np.argmax(error))
    assert error[worst] <= BOUND["float32"][function], (error[worst], [array[worst] for array in arrays], got[worst])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double has no more precision than float64 here")
@crossed({"function": sorted(BOUND["float64"].keys() - {"erf"}), "on": TARGETS})
def test_float64_is_within_its_bound_of_extended_precision(function, on):
    arrays = _arguments(function, "float64")
    got = evaluate(function, *arrays, on=on)
    error = ulps(got, reference(function, *(array.astype(np.longdouble) for array in arrays)))
    worst = int(np.argmax(error))
    assert error[worst] <= BOUND["float64"][function], (error[worst], [array[worst] for array in arrays], got[worst])


EXACTLY = {
    "log2": lambda x: mpmath.log(x, 2),
    "exp2": lambda x: mpmath.power(2, x),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
}


@crossed({"function": sorted(BOUND["float64"].keys() - {"pow", "atan2"}), "on": TARGETS})
def test_float64_is_within_its_bound_of_arbitrary_precision(function, on):
    x = np.random.default_rng(4).uniform(-6, 6, 200)
    x = np.abs(x) if "log" in function or "sqrt" in function else x / 6 if function in ("asin", "acos") else x
    got = evaluate(function, x, on=on)
    exact = EXACTLY.get(function) or getattr(mpmath, function)
    with mpmath.workprec(120):
        for point, value in zip(x, got, strict=True):
            want = exact(mpmath.mpf(float(point)))
            assert abs(want - float(value)) <= BOUND["float64"][function] * np.spacing(abs(float(want))), (point, value)


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_huge_angles_are_reduced_exactly(function, name, on):
    worst_case = 6381956970095103.0 * 2.0**797  # the double that comes nearest to a multiple of pi/2
    points = np.array([1e30, -1e22, 16367173.0 * 2.0**72, 3e38, 65536.5] + [worst_case, 1.7e308] * (name == "float64")).astype(name)
    got = evaluate(function, points, on=on)
    with mpmath.workprec(2400):
        want = [getattr(mpmath, function)(mpmath.mpf(float(point))) for point in points]
    for value, exact in zip(got, want, strict=True):
        unit = float(np.spacing(np.abs(np.array(float(exact), name))))
        assert abs(exact - float(value)) <= BOUND[name][function] * unit


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize("function", sorted(EXACT))
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_rounding_and_classification_agree_with_numpy_to_the_bit(function, name, on):
    x = np.concatenate([samples(name), np.arange(-20, 20, 0.25).astype(name)])
    got, want = evaluate(function, x, on=on), EXACT[function](x)
    same = (got == want) & (np.signbit(got) == np.signbit(want)) if function not in ("isnan", "isinf", "isfinite") else got == want
    assert (same | np.isnan(want)).all()


def _same_bits(left, right):
    if left.dtype == np.uint8:
        return bool((left == right).all())
    unsigned = f"u{left.itemsize}"
    return bool(((left.view(unsigned) == right.view(unsigned)) | (np.isnan(left) & np.isnan(right))).all())


@crossed({"function, name": KINDS, "on": TARGETS}, count=30)
def test_scalars_and_vectors_of_any_length_agree_to_the_bit(function, name, on):
    x = samples(name, 1000)  # huge arguments stand among small ones
    arrays = (x, x[::-1].copy())[: _arity(function)]
    scalar = evaluate(function, *arrays, width=1, on=on)
    assert all(_same_bits(scalar, evaluate(function, *arrays, width=width, on=on)) for width in (3, 16))


ELSEWHERE = ("x86-64-v2", "x86-64-v3", "aarch64-unknown-linux-gnu:cortex-a72")


@crossed({"on": TARGETS + ELSEWHERE, "name": ["float32", "float64"]}, count=3)
def test_no_function_calls_a_library(name, on):
    wanted = {function: symbols.undefined_symbols(_object(function, name, 16, on)) for function in FUNCTIONS}
    assert not any(wanted.values()), wanted


@pytest.mark.skipif(not ON_X86, reason="needs a target without FMA")
@crossed({"function, name": KINDS, "on": ["x86-64-v2", "x86-64"]})
def test_the_machine_computes_what_the_operations_mean_in_numpy(function, name, on):
    x = samples(name, 1000)
    arrays = (x, x[::-1].copy())[: _arity(function)]
    lanes = NumpyLanes(32 if name == "float32" else 64, has_round=target(on).has_round)
    meant = FUNCTIONS[function](*(Real(lanes, array) for array in arrays))
    want = meant.raw.astype(np.uint8) if isinstance(meant, Mask) else meant.raw
    assert _same_bits(want, evaluate(function, *arrays, on=on))


@pytest.mark.parametrize("on", TARGETS)
def test_erf_of_float32_is_close_everywhere_between_its_ends(on):
    x = np.arange(0, np.float32(4.5).view(np.uint32), 2503, dtype=np.uint32).view(np.float32)
    near = np.float32(1.125).view(np.uint32)  # where one polynomial takes over from the other
    x = np.concatenate([x, np.arange(near - 2000, near + 2000, dtype=np.uint32).view(np.float32)])
    x = np.concatenate([x, -x])
    got, want = evaluate("erf", x, on=on), special.erf(x.astype(np.float64))
    assert ulps(got, want).max() <= BOUND["float32"]["erf"]
    assert (ulps(got, want)[abs(x) < 0.25] <= 1).all()
    assert (got[abs(x) >= 4] == np.sign(x[abs(x) >= 4])).all()
    assert (np.abs(got) <= 1).all()


def test_the_table_holds_the_digits_of_two_over_pi():
    with mpmath.workprec(1300):
        digits = 2 / mpmath.pi
        for i in range(0, len(TWO_OVER_PI), 7):
            assert TWO_OVER_PI[i] * 2**24 == int(mpmath.floor(mpmath.ldexp(digits, 8 * i + 24))) % 2**24


@pytest.mark.parametrize("has_fma", [True, False])
def test_multiply_add_is_one_operation_only_where_the_target_has_it(has_fma):
    module = ir.Module()
    vector = ir.VectorType(ir.FloatType(), 8)
    function = ir.Function(module, ir.FunctionType(vector, [vector] * 3), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(emit_fma(builder, *function.args, has_fma=has_fma))
    assert ("llvm.fma.v8f32" in str(module)) == has_fma
    assert ("fmul" in str(module)) != has_fma


def test_half_precision_has_to_be_widened_by_the_caller():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.HalfType(), [ir.HalfType()]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    with pytest.raises(InternalError, match=r"float16.*widen"):
        emit(builder, "exp", dtype("float16"), function.args, has_fma=True, has_round=True)
