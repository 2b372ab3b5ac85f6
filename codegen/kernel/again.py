"""A kernel from a file of another version, or for another processor: built again from the recipe in the file."""

from __future__ import annotations

import logging
from typing import Final

from tensorlang.codegen.cache.archive import Outdated
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
        program, inputs = wanted.recipe.program(wanted.inputs, wanted.bound)
        kernel = build(program, target=_machine(wanted.target), name=wanted.name, inputs=inputs)
    except BuildError as error:
        raise BuildError(f"{outdated}; {error}") from None
    _log.warning("%s: built again for %s", outdated, kernel.target)
    return kernel


def _machine(name: str) -> Target:
    """The target that a file names, where its code runs here; else this machine."""
    try:
        named = target(name)
    except BuildError:
        return target()
    return named if named.is_native else target()
