"""tensorlang: operators as index expressions, schedules as checked directives, native kernels, and a tuner that finds the schedule.

What is computed is written with `placeholder`, `compute` and reducers; when and where with `Schedule`; `build` and `compile` make
kernels. Everything that a user types is importable from here; the parts that cost import time are loaded on use.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from tensorlang.definition.elementary import (
    abs,
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
    pow,
    round,
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
from tensorlang.definition.expr import Expr, cast
from tensorlang.definition.extent import Dim, dim
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import (
    BuildError,
    CallError,
    DefinitionError,
    GraphError,
    InternalError,
    LogError,
    ScheduleError,
    TensorlangError,
    TuningError,
)
from tensorlang.ir.dtype import DType, dtype
from tensorlang.language.boundary import pad
from tensorlang.language.constants import buffer
from tensorlang.language.definitions import compute, placeholder, reduce_axis
from tensorlang.language.recurrence import recurrence
from tensorlang.language.reducer import reducer
from tensorlang.language.reduction import all, any, argmax, argmin, max, mean, min, prod, reduce_fmax, reduce_fmin, sum
from tensorlang.language.scan import scan
from tensorlang.language.scatter import scatter
from tensorlang.system import forks as _forks

if TYPE_CHECKING:
    from tensorlang import ops as ops
    from tensorlang.autotune.jobs.compile import compile as compile
    from tensorlang.codegen.kernel.build import build as build
    from tensorlang.codegen.kernel.kernel import Kernel as Kernel
    from tensorlang.codegen.kernel.loading import load as load
    from tensorlang.codegen.pictures.page import visualize as visualize
    from tensorlang.codegen.runtime.threads import get_threads as get_threads, set_threads as set_threads
    from tensorlang.codegen.runtime.workspaces import (
        release_workspaces as release_workspaces,
        set_workspace_limit as set_workspace_limit,
    )
    from tensorlang.codegen.target import machine as machine, target as target
    from tensorlang.language.einstein import einsum as einsum
    from tensorlang.language.notation import tc as tc
    from tensorlang.schedules.directives.instructions import Instruction as Instruction
    from tensorlang.schedules.schedule import Schedule as Schedule, Verdict as Verdict
    from tensorlang.schedules.spaces.space import Space as Space
    from tensorlang.semantics.evaluation import evaluate as evaluate

__version__ = "0.1.0"

_ON_USE = {
    "Instruction": "tensorlang.schedules.directives.instructions",
    "Kernel": "tensorlang.codegen.kernel.kernel",
    "Schedule": "tensorlang.schedules.schedule",
    "Space": "tensorlang.schedules.spaces.space",
    "Verdict": "tensorlang.schedules.schedule",
    "build": "tensorlang.codegen.kernel.build",
    "compile": "tensorlang.autotune.jobs.compile",
    "einsum": "tensorlang.language.einstein",
    "evaluate": "tensorlang.semantics.evaluation",
    "get_threads": "tensorlang.codegen.runtime.threads",
    "load": "tensorlang.codegen.kernel.loading",
    "ops": "tensorlang.ops",
    "tc": "tensorlang.language.notation",
    "release_workspaces": "tensorlang.codegen.runtime.workspaces",
    "set_threads": "tensorlang.codegen.runtime.threads",
    "set_workspace_limit": "tensorlang.codegen.runtime.workspaces",
    "machine": "tensorlang.codegen.target",
    "target": "tensorlang.codegen.target",
    "visualize": "tensorlang.codegen.pictures.page",
}

__all__ = [
    "BuildError",
    "CallError",
    "DType",
    "DefinitionError",
    "Dim",
    "Expr",
    "GraphError",
    "Instruction",
    "InternalError",
    "Kernel",
    "LogError",
    "Schedule",
    "ScheduleError",
    "Space",
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
    "machine",
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
    "release_workspaces",
    "round",
    "rsqrt",
    "scan",
    "scatter",
    "select",
    "set_threads",
    "set_workspace_limit",
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
    "visualize",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    where = _ON_USE.get(name)
    if where is None:
        from tensorlang.definition.elsewhere import instead  # noqa: PLC0415 - only to refuse

        raise AttributeError(f"module 'tensorlang' has no attribute {name!r}{instead(name)}", name=name, obj=sys.modules[__name__])
    with _forks.loading:
        module = importlib.import_module(where)
    value = module if where == f"tensorlang.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
