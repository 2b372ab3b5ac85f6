"""Programs by name: the operators of `tl.ops` at given extents, and a user's own functions.

One row of the table for each operator: its extents with defaults, and the placeholders and call that make it.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tensorlang import ops
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import TensorlangError, TuningError, did_you_mean
from tensorlang.language.definitions import placeholder

Extents: TypeAlias = Mapping[str, int]
Make: TypeAlias = Callable[["Given"], Any]

_IMAGE: Final = {"N": 1, "C": 64, "H": 56, "W": 56}


@dataclass(frozen=True, slots=True)
class Given:
    """Extents by name, and placeholders of the chosen type with them: `given("x", "N", "C")`."""

    extents: Extents
    dtype: str

    def __call__(self, name: str, *shape: str, dtype: str | None = None) -> Tensor:
        """A placeholder whose extents are those named."""
        return placeholder(tuple(self.extents[extent] for extent in shape), dtype or self.dtype, name=name)

    def __getitem__(self, extent: str) -> int:
        return self.extents[extent]


@dataclass(frozen=True, slots=True)
class Operator:
    """A tunable operator: the extents that `--shape` takes, with defaults, and how it is made from them."""

    name: str
    defaults: Extents
    make: Make


def _pool(pool: Callable[..., Tensor]) -> Make:
    return lambda g: pool(g("x", "N", "C", "H", "W"), (g["R"], g["S"]), g["stride"], g["padding"])


def _each(function: Callable[[Tensor], Tensor]) -> Make:
    return lambda g: function(g("x", "N"))


def _conv2d(g: Given) -> Tensor:
    return ops.conv2d(g("x", "N", "C", "H", "W"), g("w", "O", "C", "R", "S"), stride=g["stride"], padding=g["padding"])


def _depthwise(g: Given) -> Tensor:
    weight = placeholder((g["C"], 1, g["R"], g["S"]), g.dtype, name="w")
    return ops.depthwise_conv2d(g("x", "N", "C", "H", "W"), weight, stride=g["stride"], padding=g["padding"])


def _conv1d(g: Given) -> Tensor:
    return ops.conv1d(g("x", "N", "C", "L"), g("w", "O", "C", "R"), stride=g["stride"], padding=g["padding"])


def _transposed(g: Given) -> Tensor:
    return ops.conv2d_transpose(g("x", "N", "C", "H", "W"), g("w", "C", "O", "R", "S"), stride=g["stride"], padding=g["padding"])


def _attention(g: Given) -> Tensor:
    return ops.attention(g("q", "B", "H", "S", "D"), g("k", "B", "H", "T", "D"), g("v", "B", "H", "T", "D"))


def _batch_norm(g: Given) -> Tensor:
    return ops.batch_norm(g("x", "N", "C", "H", "W"), g("mean", "C"), g("var", "C"), g("w", "C"), g("b", "C"))


_GEMM: Final = {"M": 512, "N": 512, "K": 512}
_BATCH: Final = {"B": 8, "M": 128, "N": 128, "K": 128}
_ROWS: Final = {"M": 1024, "N": 1024}
_LINE: Final = {"N": 1 << 20}
_WINDOW: Final = {"R": 3, "S": 3, "stride": 1, "padding": 1}

OPERATORS: Final = {
    row.name: row
    for row in (
        Operator("matmul", _GEMM, lambda g: ops.matmul(g("A", "M", "K"), g("B", "K", "N"))),
        Operator("dense", _GEMM, lambda g: ops.dense(g("x", "M", "K"), g("w", "N", "K"), g("b", "N"))),
        Operator("linear", _GEMM, lambda g: ops.linear(g("x", "M", "K"), g("w", "N", "K"), g("b", "N"))),
        Operator("batch_matmul", _BATCH, lambda g: ops.batch_matmul(g("A", "B", "M", "K"), g("C", "B", "K", "N"))),
        Operator("attention", {"B": 1, "H": 8, "S": 128, "T": 128, "D": 64}, _attention),
        Operator("conv1d", {"N": 1, "C": 64, "L": 1024, "O": 64, "R": 3, "stride": 1, "padding": 1}, _conv1d),
        Operator("conv2d", {**_IMAGE, "O": 64, **_WINDOW}, _conv2d),
        Operator("conv2d_transpose", {**_IMAGE, "H": 28, "W": 28, "O": 64, **_WINDOW, "stride": 2}, _transposed),
        Operator("depthwise_conv2d", {**_IMAGE, **_WINDOW}, _depthwise),
        Operator("max_pool2d", {**_IMAGE, **_WINDOW, "stride": 2}, _pool(ops.max_pool2d)),
        Operator("avg_pool2d", {**_IMAGE, **_WINDOW, "stride": 2}, _pool(ops.avg_pool2d)),
        Operator("resize2d", {**_IMAGE, "OH": 112, "OW": 112}, lambda g: ops.resize2d(g("x", "N", "C", "H", "W"), (g["OH"], g["OW"]))),
        Operator("softmax", _ROWS, lambda g: ops.softmax(g("x", "M", "N"))),
        Operator("log_softmax", _ROWS, lambda g: ops.log_softmax(g("x", "M", "N"))),
        Operator("layer_norm", _ROWS, lambda g: ops.layer_norm(g("x", "M", "N"), g["N"], g("w", "N"), g("b", "N"))),
        Operator("rms_norm", _ROWS, lambda g: ops.rms_norm(g("x", "M", "N"), g["N"], g("w", "N"))),
        Operator("batch_norm", _IMAGE, _batch_norm),
        Operator("group_norm", {**_IMAGE, "G": 8}, lambda g: ops.group_norm(g("x", "N", "C", "H", "W"), g["G"], g("w", "C"), g("b", "C"))),
        Operator("embedding", {"N": 1024, "V": 32000, "D": 512}, lambda g: ops.embedding(g("i", "N", dtype="int64"), g("w", "V", "D"))),
        *(Operator(f.__name__, _LINE, _each(f)) for f in (ops.relu, ops.leaky_relu, ops.sigmoid, ops.tanh, ops.silu, ops.gelu)),
    )
}


def parse_shape(text: str | None) -> dict[str, int]:
    """The extents in `M=512,N=512`. Raises `TuningError` for text that is not of this form."""
    found: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in (text or "").split(","))):
        match = re.fullmatch(r"([A-Za-z_]\w*)\s*=\s*(\d{1,12})", part)
        if match is None:
            raise TuningError(f"--shape: {part!r} is not of the form NAME=NUMBER, as in M=512,N=512")
        found[match[1]] = int(match[2])
    return found


def program(name: str, extents: Extents, dtype: str | None = None) -> tuple[str, Any]:
    """A label and the outputs of an operator by name, or of a function as `file.py:function`, at these extents.

    The function is run here; `definitions.program` runs it where it does no harm.

    Raises `TuningError` for an unknown name or extent, or a file that cannot be used.
    """
    if is_own(name):
        return _own(name, extents, dtype)
    operator = OPERATORS.get(name)
    if operator is None:
        raise TuningError(f"there is no operator {name!r}{did_you_mean(name, OPERATORS) or '; `autotune ops` lists them'}")
    _known(name, extents, operator.defaults)
    return name, operator.make(Given({**operator.defaults, **extents}, dtype or "float32"))


def is_own(name: str) -> bool:
    """Does it name a function of a user's file?"""
    return ":" in name or name.endswith(".py")


def named_extents(name: str, extents: Extents) -> dict[str, int]:
    """What a log calls the extents of a program: an operator's, those that were not given too; of a user's function those given."""
    operator = OPERATORS.get(name)
    return dict(extents) if operator is None else {**operator.defaults, **extents}


def _own(name: str, extents: Extents, dtype: str | None) -> tuple[str, Any]:
    file, _, label = name.rpartition(":")
    path = Path(file)
    if not file or not label or not path.is_file():
        raise TuningError(f"{name!r} is not FILE.py:FUNCTION of a file that exists")
    spec = importlib.util.spec_from_file_location(f"_tuned_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise TuningError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
        function = _function(vars(module), path, label)
        return label, function(**_arguments(name, function, extents, dtype))
    except (TensorlangError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # whatever a user's file does is told in one line
        raise TuningError(f"{name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)


def _function(names: Mapping[str, Any], path: Path, label: str) -> Callable[..., Any]:
    function = names.get(label)
    if not callable(function):
        raise TuningError(f"{path} has no function {label!r}{did_you_mean(label, [name for name in names if callable(names[name])])}")
    made: Callable[..., Any] = function
    return made


def _arguments(name: str, function: Callable[..., Any], extents: Extents, dtype: str | None) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    _known(name, extents, parameters)
    if dtype is not None and "dtype" not in parameters:
        raise TuningError(f"{name} has no parameter dtype")
    given: dict[str, Any] = {**extents, **({} if dtype is None else {"dtype": dtype})}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.kind not in kinds and p.name not in given]
    if missing:
        raise TuningError(f"{name} needs --shape {','.join(f'{entry}=...' for entry in missing)}")
    return given


def _known(name: str, extents: Extents, known: Mapping[str, object]) -> None:
    for extent in extents:
        if extent not in known:
            raise TuningError(f"{name} has no extent {extent!r}{did_you_mean(extent, known)}")
