"""One version of a nest that `specialize` made, taken out, changed as if it were all, and put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeGuard

from tensorlang.ir import If, Nest, Stmt
from tensorlang.ir.mentions import mentions
from tensorlang.schedules.directive import Directive, Refusal
from tensorlang.schedules.rewriting.copies import pruned
from tensorlang.schedules.rewriting.edit import axis_names, loops, path_to_loop


def in_version(nest: Nest, within: str, change: Callable[[Nest], Nest]) -> Nest:
    """The nest with the version that has the loop `within` changed; the whole nest for "".

    Raises `Refusal` as `change` does, where there are no versions, and where a name that is made there is taken in another one.
    """
    if not within:
        return change(nest)
    path_to_loop(nest, within)
    if not is_version(nest.body):
        raise Refusal("TL-S301", f"there are no versions here of which {within!r} would name one; leave out within=", loop=within)

    def changed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, If) and is_version(stmt):
            assert stmt.orelse is not None
            if within in mentions(stmt.then).names:
                return replace(stmt, then=changed(stmt.then))
            return replace(stmt, orelse=changed(stmt.orelse))
        made = change(alone := replace(nest, body=stmt))
        taken = sorted((axis_names(made) - axis_names(alone)) & {loop.loop for loop in loops(nest.body)})
        if taken:
            raise Refusal("TL-S006", f"it would make {taken[0]!r}, which is the name of a loop in another version", loop=within)
        relations[:] = [*relations, *(relation for relation in made.relations if relation not in relations)]
        return made.body

    relations = list(nest.relations)
    body = changed(nest.body)
    return pruned(replace(nest, body=body, relations=tuple(relations)))


def version_of(stmt: Stmt, loop: str) -> Stmt:
    """The version in which a loop stands: the whole statement where there are none."""
    while isinstance(stmt, If) and stmt.orelse is not None:
        stmt = stmt.then if loop in mentions(stmt.then).names else stmt.orelse
    return stmt


def is_version(stmt: Stmt) -> TypeGuard[If]:
    """Is a statement the versions that `specialize` made?"""
    return isinstance(stmt, If) and stmt.orelse is not None


def shown(step: Directive) -> str:
    """A step as the Python that makes it; without `within` where that names no version."""
    told = ((part.name, getattr(step, part.name)) for part in fields(step))  # type: ignore[arg-type]
    return f"{type(step).__name__}({', '.join(f'{name}={value!r}' for name, value in told if name != 'within' or value)})"
