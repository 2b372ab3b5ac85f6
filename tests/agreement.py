"""What tests of the language share: the meaning, the plain nest and the default kernel of a definition, against NumPy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.verify import verify
from tensorlang.semantics.nest_interpreter import run_nest
from tensorlang.serialization.canonical import describe, fingerprint
from tensorlang.serialization.rebuild import rebuild


def agree(outputs: Any, feeds: dict[Tensor, Any], want: Any, rtol: float = 1e-5, **dims: int) -> None:
    """The evaluator, the interpreted nest, its kernel and the kernel of the default schedule give what NumPy gives.

    The definition also survives its description as JSON.
    """
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    wants = tuple(np.asarray(value) for value in (want if isinstance(want, tuple) else (want,)))
    plain = tl.Schedule(results)
    verify(plain.nest)
    given = dict(zip(plain.nest.inputs, feeds.values(), strict=True))
    sizes = {**dims, **{str(e): n for t, x in feeds.items() for e, n in zip(t.shape, x.shape, strict=True) if not isinstance(e, int)}}
    arrays = {buffer.name: np.array(array, order="C") for buffer, array in given.items()}
    arrays |= {buffer.name: np.zeros(value.shape, buffer.dtype.numpy) for buffer, value in zip(plain.nest.outputs, wants, strict=True)}
    run_nest(plain.nest, arrays, {name: sizes[name] for name in plain.nest.dims})
    inputs = tuple(feeds)
    found = [
        tl.evaluate(results, feeds, **dims),
        tuple(arrays[buffer.name] for buffer in plain.nest.outputs),
        tl.build(plain, inputs=inputs)(*feeds.values(), **dims),
        tl.build(results, inputs=inputs)(*feeds.values(), **dims),
    ]
    for values in found:
        for got, expected in zip(values if isinstance(values, tuple) else (values,), wants, strict=True):
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)
    document = json.loads(json.dumps(describe(results)))
    again = rebuild(document)
    assert describe(again) == document
    assert fingerprint(again) == fingerprint(results)
    assert str(tl.Schedule(again)) == str(plain)
