"""`tensorize`: loops that one instruction computes.

    for j_i in range(16):                           tensor j_i in range(16):         # dpbusd
        for k_i in range(4):                ->          tensor k_i in range(4):
            C[j] += A[i, k] * B[j_o, k_o, j_i, k_i]         C[j] += A[i, k] * B[j_o, k_o, j_i, k_i]

The loops stay, as what the instruction means: they run where the target lacks it and in partial tiles.

Legal where the loops from `loop` inwards are those of the instruction's definition: as many, of the same extents, in the same order,
around the same statement on the same types, and each tensor is walked as the tile of the definition is (a stride for each loop). Tiles
that the definition may read in part only are refused: registers are loaded whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod
from typing import Annotated

from tensorlang.ir import Axis, Binary, Buffer, Call, Cast, Compare, Const, Expr, For, Load, Nest, Select, Stmt, Store, Unary, const
from tensorlang.ir.linear import linear
from tensorlang.ir.printer import short, text
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, children, dtype_of
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.directives.instructions import Instruction, find, named
from tensorlang.schedules.rewriting.edit import edit_loops, literal_extent, path_to, path_to_loop, require_no_vector, stores
from tensorlang.schedules.rewriting.region import expand

Tile = tuple[Buffer, tuple[Expr, ...]]


@dataclass(frozen=True, slots=True)
class Tensorize(Directive):
    """Let `instruction` compute the loops from `loop` inwards."""

    loop: LoopName
    instruction: Annotated[str, named]

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loops marked."""
        path = path_to_loop(nest, self.loop)
        outer = [part for part in path if isinstance(part, For)]
        require_no_vector(outer[:-1], self.loop)
        instruction = find(self.instruction)
        chain, store = perfect(outer[-1])
        if store is None:
            raise self._refusal("TL-S105", f"the loops from {short(self.loop)!r} inwards are not perfectly nested around one statement")
        busy = next((part for part in chain if part.kind != "serial"), None)
        if busy is not None:
            raise self._refusal("TL-S107", f"the loop {short(busy.loop)!r} is already {busy.kind}")
        found = tiles(nest, instruction, [part.loop for part in outer[:-1]], chain, store)
        if isinstance(found, str):
            raise self._refusal("TL-S306", f"the loops are not {self.instruction!r}: {found}")
        names = {part.loop for part in chain}

        def mark(part: For) -> Stmt:
            return replace(part, kind="tensor", instruction=self.instruction if part.loop == self.loop else None)

        return replace(nest, body=edit_loops(nest.body, lambda part: part.loop in names, mark))

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, loop=self.loop)


def perfect(loop: For) -> tuple[list[For], Store | None]:
    """The loops from one inwards and the store that they stand directly around, if they do."""
    chain, inner = [loop], loop.body
    while isinstance(inner, For):
        chain.append(inner)
        inner = inner.body
    return chain, inner if isinstance(inner, Store) else None


def tiles(nest: Nest, instruction: Instruction, outer: Sequence[str], chain: Sequence[For], store: Store) -> dict[str, Tile] | str:
    """The tensor and index that each tile of an instruction stands for in some loops, or in what they differ from it."""
    pattern = instruction.nest
    goal, loops = definition_of(instruction)
    if goal is None:
        return "its definition is not one statement in perfectly nested loops"
    extents, found = [literal_extent(part) for part in loops], [literal_extent(part) for part in chain]
    if found != extents:
        return f"it has loops of {_listed(extents)} iterations, and here are loops of {_listed(found)}"
    if guarded := _read_in_part(instruction):
        return f"it reads {guarded!r} only in part or under a condition, so a whole tile of it need not be there"
    match = _Match(nest, tuple(outer), tuple(chain), pattern, loops, {})
    if goal.reducer != store.reducer or len(store.buffers) != 1:
        return f"it {'stores' if goal.reducer is None else 'combines by ' + goal.reducer.name}, and {store.stage!r} does not"
    problem = match.tile(goal.buffers[0], goal.index, store.buffers[0], store.index) or match.value(goal.values[0], store.values[0])
    if problem:
        return problem
    output = store.buffers[0].name
    if any(buffer.name == output for name, (buffer, _) in match.found.items() if name != goal.buffers[0].name):
        return f"{output!r} is read and written"
    return match.found


@cache
def definition_of(instruction: Instruction) -> tuple[Store | None, tuple[For, ...]]:
    """The one statement of an instruction's definition and the loops perfectly nested around it; None where it is something else."""
    nest = instruction.nest
    wanted = [part for part in stores(nest.body) if not part.stage.endswith(".init")]
    loops = tuple(part for part in path_to(nest.body, lambda part: part in wanted) if isinstance(part, For))
    return (wanted[0], loops) if len(wanted) == 1 and loops and perfect(loops[0])[1] is wanted[0] else (None, ())


def elements(instruction: Instruction, tile: Buffer, index: tuple[Expr, ...], extents: Sequence[int]) -> set[int]:
    """The elements of a tile that an access of an instruction's definition touches, in loops of so many iterations."""
    steps = strides(instruction.nest, (), definition_of(instruction)[1], tile, index) or []
    return {sum(step * place for step, place in zip(steps, point, strict=True)) for point in product(*map(range, extents)) if steps}


@cache
def _read_in_part(instruction: Instruction) -> str | None:
    """A tile of which the definition may leave elements unread, as its registers do not; None where there is none."""
    store, loops = definition_of(instruction)
    assert store is not None
    extents = [literal_extent(part) or 0 for part in loops]
    loads = [load for value in store.values for load in _surely_read(value)]
    for tile in instruction.nest.inputs:
        read = set[int]().union(*(elements(instruction, tile, load.index, extents) for load in loads if load.buffer == tile))
        if not read >= set(range(tile_size(tile))):
            return tile.name
    return None


def tile_size(tile: Buffer) -> int:
    """The number of elements of a tile."""
    return prod(int(extent.value) for extent in tile.shape if isinstance(extent, Const))


def _surely_read(value: Expr) -> Iterator[Load]:
    """The loads of an expression that no condition keeps from being made."""
    match value:
        case Load():
            yield value
        case Select(cond, _, _):
            yield from _surely_read(cond)
        case Binary("and" | "or", left, _):
            yield from _surely_read(left)
        case _:
            for part in children(value):
                yield from _surely_read(part)


def _listed(extents: Sequence[int | None]) -> str:
    return " x ".join("?" if extent is None else str(extent) for extent in extents)


@dataclass(frozen=True, slots=True)
class _Match:
    """The loops here and in the definition, and the tiles found so far."""

    nest: Nest
    outer: tuple[str, ...]
    chain: tuple[For, ...]
    pattern: Nest
    loops: tuple[For, ...]
    found: dict[str, Tile]

    def value(self, goal: Expr, here: Expr) -> str:
        """How two expressions differ; "" if they do not."""
        match goal, here:
            case Load(wanted, at), Load(buffer, index) if isinstance(wanted, Buffer) and isinstance(buffer, Buffer):
                return self.tile(wanted, at, buffer, index)
            case Axis(), Axis():
                same = self.chain[[part.loop for part in self.loops].index(goal.name)]
                if here.name == same.loop and same.lo != const(0):
                    return f"{text(here)} begins at {text(same.lo)}, and {text(goal)} at 0"
                return "" if here.name == same.loop else f"{text(here)} stands for {text(goal)}"
            case Const(), Const():
                return "" if goal == here else f"{text(here)} stands for {text(goal)}"
            case Binary("add" | "mul" as op, left, right), Binary(other, a, b) if op == other and dtype_of(goal) == dtype_of(here):
                before = dict(self.found)
                problem = self.value(left, a) or self.value(right, b)
                if not problem:
                    return ""
                self._back(before)
                turned = self.value(left, b) or self.value(right, a)
                if turned:
                    self._back(before)
                return problem if turned else ""
            case _ if type(goal) is type(here) and dtype_of(goal) == dtype_of(here) and _head(goal) == _head(here):
                pairs = zip(children(goal), children(here), strict=True)
                return next((problem for problem in (self.value(a, b) for a, b in pairs) if problem), "")
            case _:
                return f"{text(here)} stands for {text(goal)}"

    def _back(self, before: dict[str, Tile]) -> None:
        self.found.clear()
        self.found.update(before)

    def tile(self, wanted: Buffer, at: tuple[Expr, ...], buffer: Buffer, index: tuple[Expr, ...]) -> str:
        """How the walk over a tensor differs from that over a tile."""
        if wanted.dtype != buffer.dtype:
            return f"{buffer.name!r} is {buffer.dtype}, and {wanted.name!r} is {wanted.dtype}"
        if self.found.setdefault(wanted.name, (buffer, index)) != (buffer, index):
            return f"{wanted.name!r} would be two different tiles"
        goal = strides(self.pattern, (), self.loops, wanted, at)
        here = strides(self.nest, self.outer, self.chain, buffer, index)
        if here is None:
            return f"the elements of {buffer.name!r} are not at literal strides of the loops"
        if here != goal:
            return f"{buffer.name!r} is walked at strides {_listed(here)}, and {wanted.name!r} at {_listed(goal or ())}"
        return ""


def _head(expr: Expr) -> object:
    match expr:
        case Unary(op) | Binary(op) | Compare(op):
            return op
        case Call(function, args):
            return (function, len(args))
        case Cast() | Select() | Const() | Axis() | Load():
            return type(expr)
        case _:
            return expr


def strides(nest: Nest, outer: Sequence[str], chain: Sequence[For], buffer: Buffer, index: tuple[Expr, ...]) -> list[int] | None:
    """How many elements each loop moves an access to a row-major buffer; None where that is not literal."""
    total = [0] * len(chain)
    names = [part.loop for part in chain]
    for dimension, part in enumerate(index):
        plain = expand(nest, part, [*outer, *names])
        form = linear(plain)
        if any(closure(nest, axes_of(atom)) & set(names) and not (isinstance(atom, Axis) and atom.name in names) for atom in form.terms):
            return None
        factors = [form.terms.get(Axis(name), 0) for name in names]
        inner = buffer.shape[dimension + 1 :]
        if any(factors):
            if not all(isinstance(extent, Const) for extent in inner):
                return None
            size = prod(int(extent.value) for extent in inner if isinstance(extent, Const))
            total = [sofar + factor * size for sofar, factor in zip(total, factors, strict=True)]
    return total
