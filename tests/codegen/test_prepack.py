"""A constant operand is packed once: the kernel without it computes the same, and the panels are what the schedule reads."""

import numpy as np
import pytest
import scipy

import tensorlang as tl
from tests.thinned import crossed

RNG = np.random.default_rng(0)


def rand(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return RNG.random(shape, np.float32)


def product(m: int, n: int, k: int, *, turned: bool = False) -> tl.Tensor:
    a, b = tl.placeholder((m, k), name="A"), tl.placeholder((n, k) if turned else (k, n), name="B")
    along = tl.reduce_axis(k, name="k")
    result: tl.Tensor = tl.compute(
        (m, n), lambda i, j: tl.sum(a[i, along] * (b[j, along] if turned else b[along, j]), axis=along), name="C"
    )
    return result


@crossed(
    {
        "shape": [(1, 1, 1), (5, 7, 3), (64, 96, 33), (130, 70, 257), (0, 4, 2), (4, 0, 2), (4, 3, 0)],
        "turned": [False, True],
        "name": ["A", "B"],
    }
)
def test_a_product_with_either_operand_fixed(shape: tuple[int, int, int], turned: bool, name: str) -> None:
    m, n, k = shape
    values = {"A": rand(m, k), "B": rand(*((n, k) if turned else (k, n)))}
    constant = values.pop(name)
    kernel = tl.build(product(m, n, k, turned=turned)).prepack(**{name: constant})
    (other,) = values.values()
    a, b = (constant, other) if name == "A" else (other, constant)
    np.testing.assert_allclose(kernel(other), a @ (b.T if turned else b), rtol=1e-4)


def test_both_operands_at_once_and_one_after_the_other() -> None:
    a, b = rand(33, 20), rand(20, 50)
    kernel = tl.build(product(33, 50, 20))
    np.testing.assert_allclose(kernel.prepack(A=a, B=b)(), a @ b, rtol=1e-4)
    np.testing.assert_allclose(kernel.prepack(B=b).prepack(A=a)(), a @ b, rtol=1e-4)


def test_the_panels_of_a_given_schedule_become_one_tensor() -> None:
    s = tl.Schedule(product(40, 70, 30))
    j_o, j_i = s.split("j", 32)
    k_o, k_i = s.split("k", 8)
    s.reorder(j_o, k_o, "i", k_i, j_i)
    s.pack("B", at=k_o)
    kernel = tl.build(s).prepack(B=(b := rand(30, 70)))
    assert "B_packed: float32[3, 4, 8, 32]" in kernel.inspect("nest")
    assert "B_pack:" not in kernel.inspect("nest")
    np.testing.assert_allclose(kernel(a := rand(40, 30)), a @ b, rtol=1e-4)


def test_an_operand_that_is_not_copied_or_read_twice_is_only_bound() -> None:
    x = tl.placeholder((9,), name="X")
    w = tl.placeholder((9,), name="W")
    kernel = tl.build(tl.compute((9,), lambda i: x[i] * w[i] + w[8 - i], name="Y"))
    values, weights = rand(9), rand(9)
    np.testing.assert_allclose(kernel.prepack(W=weights)(values), values * weights + weights[::-1], rtol=1e-6)


def test_the_values_are_those_of_the_moment() -> None:
    a, b = rand(8, 8), rand(8, 8)
    kernel, want = tl.build(product(8, 8, 8)).prepack(B=b), a @ b
    b[:] = 0
    np.testing.assert_allclose(kernel(a), want, rtol=1e-5)


def test_a_convolution_with_its_weights_packed() -> None:
    x, w = rand(1, 5, 14, 14), rand(33, 5, 3, 3)
    kernel = tl.build(tl.ops.conv2d(tl.placeholder(x.shape, name="X"), tl.placeholder(w.shape, name="W"), padding=1))
    got = kernel.prepack(W=w)(x)
    for o in range(33):
        want = sum(scipy.signal.correlate(np.pad(x[0, c], 1), w[o, c], "valid") for c in range(5))
        np.testing.assert_allclose(got[0, o], want, rtol=1e-4)


def test_a_prepacked_kernel_is_saved_with_its_constant(tmp_path_factory: pytest.TempPathFactory) -> None:
    a, b = rand(20, 30), rand(30, 40)
    path = tmp_path_factory.mktemp("kernels") / "product.tlk"
    tl.build(product(20, 40, 30)).prepack(B=b).save(path)
    np.testing.assert_allclose(tl.load(path)(a), a @ b, rtol=1e-4)
    loaded = tl.build(product(20, 40, 30))
    loaded.save(path)
    np.testing.assert_allclose(tl.load(path).prepack(B=b)(a), a @ b, rtol=1e-4)


def test_wrong_constants_are_refused_by_name() -> None:
    kernel = tl.build(product(8, 8, 8))
    with pytest.raises(tl.CallError, match="'Bee', which is no input.*'B'"):
        kernel.prepack(Bee=rand(8, 8))
    with pytest.raises(tl.CallError, match=r"B.*float32\[8, 8\]"):
        kernel.prepack(B=rand(8, 9))
    with pytest.raises(tl.CallError, match="B"):
        kernel.prepack(B=np.zeros((8, 8)))
    with pytest.raises(tl.CallError, match="by name"):
        kernel.prepack()
    n = tl.dim("n")
    x, w = tl.placeholder((n,), name="X"), tl.placeholder((n,), name="W")
    with pytest.raises(tl.CallError, match="only at run time"):
        tl.build(tl.compute((n,), lambda i: x[i] * w[i], name="Y")).prepack(W=rand(3))
