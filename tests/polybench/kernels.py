"""What every kernel of PolyBench/C 4.2 is checked with: the meaning and the kernel of the default schedule against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl

rng = np.random.default_rng(30)


def operand(name: str, *shape: int) -> tl.Tensor:
    """An operand in double precision."""
    return tl.placeholder(shape, "float64", name=name)


def array(*shape: int) -> Any:
    """Values between 0.5 and 1.5, so that nothing cancels and no pivot is small."""
    return rng.random(shape) + 0.5


def agree(outputs: Any, feeds: dict[tl.Tensor, Any], want: Any) -> None:
    """The evaluator, and a kernel, give what the loops give."""
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    wants = want if isinstance(want, tuple) else (want,)
    for found in (tl.evaluate(results, feeds), tl.build(results, inputs=tuple(feeds))(*feeds.values())):
        for got, expected in zip(found if isinstance(found, tuple) else (found,), wants, strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
