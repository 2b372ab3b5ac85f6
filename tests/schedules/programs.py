"""Small programs that the schedule tests share, and the one law they check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition.tensor import Placeholder, Tensor, definitions, operands
from tensorlang.ir import Buffer
from tensorlang.ir.verify import verify
from tensorlang.semantics.nest_interpreter import run_nest

EXTENTS = [(0, 3), (3, 0), (1, 1), (5, 9), (8, 16)]
"""Rows and columns: none, one, fewer and more than tiles have."""


def matmul(m: Any = 7, n: Any = 11, k: Any = 5, dtype: str = "float32") -> Tensor:
    """C[i, j] = sum over k of A[i, k] * B[k, j]."""
    a, b = tl.placeholder((m, k), dtype, name="A"), tl.placeholder((k, n), dtype, name="B")
    r = tl.reduce_axis(k, name="k")
    result: Tensor = tl.compute((m, n), lambda i, j: tl.sum(a[i, r] * b[r, j], axis=r), name="C")
    return result


def rectified(m: Any = 7, n: Any = 11, k: Any = 5) -> Tensor:
    """max(A B + bias, 0)."""
    product = matmul(m, n, k)
    bias = tl.placeholder((n,), name="bias")
    result: Tensor = tl.compute((m, n), lambda i, j: tl.maximum(product[i, j] + bias[j], 0.0), name="R")
    return result


def blur(rows: int = 13, columns: int = 21) -> Tensor:
    """A separable 3 x 3 box: h along x, v along y."""
    image = tl.placeholder((rows + 2, columns + 2), name="X")
    h = tl.compute((rows + 2, columns), lambda y, x: image[y, x] + image[y, x + 1] + image[y, x + 2], name="h")
    result: Tensor = tl.compute((rows, columns), lambda y, x: h[y, x] + h[y + 1, x] + h[y + 2, x], name="v")
    return result


def scale(rows: Any = 7, columns: Any = 13, dtype: str = "float32") -> Tensor:
    """Y = 3 X + 1."""
    x = tl.placeholder((rows, columns), dtype, name="X")
    result: Tensor = tl.compute((rows, columns), lambda i, j: x[i, j] * 3 + 1, name="Y")
    return result


def feeds(outputs: tuple[Tensor, ...], dims: dict[str, int], seed: int = 0) -> dict[Tensor, Any]:
    """Random inputs of a program, by placeholder."""
    rng = np.random.default_rng(seed)
    found: dict[int, Tensor] = {}
    for definition in definitions(outputs):
        for tensor in operands(definition):
            if isinstance(tensor.definition, Placeholder):
                found.setdefault(tensor.definition.order, tensor)
    result: dict[Tensor, Any] = {}
    for _, tensor in sorted(found.items()):
        shape = tuple(entry if isinstance(entry, int) else dims[str(entry)] for entry in tensor.shape)
        kind = tensor.dtype.numpy
        result[tensor] = rng.standard_normal(shape).astype(kind) if tensor.dtype.is_floating else rng.integers(0, 9, shape).astype(kind)
    return result


def check(s: tl.Schedule, *, dims: dict[str, int] | None = None, rtol: float = 1e-5, interpret: bool = True) -> None:
    """The law: a legal schedule computes what the definition means, interpreted and compiled, and replays from JSON."""
    verify(s.nest)
    given = feeds(s.outputs, dims or {})
    want = tl.evaluate(s.outputs, given)
    wants = want if isinstance(want, tuple) else (want,)
    got = [_poisoned(buffer, expected) for buffer, expected in zip(s.nest.outputs, wants, strict=True)]
    tl.build(s)(*given.values(), out=tuple(got) if len(got) > 1 else got[0])
    for have, expected in zip(got, wants, strict=True):
        np.testing.assert_allclose(have, expected, rtol=rtol, atol=1e-5)
    if interpret:
        arrays = {buffer.name: array for buffer, array in zip(s.nest.inputs, given.values(), strict=True)}
        results = {buffer.name: _poisoned(buffer, expected) for buffer, expected in zip(s.nest.outputs, wants, strict=True)}
        run_nest(s.nest, {**arrays, **results}, dims or {})
        for buffer, expected in zip(s.nest.outputs, wants, strict=True):
            np.testing.assert_allclose(results[buffer.name], expected, rtol=rtol, atol=1e-5)
    again = tl.Schedule.from_json(s.outputs, s.to_json())
    assert again.directives == s.directives
    assert str(again) == str(s)


def _poisoned(buffer: Buffer, like: Any) -> Any:
    return np.full(like.shape, 77, buffer.dtype.numpy)


def refusal(s: tl.Schedule, name: str, *args: Any, **options: Any) -> tl.ScheduleError:
    """Why a step is refused, which leaves the schedule as it was."""
    before = str(s)
    with pytest.raises(tl.ScheduleError) as refused:
        getattr(s, name)(*args, **options)
    assert str(s) == before
    return refused.value


def refused(s: tl.Schedule, code: str, sentence: str, *step: Any) -> tl.ScheduleError:
    """The refusal of a step, pinned, which leaves the schedule as it was."""
    before = str(s)
    error = s.can(*step).error
    assert error is not None
    assert error.code == code
    assert sentence in error.reason
    assert str(s) == before
    return error


def code_and_reason(s: tl.Schedule, name: str, *args: Any, **options: Any) -> tuple[str, str]:
    """The same as the two parts of its text."""
    refused = refusal(s, name, *args, **options)
    return refused.code, refused.reason
