"""There is a default schedule of every operator whatever its extents are, empty, one, prime or known at the call, and it is right."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.definition.extent import dims_in
from tensorlang.definition.tensor import Placeholder, Tensor, as_outputs, definitions
from tensorlang.ops.spec import Spec
from tensorlang.ops.table import OPERATORS
from tests.draws import examples

SIZES: Final = (0, 0, 1, 2, 7, 13, 17)


def operand(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(5)
    return rng.integers(0, 3, shape).astype(dtype) if dtype.startswith("int") else (rng.random(shape) + 0.5).astype(dtype)


def check(outputs: Any, sizes: dict[str, int]) -> None:
    """The kernel of the default schedule computes what the definition means."""
    operands = [part for part in definitions(as_outputs(outputs)) if isinstance(part, Placeholder)]
    arrays = [
        operand(tuple(sizes[repr(entry)] if isinstance(entry, tl.Dim) else entry for entry in Tensor(part).shape), str(part.dtype))
        for part in operands
    ]
    kernel = tl.build(outputs)
    told = {name for argument in kernel.program.signature.inputs for extent in argument.shape for name in dims_in([extent])}
    free = {name: sizes[name] for name in kernel.program.signature.dims if name not in told}  # extents of the result alone
    want = tl.evaluate(outputs, {Tensor(part): array for part, array in zip(operands, arrays, strict=True)}, **free)
    np.testing.assert_allclose(kernel(*arrays, **free), want, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(OPERATORS))
@examples(2)
@given(data=st.data())
def test_every_operator_has_a_default_at_every_extent(name: str, data: st.DataObject) -> None:
    operator = OPERATORS[name]
    sizes = {label: data.draw(st.sampled_from(SIZES), label) for label in operator.defaults}
    sizes |= {label: data.draw(st.integers(1 - (label == "padding"), 2), label) for label in ("stride", "padding") if label in sizes}
    dims = data.draw(st.sets(st.sampled_from(sorted(operator.defaults))), "dims") if data.draw(st.booleans(), "symbolic") else set()
    extents: dict[str, Any] = {label: tl.dim(label) if label in dims else size for label, size in sizes.items()}
    try:
        outputs = Spec.at(operator, extents).define()
    except tl.DefinitionError:  # a window larger than its image, an empty table, a dim where an int is needed
        return
    try:
        check(outputs, sizes)
    except tl.CallError as error:  # a window larger than the image of this call
        assert "extents are at least 0" in str(error)  # noqa: PT017 - the other outcome is the rule


M, K, N, L = (st.sampled_from(SIZES) for _ in range(4))


@examples(8)
@given(sizes=st.tuples(M, K, N, L), tail=st.sampled_from(("product", "softmax", "bias", "scatter", "window")))
def test_chains_have_a_default_at_every_extent(sizes: tuple[int, int, int, int], tail: str) -> None:
    """Two products, and a product with what often follows one."""
    m, k, n, last = sizes
    a, b = tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B")
    c = tl.ops.matmul(a, b)
    match tail:
        case "product":
            c = tl.ops.matmul(c, tl.placeholder((n, last), name="D"))
        case "softmax":
            c = tl.ops.softmax(c)
        case "bias":
            bias = tl.placeholder((n,), name="bias")
            c = tl.compute((m, n), lambda i, j: tl.maximum(c[i, j] + bias[j], 0.0), name="E")
        case "scatter":
            rows, entries, zero = (
                tl.reduce_axis(m, name="p"),
                tl.reduce_axis(n, name="q"),
                tl.compute((5,), lambda i: 0.0 * tl.cast(i, "float32")),
            )
            c = tl.scatter(zero, (rows, entries), lambda i, j: (i + j) % 5, lambda i, j: c[i, j])
        case "window":
            padded = tl.pad(c, ((1, 1), (1, 1)))
            di, dj = tl.reduce_axis(3, name="di"), tl.reduce_axis(3, name="dj")
            c = tl.compute((m, n), lambda i, j: tl.sum(padded[i + di, j + dj], axis=(di, dj)), name="W")
    check(c, {})


def test_two_products_of_no_rows() -> None:
    a, b, d = tl.placeholder((0, 12), name="A"), tl.placeholder((12, 19), name="B"), tl.placeholder((19, 5), name="D")
    got = tl.build(tl.ops.matmul(tl.ops.matmul(a, b), d))(*(np.ones(tensor.shape, "f4") for tensor in (a, b, d)))
    assert got.shape == (0, 5)


def test_a_fused_pair_with_an_empty_inner_loop_runs_never() -> None:
    c = tl.compute((3, 0), lambda i, j: tl.cast(i + j, "float64"), name="C")
    s = tl.Schedule(c)
    _, inner = s.split("j", 2)
    s.tile("i", s.loops("C")[1], 7, 5)
    s.fuse("i_o", "j_o_o")
    assert inner in s.loops("C")
    assert tl.build(s)().shape == (3, 0)
