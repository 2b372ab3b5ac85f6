"""A saved kernel loads as it was, or is refused; a damaged byte never runs."""

import json
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensorlang import ir
from tensorlang.codegen.cache import archive
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.kernel.loading import load
from tensorlang.codegen.target import target
from tensorlang.errors import BuildError
from tests.codegen import handmade
from tests.codegen.cached import edited
from tests.codegen.handmade import argument

a, b = np.arange(16, dtype="f4"), np.linspace(0, 1, 16, dtype="f4")


@pytest.fixture
def saved(tmp_path: Any) -> Any:
    path = tmp_path / "add.tlk"
    handmade.add().save(path)
    return path


def test_a_saved_kernel_loads_as_it_was(saved: Any) -> None:
    kernel, again = handmade.add(), load(saved)
    np.testing.assert_array_equal(again(a, b), kernel(a, b))
    assert again.cost() == kernel.cost()
    assert again.signature == kernel.signature
    assert again.target == kernel.target
    assert [again.inspect(form) for form in ("nest", "llvm", "asm")] == [kernel.inspect(form) for form in ("nest", "llvm", "asm")]
    assert [path.name for path in saved.parent.iterdir()] == ["add.tlk"]


def test_saving_twice_gives_the_same_bytes(saved: Any) -> None:
    data = saved.read_bytes()
    load(saved).save(str(saved))
    assert saved.read_bytes() == data


def test_every_damaged_byte_is_noticed(saved: Any) -> None:
    data = saved.read_bytes()
    for at in range(0, len(data), 7):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        with pytest.raises(BuildError):
            archive.decode(bytes(broken))


@pytest.mark.parametrize("cut", [0, 1, 8, 39, 40, 48, 500, -1])
def test_a_truncated_or_longer_file_is_refused(saved: Any, cut: Any) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[:cut])
    with pytest.raises(BuildError, match="no kernel can be loaded from"):
        load(saved)
    saved.write_bytes(data + b"\0")
    with pytest.raises(BuildError, match="damaged"):
        load(saved)


@pytest.mark.parametrize("path", ["/nowhere/at/all.tlk", "/", "/dev/null", "", "\0", 3.5, None])
def test_a_path_that_cannot_be_read_is_a_build_error(path: Any) -> None:
    with pytest.raises(BuildError, match="no kernel can be loaded"):
        load(path)


@pytest.mark.parametrize("path", ["/nowhere/at/all.tlk", "/proc/kernel.tlk", "\0", None])
def test_a_path_that_cannot_be_written_is_a_build_error(path: Any) -> None:
    with pytest.raises(BuildError, match="cannot be saved"):
        handmade.add().save(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h: h.update(schema=99), "saved with schema 99"),
        (lambda h: h.update(llvmlite="0.1"), "llvmlite 0.1, this is llvmlite"),
        (lambda h: h.update(llvm="3.1"), "build the kernel again"),
        (lambda h: h["target"].__setitem__(0, "aarch64-unknown-linux-gnu"), "it was built for aarch64"),
        (lambda h: h["target"].__setitem__(0, "nonsense"), "nonsense"),
        (lambda h: h["target"].__setitem__(2, h["target"][2] + ",+avx10.2"), "lacks avx10.2"),
        (lambda h: h.pop("signature"), "header"),
        (lambda h: h.update(flops=["pow", 1, 2]), "header"),
        (lambda h: h.update(target=3), "header"),
        (lambda h: h["signature"]["inputs"].append(["X", [1], "float99"]), "header"),
        (lambda h: h.update(bound=[["B", "float32", [1000]]]), "header"),
    ],
)
def test_a_file_for_something_else_is_refused(saved: Any, change: Any, match: Any) -> None:
    edited(saved, change)
    with pytest.raises(BuildError, match=match):
        load(saved)


def test_tuning_features_do_not_matter(saved: Any) -> None:
    edited(saved, lambda header: header["target"].__setitem__(2, header["target"][2] + ",+prefer-256-bit"))
    np.testing.assert_array_equal(load(saved)(a, b), a + b)


def test_a_foreign_kernel_is_saved_but_not_loaded_here(tmp_path: Any) -> None:
    kernel = handmade.build(handmade.ADD_16, handmade.add().program.signature, on="aarch64-linux-gnu:cortex-a72")
    kernel.save(tmp_path / "arm.tlk")
    with pytest.raises(BuildError, match="cortex-a72"):
        load(tmp_path / "arm.tlk")


def test_bound_arrays_and_dims_are_saved(tmp_path: Any) -> None:
    kernel = Kernel(replace(handmade.add().program, bound={"B": b}, provenance="tuned", workspace_bytes=64))
    kernel.save(tmp_path / "bound.tlk")
    again = load(tmp_path / "bound.tlk")
    np.testing.assert_array_equal(again(a), a + b)
    assert (again.provenance, again.workspace_bytes) == ("tuned", 64)
    handmade.copy("n", dims=("n",)).save(tmp_path / "copy.tlk")
    np.testing.assert_array_equal(load(tmp_path / "copy.tlk")(a), a)


def test_a_signature_goes_through_json() -> None:
    n = ir.Dim("n")
    extents: list[ir.Expr] = [
        n,
        ir.const(3),
        *(ir.Binary(op, n, ir.const(2)) for op in ("add", "sub", "mul", "floordiv", "mod", "max", "min")),
        ir.Unary("neg", n),
    ]
    signature = Signature("f", (argument("A", *extents),), (argument("C", dtype="bfloat16"),), ("n",))
    assert Signature.from_json(json.loads(json.dumps(signature.to_json()))) == signature


def test_a_failed_save_leaves_the_old_file(saved: Any, monkeypatch: Any) -> None:
    data = saved.read_bytes()

    def full(_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BuildError, match="No space left"):
        handmade.copy(3).save(saved)
    assert saved.read_bytes() == data
    assert [path.name for path in saved.parent.iterdir()] == ["add.tlk"]


def test_the_cpu_of_the_file_is_kept(saved: Any) -> None:
    assert load(saved).target.name == target().name
