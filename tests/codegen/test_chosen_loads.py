"""What a condition reads may be what it chooses: its value is there for all lanes then, and no zero in those that are off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl

SIZES = (1, 9, 16, 17, 20, 31, 33, 100)
FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "above": lambda x, _, where: where(x > 5, x, 0),
    "below": lambda x, _, where: where(x < 5, x, 0),
    "doubled": lambda x, _, where: where(x * 2 > 11, x, 0),
    "the other side": lambda x, _, where: where(x <= 5, 0, x),
    "one instead": lambda x, _, where: where(x > 5, x, 1),
    "added to itself": lambda x, _, where: where(x > 5, x, 0) + x,
    "twice": lambda x, y, where: where(x > 5, x, 0) + where(y > x, y, 0),
    "inside": lambda x, y, where: where(y > 5, where(x > 3, x, 0), 0),
    "another one": lambda x, y, where: where(x > 5, y, 0),
    "known before": lambda x, y, where: y * x + where(y > 5, x, 0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
@pytest.mark.parametrize("form", list(FORMS))
def test_what_a_condition_reads_is_chosen_by_it(form: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for size in SIZES:
        x, y = (tl.placeholder((size,), dtype, name=name) for name in "xy")
        a, b = (rng.integers(0, 11, size).astype(dtype) for _ in "xy")
        got = tl.build(tl.compute((size,), lambda i, x=x, y=y: FORMS[form](x[i], y[i], tl.select)), inputs=[x, y])(a, b)
        np.testing.assert_array_equal(got, FORMS[form](a, b, np.where).astype(dtype))


@pytest.mark.parametrize("form", list(FORMS))
def test_sums_of_what_is_chosen(form: str) -> None:
    rng = np.random.default_rng(8)
    for size in (*SIZES, 804):
        x, y, k = tl.placeholder((3, size), name="x"), tl.placeholder((3, size), name="y"), tl.reduce_axis(size, name="k")
        a, b = (rng.integers(0, 11, (3, size)).astype("float32") for _ in "xy")
        kernel = tl.build(
            tl.compute((3,), lambda i, x=x, y=y, k=k: tl.sum(FORMS[form](x[i, k], y[i, k], tl.select), axis=k)), inputs=[x, y]
        )
        np.testing.assert_allclose(kernel(a, b), FORMS[form](a, b, np.where).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("form", list(FORMS))
def test_lanes_of_which_a_call_tells_the_number(form: str) -> None:
    n, rng = tl.dim("n", 1), np.random.default_rng(9)
    x, y = (tl.placeholder((5, n), name=name) for name in "xy")
    kernel = tl.build(tl.compute((5, n), lambda i, j: FORMS[form](x[i, j], y[i, j], tl.select)), inputs=[x, y])
    for size in SIZES:
        a, b = (rng.integers(0, 11, (5, size)).astype("float32") for _ in "xy")
        np.testing.assert_array_equal(kernel(a, b), FORMS[form](a, b, np.where))
