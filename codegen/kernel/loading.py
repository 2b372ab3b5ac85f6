"""The kernel in a file; one of another version, or for another processor, is built again from the recipe in the file.

What is loaded as it is needs no compiler, which is imported where something is built again.
"""

from __future__ import annotations

import logging
from os import PathLike
from typing import TYPE_CHECKING, Final

from tensorlang.codegen.cache import archive
from tensorlang.codegen.cache.archive import Outdated
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.errors import BuildError

if TYPE_CHECKING:
    from tensorlang.codegen.target import Target

_log: Final = logging.getLogger("tensorlang")


def load(path: str | PathLike[str]) -> Kernel:
    """The kernel in a file that `Kernel.save` wrote.

    One from another version, or for another processor, is built again from the definition and the schedule in it, which is logged: for
    its own target where that runs here, else for this machine. The file holds machine code: load only what you trust. Raises
    `BuildError` for a file that is missing or damaged, and for one that cannot be built again.
    """
    try:
        return Kernel(archive.read(path))
    except Outdated as outdated:
        return _built_again(outdated)


def _built_again(outdated: Outdated) -> Kernel:
    """The kernel of a file that cannot be used as it is. Raises `BuildError` where it cannot be built from what the file holds either."""
    from tensorlang.codegen.kernel.build import build  # noqa: PLC0415 - see the module docstring

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
    from tensorlang.codegen.target import target  # noqa: PLC0415 - as above

    try:
        named = target(name)
    except BuildError:
        return target()
    return named if named.is_native else target()
