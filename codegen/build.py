"""`build`: a schedule, or the default schedule of a definition, to a kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy.typing as npt

from tensorlang.codegen import counts
from tensorlang.codegen.binding import compile_module
from tensorlang.codegen.emit import emit
from tensorlang.codegen.kernel import Kernel
from tensorlang.codegen.lower import lower
from tensorlang.codegen.program import Origin, Program, Provenance
from tensorlang.codegen.signature import Argument, Signature
from tensorlang.codegen.target import Target
from tensorlang.codegen.target import target as find_target
from tensorlang.codegen.threads import get_threads
from tensorlang.errors import BuildError
from tensorlang.ir import Buffer, Nest
from tensorlang.printer import print_nest
from tensorlang.program import bound_arrays, lower_definition
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose
from tensorlang.tensor import Tensor

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TAKEN: Final = frozenset(
    {"posix_memalign", "free", "malloc", "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "tensorlang_num_threads"}
)


def build(
    program: Schedule | Tensor | Sequence[Tensor],
    target: str | Target | None = None,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
) -> Kernel:
    """The kernel of exactly this schedule, or of the default schedule of tensors.

    `target` is "native" or an LLVM CPU name, `name` the C name of the function, `inputs` the order of arguments (default: the
    placeholders in the order in which they were created). Raises `BuildError` for an unknown target or a bad name.
    """
    machine = find_target(target)
    if isinstance(program, Schedule):
        return build_schedule(program, machine, name=name, inputs=inputs)
    return build_schedule(default_schedule(program, machine), machine, name=name, inputs=inputs, chosen=True)


def default_schedule(outputs: object, target: Target, constants: frozenset[str] = frozenset()) -> Schedule:
    """The schedule that is used where none is given or known; there is one for every definition. `constants` are packed for nothing."""
    strategy = choose(outputs, target, get_threads(), constants)
    return strategy.schedule(strategy.default)


def build_schedule(
    schedule: Schedule,
    target: Target,
    *,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
    provenance: Provenance | None = None,
    chosen: bool = False,
) -> Kernel:
    """The kernel of a schedule for a target; `chosen`: it is the default schedule of its definition."""
    label = name or schedule.nest.name
    if not _NAME.match(label) or label in _TAKEN:
        raise BuildError(f"{label!r} cannot name a kernel; use letters, digits and _, and no name of the C library")
    plain = lower_definition(schedule.outputs, label, None if inputs is None else tuple(inputs))
    nest = Nest(label, plain.inputs, plain.outputs, plain.dims, schedule.nest.body, schedule.nest.relations)
    order = None if inputs is None else tuple(inputs)
    origin = Origin(schedule.outputs, order, nest, plain, chosen or provenance == "default")
    return build_nest(origin, target, bound_arrays(schedule.outputs, order), provenance)


def build_nest(origin: Origin, target: Target, bound: Mapping[str, npt.NDArray[Any]], provenance: Provenance | None = None) -> Kernel:
    """The kernel of a scheduled nest whose operands `bound` are fixed."""
    nest = origin.nest
    lowered = lower(nest, target)
    signature = Signature(nest.name, tuple(map(_argument, nest.inputs)), tuple(map(_argument, nest.outputs)), nest.dims)
    return Kernel(
        Program(
            signature=signature,
            target=target,
            compiled=compile_module(emit(lowered, target, name=nest.name), target.machine),
            nest=print_nest(nest),
            flops=counts.flops(origin.plain),
            bytes=counts.traffic(origin.plain),
            workspace_bytes=counts.workspace(lowered),
            provenance=provenance,
            bound=bound,
            origin=origin,
        )
    )


def _argument(buffer: Buffer) -> Argument:
    return Argument(buffer.name, buffer.shape, buffer.dtype)
