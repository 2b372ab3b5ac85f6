"""Exported kernels of the library: a caller's names over shared code, operands and results where they were said to lie."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tests.codegen.exported import STRICT, DLTensor, longs, needs_cc, run, tensor

pytestmark = needs_cc

Array = Any
BAD_SHAPE = 5
rng = np.random.default_rng(0)
LEFT, RIGHT = rng.random((4, 8), np.float32), rng.random((8, 5), np.float32)


def product(left: str, right: str, name: str) -> tl.Tensor:
    a, b = tl.placeholder((4, 8), name=left), tl.placeholder((8, 5), name=right)
    k = tl.reduce_axis(8, name="k")
    made: tl.Tensor = tl.compute((4, 5), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name=name)
    return made


def lying(array: Array) -> DLTensor:
    """An array as it lies in memory."""
    return tensor(array, strides=longs(*(step // array.itemsize for step in array.strides)))


def libraries(kernel: tl.Kernel, folder: Path) -> list[ctypes.CDLL]:
    """The machine code and the C source of a kernel."""
    kernel.export(folder)
    run("cc", *STRICT, "-O2", "-shared", "-fPIC", "-o", "source.so", f"{kernel.name}.c", "-lm", folder=folder)
    return [ctypes.CDLL(str(folder / name)) for name in (f"{kernel.name}.so", "source.so")]


def plain(library: ctypes.CDLL, name: str, *arrays: Array) -> int:
    return int(library[name](*(ctypes.c_void_p(array.ctypes.data) for array in arrays)))


def tensors(library: ctypes.CDLL, name: str, *given: DLTensor) -> int:
    return int(library[f"{name}_dltensor"](*map(ctypes.byref, given)))


def test_a_kernel_under_other_names_over_shared_code_is_exported_under_its_own(tmp_path: Path) -> None:
    first, second = (kernels.compile(product(*names)) for names in (("A", "B", "one"), ("P", "Q", "two")))
    assert first.program.compiled_as.name == second.program.compiled_as.name
    for kernel in (first, second):
        for library in libraries(kernel, tmp_path / kernel.name):
            out = np.full((4, 5), np.nan, np.float32)
            assert plain(library, kernel.name, LEFT, RIGHT, out) == 0
            np.testing.assert_allclose(out, LEFT @ RIGHT, rtol=1e-5)
    assert "const float *P, const float *Q, float *out_two" in (tmp_path / "two" / "two.h").read_text()


def test_operands_and_results_lie_where_the_kernel_was_asked_to_have_them(tmp_path: Path) -> None:
    kernel = kernels.compile(product("P", "Q", "half"), strides={"Q": (1, 8), "half": (10, 1)})
    told = json.loads(kernel.export(tmp_path, formats=("json",))["json"].read_text())
    assert told["inputs"][1]["strides"] == [1, 8] and told["outputs"][0]["strides"] == [10, 1] and "strides" not in told["inputs"][0]
    turned = np.asfortranarray(RIGHT)
    for library in libraries(kernel, tmp_path):
        both = np.zeros((4, 10), np.float32)
        assert plain(library, "half", LEFT, turned, both) == 0
        np.testing.assert_allclose(both[:, :5], LEFT @ RIGHT, rtol=1e-5)
        assert not both[:, 5:].any()
        both[:] = 0
        assert tensors(library, "half", tensor(LEFT), lying(turned), lying(both[:, 5:])) == 0
        np.testing.assert_allclose(both[:, 5:], LEFT @ RIGHT, rtol=1e-5)
        assert not both[:, :5].any()
        for wrong in (
            (lying(LEFT), lying(RIGHT), lying(both[:, :5])),
            (lying(LEFT), tensor(turned), lying(both[:, :5])),
            (lying(LEFT), lying(turned), lying(np.zeros((4, 5), np.float32))),
            (lying(np.asfortranarray(LEFT)), lying(turned), lying(both[:, :5])),
        ):
            assert tensors(library, "half", *wrong) == BAD_SHAPE


def test_strides_of_axes_of_one_element_do_not_matter(tmp_path: Path) -> None:
    x = tl.placeholder((1, 6), name="x")
    kernel = kernels.compile(tl.compute((1, 6), lambda i, j: x[i, j] + 1.0, name="more"), strides={"x": (12, 2)})
    apart = rng.random((1, 12), np.float32)[:, ::2]
    for library in libraries(kernel, tmp_path):
        for row in (apart, apart.reshape(6)[None]):
            out = np.empty((1, 6), np.float32)
            assert tensors(library, "more", lying(row), lying(out)) == 0
            np.testing.assert_array_equal(out, row + 1)


def test_a_result_is_written_where_its_operand_lies(tmp_path: Path) -> None:
    kernel = kernels.compile(kernels.Spec("softmax", ((4, 6),)), over={"softmax": "x"})
    told = json.loads(kernel.export(tmp_path, formats=("json",))["json"].read_text())
    assert told["outputs"][0]["over"] == "x"
    for library in libraries(kernel, tmp_path):
        rows = rng.random((4, 6), np.float32)
        wanted = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
        assert plain(library, "softmax", rows, rows) == 0
        np.testing.assert_allclose(rows, wanted, rtol=1e-5)
    header, source = ((tmp_path / f"softmax.{form}").read_text() for form in ("h", "c"))
    assert "may lie where x lies" in header and "restrict" not in source


@pytest.mark.parametrize("targets", [(), ("x86-64-v2", "x86-64-v3")])
def test_what_lies_in_an_order_of_its_own_has_several_levels_too(tmp_path: Path, targets: tuple[str, ...]) -> None:
    kernel = kernels.compile(product("P", "Q", "levels"), strides={"Q": (1, 8)})
    if kernel.target.arch != "x86_64" and targets:
        pytest.skip("levels of x86-64")
    kernel.export(tmp_path, formats=("so",), targets=targets)
    out = np.empty((4, 5), np.float32)
    assert plain(ctypes.CDLL(str(tmp_path / "levels.so")), "levels", LEFT, np.asfortranarray(RIGHT), out) == 0
    np.testing.assert_allclose(out, LEFT @ RIGHT, rtol=1e-5)
