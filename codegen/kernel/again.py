"""A kernel from a file of another version, or for another processor: built again from the recipe in the file."""

from __future__ import annotations

import logging
from typing import Final

from tensorlang.codegen.cache.archive import Outdated
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.kernel.build import build
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.target import Target, target
from tensorlang.errors import BuildError

_log: Final = logging.getLogger("tensorlang")


def built_again(outdated: Outdated) -> Kernel:
    """The kernel of a file that cannot be used as it is. Raises `BuildError` where it cannot be built from what the file holds either."""
    wanted = outdated.rebuild
    if wanted is None:
        raise BuildError(str(outdated))
    try:
        names = [argument.name for argument in wanted.code.inputs]
        program, inputs = wanted.recipe.program(names, wanted.bound)
        kernel = build(program, target=_machine(wanted.target), name=wanted.code.name, inputs=inputs)
        if wanted.signature is not None:
            kernel = kernel.under(_renamed(kernel.program.signature, wanted.signature))
    except BuildError as error:
        raise BuildError(f"{outdated}; {error}") from None
    _log.warning("%s: built again for %s", outdated, kernel.target)
    return kernel


def _renamed(built: Signature, wanted: Signature) -> Signature:
    """The signature of what was built under the names and the order that the file says, and nothing else of it. Raises `BuildError`."""
    inputs, outputs = ([argument.name for argument in arguments] for arguments in (wanted.inputs, wanted.outputs))
    if (len(inputs), len(outputs)) != (len(built.inputs), len(built.outputs)):
        raise BuildError(f"its recipe makes {built}, its header says {wanted}")
    return built.under(wanted.name, inputs, outputs, wanted.order).seen_as(wanted)


def _machine(name: str) -> Target:
    """The target that a file names, where its code runs here; else this machine."""
    try:
        named = target(name)
    except BuildError:
        return target()
    return named if named.is_native else target()
