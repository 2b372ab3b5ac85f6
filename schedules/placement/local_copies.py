"""Local copies of what the inner loops of a nest touch: the part that `pack` and `accumulate` share.

A local buffer has one dimension for each inner loop that moves the tensor's index, in the order of the loops. The loops that fill or
empty it are clones of those inner loops, with clones of the relations that derive the index from them; so the copy knows its tails,
and the tensor's index keeps its spelling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Expr, For, Nest, Relation, Stmt, Store, WindowRelation
from tensorlang.ir.mentions import allocations
from tensorlang.ir.names import unique
from tensorlang.ir.printer import short
from tensorlang.ir.relations import bounds, closure, in_scope, relation_names, renamed, sides
from tensorlang.ir.traverse import axes_of, substitute
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.dependences import repeated, runs, write_of
from tensorlang.schedules.rewriting.edit import axis_names, extent_of, is_fixed, literal_extent, nested


@dataclass(frozen=True, slots=True)
class Clone:
    """Copies of loops under another stage, with what they derive: `names` maps old axes to new ones."""

    loops: tuple[For, ...]
    names: dict[str, str]
    relations: tuple[Relation, ...]

    def of(self, expr: Expr) -> Expr:
        """An expression over the copied axes."""
        return substitute(expr, {old: Axis(new) for old, new in self.names.items()})

    def in_loops(self, body: Stmt) -> Stmt:
        """A statement inside the copied loops."""
        return nested(self.loops, body)


def moving(nest: Nest, index: Sequence[Expr], loops: Sequence[For]) -> tuple[For, ...]:
    """Those of the loops on which an index depends, outermost first."""
    needed = closure(nest, frozenset().union(*(axes_of(part) for part in index)) if index else ())
    return tuple(loop for loop in loops if loop.loop in needed)


def clone(nest: Nest, stage: str, loops: Sequence[For], around: Sequence[str], *, follow: bool) -> Clone:
    """Copies of `loops` named after `stage`, with all relations that say something of them, beside the loops `around`.

    Relations of axes that no index uses are among them: their tails decide which iterations of the loops there are.

    Raises `Refusal` where a loop around is taken apart by what one of the loops says.
    """
    taken = set(axis_names(nest))
    names: dict[str, str] = {}

    def fresh(axis: str) -> str:
        return unique(f"{stage}.{short(axis)}", taken)

    for loop in loops:
        names[loop.loop] = fresh(loop.loop)
    cloned = frozenset(names)
    relations: list[Relation] = []
    for relation in in_scope(nest, (*around, *(loop.loop for loop in loops))):
        axes = relation_names(relation)
        if set(axes).union(*(axes_of(bound) for bound in bounds(relation))) & names.keys():
            for axis in axes:
                if axis not in names and closure(nest, (axis,)) & cloned:
                    names[axis] = fresh(axis)
            _require_own(relation, names)
            relations.append(renamed(relation, names))
    values: dict[str, Expr] = {old: Axis(new) for old, new in names.items()}
    copies = tuple(
        For(
            names[loop.loop],
            substitute(loop.lo, values),
            substitute(loop.hi, values),
            loop.body,
            loop.kind if follow else "serial",
            (loop.follows or loop.loop) if follow else None,
        )
        for loop in loops
    )
    return Clone(copies, names, tuple(reversed(relations)))


def _require_own(relation: Relation, names: Mapping[str, str]) -> None:
    """Raise `Refusal` for a loop that has no copy and is taken apart by one that has: it would be by both, where neither's is known."""
    parents = sides(relation)[0]
    told = sorted(frozenset().union(*(axes_of(bound) for bound in bounds(relation))) & names.keys())
    if told and not isinstance(relation, WindowRelation) and names.keys().isdisjoint(parents):
        reason = f"what {short(parents[0])!r} is made of depends on {short(told[0])!r}, of which there would be a copy"
        raise Refusal("TL-S104", reason, loop=parents[0])


def offsets(loops: Sequence[For]) -> tuple[Expr, ...]:
    """The position within a local buffer at which the loops stand."""
    return tuple(simplify(Binary("sub", Axis(loop.loop), loop.lo)) for loop in loops)


def literal_shape(loops: Sequence[For], what: str) -> tuple[int, ...]:
    """The extents of the loops. Raises `Refusal` where one is not a literal."""
    shape: list[int] = []
    for loop in loops:
        extent = literal_extent(loop)
        if extent is None:
            raise Refusal(
                "TL-S204", f"{what} needs a literal extent of {short(loop.loop)!r}, which it holds whole; split it first", loop=loop.loop
            )
        shape.append(extent)
    return tuple(shape)


def known_shape(loops: Sequence[For], what: str) -> tuple[Expr, ...]:
    """The extents of the loops, which a call tells. Raises `Refusal` where one is another in some iteration of a loop further out."""
    for loop in loops:
        if not is_fixed(loop):
            raise Refusal(
                "TL-S204", f"{what} needs a fixed extent of {short(loop.loop)!r}, which it holds whole; split it first", loop=loop.loop
            )
    return tuple(map(extent_of, loops))


def fresh_buffer(nest: Nest, label: str) -> str:
    """A name for a new buffer."""
    taken = {buffer.name for buffer in (*nest.inputs, *nest.outputs)}
    taken |= {buffer.name for buffer in allocations(nest.body)}
    return unique(label, taken)


def tile_name(nest: Nest, tensor: str) -> str:
    """The name of an accumulated tile of a tensor: `C_acc`; `C_acc_1` is a tile of that one."""
    return fresh_buffer(nest, re.sub(r"_acc(_\d+)?$", "", tensor) + "_acc")


def require_fixed(nest: Nest, tile: Sequence[For], inside: Sequence[For], what: str) -> None:
    """Raise `Refusal` where the bounds of a loop of the tile depend on a loop inside that the copy does not have."""
    dropped = {loop.loop for loop in inside} - {loop.loop for loop in tile}
    for loop in tile:
        needs = closure(nest, axes_of(loop.lo) | axes_of(loop.hi)) & dropped
        if needs:
            raise Refusal(
                "TL-S104",
                f"the bounds of {short(loop.loop)!r} depend on {short(min(needs))!r}, which {what} would leave",
                loop=loop.loop,
            )


def require_distinct(
    nest: Nest, loop: For, store: Store, tile: Sequence[For], outer: Sequence[For], tensor: str, inside: Sequence[For] = ()
) -> None:
    """Raise `Refusal` where two iterations of the tile's loops write one element (a scatter): the copy would hold it twice.

    `loop` is the one whose iterations have the tile, `outer` are the loops around those in question and `inside` those within, which may
    be at any iteration. Elements are loaded and stored in the order of the tile, so that what the last of the two has is what stays: it
    does where the condition of a combining store never lets the first one combine anything. Copies that are not made in order have to be
    distinct.
    """
    if store.reducer is None and all(isinstance(part, Axis) for part in store.index):
        return
    combining = None
    if store.reducer is not None and all(part.kind in ("serial", "unroll") for part in tile):
        combining = write_of(nest, store, loop, outer[:-1])
    example = repeated(nest, store, tile, outer, inside, first=combining)
    if example is not None and runs(nest, store, loop, outer[:-1]):
        raise Refusal(
            "TL-S103",
            f"two iterations of {short(tile[-1].loop)!r} write {example['element']}, of which a copy of {tensor!r} would hold two",
            stage=store.stage,
            loop=loop.loop,
            counterexample=example,
        )
