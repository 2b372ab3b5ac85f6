"""Finding and replacing parts of a nest, by loop and stage name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tensorlang.algebra.bounds import values
from tensorlang.algebra.simplify import simplify
from tensorlang.errors import did_you_mean
from tensorlang.ir import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Nest,
    Prefetch,
    SplitRelation,
    Stmt,
    Store,
    Unary,
    allocate,
    block,
    const,
)
from tensorlang.ir.mentions import among, map_among, mentions, parts_among, positions
from tensorlang.ir.printer import short
from tensorlang.ir.relations import relation_names
from tensorlang.ir.traverse import axes_of, map_statements, reads_data, statements, substatements, unless_empty
from tensorlang.schedules.directive import Refusal

AUXILIARY: Final = (".init", ".load", ".store", ".add", ".prefetch")
"""How the stages end that only start or end a tile of another stage."""
LONGEST: Final = 800
"""Characters of the name of a loop, which is a part of names that LLVM reads up to 1024 of."""


def loops(stmt: Stmt) -> Iterator[For]:
    """Every loop within a statement, outermost first, in program order."""
    return (part for part in statements(stmt) if isinstance(part, For))


def stores(stmt: Stmt) -> Iterator[Store]:
    """Every store within a statement, in program order."""
    return (part for part in statements(stmt) if isinstance(part, Store))


def stores_of(stmt: Stmt, stages: Collection[str]) -> Iterator[Store]:
    """Every store of some stages within a statement, in program order."""
    return (part for part in among(stmt, stages) if isinstance(part, Store) and part.stage in stages)


def path_to(stmt: Stmt, wanted: Callable[[Stmt], bool], names: Collection[str] | None = None) -> tuple[Stmt, ...]:
    """The statements from `stmt` down to the first wanted one, or () if there is none; it mentions one of `names`, where they are given."""
    if wanted(stmt):
        return (stmt,)
    for part in substatements(stmt) if names is None else parts_among(stmt, names):
        rest = path_to(part, wanted, names)
        if rest:
            return (stmt, *rest)
    return ()


def path_to_store(nest: Nest, store: Store) -> tuple[Stmt, ...]:
    """The statements from the root down to a store, or ()."""
    return path_to(nest.body, lambda part: part is store, (store.stage,))


def path_to_loop(nest: Nest, loop: str) -> tuple[Stmt, ...]:
    """The statements from the root down to a loop. Raises `Refusal` where there is none."""
    path = path_to(nest.body, lambda part: isinstance(part, For) and part.loop == loop, (loop,))
    if not path:
        known = [part.loop for part in loops(nest.body)]
        raise Refusal("TL-S001", f"there is no loop {loop!r}{did_you_mean(loop, known)}", loop=loop)
    return path


def loops_on(path: Iterable[Stmt]) -> tuple[For, ...]:
    """The loops on a path, outermost first."""
    return tuple(part for part in path if isinstance(part, For))


def nested(around: Sequence[For | If], body: Stmt) -> Stmt:
    """A statement in loops, and under conditions, outermost first."""
    for part in reversed(around):
        body = replace(part, body=body) if isinstance(part, For) else replace(part, then=body)
    return body


def stores_within(
    stmt: Stmt, loops: tuple[For, ...] = (), conditions: tuple[Expr, ...] = ()
) -> Iterator[tuple[Store, tuple[For, ...], tuple[Expr, ...]]]:
    """The stores within a statement, in program order, each with the loops and the conditions around it, outermost first."""
    match stmt:
        case Store():
            yield stmt, loops, conditions
        case For(body=body):
            yield from stores_within(body, (*loops, stmt), conditions)
        case If(cond, then, orelse):
            yield from stores_within(then, loops, (*conditions, cond))
            if orelse is not None:
                yield from stores_within(orelse, loops, (*conditions, Unary("not", cond)))
        case _:
            for part in substatements(stmt):
                yield from stores_within(part, loops, conditions)


def loops_around(nest: Nest, loop: str) -> list[For]:
    """The loops around a loop, outermost first. Raises `Refusal` where there is no such loop."""
    return list(loops_on(path_to_loop(nest, loop)[:-1]))


def require_no_vector(around: Iterable[For], loop: str, stage: str = "") -> None:
    """Raise `Refusal` where one of the loops around is run by lanes, which cannot each have loops and storage of their own."""
    for part in around:
        if part.kind in ("vector", "tensor"):
            raise Refusal("TL-S107", f"it stands inside the {part.kind} loop {short(part.loop)!r}", stage=stage, loop=loop)


def find_loop(nest: Nest, loop: str) -> For:
    """A loop by full name. Raises `Refusal` where there is none."""
    found = path_to_loop(nest, loop)[-1]
    assert isinstance(found, For)
    return found


def stage_of(loop: str) -> str:
    """The stage that a loop belongs to: "C.init" of "C.init.i"."""
    return loop.rsplit(".", 1)[0]


def stages(nest: Nest) -> tuple[str, ...]:
    """The names of all stages, in program order."""
    return tuple(dict.fromkeys(store.stage for store in stores(nest.body)))


def require_stage(nest: Nest, stage: str) -> None:
    """Raise `Refusal` where the nest has no such stage."""
    if stage not in mentions(nest.body).stages:
        raise Refusal("TL-S003", f"there is no stage {stage!r}{did_you_mean(stage, stages(nest))}", stage=stage)


def require_single(nest: Nest, stage: str, loop: str = "") -> None:
    """Raise `Refusal` where a stage has several copies (`peel` and `specialize` make them), which move together or not at all."""
    found = [store.stage for store in stores_of(nest.body, (stage, f"{stage}.init"))]
    if found.count(stage) > 1 or found.count(f"{stage}.init") > 1:
        raise Refusal(
            "TL-S301",
            f"{stage!r} has several copies, of which none can move alone; move it before peel or specialize",
            stage=stage,
            loop=loop,
        )


def edit_loops(stmt: Stmt, wanted: Callable[[For], bool], fn: Callable[[For], Stmt]) -> Stmt:
    """`stmt` with each wanted loop replaced."""
    rebuilt = map_statements(stmt, lambda part: edit_loops(part, wanted, fn))
    return fn(rebuilt) if isinstance(rebuilt, For) and wanted(rebuilt) else rebuilt


def edit_loop(nest: Nest, loop: str, fn: Callable[[For], Stmt]) -> Nest:
    """The nest with a loop, and every loop that follows it, replaced."""
    find_loop(nest, loop)

    def edited(part: Stmt) -> Stmt:
        rebuilt = map_among(part, (loop,), edited)
        return fn(rebuilt) if isinstance(rebuilt, For) and loop in (rebuilt.loop, rebuilt.follows) else rebuilt

    return replace(nest, body=edited(nest.body))


def edit_stores(stmt: Stmt, fn: Callable[[Store], Stmt]) -> Stmt:
    """`stmt` with each store replaced."""
    return fn(stmt) if isinstance(stmt, Store) else map_statements(stmt, lambda part: edit_stores(part, fn))


def remove(stmt: Stmt, unwanted: Callable[[Store], bool], stage: str | None = None, hinted: Buffer | None = None) -> Stmt | None:
    """`stmt` without the unwanted stores and the loops that hold nothing else; None if nothing is left. `stage` is theirs, if it is one.

    Hints about the buffer `hinted` go, too.
    """
    if stage is not None and stage not in mentions(stmt).stages:
        return stmt
    match stmt:
        case Store():
            return None if unwanted(stmt) else stmt
        case Block(body):
            parts: list[Stmt | None] = list(body)
            for position in range(len(body)) if stage is None else positions(stmt, (stage,)):
                parts[position] = remove(body[position], unwanted, stage, hinted)
            left = [part for part in parts if part is not None]
            return block(*left) if any(mentions(part).stages for part in left) else None
        case Prefetch(buffer):
            return None if buffer == hinted else stmt
        case If(_, then, orelse):
            kept, other = remove(then, unwanted, stage, hinted), None if orelse is None else remove(orelse, unwanted, stage, hinted)
            if kept is None and other is None:
                return None
            return replace(stmt, then=kept or Block(()), orelse=other)
        case For(body=body) | Alloc(_, body):
            inner = remove(body, unwanted, stage, hinted)
            return None if inner is None else replace(stmt, body=inner)


def without_alloc(stmt: Stmt, buffer: Buffer) -> Stmt:
    """`stmt` without the allocation of a buffer, and without hints about it."""
    if isinstance(stmt, Alloc) and buffer in stmt.buffers:
        return allocate((other for other in stmt.buffers if other != buffer), without_alloc(stmt.body, buffer))
    if isinstance(stmt, Prefetch) and stmt.buffer == buffer:
        return Block(())
    return unless_empty(map_among(stmt, (buffer.name,), lambda part: without_alloc(part, buffer)))


def allocated_names(stmt: Stmt) -> frozenset[str]:
    """Names of the buffers allocated within a statement."""
    return mentions(stmt).allocated


def extent_of(loop: For) -> Expr:
    """The number of iterations, as an expression (below 0 means none)."""
    if isinstance(loop.lo, Const) and isinstance(loop.hi, Const):
        return const(int(loop.hi.value) - int(loop.lo.value))
    return simplify(Binary("sub", loop.hi, loop.lo))


def literal_extent(loop: For) -> int | None:
    """The number of iterations where it is a literal."""
    if isinstance(loop.lo, Const) and isinstance(loop.hi, Const):
        return max(0, int(loop.hi.value) - int(loop.lo.value))
    extent = extent_of(loop)
    return max(0, int(extent.value)) if isinstance(extent, Const) else None


def is_fixed(loop: For) -> bool:
    """Do literals and dims tell the number of iterations, which is the same wherever the loop runs?"""
    extent = extent_of(loop)
    return not axes_of(extent) and not reads_data(extent)


def is_filled(split: SplitRelation) -> bool:
    """Do the tiles of a split end where its axis does, as literals tell?"""
    return simplify(Binary("mod", Binary("sub", split.hi, split.lo), const(split.factor))) == const(0)


def always_runs(loop: For) -> bool:
    """Has a loop an iteration whatever dims and other loops are, as intervals tell?"""
    return values(extent_of(loop))[0] > 0


def axis_names(nest: Nest) -> frozenset[str]:
    """Every axis name in use: loops and derived axes."""
    names = {part.loop for part in loops(nest.body)}
    for relation in nest.relations:
        names |= set(relation_names(relation))
    return frozenset(names)


def fresh_name(nest: Nest, stage: str, label: str) -> str:
    """A full name for a new loop. Raises `Refusal` where it is taken or no name."""
    if not label.isidentifier():
        raise Refusal("TL-S005", f"{label!r} cannot name a loop; use letters, digits and _", stage=stage)
    if len(label) > LONGEST:
        raise Refusal(
            "TL-S005", f"{label[:40]}... is too long for the name of a loop; give one of at most {LONGEST} characters", stage=stage
        )
    name = f"{stage}.{label}"
    loop = any(isinstance(part, For) and part.loop == name for part in among(nest.body, (name,)))
    if loop or any(name in relation_names(relation) for relation in nest.relations):
        raise Refusal("TL-S006", f"the name {label!r} is taken in stage {stage!r}; give names=", stage=stage)
    return name
