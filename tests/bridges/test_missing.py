"""Without the library on the other side a bridge says what to install; importing it, and the package, needs none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang import graph, kernels
from tensorlang.bridges import jax, packages, torch, tvm_ffi


def kernel() -> kernels.ServedKernel:
    return kernels.compile(kernels.Spec("relu", ((8,),)))


def test_a_library_that_is_missing_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cross in (
        ("torch", lambda: torch.op(kernel(), "a::b")),
        ("torch", lambda: graph.from_torch(None)),
        ("onnx", lambda: graph.from_onnx(None)),
        ("tvm_ffi", lambda: tvm_ffi.export(kernel())),
        ("jax", lambda: jax.function(kernel())),
    ):
        monkeypatch.setitem(sys.modules, name, None)  # as where nothing of that name can be imported
        with pytest.raises(tl.BuildError, match=rf"needs '{name}', which .*python -m pip install 'tensorlang\[{name.replace('_', '-')}\]'"):
            cross()


def test_the_extras_that_messages_name_are_declared() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for extra in ("torch", "tvm-ffi", "jax", "onnx"):
        assert f"\n{extra} = [" in text


def test_a_library_that_fails_to_load_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise ImportError("libother.so is missing")

    monkeypatch.setattr("tensorlang.bridges.packages.import_module", broken)
    with pytest.raises(tl.BuildError, match=r"needs 'torch', which cannot be imported \(libother.so is missing\)"):
        packages.required("torch", "torch")


def test_importing_the_bridges_imports_no_library() -> None:
    code = "import sys; from tensorlang.bridges import jax, torch, tvm_ffi; print({'torch', 'jax', 'tvm_ffi'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
