"""tensorlang: operators as index expressions, schedules as checked directives, native kernels, and a tuner that finds the schedule.

What is computed is written with `placeholder`, `compute` and reducers; when and where with `Schedule`; `build` and `compile` make
kernels. Everything that a user types is importable from here; the parts that cost import time are loaded on use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tensorlang import forks as _forks
from tensorlang.bound import buffer
from tensorlang.boundary import pad
from tensorlang.definitions import compute, placeholder, reduce_axis
from tensorlang.dtype import DType, dtype
from tensorlang.elementary import (
    abs,  # noqa: A004 - the names users expect
    acos,
    asin,
    atan,
    atan2,
    ceil,
    clamp,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    fmax,
    fmin,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    pow,  # noqa: A004
    round,  # noqa: A004
    rsqrt,
    select,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from tensorlang.errors import BuildError, CallError, DefinitionError, InternalError, LogError, ScheduleError, TensorlangError, TuningError
from tensorlang.expr import Expr, cast
from tensorlang.extent import Dim, dim
from tensorlang.recurrence import recurrence
from tensorlang.reducer import reducer
from tensorlang.reduction import (
    all,  # noqa: A004
    any,  # noqa: A004
    argmax,
    argmin,
    max,  # noqa: A004
    mean,
    min,  # noqa: A004
    prod,
    reduce_fmax,
    reduce_fmin,
    sum,  # noqa: A004
)
from tensorlang.scan import scan
from tensorlang.scatter import scatter
from tensorlang.tensor import Tensor

if TYPE_CHECKING:
    from tensorlang import ops as ops
    from tensorlang.autotune.jobs.compile import compile as compile  # noqa: A004
    from tensorlang.codegen.build import build as build
    from tensorlang.codegen.kernel import Kernel as Kernel
    from tensorlang.codegen.kernel import load as load
    from tensorlang.codegen.target import target as target
    from tensorlang.codegen.threads import get_threads as get_threads
    from tensorlang.codegen.threads import set_threads as set_threads
    from tensorlang.einstein import einsum as einsum
    from tensorlang.interpret import evaluate as evaluate
    from tensorlang.notation import tc as tc
    from tensorlang.schedules.instructions import Instruction as Instruction
    from tensorlang.schedules.schedule import Schedule as Schedule
    from tensorlang.schedules.schedule import Verdict as Verdict

__version__ = "0.1.0"

_ON_USE = {
    "Instruction": "tensorlang.schedules.instructions",
    "Kernel": "tensorlang.codegen.kernel",
    "Schedule": "tensorlang.schedules.schedule",
    "Verdict": "tensorlang.schedules.schedule",
    "build": "tensorlang.codegen.build",
    "compile": "tensorlang.autotune.jobs.compile",
    "einsum": "tensorlang.einstein",
    "evaluate": "tensorlang.interpret",
    "get_threads": "tensorlang.codegen.threads",
    "load": "tensorlang.codegen.kernel",
    "ops": "tensorlang.ops",
    "tc": "tensorlang.notation",
    "set_threads": "tensorlang.codegen.threads",
    "target": "tensorlang.codegen.target",
}

__all__ = [
    "BuildError",
    "CallError",
    "DType",
    "DefinitionError",
    "Dim",
    "Expr",
    "Instruction",
    "InternalError",
    "Kernel",
    "LogError",
    "Schedule",
    "ScheduleError",
    "Tensor",
    "TensorlangError",
    "TuningError",
    "Verdict",
    "abs",
    "acos",
    "all",
    "any",
    "argmax",
    "argmin",
    "asin",
    "atan",
    "atan2",
    "buffer",
    "build",
    "cast",
    "ceil",
    "clamp",
    "compile",
    "compute",
    "cos",
    "cosh",
    "dim",
    "dtype",
    "einsum",
    "erf",
    "evaluate",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmax",
    "fmin",
    "get_threads",
    "isfinite",
    "isinf",
    "isnan",
    "load",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "ops",
    "pad",
    "placeholder",
    "pow",
    "prod",
    "recurrence",
    "reduce_axis",
    "reduce_fmax",
    "reduce_fmin",
    "reducer",
    "round",
    "rsqrt",
    "scan",
    "scatter",
    "select",
    "set_threads",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "target",
    "tc",
    "trunc",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    where = _ON_USE.get(name)
    if where is None:
        raise AttributeError(f"module 'tensorlang' has no attribute {name!r}")
    with _forks.loading:
        module = importlib.import_module(where)
    value = module if where == f"tensorlang.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
