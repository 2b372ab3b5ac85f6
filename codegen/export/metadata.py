"""What is told about an exported kernel as JSON: a part that goes into the code, and the whole beside it."""

from __future__ import annotations

import json
from typing import Any, Final

from tensorlang.codegen import compilation
from tensorlang.codegen.cache import extents
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.recipe import Recipe
from tensorlang.codegen.cache.signature import Argument
from tensorlang.codegen.export.interface import ERRORS, Interface
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import Target
from tensorlang.codegen.target.cores import digest as machine_digest
from tensorlang.ir import For
from tensorlang.ir.traverse import statements

ABI: Final = 1
"""Version of the entries, the hooks and the error numbers."""


def short(program: Program, interface: Interface) -> dict[str, Any]:
    """What the metadata entry gives: how to call the kernel, and for which processor it is."""
    return {
        "name": interface.name,
        "abi": ABI,
        "inputs": [_argument(argument, interface) for argument in interface.inputs],
        "outputs": [_argument(argument, interface) for argument in interface.outputs],
        "dims": [_dim(dim, interface) for dim in interface.dims],
        "workspace_bytes": program.workspace_bytes,
    }


def whole(program: Program, interface: Interface, targets: tuple[Target, ...]) -> dict[str, Any]:
    """The file: the same, what the kernel was made from, and what it costs. Extents are numbers, dims, or `[op, operand, ...]`."""
    import tensorlang  # noqa: PLC0415 - the facade, for its version

    recipe = program.recipe()
    return {
        **short(program, interface),
        "version": tensorlang.__version__,
        "errors": {name: number for name, (number, _) in ERRORS.items()},
        "targets": [{"triple": target.triple, "cpu": target.cpu, "features": target.features} for target in targets],
        "machine": machine_digest(program.target.core),
        "parallel": parallel(program),
        "threads": get_threads() if program.threads is None else program.threads,
        "bound": sorted(program.bound),
        "flops": extents.to_json(program.flops),
        "bytes": extents.to_json(program.bytes),
        "provenance": program.provenance,
        "fingerprint": None if recipe is None else recipe.fingerprint,
        "definition": None if recipe is None else json.loads(recipe.definition),
        "schedule": _schedule(program, recipe),
        "nest": program.nest,
    }


def _schedule(program: Program, recipe: Recipe | None) -> Any:
    """The directives: those that were given, else those of the default schedule for the kernel's target; None where nothing says them."""
    if recipe is not None and recipe.schedule is not None:
        return json.loads(recipe.schedule)
    if recipe is None or program.origin is None:
        return None
    return json.loads(compilation.default_schedule(program.origin.program, program.target).to_json())


def parallel(program: Program) -> bool:
    """Whether the kernel has loops for several threads."""
    origin = program.origin
    if origin is None:
        return "GOMP_parallel" in program.compiled.source
    return any(isinstance(part, For) and part.kind == "parallel" for part in statements(origin.nest.body))


def _argument(argument: Argument, interface: Interface) -> dict[str, Any]:
    shape = [extents.to_json(extent) for extent in argument.shape]
    told = {"name": argument.name, "dtype": str(argument.dtype), "shape": shape, "align": argument.dtype.bytes}
    lies = {"strides": list(argument.strides)} if argument.strides else {}
    return told | lies | ({} if argument.over is None else {"over": interface.all_inputs[argument.over].name})


def _dim(name: str, interface: Interface) -> dict[str, Any]:
    bounds = next(((least, most) for dim, least, most in interface.limits if dim == name), None)
    return {"name": name} if bounds is None else {"name": name, "least": bounds[0], "most": bounds[1]}
