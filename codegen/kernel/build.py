"""`build`: a schedule, or the default schedule of a definition, to a kernel, the one that was built before if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorlang.codegen import compilation
from tensorlang.codegen.cache.program import Provenance
from tensorlang.codegen.kernel.kernel import Kernel, cached_kernel
from tensorlang.codegen.target import Target, target as find_target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.schedule import Schedule


def build(
    program: Schedule | Tensor | Sequence[Tensor],
    target: str | Target | None = None,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
) -> Kernel:
    """The kernel of exactly this schedule, or of the default schedule of tensors.

    `target` is "native" or an LLVM CPU name, `name` the C name of the function (default: that of the first output, `new_` for `new`, which
    no function of C++ can have), `inputs` the order of arguments (default: the placeholders in the order in which they were created). A
    program that was built before gives the same kernel. Raises `BuildError` for an unknown target or a bad name.
    """
    machine = find_target(target)
    if isinstance(program, Schedule):
        return cached_kernel(compilation.of_schedule(program, machine, name=name, inputs=inputs))
    return cached_kernel(compilation.of_default(program, machine, name=name, inputs=inputs))


def build_schedule(
    schedule: Schedule, target: Target, *, name: str | None = None, provenance: Provenance | None = None, reason: str = ""
) -> Kernel:
    """The kernel of a schedule for a target, compiled now."""
    request = compilation.of_schedule(schedule, target, name=name, provenance=provenance, reason=reason)
    program = compilation.compile_nest(request.origin, target, provenance)
    return Kernel(replace(program, bound=request.bound, origin=request.origin, provenance_reason=reason))
