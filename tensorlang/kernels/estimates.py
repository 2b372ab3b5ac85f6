"""What a kernel would cost, before anything is compiled: by the cost model, of the schedule that would be used.

A planner asks for hundreds of candidates, most of which it never builds. Scheduling one takes a tenth of building it, and is done once for
a key: where kernels are kept in files, what was found is too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tensorlang.codegen.cache import found_files
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.cost import operation_count
from tensorlang.codegen.kernel.packer import split_all
from tensorlang.codegen.target import Target, target as find_target
from tensorlang.errors import BuildError
from tensorlang.ir.integers import ASSUMED_EXTENT
from tensorlang.kernels import keys
from tensorlang.kernels.wanted import Wanted, wanted
from tensorlang.schedules.schedule import Schedule
from tensorlang.system.object_cache import ObjectCache

KEPT: Final = 1024
_STAMP: Final = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
"""This file, which is no part of the stamp of compilers: what it says of the same schedule may change."""
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one call costs on one core, called again and again on the same operands.

    `seconds` are the cost model's (`docs/model.md`), `flops` the operations of the definition, `bytes` what each level of memory ("L2",
    "memory", ...) gives and takes back, `bound` what takes most time.
    """

    seconds: float
    flops: int
    bytes: Mapping[str, float] = field(default_factory=dict)
    bound: str = ""


_estimates: Final[ObjectCache[Estimate]] = ObjectCache(KEPT)


def estimate(
    asked: object,
    target: str | Target | None = "native",
    dims: Mapping[str, int] = _NONE,
    epilogue: object = None,
    prologue: object = None,
    constants: object = (),
    strides: object = None,
) -> Estimate:
    """What the default kernel of a spec, or of tensors, would cost; nothing is compiled, and what was found is kept.

    `dims` are extents that a call tells; those that are not given are guessed. `constants` are packed before, which costs a call nothing.
    Raises what `compile` raises before it builds, and `ScheduleError` for a dim that is none.
    """
    if not isinstance(dims, Mapping) or not all(isinstance(name, str) and isinstance(size, Integral) for name, size in dims.items()):
        raise BuildError(f"dims= is a mapping from names of dims to sizes, as {{'n': 64}}, not {dims!r:.60}")
    program, machine = wanted(asked, epilogue, prologue, layouts=strides), find_target(target)
    places = program.places(constants)
    name = f"{keys.of(program, machine, 1, places)} {program.dims} {sorted(dims.items())}"
    fixed = frozenset(program.names[place] for place in places)

    def kept() -> Estimate:
        make = lambda: _estimate(program, machine, dims, fixed)  # noqa: E731 - it is passed on
        return found_files.found(f"estimate {_STAMP} {name}", lambda known: Estimate(**known), make, asdict)

    return _estimates.get(name, kept)


def forget() -> None:
    """Forget what was found in this process; files stay."""
    _estimates.clear()


def _estimate(program: Wanted, target: Target, dims: Mapping[str, int], constants: frozenset[str]) -> Estimate:
    schedule = default_schedule(program.outputs, target, constants, threads=1)
    _, left = split_all(schedule.nest, sorted(constants))
    found = Schedule(replace(schedule.program, nest=left)).estimate(target, **dims)
    sizes = {name: dims.get(name, ASSUMED_EXTENT) for name in program.dims}
    return Estimate(found.seconds, operation_count.flops(schedule.program.nest, sizes).value, dict(found.bytes), found.bound)
