"""A saved kernel outlives its version of LLVM and its processor: it is built again from the definition and the schedule in its file."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels as library
from tensorlang.codegen.kernel import kernel as kernels
from tests.codegen.cached import edited

n = tl.dim("n", 1, 50)


def scheduled() -> tl.Kernel:
    A, B = tl.placeholder((n, 12), name="A"), tl.placeholder((12,), name="B")
    s = tl.Schedule(tl.compute((n, 12), lambda i, j: A[i, j] * B[j], name="C"))
    s.vectorize(s.split("j", 4)[1])
    return tl.build(s, name="scaled", inputs=[B, A])


def default() -> tl.Kernel:
    return tl.build(tl.ops.matmul(tl.placeholder((9, 12), name="A"), tl.placeholder((12, 7), name="B"), name="C"), name="mm")


OTHERS = {
    "another LLVM": lambda header: header.update(llvm="3.1"),
    "another llvmlite": lambda header: header.update(llvmlite="0.1"),
    "another platform": lambda header: header["target"].__setitem__(0, "aarch64-unknown-linux-gnu"),
    "another processor": lambda header: header["target"].__setitem__(2, header["target"][2] + ",+avx10.2"),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("make", [scheduled, default])
def test_a_kernel_from_elsewhere_is_built_again_and_says_so(tmp_path: Any, caplog: Any, make: Any, change: Any) -> None:
    kernel, path = make(), tmp_path / "kernel.tlk"
    kernel.save(path)
    edited(path, change)
    kernels.forget()
    with caplog.at_level(logging.WARNING, logger="tensorlang"):
        again = tl.load(path)
    assert [record.getMessage().count("\n") for record in caplog.records] == [0]
    assert "built again" in caplog.text
    assert again.signature == kernel.signature
    assert again.inspect() == kernel.inspect()
    rng = np.random.default_rng(1)
    operands = (
        [rng.random((12,), "f4"), rng.random((30, 12), "f4")]
        if make is scheduled
        else [rng.random((9, 12), "f4"), rng.random((12, 7), "f4")]
    )
    np.testing.assert_array_equal(again(*operands), kernel(*operands))


def test_a_kernel_that_shares_code_is_built_again_under_its_own_names(tmp_path: Any) -> None:
    first, second = tl.placeholder((9, 12), name="A"), tl.placeholder((12, 7), name="B")
    built = library.compile(tl.ops.matmul(first, second, name="C"))
    right, left = tl.placeholder((12, 7), name="weight"), tl.placeholder((9, 12), name="data")
    kernel, path = library.compile(tl.ops.matmul(left, right, name="out"), inputs=[right, left]), tmp_path / "kernel.tlk"
    assert kernel.address == built.address
    assert kernel.program.code is not None
    kernel.save(path)
    edited(path, OTHERS["another LLVM"])
    kernels.forget()
    again = tl.load(path)
    assert again.signature == kernel.signature
    x, w = np.random.default_rng(1).random((9, 12), "f4"), np.random.default_rng(2).random((12, 7), "f4")
    np.testing.assert_array_equal(again(w, x), kernel(weight=w, data=x))


def test_a_fixed_operand_is_in_the_file(tmp_path: Any) -> None:
    w = np.arange(6, dtype="f4")
    x, W = tl.placeholder((6,), name="x"), tl.buffer(w, name="W")
    tl.build(tl.compute((6,), lambda i: x[i] + W[i], name="y"), name="fixed").save(tmp_path / "fixed.tlk")
    edited(tmp_path / "fixed.tlk", OTHERS["another LLVM"])
    w[:] = 0  # the file has what was there
    np.testing.assert_array_equal(tl.load(tmp_path / "fixed.tlk")(np.ones(6, "f4")), np.arange(6) + 1)


def test_a_kernel_for_its_own_target_is_built_again_for_that(tmp_path: Any) -> None:
    if not tl.target("x86-64-v2").is_native:
        pytest.skip("the test names x86-64")
    A = tl.placeholder((8,), name="A")
    tl.build(tl.compute((8,), lambda i: A[i] + 1.0, name="B"), target="x86-64-v2").save(tmp_path / "b.tlk")
    edited(tmp_path / "b.tlk", OTHERS["another LLVM"])
    assert tl.load(tmp_path / "b.tlk").target.cpu == "x86-64-v2"


@pytest.mark.parametrize(
    "recipe",
    [
        ["", None],
        ["{}", None],
        ["[" * 5000, None],
        ["null", "null"],
        ['{"schema": 1, "definitions": [], "reducers": [], "outputs": [0]}', None],
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(tmp_path: Any, recipe: Any) -> None:
    default().save(tmp_path / "mm.tlk")
    edited(tmp_path / "mm.tlk", lambda header: header.update(llvm="3.1", recipe=recipe))
    with pytest.raises(tl.BuildError, match="it cannot be built again"):
        tl.load(tmp_path / "mm.tlk")


@pytest.mark.parametrize("recipe", [3, [], ["a"], [3, None], ["a", 3], "text", {"definition": ""}])
def test_a_recipe_of_another_form_is_a_header_that_makes_no_sense(tmp_path: Any, recipe: Any) -> None:
    default().save(tmp_path / "mm.tlk")
    edited(tmp_path / "mm.tlk", lambda header: header.update(recipe=recipe))
    with pytest.raises(tl.BuildError, match="header makes no sense: recipe"):
        tl.load(tmp_path / "mm.tlk")


def test_the_definition_of_another_kernel_is_refused(tmp_path: Any) -> None:
    default().save(tmp_path / "mm.tlk")
    other = tl.build(tl.ops.relu(tl.placeholder((4,), name="X"))).program.recipe()
    assert other is not None
    edited(tmp_path / "mm.tlk", lambda header: header.update(llvm="3.1", recipe=[other.definition, None]))
    with pytest.raises(tl.BuildError, match="the definition reads"):
        tl.load(tmp_path / "mm.tlk")


def test_a_packed_kernel_has_no_recipe_and_says_that_it_has_to_be_built(tmp_path: Any) -> None:
    packed = default().prepack(B=np.ones((12, 7), "f4"))
    packed.save(tmp_path / "mm.tlk")
    edited(tmp_path / "mm.tlk", OTHERS["another LLVM"])
    with pytest.raises(tl.BuildError, match="build the kernel again$"):
        tl.load(tmp_path / "mm.tlk")
