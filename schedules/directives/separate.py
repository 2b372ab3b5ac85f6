"""`separate`: some loops of a reduction are combined first, once for all elements that take the same.

                                                        Y_inner: float32[46, 62]
                                                        for y in range(46):
                                                            for x in range(62):
    for y in range(44):                                         Y_inner[y, x] = 0
        for x in range(62):                             for y in range(46):
            for a in range(3):                  ->          for x in range(62):
                for b in range(3):                              for b in range(3):
                    Y[y, x] += F[y + a, x + b]                      Y_inner[y, x] += F[y, x + b]
                                                        for y in range(44):
                                                            for x in range(62):
                                                                for a in range(3):
                                                                    Y[y, x] += Y_inner[y + a, x]

What the inner loops combine is a stage of its own, with a dimension for each sum of the other loops that it moves with (`y + a`, `x`).
Windows that overlap share their rows: 3 + 3 steps instead of 3 * 3. A window of one loop is separated after a `split`: of 16 elements, by
4, into four and four. Of a sum of products, factors that the inner loops do not move are taken out of it, so that `A[i, k] * B[k, l] *
C[l, j]` over `k` and `l` becomes two products of matrices.

This simplification of reductions by reuse is that of Gautam and Rajopadhye ("Simplifying Reductions", POPL 2006), without their inverses.

With `doubling=True` a window along one loop is put together of windows of powers of two, each made of two of half the length. Those of a
minimum or a maximum may overlap, and where the range of the loop depends on others of the reduction, as in each row of a disc, all of
these windows share them: the brightest pixel within 10 is found in 50 steps instead of 317.

    Y[y] = max over b in range(13) of F[y + b]      ->      Y_2[x] = max(F[x], F[x + 1])
                                                            Y_4[x] = max(Y_2[x], Y_2[x + 2])
                                                            Y_8[x] = max(Y_4[x], Y_4[x + 4])
                                                            Y[y] = max(Y_8[y], Y_8[y + 5])

Without loops, a window that is written out as a sum of integers is separated where its weights are a product, as of a binomial filter:

    Y[y, x] = F[y, x] + 2 * F[y, x + 1] + ...       ->      Y_inner[y, x] = F[y, x] + 2 * F[y + 1, x] + F[y + 2, x]
                                                            Y[y, x] = Y_inner[y, x] + 2 * Y_inner[y, x + 1] + Y_inner[y, x + 2]

Legal where the loops of the stage stand in one another, the inner ones are of its reduction, and every element that is read exists
without the conditions that stay behind. The result is re-associated, and products of a sum distributed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.rules import conjunction
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import (
    Axis,
    Buffer,
    Expr,
    For,
    If,
    Load,
    Nest,
    SplitRelation,
    Stmt,
    Store,
    WindowRelation,
    allocate,
    block,
)
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure, condition, in_scope
from tensorlang.ir.traverse import axes_of, read_in, reads_data, substitute
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.directives.doubled import Doubled, with_doubled
from tensorlang.schedules.directives.written_out import with_products
from tensorlang.schedules.legality.accesses import conditions_around
from tensorlang.schedules.legality.in_bounds import unprotected
from tensorlang.schedules.legality.rewrites import idempotent
from tensorlang.schedules.placement.local_copies import fresh_buffer
from tensorlang.schedules.rewriting.boxes import (
    MAX_PARTIAL_BYTES,
    axes,
    derived_axes,
    literal_bytes,
    new_stage,
    over_loops,
    own_loops,
    shape_of,
    sweep,
    values_at,
    varying,
)
from tensorlang.schedules.rewriting.coordinates import coordinates, fits, forms, rewritten
from tensorlang.schedules.rewriting.copies import FreshNames, pruned
from tensorlang.schedules.rewriting.doubling import windows_of
from tensorlang.schedules.rewriting.edit import (
    edit_loops,
    is_filled,
    loops_on,
    nested,
    path_to_store,
    require_single,
    require_stage,
    stores_of,
)
from tensorlang.schedules.rewriting.separable import Portion, portion_of, product


class Plan(NamedTuple):
    """A reduction in two: the loops of its stage, those that are `inner` with bounds over loops alone, their portion, and what is asked."""

    store: Store
    chain: tuple[For, ...]
    inner: tuple[For, ...]
    portion: Portion
    asked: tuple[Expr, ...]

    @property
    def outer(self) -> tuple[For, ...]:
        """The loops that stay."""
        return tuple(loop for loop in self.chain if loop.loop not in self._names)

    @property
    def _names(self) -> set[str]:
        return {loop.loop for loop in self.inner}

    def left_behind(self) -> list[Expr]:
        """The conditions that stay. Factors are taken, and data read, under all of them, as they were."""
        still = [cond for cond in self.asked if not axes_of(cond) & self._names]
        left = [cond for cond in still if cond not in self.portion.conditions]
        return still if self.portion.factors or any(map(reads_data, left)) else left


@dataclass(frozen=True, slots=True)
class Separate(Directive):
    """Combine what the `loops` of the reduction `stage` go over, or columns of a window that it writes out, in a stage before it."""

    stage: StageName
    loops: tuple[LoopName, ...]
    doubling: bool = False

    def apply(self, nest: Nest) -> Nest:
        """The nest with the two stages, or one for each power of two."""
        if not self.loops:
            return self._all_there(*with_products(nest, self.stage))
        if self.doubling:
            return self._all_there(*with_doubled(nest, self.doubled(nest)))
        plan = self.plan(nest)
        label, shape = new_stage(nest, f"{self.stage}_inner"), shape_of(plan.portion.coordinates)
        local = tuple(Buffer(fresh_buffer(nest, f"{buffer.name}_inner"), shape, buffer.dtype) for buffer in plan.store.buffers)
        self._require_small(local)
        first, combined = _combining_first(nest, plan, label, local), _combining_the_rest(plan, local)
        whole = allocate(local, block(first, combined))
        made = pruned(replace(nest, body=edit_loops(nest.body, lambda part: part.loop == plan.chain[0].loop, lambda _: whole)))
        return self._all_there(made, (label,))

    def _found(self, nest: Nest) -> tuple[Store, tuple[For, ...], Sequence[Expr], tuple[For, ...]]:
        """The statement, its loops that stand in one another, what is asked in them, and all loops around. Raises `Refusal`."""
        require_stage(nest, self.stage)
        require_single(nest, self.stage)
        (store,) = stores_of(nest.body, (self.stage,))
        path = path_to_store(nest, store)
        chain = self._chain(path)
        asked = conditions_around(nest, store)[len(conditions_around(nest, chain[0])) :]
        self._require_reduction(nest, store, chain, asked)
        return store, chain, asked, loops_on(path)

    def doubled(self, nest: Nest) -> Doubled:
        """What windows would be put together of. Raises `Refusal` where that cannot be."""
        store, chain, asked, around = self._found(nest)
        assert store.reducer is not None
        known = derived_axes(nest, around)
        over = tuple(over_loops(loop, known) for loop in chain)
        moved = closure(nest, frozenset().union(*map(axes_of, store.index)))
        outer = tuple(loop for loop in over if loop.loop in moved)
        reduced = [loop for loop in over if loop not in outer]
        along = next((loop for loop in reduced if self.loops == (loop.loop,)), None)
        conditions = [substitute(cond, known) for cond in (*conjuncts(asked), *_tails(nest, around, chain))]
        windows = None if along is None else windows_of(store.reducer, along, reduced, conditions, overlap=idempotent(store.reducer))
        if along is None or windows is None:
            reason = "the windows have to be along one loop, of literal ranges and conditions on loops of the reduction alone"
            raise self._refusal("TL-S304", f"{reason}, of one component, and of few pieces")
        value = substitute(store.values[0], known)
        rows = list(forms(value))
        found = coordinates(rows, over)
        part = next((one for one in found if along.loop in one.loops), None)
        weight = 0 if part is None else dict(part.weights)[along.loop]
        shared = part is not None and any(loop.loop in part.loops for loop in outer)
        if part is None or weight <= 0 or not shared or not fits(rows, found, over) or varying(found, over):
            raise self._refusal("TL-S301", f"windows along {short(along.loop)!r} share nothing, as what they read moves with it alone")
        return Doubled(store, chain, outer, value, tuple(found), part, weight, windows)

    def plan(self, nest: Nest) -> Plan:
        """What would be combined first. Raises `Refusal` where nothing can."""
        store, chain, asked, around = self._found(nest)
        assert store.reducer is not None
        known = derived_axes(nest, around)
        over = [over_loops(loop, known) for loop in chain]
        inner, outer = ([loop for loop in over if (loop.loop in self.loops) == first] for first in (True, False))
        stated = [substitute(cond, known) for cond in conjuncts(asked)]
        cut = [substitute(cond, known) for cond in _tails(nest, around, chain)]
        values = tuple(substitute(value, known) for value in store.values)
        plan = Plan(store, chain, tuple(inner), portion_of(store.reducer, values, [*stated, *cut], inner, outer), tuple(stated))
        loop = varying(plan.portion.coordinates, outer)
        if loop is not None:
            reason = f"the range of {short(loop.loop)!r} depends on other loops, and what is combined first has a dimension for it"
            raise self._refusal("TL-S204", reason)
        return plan

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, stage=self.stage, loop=self.loops[0] if self.loops else "")

    def _chain(self, path: tuple[Stmt, ...]) -> tuple[For, ...]:
        """The loops of the stage that stand in one another, with nothing beside them but conditions."""
        chain = own_loops(path, self.stage)
        missing = [loop for loop in self.loops if loop not in [part.loop for part in chain]]
        if missing:
            what = f"{short(missing[0])!r} is no loop around {self.stage!r} alone"
            raise self._refusal("TL-S301", f"{what}; name loops of a reduction that is one perfect nest")
        for part in chain:
            if part.kind != "serial":
                raise self._refusal("TL-S107", f"the loop {short(part.loop)!r} is already {part.kind}; separate before")
        return chain

    def _require_reduction(self, nest: Nest, store: Store, chain: Sequence[For], asked: Iterable[Expr]) -> None:
        """Raise `Refusal` unless the inner loops are of the reduction and stand in no other's bounds, and nothing is read that is made."""
        moved = closure(nest, frozenset().union(*map(axes_of, store.index)))
        own = next((loop for loop in self.loops if loop in moved), None)
        if store.reducer is None or own is not None:
            reason = f"{self.stage!r} combines nothing" if store.reducer is None else f"{short(own or '')!r} moves its element"
            raise self._refusal("TL-S304", f"{reason}; name loops over a reduction axis")
        for loop in chain:
            bounds = closure(nest, axes_of(loop.lo) | axes_of(loop.hi)) & set(self.loops)
            if bounds and loop.loop not in self.loops:
                raise self._refusal("TL-S104", f"the bounds of {short(loop.loop)!r} depend on {short(min(bounds))!r}; name both")
        ends = [end for loop in chain for end in (loop.lo, loop.hi)]
        read = frozenset().union(*map(read_in, (*store.values, *store.index, *asked, *ends)))
        if read & {buffer.name for buffer in store.buffers}:
            raise self._refusal("TL-S303", f"{self.stage!r} reads what it makes, so that the elements take turns")

    def _require_small(self, local: Sequence[Buffer]) -> None:
        size = literal_bytes(local[0].shape, local)
        if size > MAX_PARTIAL_BYTES:
            raise self._refusal("TL-S203", f"what is combined first is too large to be stored: {size} bytes, at most {MAX_PARTIAL_BYTES}")

    def _all_there(self, nest: Nest, labels: Iterable[str]) -> Nest:
        """The nest. Raises `Refusal` where what is read or written exists only under a condition that is not asked there any more."""
        for label in (*labels, self.stage):
            self._require_exists(nest, label)
        return nest

    def _require_exists(self, nest: Nest, stage: str) -> None:
        (store,) = stores_of(nest.body, (stage,))
        bare = unprotected(nest, store)
        if bare is not None:
            reason = f"{self.stage!r} uses elements of {bare.name!r} that exist only under a condition, which it would leave"
            raise self._refusal("TL-S302", reason)


def _combining_first(nest: Nest, plan: Plan, label: str, local: tuple[Buffer, ...]) -> Stmt:
    """The stage of the inner loops, with a loop for each coordinate: its start, and what it combines."""
    store, portion, names = plan.store, plan.portion, FreshNames.of(nest)
    assert store.reducer is not None
    start, around = (sweep(portion.coordinates, local[0].shape, store, stage, names) for stage in (f"{label}.init", label))
    values = values_at(portion.coordinates, around)
    fresh = {loop.loop: names.fresh(f"{label}.{short(loop.loop)}") for loop in plan.inner}

    def over(expr: Expr) -> Expr:
        fixed = portion.quotients.within(expr)
        return simplify(rewritten(substitute(fixed, {old: Axis(new) for old, new in fresh.items()}), values))

    inner = [For(fresh[loop.loop], over(loop.lo), over(loop.hi), store) for loop in plan.inner]
    told = any(reads_data(end) for loop in inner for end in (loop.lo, loop.hi))  # a range that data tell may exist under a condition alone
    outside = [cond for cond in portion.conditions if told and not axes_of(cond) & fresh.keys()]
    inside = [cond for cond in portion.conditions if cond not in outside]

    def where(asked: Sequence[Expr], stmt: Stmt) -> Stmt:
        return If(conjunction(map(over, asked)), stmt) if asked else stmt

    combined = where(inside, Store(label, local, axes(around), tuple(map(over, portion.values)), store.reducer))
    first = Store(f"{label}.init", local, axes(start), store.reducer.identities)
    return block(nested(start, first), nested(around, where(outside, nested(inner, combined))))


def _combining_the_rest(plan: Plan, local: tuple[Buffer, ...]) -> Stmt:
    """The loops that stay, over what was combined first."""
    place = tuple(plan.portion.quotients.undone(part.place) for part in plan.portion.coordinates)
    factors, left = plan.portion.factors, plan.left_behind()
    read = tuple(Load(buffer, place) for buffer in local)
    store = replace(plan.store, values=(product((*factors, *read)),) if factors else read)
    return nested(plan.outer, If(conjunction(left), store) if left else store)


def _tails(nest: Nest, around: Sequence[For], chain: Sequence[For]) -> list[Expr]:
    """Where the statement runs, of tiles that may reach beyond the end and have a loop in the chain."""
    outside = in_scope(nest, (loop.loop for loop in around if loop not in chain))
    own = (relation for relation in in_scope(nest, (loop.loop for loop in around)) if relation not in outside)
    cut = (part for part in own if isinstance(part, WindowRelation) or (isinstance(part, SplitRelation) and not is_filled(part)))
    return list(map(condition, cut))
