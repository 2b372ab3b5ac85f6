"""What a stage does, read from its loops and indices: which axes its output has, which it reduces over, who reuses what."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from math import gcd, prod

from tensorlang.algebra.bounds import conjuncts, values
from tensorlang.ir import Axis, Binary, Buffer, Call, Const, Dim, Expr, For, If, Load, Nest, Store, Tail
from tensorlang.ir.dtype import DType
from tensorlang.ir.integers import ASSUMED_EXTENT
from tensorlang.ir.linear import linear
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, loads_of, nodes, walk
from tensorlang.schedules.legality.accesses import accesses_to
from tensorlang.schedules.rewriting.edit import extent_of, literal_extent, loops, path_to, stage_of, stores, stores_within
from tensorlang.schedules.rewriting.literal_ranges import literal_ranges
from tensorlang.schedules.rewriting.quotients import is_quotient
from tensorlang.schedules.rewriting.ragged import Ragged, ragged
from tensorlang.schedules.rewriting.region import expand
from tensorlang.system.lazy import cached_property


@dataclass(frozen=True)
class StageInfo:
    """One stage of a nest, its indices over its own loops and those around it.

    `around` are the loops around it that are not its own, outermost first: the steps of a scan, the elements in whose expression it is a
    sum. What is `asked` around its statement decides whether it runs.
    """

    name: str
    store: Store
    loops: tuple[For, ...]
    ragged: Ragged = field(default_factory=Ragged)
    around: tuple[For, ...] = ()
    asked: tuple[Expr, ...] = ()

    @cached_property
    def outer(self) -> tuple[For, ...]:
        """The loops over the elements of the output, outermost first."""
        index = frozenset().union(*(axes_of(part) for part in self.store.index)) if self.store.index else frozenset()
        return tuple(loop for loop in self.loops if loop.loop in index)

    @cached_property
    def reduced(self) -> tuple[For, ...]:
        """The loops of the reduction, outermost first."""
        return tuple(loop for loop in self.loops if loop not in self.outer)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """What each iteration reads."""
        read = (*self.asked, *self.store.values)
        return tuple(load for value in read for load in loads_of(value) if isinstance(load.buffer, Buffer))

    @property
    def conditional(self) -> bool:
        """Does something decide whether it runs?"""
        return bool(self.asked)

    @property
    def scatters(self) -> bool:
        """Does data tell where it writes, or an expression over its loops, so that two iterations may write the same element?"""
        return any(axes_of(part) and not isinstance(part, Axis) for part in self.store.index)

    @property
    def is_pointwise_intermediate(self) -> bool:
        """Is it one tensor that is no result, each element computed by itself?"""
        (buffer, *others) = self.store.buffers
        return not (others or self.reduced or self.store.reducer) and buffer.memory != "argument"

    @property
    def combines(self) -> bool:
        """Is it a reduction whose elements its loops tell?"""
        return self.store.reducer is not None and not self.scatters

    @cached_property
    def followed(self) -> frozenset[str]:
        """The loops over its elements along which it reads of what it makes the same place alone: all of one that is no recurrence."""
        own = {buffer.name for buffer in self.store.buffers}
        read = [load.index for load in self.loads if tensor_of(load).name in own]
        places = zip(self.store.index, *read, strict=True)
        return frozenset(
            axis.name for axis, *others in places if isinstance(axis, Axis) and all(linear(other) == linear(axis) for other in others)
        )

    @property
    def turns(self) -> int:
        """How often all of it runs, with a guess for extents known only at run time."""
        return 0 if any(map(_is_empty, (*self.around, *self.loops))) else prod(map(size, self.around))

    @property
    def scatters_within(self) -> bool:
        """The same of one turn of the loops around it: a state in a ring, at `t % 2`, has all elements of a step at places of their own."""
        own = {loop.loop for loop in self.loops}
        return any(axes_of(part) & own and not isinstance(part, Axis) for part in self.store.index)

    @property
    def is_idle(self) -> bool:
        """Does it never run, as far as literals and the bounds of dims tell?"""
        return self.turns == 0 or self.written() == 0 or self._asks_in_vain

    @cached_property
    def _asks_in_vain(self) -> bool:
        """Is there something asked that no iteration fulfils, as `t >= n` of `t < n`?"""
        within = literal_ranges((loop.loop, loop.lo, loop.hi) for loop in (*self.around, *self.loops))
        return any(values(part, within) == (0, 0) for part in conjuncts(self.asked))

    @property
    def widest(self) -> DType:
        """The widest type that it reads or writes: that of its lanes."""
        return max((self.store.buffers[0].dtype, *(load.buffer.dtype for load in self.loads)), key=lambda kind: kind.bits)

    @property
    def iterations(self) -> int:
        """How often the statement runs, with a guess for extents known only at run time."""
        return prod(max(1, self.length(loop)) for loop in self.loops)

    def length(self, loop: For) -> int:
        """How often a loop runs, with a guess where data or the call tells."""
        if loop.loop not in self.ragged.bounded:
            return size(loop)
        keys = [part for part in (*self.around, *self.loops) if part.loop in self.ragged.keys]
        known = prod(map(size, keys)) if all(map(is_literal, (loop, *keys))) else None
        return int(self.ragged.length(loop.loop, size(loop), known))

    def written(self, skipped: int = 0) -> int | None:
        """Bytes of what it writes along the axes after the first `skipped`; None where that is not a literal."""
        total = 0
        for buffer in self.store.buffers:
            extents = [extent.value for extent in buffer.shape[skipped:] if isinstance(extent, Const)]
            if len(extents) < len(buffer.shape) - skipped:
                return None
            total += prod(map(int, extents)) * buffer.dtype.bytes
        return total

    def moves(self, load: Load, loop: For) -> int | None:
        """How far a load moves in memory per iteration of a loop, in elements of its last dimension: 0, 1, another stride, or None."""
        moved = [loop.loop in axes_of(part) for part in load.index]
        if not any(moved):
            return 0
        return None if any(moved[:-1]) else linear(load.index[-1]).terms.get(Axis(loop.loop))

    @cached_property
    def _strides(self) -> dict[tuple[int, str], tuple[Load | Store, int | None]]:
        """Those that were asked for, by the identities of accesses, which are kept with them."""
        return {}

    def stride(self, access: Load | Store, loop: For) -> int | None:
        """How far an access moves in memory per iteration of a loop, in elements; None where that is not a constant."""
        key = id(access), loop.loop
        if key not in self._strides:
            self._strides[key] = access, self._stride(access, loop)
        return self._strides[key][1]

    @staticmethod
    def _stride(access: Load | Store, loop: For) -> int | None:
        buffer = access.buffer if isinstance(access, Load) else access.buffers[0]
        shape = buffer.shape if isinstance(buffer, Buffer) else ()
        total, step = 0, 1
        for place, extent in zip(reversed(access.index), reversed(shape), strict=True):
            if loop.loop in axes_of(place):
                terms = linear(place).terms
                factor = terms.get(Axis(loop.loop))
                rest = terms.keys() - {Axis(loop.loop)}
                if factor is None or step < 0 or any(loop.loop in axes_of(part) for part in rest):
                    return None
                total += factor * step
            step = step * int(extent.value) if isinstance(extent, Const) and step > 0 else -1
        return total

    def beside(self, *loops: For) -> list[str]:
        """The other loops over the elements of the output, outermost first, by name."""
        return [loop.loop for loop in self.outer if loop not in loops]

    def contiguous(self, loop: For) -> bool:
        """Does some load walk its tensor element by element along this loop?"""
        return any(self.moves(load, loop) == 1 for load in self.loads)

    def groups(self, loops: tuple[For, ...]) -> tuple[LoopGroup, ...]:
        """The loops of more than one iteration, those joined that every access walks as one (the rows and columns of an image)."""
        found: list[LoopGroup] = []
        for loop in (loop for loop in loops if size(loop) != 1):
            last = found[-1].loops[-1] if found else None
            if last is not None and self._adjacent(last, loop) and self._walked_as_one(last, loop):
                found[-1] = LoopGroup((*found[-1].loops, loop))
            else:
                found.append(LoopGroup((loop,)))
        return tuple(found)

    def _adjacent(self, outer: For, inner: For) -> bool:
        place = self.loops.index(outer)
        return self.loops[place + 1 : place + 2] == (inner,)

    def _walked_as_one(self, outer: For, inner: For) -> bool:
        if not (is_literal(outer) and is_literal(inner) and from_zero(outer) and from_zero(inner)):
            return False
        walked: tuple[Load | Store, ...] = (*self.loads, self.store)
        pairs = [(self.stride(access, outer), self.stride(access, inner)) for access in walked]
        return all(far is not None and near is not None and far == size(inner) * near for far, near in pairs)


@dataclass(frozen=True)
class LoopGroup:
    """Adjacent loops that every access of a stage walks as if they were one."""

    loops: tuple[For, ...]

    @property
    def last(self) -> For:
        """The innermost, whose stride is the group's."""
        return self.loops[-1]

    @cached_property
    def size(self) -> int:
        """Iterations of them all."""
        return prod(max(1, size(loop)) for loop in self.loops)

    @property
    def literal(self) -> bool:
        """Is the number of iterations a literal?"""
        return all(map(is_literal, self.loops))


def size(loop: For) -> int:
    """The number of iterations to plan for: a guess where it is known only at run time, and 1 where there is none.

    It divides work, bytes and tiles, and whatever is planned for a loop that never runs is right.
    """
    extent = literal_extent(loop)
    return ASSUMED_EXTENT if extent is None else max(1, extent)


def _is_empty(loop: For) -> bool:
    extent = extent_of(loop)
    return (isinstance(extent, Const) and extent.value <= 0) or (isinstance(extent, Dim) and extent.most == 0)


def utilization(extent: int, tile: int) -> float:
    """The share of the elements of whole tiles that are wanted; an extent of 0 counts as 1."""
    return max(1, extent) / whole_tiles(max(1, extent), tile)


def whole_tiles(extent: int, tile: int) -> int:
    """An extent, rounded up to tiles."""
    return -(-extent // tile) * tile


def is_literal(loop: For) -> bool:
    """Is the number of iterations a literal?"""
    return literal_extent(loop) is not None


def divisors(stage: StageInfo, loop: For, *, decided: bool = False) -> Iterator[int]:
    """Where the index of a loop is divided, how many of its iterations make a quotient.

    `decided`: only where nothing else of the index is left within a digit, so that a loop for each digit decides the quotient.
    """
    for load in stage.loads:
        for node in (node for part in load.index for node in walk(part)):
            if isinstance(node, Binary) and is_quotient(node) and isinstance(node.right, Const):
                form, by = linear(node.left), int(node.right.value)
                factor = form.terms.get(Axis(loop.loop))
                others = [form.constant, *(other for atom, other in form.terms.items() if atom != Axis(loop.loop))]
                if factor is not None and not (decided and any(other % by for other in others)):
                    yield by // gcd(factor, by)


def tail_of(literal: bool, otherwise: Tail) -> Tail:
    """How a split handles the iterations that fill no tile: peeled off where the number of iterations is a literal."""
    return "peel" if literal else otherwise


def partial_results(stages: Iterable[str], known: Container[str]) -> str:
    """The stage of partial results that `rfactor` made, of all stages and those that were known before."""
    return next(name for name in stages if name not in known and not name.endswith(".init"))


def tensor_of(load: Load) -> Buffer:
    """The tensor that a stage reads (`StageInfo.loads` has loads of tensors only)."""
    assert isinstance(load.buffer, Buffer)
    return load.buffer


def from_zero(loop: For) -> bool:
    """Is the first iteration 0?"""
    return isinstance(loop.lo, Const) and loop.lo.value == 0


def stages_of(nest: Nest) -> tuple[StageInfo, ...]:
    """The stages of a nest, initialisations aside, in program order, each with the loops that nothing else runs in."""
    return tuple(_stages(nest))


def stage_named(nest: Nest, name: str) -> StageInfo:
    """The stage of that name, which there is."""
    return next(_stages(nest, name))


def _stages(nest: Nest, only: str | None = None) -> Iterator[StageInfo]:
    every = [*stores_within(nest.body)]
    paths = {store.stage: found for store, found, _ in every}
    shared = {part.loop for store, found, _ in every for part in found if not f"{store.stage}.".startswith(f"{stage_of(part.loop)}.")}
    for store, _, asked in every:
        if not store.stage.endswith(".init") and only in (None, store.stage):
            path = paths[store.stage]
            own = tuple(loop for loop in path if stage_of(loop.loop) == store.stage and loop.loop not in shared)
            beside = tuple(loop for loop in path if loop not in own)
            over = tuple(expand(nest, cond, [loop.loop for loop in path]) for cond in asked) if nest.relations else asked
            yield StageInfo(store.stage, _over_loops(nest, store, path), own, _ragged(nest, asked), beside, over)


def _ragged(nest: Nest, conditions: tuple[Expr, ...]) -> Ragged:
    """What the conditions around a statement tell of ranges, of its loops."""
    found = ragged(conditions)
    return Ragged(closure(nest, found.bounded), closure(nest, found.keys), closure(nest, found.apart))


def _over_loops(nest: Nest, store: Store, loops: tuple[For, ...]) -> Store:
    """A store whose indices name loops, not what loops were split from."""
    if not nest.relations:
        return store
    names = [loop.loop for loop in loops]
    index = tuple(expand(nest, part, names) for part in store.index)
    return replace(store, index=index, values=tuple(expand(nest, value, names) for value in store.values))


def perfectly_nested(nest: Nest, stage: StageInfo) -> bool:
    """Are the loops of a stage still there, with nothing between them and no other loop inside, so that they can change places?"""
    first, last = stage.loops[0].loop, stage.loops[-1].loop
    path = path_to(nest.body, lambda part: isinstance(part, For) and part.loop == last, (last,))
    inside = list(dropwhile(lambda part: not (isinstance(part, For) and part.loop == first), path))
    return bool(inside) and all(isinstance(part, For) for part in inside) and sum(1 for _ in loops(inside[-1])) == 1


def standing(nest: Nest, stage: StageInfo) -> tuple[str, ...]:
    """The loops around a stage that are named after it, outermost first; where the nest has versions, those of the one that has its own."""
    body = nest.body
    while isinstance(body, If) and body.orelse is not None and stage.loops:
        body = body.then if any(part.loop == stage.loops[0].loop for part in loops(body.then)) else body.orelse
    own = (part for part in loops(body) if stage_of(part.loop) == stage.name)
    return tuple(part.loop for part in own if any(store.stage == stage.name for store in stores(part.body)))


def readers(nest: Nest, buffers: tuple[Buffer, ...]) -> list[tuple[str, tuple[Expr, ...]]]:
    """The stages that read any of the buffers, with the index of each read."""
    names = {buffer.name for buffer in buffers}
    return [(access.stage, access.index) for access in accesses_to(names, nest.body) if not access.writes]


def label(loop: For | str) -> str:
    """The short name of a loop."""
    return short(loop if isinstance(loop, str) else loop.loop)


def is_dear(expr: Expr) -> bool:
    """Has it a function, or a division by what is no literal? Anything else costs little more than the load that it becomes."""
    return any(isinstance(node, Call) or (isinstance(node, Binary) and _divides(node)) for node in nodes(expr))


def _divides(node: Binary) -> bool:
    return node.op in ("div", "floordiv", "mod") and not isinstance(node.right, Const)
