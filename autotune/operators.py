"""Programs by name: the operators of `tl.ops` at given extents (`ops.table` has a row for each), and a user's own functions."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tensorlang.errors import TensorlangError, TuningError, did_you_mean
from tensorlang.ops.spec import Spec
from tensorlang.ops.table import OPERATORS

Extents: TypeAlias = Mapping[str, int]


def parse_shape(text: str | None) -> dict[str, int]:
    """The extents in `M=512,N=512`. Raises `TuningError` for text that is not of this form."""
    found: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in (text or "").split(","))):
        match = re.fullmatch(r"([A-Za-z_]\w*)\s*=\s*(\d{1,12})", part)
        if match is None:
            raise TuningError(f"--shape: {part!r} is not of the form NAME=NUMBER, as in M=512,N=512")
        if found.setdefault(match[1], int(match[2])) != int(match[2]):
            raise TuningError(f"--shape: {match[1]} is given twice, as {found[match[1]]} and {int(match[2])}")
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
    return name, Spec.at(operator, {**operator.defaults, **extents}, dtype or "float32").define()


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
    if not file or not label:
        raise TuningError(f"{name!r} names no function of a file: it is FILE.py:FUNCTION")
    if not path.is_file():
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
