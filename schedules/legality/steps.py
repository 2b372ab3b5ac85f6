"""What a directive makes of a nest, within the budget of code: found once for each of both.

Strategies try the same steps on the same nest again and again: they ask whether one is accepted and then take it, and two ways to
schedule a program begin alike. A step is proved against the whole nest, so that asking costs as much as taking it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from tensorlang.ir import Nest
from tensorlang.schedules.directive import Directive, field_kinds
from tensorlang.schedules.legality.budget import within_budget
from tensorlang.system.identity import Identity


def applied(directive: Directive, nest: Nest) -> Nest:
    """The nest after a step. Raises `Refusal`, also where it would be too much code."""
    kinds = tuple(type(getattr(directive, name)) for name in field_kinds(type(directive)))
    try:
        hash(directive)
    except TypeError:  # a list for a number: the directive says so
        return _made(directive, nest)
    return _known(directive, kinds, Identity((nest,)))


@lru_cache(maxsize=256)
def _known(directive: Directive, _: tuple[type, ...], key: Identity) -> Nest:
    """The step, told from one of equal numbers of other types (1, 1.0, True). A refusal is not kept: a definition may mend it."""
    (nest,) = cast("tuple[Nest]", key.parts)
    return _made(directive, nest)


def _made(directive: Directive, nest: Nest) -> Nest:
    return within_budget(directive.apply(nest), nest, getattr(directive, "loop", ""))
