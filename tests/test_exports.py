"""The public names are those of the contract, each can be loaded, and loading the package loads little."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tensorlang as tl
from tensorlang.ir.functions import FUNCTIONS

LANGUAGE = {"buffer", "cast", "clamp", "compute", "dim", "dtype", "einsum", "evaluate", "pad", "placeholder", "recurrence", "reduce_axis"}
LANGUAGE |= {
    "reducer",
    "scan",
    "scatter",
    "select",
    "tc",
    "minimum",
    "maximum",
    "fmin",
    "fmax",
    "abs",
    "sign",
    "ops",
    *FUNCTIONS,
}
LANGUAGE |= {"sum", "prod", "mean", "max", "min", "reduce_fmax", "reduce_fmin", "any", "all", "argmax", "argmin"}
MACHINE = {
    "build",
    "compile",
    "get_threads",
    "load",
    "machine",
    "release_workspaces",
    "set_threads",
    "set_workspace_limit",
    "target",
    "visualize",
}
TYPES = {"DType", "Dim", "Expr", "Instruction", "Kernel", "Schedule", "Space", "Tensor", "Verdict"}
ERRORS = {"BuildError", "CallError", "DefinitionError", "GraphError", "InternalError"}
ERRORS |= {"LogError", "ScheduleError", "TensorlangError", "TuningError"}


def test_the_public_names_are_pinned() -> None:
    assert set(tl.__all__) == LANGUAGE | MACHINE | TYPES | ERRORS
    assert sorted(tl.__all__) == dir(tl)


def test_every_public_name_loads() -> None:
    for name in tl.__all__:
        assert getattr(tl, name) is not None


def test_every_error_of_the_user_is_a_tensorlang_error() -> None:
    for name in ERRORS - {"InternalError"}:
        assert issubclass(getattr(tl, name), tl.TensorlangError)
    assert not issubclass(tl.InternalError, tl.TensorlangError)


def test_importing_the_package_loads_no_compiler_and_no_tuner() -> None:
    heavy = ("skopt", "sklearn", "pandas", "scipy", "llvmlite", "islpy", "rich", "typer", "ml_dtypes", "msgspec", "jinja2", "platformdirs")
    code = f"import sys, tensorlang; sys.exit(' '.join(name for name in {heavy} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.strip() == ""


def test_names_that_nobody_has_are_refused_as_python_refuses_them() -> None:
    with pytest.raises(AttributeError, match="^module 'tensorlang' has no attribute 'nothing_of_the_kind'$"):
        tl.nothing_of_the_kind  # noqa: B018 # type: ignore[attr-defined]
