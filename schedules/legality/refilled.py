"""Storage that hands nothing from one iteration to another: each fills for itself what it reads.

    B_pack: int32[8]                            no iteration of i reads what another one has written, and nothing else reads B_pack,
    for i in range(4):                          so that which iteration was the one before makes no difference to any value
        for k in range(8):
            B_pack[k] = B[i, k]
        for k in range(8):
            C[i] += B_pack[k]

Iterations overwrite each other's elements all the same, so they may only run one after the other, each as a whole: this is an argument
for another order of iterations (`reorder`, `fission`, `fuse_loops`, `rfactor`), and none for running them at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.polyhedra import Image, uncovered
from tensorlang.ir import Alloc, Axis, Block, Compare, Const, Expr, For, FuseRelation, Nest, Stmt, Unary, const
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import closure, in_scope, renamed, sides
from tensorlang.ir.traverse import axes_of, loads_of, read_in, reads_data, substitute
from tensorlang.schedules.legality.accesses import Access, accesses, distinct
from tensorlang.schedules.legality.in_bounds import place_facts
from tensorlang.schedules.legality.instances import instance
from tensorlang.schedules.legality.rewrites import before
from tensorlang.schedules.rewriting.edit import loops, path_to_loop


def refilled(nest: Nest, parts: Sequence[Stmt], around: Sequence[For]) -> set[str]:
    """The storage of which each of `parts` reads only what it has itself written before in one iteration of `around`.

    Whatever else uses it stands apart from them, in the scope of the storage, and reads only what it has written itself. Every read needs
    plain stores that come before it, in the same iteration of all loops that they share with it or in an earlier one of those inside
    `around`, and that write, in all their instances there, every element that the read may ask for. What is written in between to such an
    element was written in this iteration, too. A combining store reads what it combines into.
    """
    uses = [[*accesses(part, tuple(around))] for part in parts]
    here = Counter(access.buffer.name for part in uses for access in part)
    bounds = {getattr(load.buffer, "name", "") for loop in loops(nest.body) for end in (loop.lo, loop.hi) for load in loads_of(end)}
    inside = {buffer.name for part in parts for buffer in allocations(part)}
    written = _written(uses)
    found: set[str] = set()
    path = path_to_loop(nest, around[-1].loop)
    for place, scope in enumerate(path):
        own = {buffer.name for buffer in scope.buffers} - inside - bounds if isinstance(scope, Alloc) else set()
        own &= here.keys()
        if own:
            outer = tuple(part for part in path[:place] if isinstance(part, For))
            apart = [[*accesses(part, outer)] for part in _beside(path[place:])]
            everywhere = Counter(access.buffer.name for access in accesses(scope))
            everywhere -= Counter(access.buffer.name for part in apart for access in part)
            mine = {name for name in own if here[name] == everywhere[name] and _is_refilled(nest, name, uses, around, written)}
            found |= {name for name in mine if _is_refilled(nest, name, apart, outer, _written(apart))}
    return found


def _beside(path: Sequence[Stmt]) -> Iterator[Stmt]:
    """What stands in the scope that a path begins with, apart from the statement through which the path leads."""
    for above, below in pairwise(path):
        if isinstance(above, Block):
            yield from (part for part in above.body if part is not below)
        elif not isinstance(above, Alloc):
            return


def _written(parts: Iterable[Iterable[Access]]) -> frozenset[str]:
    return frozenset(access.buffer.name for part in parts for access in part if access.writes)


def _is_refilled(nest: Nest, name: str, uses: Sequence[Sequence[Access]], around: Sequence[For], written: frozenset[str]) -> bool:
    for part in uses:
        found = distinct(access for access in part if access.buffer.name == name)
        reads = [access for access in found if not access.writes or access.reducer is not None]
        writes = [access for access in found if access.writes and access.reducer is None]
        if not all(come_first(nest, writes, read, around, written) for read in reads):
            return False
    return True


def come_first(nest: Nest, writes: Sequence[Access], read: Access, around: Sequence[For], written: frozenset[str]) -> bool:
    """Do some of the stores write all elements that a read asks for, before it, in the same iteration of the loops `around`?

    Positions are those of one list of accesses; `written` is what is written in it. Where data say which element that is, it is any that
    there is: a read is in bounds wherever it is made. What data let a store write counts where they let the read ask.
    """
    if any(_beside_it(nest, write, read, around) for write in writes):
        return True
    known = [condition for condition in conjuncts(read.conditions) if not reads_data(condition)]
    index = [Axis(f"?{place}") if reads_data(part) else part for place, part in enumerate(read.index)]
    for part, extent in zip(index, read.buffer.shape, strict=True):
        if not isinstance(part, Const):
            known += [Compare("le", const(0), part), Compare("lt", part, extent)]
    wanted = place_facts(nest, read.loops, known)
    earlier = [write for write in writes if write.position < read.position and not any(map(reads_data, write.index))]

    def told(loops: Sequence[For]) -> Iterator[Access]:
        """The stores of which loops that are shared with the read say which instances there are, where it is made."""
        for write in earlier:
            made = _under(nest, write, read, loops, written)
            if made is not None and _is_exact(nest, made, loops):
                yield made

    here = [(place_facts(nest, write.loops, write.conditions), list(zip(index, write.index, strict=True))) for write in told(read.loops)]
    if here and uncovered(wanted, *here) is None:
        return True
    outer = frozenset(loop.loop for loop in around)
    images = [image for write in told(around) if (image := _not_later(nest, write, read, outer, index)) is not None]
    return bool(images) and uncovered(wanted, *images) is None


def _beside_it(nest: Nest, write: Access, read: Access, around: Sequence[For]) -> bool:
    """Does a store write the very element that is read, in the same iterations of loops that are alike? No proof is needed then."""
    if write.position >= read.position or len(write.loops) != len(read.loops) or write.loops[: len(around)] != read.loops[: len(around)]:
        return False
    inner = tuple(zip(write.loops, read.loops, strict=True))[len(around) :]
    names = {one.loop: other.loop for one, other in inner}
    own, other = (in_scope(nest, [loop.loop for loop in access.loops]) for access in (write, read))
    if len(own) != len(other):
        return False
    for one, two in zip(own, other, strict=True):
        names.update(zip(sides(one)[1], sides(two)[1], strict=False))
        if renamed(one, names) != two:
            return False
    axes = {name: Axis(other) for name, other in names.items() if name != other}
    asked = {*conjuncts(read.conditions)}
    return (
        all((substitute(one.lo, axes), substitute(one.hi, axes)) == (two.lo, two.hi) for one, two in inner)
        and all(substitute(part, axes) == at and not reads_data(part) for part, at in zip(write.index, read.index, strict=True))
        and all(substitute(part, axes) in asked and not reads_data(part) for part in conjuncts(write.conditions))
    )


def _under(nest: Nest, write: Access, read: Access, shared: Sequence[For], written: frozenset[str]) -> Access | None:
    """A store without the conditions on data that hold wherever a read is made; None where others have to hold.

    These are conditions of the read, too, over loops that are `shared` by both, and of data that stay what they are.
    """
    common, own = {loop.loop for loop in shared}, {loop.loop for loop in write.loops}
    asked = set(conjuncts(read.conditions))
    told = [condition for condition in conjuncts(write.conditions) if reads_data(condition)]
    for condition in told:
        changes = not read_in(condition).isdisjoint(written)
        if condition not in asked or changes or not closure(nest, axes_of(condition)) & own <= common:
            return None
    return replace(write, conditions=tuple(part for part in conjuncts(write.conditions) if part not in told)) if told else write


def _not_later(nest: Nest, write: Access, read: Access, outer: frozenset[str], index: Sequence[Expr]) -> Image | None:
    """The instances of a store in no later iteration of the loops inside `outer` than a read is; None where the two share none of these."""
    inner = [loop.loop for loop in read.loops if loop in write.loops and loop.loop not in outer]
    if not inner:
        return None
    copy = instance(nest, write, "^", outer)
    not_later = Unary("not", before(inner, {loop: loop for loop in inner}, copy.names))
    return [*copy.facts, not_later], list(zip(index, copy.index, strict=True))


def _is_exact(nest: Nest, write: Access, loops: Sequence[For]) -> bool:
    """Do relations say which iterations there are of a store's loops beyond these? Those of a fused loop of run-time extents say less."""
    own, other = (set(in_scope(nest, [loop.loop for loop in every])) for every in (write.loops, loops))
    return not any(isinstance(relation, FuseRelation) and not isinstance(relation.extent, Const) for relation in own - other)
