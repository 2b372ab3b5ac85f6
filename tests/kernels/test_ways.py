"""However a kernel was got, it does what kernels do: it is called, fixed, exported, saved and sent, under names of who asked for it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels

rng = np.random.default_rng(0)
LEFT, RIGHT = rng.random((4, 8), np.float32), rng.random((8, 5), np.float32)


def product(left: str = "P", right: str = "Q", name: str = "mine", rows: int | tl.Dim = 4) -> tl.Tensor:
    a, b = tl.placeholder((rows, 8), name=left), tl.placeholder((8, 5), name=right)
    k = tl.reduce_axis(8, name="k")
    made: tl.Tensor = tl.compute((rows, 5), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name=name)
    return made


def renamed() -> tl.Kernel:
    """A kernel over the code of another one."""
    kernels.compile(product("A", "B", "first"))
    return kernels.compile(product())


WAYS: dict[str, Callable[[], tl.Kernel]] = {
    "built": lambda: tl.build(product()),
    "compiled": lambda: tl.compile(product()),
    "compiled by the library": lambda: kernels.compile(product()),
    "under other names": renamed,
    "without optimising": lambda: kernels.compile(product(), level="O0"),
    "of a specification": lambda: kernels.compile(kernels.Spec("matmul", ((4, 8), (8, 5)))),
    "by a name of its own": lambda: kernels.compile(kernels.Spec("matmul", ((4, 8), (8, 5))), name="layer_7"),
    "with an epilogue": lambda: kernels.compile(
        kernels.Spec("matmul", ((4, 8), (8, 5))), epilogue=lambda value, *_: tl.maximum(value, 0.0)
    ),
    "to be packed": lambda: kernels.compile(product(), constants=("Q",)),
    "of bounded extents": lambda: kernels.compile(product(rows=tl.dim("n", 1, 64))),
    "of two threads": lambda: kernels.compile(product(), threads=2),
}


def loaded(kernel: tl.Kernel, folder: Path) -> tl.Kernel:
    kernel.save(folder / "kernel.tlk")
    return tl.load(folder / "kernel.tlk")


def test_a_kernel_has_the_name_that_it_was_given_over_shared_code(tmp_path: Path) -> None:
    spec = kernels.Spec("tanh", ((4, 6),))
    plain, named = kernels.compile(spec), kernels.compile(spec, name="activation")
    assert (plain.name, named.name) == ("tanh", "activation") and plain.program.compiled_as == named.program.compiled_as
    with pytest.raises(tl.BuildError, match="the C library has a function of this name; build it with name="):
        plain.export(tmp_path, formats=("h",))
    assert "activation_dltensor" in named.export(tmp_path, formats=("h",))["h"].read_text()
    with pytest.raises(tl.CallError, match="^activation"):
        named(np.zeros((3, 3), np.float32))
    for name in ("7", "two words", "int", 3):
        with pytest.raises(tl.BuildError, match="cannot name a kernel"):
            kernels.compile(spec, name=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
def test_a_kernel_does_what_kernels_do_however_it_was_got(way: str, tmp_path: Path) -> None:
    kernel = WAYS[way]()
    left, right = (argument.name for argument in kernel.program.signature.passed)
    fixed = kernel.prepack(**{right: RIGHT})
    out = np.empty((4, 5), np.float32)
    results = {
        "called": kernel(LEFT, RIGHT),
        "called by names": kernel(**{right: RIGHT, left: LEFT}),
        "bound": (kernel.bind(LEFT, RIGHT, out=out)(), out)[1],
        "fixed": fixed(LEFT),
        "fixed anew": fixed.repack(**{right: RIGHT * 2})(LEFT) / 2,
        "loaded": loaded(kernel, tmp_path)(LEFT, RIGHT),
        "loaded with what is fixed": loaded(fixed, tmp_path)(LEFT),
        "sent": pickle.loads(pickle.dumps(kernel))(LEFT, RIGHT),  # noqa: S301 - our own
    }
    for what, found in results.items():
        np.testing.assert_allclose(found, LEFT @ RIGHT, rtol=1e-5, err_msg=what)
    for one, operands in ((kernel, f"const float *{left}, const float *{right}, "), (fixed, f"const float *{left}, ")):
        files = one.export(tmp_path / "files", formats=("o", "a", "h", "c", "ll", "json"))
        assert f"int32_t {kernel.name}({operands}float *" in files["h"].read_text()
    assert str(kernel.program.signature) in repr(kernel)


def test_a_header_names_the_operands_in_the_order_of_its_prototype(tmp_path: Path) -> None:
    """An operand that only a prologue reads comes second in C, in the order of first use, and last in a call."""
    a, b, v = (tl.placeholder(shape, name=name) for shape, name in (((9, 17), "A"), ((17, 33), "B"), ((17,), "v")))
    kernel = kernels.compile(tl.ops.matmul(a, b), prologue={"A": lambda value, i, k: value * v[k]})
    kernel.export(tmp_path, formats=("h",))
    (header,) = tmp_path.glob("*.h")
    comment, *_, prototype = (line for line in header.read_text().splitlines() if f"{kernel.name}(" in line and "dltensor" not in line)
    order = ("A", "v", "B")
    assert sorted(order, key=lambda name: comment.index(f"{name}: float32[")) == list(order)
    assert sorted(order, key=lambda name: prototype.index(f"*{name}")) == list(order)
