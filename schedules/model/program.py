"""A nest as the model reads it: loops with their trips, and statements with what each iteration computes and touches.

Every index is linear in the loops (`walks`). A split that peels runs its outer loop a fraction of a time for the tile that is not whole. Of
the two sides of a condition on loops the one that later iterations take is counted; what data decides counts as if it held.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tensorlang.algebra.bounds import Bounds
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Buffer,
    Compare,
    Const,
    Dim,
    Expr,
    For,
    FuseRelation,
    If,
    Nest,
    Relation,
    Select,
    SplitRelation,
    Stmt,
    Store,
    Unary,
    WindowRelation,
)
from tensorlang.ir.integers import ARITHMETIC, ASSUMED_EXTENT, COMPARE
from tensorlang.ir.linear import linear
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.relations import in_scope
from tensorlang.ir.traverse import axes_of, reads_data, rewrite, walk
from tensorlang.schedules.model.cases import in_one_case
from tensorlang.schedules.model.domains import Domain, conditions_on, cut_loops, cuts
from tensorlang.schedules.model.hints import Hint, asked_for, hinted
from tensorlang.schedules.model.latencies import depth, latencies
from tensorlang.schedules.model.operations import Operations, is_summed_product
from tensorlang.schedules.model.parts import Apart, Chosen, Loop, Part, Statement, slots_of
from tensorlang.schedules.model.ranges import ranges
from tensorlang.schedules.model.told_ranges import ToldRanges
from tensorlang.schedules.model.walks import Around, LinearAccess, Term, Terms, added, each_told, gathered, nearest, runs_of, told_by
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.rewriting.quotients_of_loops import is_rounded
from tensorlang.schedules.rewriting.small_tables import SHUFFLES, small_table


def program(nest: Nest, dims: Mapping[str, int] | None = None) -> tuple[Part, ...]:
    """The loops and statements of a nest, in program order."""
    return tuple(_Reader(nest, dims or {}).parts(nest.body))


@dataclass(slots=True)
class _Reader:
    nest: Nest
    dims: Mapping[str, int]
    axes: dict[str, Terms] = field(default_factory=dict)
    pending: dict[str, Relation] = field(default_factory=dict)
    begins: dict[str, Expr] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)
    splits: dict[str, SplitRelation] = field(default_factory=dict)
    tiles: dict[str, SplitRelation] = field(default_factory=dict)
    shapes: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    indices: dict[int, tuple[Expr, int, Terms]] = field(default_factory=dict)
    middles: dict[str, float] = field(default_factory=dict)
    around: list[Around] = field(default_factory=list)
    made: dict[str, frozenset[str]] = field(default_factory=dict)
    hinted: dict[str, Hint] = field(default_factory=dict)
    numbering: Numbering = field(default_factory=Numbering)
    domain: Domain = field(default_factory=Domain)
    cut: frozenset[str] = frozenset()
    shares: dict[str, float] = field(default_factory=dict)
    by_data: ToldRanges = field(default_factory=ToldRanges)
    count: int = 0
    guards: list[Expr] = field(default_factory=list)
    known: Bounds | None = None

    def __post_init__(self) -> None:
        splits = [relation for relation in self.nest.relations if isinstance(relation, SplitRelation)]
        self.splits = {relation.outer: relation for relation in splits}
        self.tiles = {relation.inner: relation for relation in splits}
        found = [*loops(self.nest.body)]
        self.begins = self._beginnings(found)
        self.once = {loop.loop for loop in found if self._number(Binary("sub", loop.hi, loop.lo)) == 1}
        for relation in in_scope(self.nest, [loop.loop for loop in found]):
            for name in (relation.outer, relation.inner) if isinstance(relation, FuseRelation) else (relation.parent,):
                self.pending[name] = relation
        for name in [*self.pending, *self.begins]:
            self._axis(name)
        self.cut = cut_loops(self.nest.body, self.linear)
        self.by_data = ToldRanges.of(self.nest, self._bounds())

    def _beginnings(self, found: Iterable[For]) -> dict[str, Expr]:
        """Where loops begin that others tell: of a clamp the side that counts in the middle of those."""
        begins, middles = dict[str, Expr](), dict[str, float]()
        for loop in found:
            ends = self._middle(loop.lo, middles), self._middle(loop.hi, middles)
            middles[loop.loop] = sum(end or 0.0 for end in ends) / 2
            if not isinstance(loop.lo, Const):
                begins[loop.loop] = self._counting(loop.lo, middles)
        return begins

    def _counting(self, bound: Expr, middles: Mapping[str, float]) -> Expr:
        """The side of a clamp that counts there; what is no clamp as it is."""
        while isinstance(bound, Binary) and bound.op in ("min", "max"):
            left, right = self._middle(bound.left, middles) or 0.0, self._middle(bound.right, middles) or 0.0
            bound = bound.left if (left <= right) == (bound.op == "min") else bound.right
        return bound

    def _follow(self, relation: Relation) -> None:
        """What a relation says of the axes that it gives."""
        match relation:
            case SplitRelation(parent, outer, inner, factor, lo):
                self.axes[parent] = added((self.linear(lo), 1), (self._axis(outer), factor), (self._axis(inner), 1))
            case FuseRelation(fused, outer, inner, _, _, extent):
                length = self._number(extent) or ASSUMED_EXTENT
                terms = self._axis(fused)
                self.axes[outer] = {name: Term(term.coefficient / length, term.period) for name, term in terms.items()}
                self.axes[inner] = {name: Term(term.coefficient, length) for name, term in terms.items()}
            case WindowRelation(parent, inner, base):
                self.axes[parent] = added((self.linear(base), 1), (self._axis(inner), 1))

    def _axis(self, name: str) -> Terms:
        """An axis as terms of loops; a loop that begins where others are counts from there."""
        if name not in self.axes:
            relation, begin = self.pending.pop(name, None), self.begins.pop(name, None)
            self.axes[name] = {} if name in self.once else {name: Term(1.0)}
            if relation is not None:
                self._follow(relation)
            elif begin is not None:
                self.axes[name] = added((self.linear(begin), 1), (self.axes[name], 1))
        return self.axes[name]

    def linear(self, expr: Expr) -> Terms:
        """An index as terms of loops; of what is not linear (a clamp, a table), about how far it moves."""
        return self._index(expr)[1]

    def _index(self, expr: Expr) -> tuple[int, Terms]:
        """Its literal, and its terms."""
        known = self.indices.get(id(expr))
        if known is not None:
            return known[1:]
        form = linear(expr)
        literal, parts = float(form.constant), list[tuple[Terms, float]]()
        for atom, factor in form.terms.items():
            match atom:
                case Axis(name):
                    parts.append((self._axis(name), factor))
                case Binary("floordiv", inner, Const(value)) if value:
                    within, walked = self._index(inner)
                    literal += factor * math.copysign(math.ceil(abs(within) / value), within)  # `(i + 1) // 2` reads others than `i // 2`
                    parts.append((told_by(inner, walked), factor / float(value)))
                case Binary("mod", inner, Const(value)) if value:
                    within, walked = self._index(inner)
                    literal += factor * nearest(within, int(value))
                    parts.append(({name: term._replace(period=float(value)) for name, term in walked.items()}, factor))
                case _:  # in the middle of the loops, a clamp does nothing, and `i ^ 4` is another neighbour than `i ^ 2`
                    sides = (atom.left, atom.right) if isinstance(atom, Binary) and atom.op in ("min", "max") else ()
                    clamped = next((found for found in map(self._index, sides) if found[1]), None)
                    if clamped is not None:
                        literal += factor * clamped[0]
                        parts.append((told_by(atom, clamped[1]), factor))
                        continue
                    walks = [told_by(atom, self._axis(name)) for name in sorted(axes_of(atom))]
                    parts.extend((terms, factor) for terms in walks)
                    literal += factor * ((self._middle(atom) or 0.0) - sum(int(self._walked(terms)) for terms in walks))
        found = added(*parts) if len(parts) != 1 or parts[0][1] != 1 else parts[0][0]
        self.indices[id(expr)] = expr, int(literal), found
        return int(literal), found

    def _walked(self, terms: Terms) -> float:
        """Where terms are in the middle of their loops."""
        return sum(term.coefficient * self.middles.get(loop, 0.0) for loop, term in terms.items())

    def _number(self, expr: Expr) -> float | None:
        """The value of an extent, None where loops or data decide."""
        form = linear(expr)
        total = float(form.constant)
        for atom, factor in form.terms.items():
            if not isinstance(atom, Dim):
                return None
            total += factor * self.dims.get(atom.name, max(ASSUMED_EXTENT, atom.least) if atom.most >= ASSUMED_EXTENT else atom.most)
        return total

    def _trips(self, loop: For) -> float:
        """How often a loop runs, on the average where it begins elsewhere in the first iteration of one around."""
        choice = next((node for node in walk(loop.lo) if isinstance(node, Select)), None)
        share = None if choice is None else self._share(choice.cond)
        if choice is None or share is None:
            return self._trips_of(loop)

        def started(side: Expr) -> float:
            return self._trips_of(replace(loop, lo=rewrite(loop.lo, lambda node: side if node == choice else node)))

        return share * started(choice.yes) + (1 - share) * started(choice.no)

    def _share(self, cond: Expr) -> float | None:
        """The share of the iterations of a loop around in which it is beyond its first; None where something else is asked."""
        match cond:
            case Compare("gt", Axis(name), Const(0)):
                return next((1 - 1 / max(trips, 1.0) for around, trips, _ in self.around if around == name), None)
            case _:
                return None

    def _trips_of(self, loop: For) -> float:
        exact = self._number(Binary("sub", loop.hi, loop.lo))
        split = self.splits.get(loop.loop) or self.tiles.get(loop.loop)
        whole = None if split is None else self._number(Binary("sub", split.hi, split.lo))
        if split is not None and whole is not None:
            wanted = self._wanted(split, whole)
            if loop.loop == split.inner:
                exact = exact if exact is None else min(exact, wanted)
            elif exact is None or wanted < whole or exact - 1 < whole / split.factor < exact:
                return max(1.0, wanted / split.factor)
        if exact is not None:
            return max(exact, 0.0)
        ends = self._middle(loop.hi), self._middle(loop.lo)
        if split is not None and whole is not None and None in ends:
            return min(whole, split.factor)
        return ASSUMED_EXTENT / 2 if ends[0] is None or ends[1] is None else max(ends[0] - ends[1], 0.0)

    def _wanted(self, split: SplitRelation, whole: float) -> float:
        """The iterations that a split divides: no more than there are of the one whose tile it divides, which may have but one, in part."""
        around = self.tiles.get(split.parent)
        further = None if around is None else self._number(Binary("sub", around.hi, around.lo))
        return whole if around is None or further is None else min(whole, self._wanted(around, further))

    def _tiles(self, loop: str) -> float:
        """How many tiles there are of the one that a loop runs through; 1 where the last one runs like the others, or is not known."""
        split = self.tiles.get(loop)
        if split is not None and split.outer in self.shares:  # of those that conditions cut, the share of whole ones
            return self.shares[split.outer]
        if split is None or split.tail != "peel":
            return 1.0
        return (self._number(Binary("sub", split.hi, split.lo)) or split.factor) / split.factor

    def _middle(self, expr: Expr, middles: Mapping[str, float] | None = None) -> float | None:
        """The value of a bound in the middle of the loops around it, or where they are told to be; None where data decides."""
        match expr:
            case Const() | Dim():
                return self._number(expr)
            case Axis(name):
                return self._walked(self._axis(name)) if middles is None else middles.get(name, 0.0)
            case Unary("neg", operand):
                inner = self._middle(operand, middles)
                return None if inner is None else -inner
            case Binary(op, left, right) if op in ARITHMETIC:
                one, other = self._middle(left, middles), self._middle(right, middles)
                return None if one is None or other is None else ARITHMETIC[op](int(one), int(other))
            case Compare(op, left, right):
                one, other = self._middle(left, middles), self._middle(right, middles)
                return None if one is None or other is None else COMPARE[op](int(one), int(other))
            case Select(cond, yes, no):
                return self._middle(yes if self._middle(cond, middles) else no, middles)
            case _:
                return None

    def parts(self, stmt: Stmt) -> Iterator[Part]:
        """The loops and statements within a statement."""
        match stmt:
            case Block(body):
                for part in body:
                    yield from self.parts(part)
            case Alloc(buffers, body):
                self.made |= dict.fromkeys((buffer.name for buffer in buffers), frozenset(name for name, *_ in self.around))
                yield from self.parts(body)
            case If(cond, then, orelse):
                self.guards.append(cond if orelse is None else Const(1))  # a version is chosen once
                yield from self.parts(then if orelse is None or self._told(cond) else orelse)
                self.guards.pop()
            case For(name, _, _, body, kind):
                most, domain = self._trips(stmt), self.domain
                trips = self._entered(stmt, most)
                self.middles[name] = (self._middle(stmt.lo) or 0.0) + trips / 2
                self.around.append((name, trips, kind))
                asked, self.hinted = self.hinted, self.hinted | hinted(body, name, trips, lambda part: self._index(part)[0])
                inner = tuple(self.parts(body))
                self.around.pop()
                self.domain, self.hinted = domain, asked
                if trips == most == 1:
                    yield from inner
                elif inner and trips > 0:
                    tile = name in self.tiles and self.tiles[name].outer in self.shares
                    yield Loop(name, trips, kind, inner, self._tiles(name), tile or trips < most, slots_of(stmt.instruction))
            case Store():
                yield self._statement(in_one_case(stmt))
            case _:
                return

    def _entered(self, loop: For, trips: float) -> float:
        """How often a loop runs that conditions cut; what is inside of it is asked for at places of it from here on."""
        split = self.splits.get(loop.loop)
        if (told := self.by_data.trips(loop, split or self.tiles.get(loop.loop))) is not None:
            if split is not None:
                self.shares[loop.loop] = self.by_data.whole(split)
            return min(trips, told)
        if loop.loop not in self.cut:
            return trips
        conditions, inside = conditions_on(loop.body) if loop.kind in ("serial", "parallel") else ([], [])
        found = [cut for condition in conditions for cut in cuts(condition, self.linear) if cut.loops.get(loop.loop)]
        length, self.domain = self.domain.entered(loop.loop, trips, found, {part.loop: self._trips(part) for part in inside})
        if length.begun < trips:
            self.shares[loop.loop] = length.whole / length.begun
        return min(trips, length.begun)

    def _bounds(self) -> Bounds:
        if self.known is None:
            self.known = ranges(self.nest, loops(self.nest.body))
        return self.known

    def _told(self, cond: Expr) -> bool:
        """Does a condition on dims hold for the values that are given? One on data does."""
        known = all(not isinstance(part, Axis) and (not isinstance(part, Dim) or part.name in self.dims) for part in walk(cond))
        return reads_data(cond) or (known and bool(self._middle(cond)))

    def _statement(self, store: Store) -> Statement:
        self.count += 1
        counted = Operations(self._axis, partial(self._access, reads=True, writes=False), self.made, self.numbering, self._bounds)
        guards = [cond for cond in self.guards if reads_data(cond)]
        told = [part for part in store.index if reads_data(part)]
        operations = counted.count((*guards, *store.values, *told))
        read = each_told(counted.reads.values())
        work, kinds, combines = dict(counted.work), (counted.sums, counted.light), store.reducer is not None
        results = () if store.reducer is None else store.reducer.results
        plain = [result for value, result in zip(store.values, results, strict=False) if not is_summed_product(value, result)]
        joining = counted.count(plain)
        operations, kinds = operations + joining, (counted.sums, counted.light)
        joining += counted.count(result for result in results if result not in plain)
        longest = max((counted.count((result,)) for result in results), default=0.0)
        writes = [self._access(buffer, store.index, reads=combines, writes=True, streams=store.stream) for buffer in store.buffers]
        bits = max(access.buffer.dtype.bits for access in (*read, *writes))  # where it writes is computed in lanes of 64 bits anyway
        moving = frozenset(name for access in writes for terms in access.terms for name in terms)
        moving = moving.union(*(self.made.get(buffer.name, ()) for buffer in store.buffers))
        kept = gathered(access for access in (*read, *writes) if access.buffer.memory != "register")
        return Statement(
            store.stage,
            self.count,
            operations,
            kept,
            moving,
            combines,
            joining,
            bits,
            tuple(counted.asked),
            self._carried(store, counted.reads.values()),
            tuple(Chosen(loops, own, woven) for (loops, woven), own in counted.edges.items()),
            tuple(counted.divided),
            tuple(Apart(loops, own) for loops, own in work.items() if loops != moving.union(*work)),
            *kinds,
            len(store.buffers),
            longest,
            frozenset(name for part in told for name in self.linear(part)),
            frozenset(name for part in store.index if part not in told for name in self.linear(part)) if told else frozenset(),
            len(guards),
            depth(store.values),
            counted.held,
            any(access.buffer.memory == "register" for access in read),
        )

    def _carried(self, store: Store, reads: Iterable[LinearAccess]) -> tuple[tuple[str, tuple[int, ...], float], ...]:
        """What a statement reads of what it writes, at places that move as those do."""
        own = frozenset(buffer.name for buffer in store.buffers if buffer.memory != "register")
        if not any(read.buffer.name in own for read in reads):
            return ()
        wanted, found = [self._index(part)[1] for part in store.index], list[tuple[str, tuple[int, ...], float]]()
        for load, latency in latencies(store.values, own).items():
            assert isinstance(load.buffer, Buffer)
            offsets, terms = zip(*map(self._index, load.index), strict=True) if load.index else ((), ())
            if list(terms) == wanted:
                found.append((load.buffer.name, offsets, latency))
        return tuple(found)

    def _access(self, buffer: Buffer, index: tuple[Expr, ...], *, reads: bool, writes: bool, streams: bool = False) -> LinearAccess:
        extents, strides = self._shape(buffer)
        offsets, terms = zip(*map(self._index, index), strict=True) if index else ((), ())
        held = small_table(buffer, index, (SHUFFLES,))  # where registers hold it; elsewhere lanes do not read it (`rows.lanes`)
        told = () if held else tuple([place for place, part in enumerate(index) if reads_data(part) or is_rounded(part)])
        access = LinearAccess(buffer, buffer.dtype.bytes, extents, strides, (offsets,), terms, reads, writes, streams, told=told)
        return asked_for(access._replace(runs=runs_of(access, self.around)), self.hinted if reads else {})

    def _shape(self, buffer: Buffer) -> tuple[tuple[float, ...], tuple[float, ...]]:
        known = self.shapes.get(buffer.name)
        if known is None:
            extents = tuple(self._number(extent) or ASSUMED_EXTENT for extent in buffer.shape)
            strides = [float(buffer.dtype.bytes)]
            for held in reversed(buffer.in_memory[1:]):
                strides.append(strides[-1] * max(self._number(held) or ASSUMED_EXTENT, 1.0))
            known = self.shapes[buffer.name] = extents, tuple(reversed(strides)) if extents else ()
        return known
