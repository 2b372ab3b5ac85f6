"""Powers with a few whole factors are products in float64, rounded once: C's pow to the bit of the nearest float32."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.ir import Const
from tensorlang.ir.dtype import FLOAT32, FLOAT64
from tensorlang.ir.expressions import Call
from tensorlang.ir.traverse import whole_power
from tensorlang.schedules.legality.code_size import function_size
from tests.codegen.test_math import SPECIAL

EXPONENTS = (-6, -3, -1, 1, 2, 3, 4, 5, 6)


def bases() -> np.ndarray:
    """Special values of both signs, and encodings of any magnitude."""
    drawn = np.random.default_rng(0).integers(0, 2**32, 2000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([np.float32(SPECIAL), -np.float32(SPECIAL), drawn])


def powers(dtype: str) -> tl.Kernel:
    """x ** n for all exponents."""
    X = tl.placeholder((len(bases()),), dtype, name="X")
    return tl.build([tl.compute(X.shape, lambda i, n=n: tl.pow(X[i], float(n)), name=f"Y{place}") for place, n in enumerate(EXPONENTS)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_short_power_is_the_nearest_number(dtype: str) -> None:
    x = bases().astype(dtype)
    for n, found in zip(EXPONENTS, powers(dtype)(x), strict=True):
        wanted = np.power(x.astype("float64"), n).astype("float32").astype(dtype)
        np.testing.assert_array_equal(found, wanted, err_msg=f"x ** {n}")
        defined = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[defined], np.signbit(wanted)[defined])


def test_other_powers_are_calls() -> None:
    """Of float64, whose products would lose digits, of fractions, of no factors, and of so many that a power of the least number is 0."""

    def power(exponent: float, dtype: tl.DType = FLOAT32) -> Call:
        return Call("pow", (Const(2.0, dtype), Const(exponent, dtype)), dtype)

    assert whole_power(power(3.0)) == 3 and whole_power(power(-2.0)) == -2
    assert [whole_power(power(exponent)) for exponent in (0.0, 0.5, 7.0, float("inf"), float("nan"))] == [None] * 5
    assert whole_power(power(3.0, FLOAT64)) is None
    assert function_size(power(3.0), FLOAT32) < function_size(power(-3.0), FLOAT32) < function_size(power(0.5), FLOAT32)
