"""How many instructions are emitted for a nest: an estimate that a directive can afford.

    copies of a statement (unrolled loops, both parts of a peeled tile)  x  registers a vector takes  x  instructions of its expressions

Expressions are graphs: a node that stands twice in one is emitted once. A side of a `Select` that reads memory is emitted where it is
chosen, with everything that only it needs, so nodes under several such sides count once for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, cast

from tensorlang.ir import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    If,
    Load,
    Nest,
    Prefetch,
    Relation,
    Select,
    SplitRelation,
    Stmt,
    Store,
    Unary,
)
from tensorlang.ir.dtype import INT64, DType
from tensorlang.ir.linear import linear
from tensorlang.ir.mentions import mentions
from tensorlang.ir.traverse import axes_of, children, dtype_of, operands_first, reads_data, shared, whole_power
from tensorlang.schedules.legality.derived_axes import DerivedAxes, Lanes
from tensorlang.schedules.rewriting.edit import literal_extent
from tensorlang.system.identity import Identity

KEPT: Final = 512
"""What is kept of each kind: a nest that is being scheduled has a hundred statements, and what is kept for longer holds its old forms."""
REGISTER: Final = 256
"""Bits of a vector register on most machines: a schedule means the same for all."""
FUNCTIONS: Final[Mapping[str, tuple[int, int]]] = {
    "exp": (30, 45), "exp2": (28, 48), "expm1": (50, 60), "log": (48, 50), "log2": (55, 55), "log10": (55, 55), "log1p": (66, 66),
    "sqrt": (1, 1), "rsqrt": (2, 2), "sin": (60, 95), "cos": (55, 90), "tan": (55, 110), "asin": (38, 55), "acos": (40, 57),
    "atan": (70, 100), "atan2": (70, 100), "sinh": (95, 95), "cosh": (80, 80), "tanh": (45, 90), "sigmoid": (80, 90), "erf": (35, 85),
    "pow": (115, 230), "floor": (1, 1), "ceil": (1, 1), "round": (1, 1), "trunc": (1, 1), "isnan": (2, 2), "isinf": (5, 5),
    "isfinite": (5, 5),
}  # fmt: skip
"""Instructions of a function in float32 and float64, on a machine that multiplies and adds in one."""
CONVERTED: Final = 5
"""Instructions that widen a vector to two of float64 and narrow them again."""
_TILES: Final = 2
"""Copies of the body of a split that is peeled: for whole tiles, and for what is left."""
_INTEGER_DIVISION: Final = 15
_DIVIDED_ALONE: Final = 8
"""Instructions for a lane of a division of 64 bits, which no processor does in lanes, nor floats."""
NEAR: Final = 4
"""Elements between lanes up to which vectors are loaded whole and shuffled; beyond, each lane is loaded by itself."""
NO_LANES: Final = Lanes()
_HALVES: Final = ("float16", "bfloat16")
_WIDE: Final = 64
_HALF: Final = 7
"""Instructions that widen the operands of a half type and round the result."""


def function_size(call: Call, dtype: DType) -> int:
    """Instructions of a call of operands of a type: those of the function, or, for a short power, its products in float64."""
    exponent = whole_power(call)
    if exponent is None:
        return FUNCTIONS[call.function][dtype.bits == _WIDE]
    return CONVERTED + 2 * (power_products(exponent) + (exponent < 0))


def power_products(exponent: int) -> int:
    """The products of a short power, by squares."""
    return abs(exponent).bit_length() + abs(exponent).bit_count() - 2


@dataclass(frozen=True, slots=True)
class StatementSize:
    """A statement of a nest: instructions of one copy of it, and the loops that make copies, with how many each makes.

    `choices` is how deep choices between reads stand in one another, `loop` the innermost loop around that makes none: what stands in one
    of them is code in a row.
    """

    stage: str
    size: float
    copies: tuple[tuple[str, int], ...]
    choices: int = 0
    loop: str = ""

    @property
    def total(self) -> float:
        """Instructions of all copies."""
        total = self.size
        for _, times in self.copies:
            total *= times
        return total


class _Context(NamedTuple):
    """What stands around a statement: loops that copy it, its lanes, the innermost loop that does not, and whose steps each copy knows."""

    register: int
    copies: tuple[tuple[str, int], ...] = ()
    lanes: Lanes = NO_LANES
    loop: str = ""
    told: frozenset[str] = frozenset()

    @property
    def once(self) -> _Context:
        """The same without what copies it, and where it stands."""
        return self._replace(copies=(), loop="")

    @property
    def written_out(self) -> frozenset[str]:
        """The loops whose steps are numbers in each copy: those that copy it, and that of its lanes."""
        return frozenset((self.lanes.loop, *(name for name, _ in self.copies)))


def instructions(stmt: Stmt, register: int = REGISTER) -> float:
    """The instructions that are emitted for a statement, about, where a vector register has so many bits."""
    return sum(part.total for part in _parts(stmt, DerivedAxes({}, {}), _Context(register)))


def parts(nest: Nest, register: int = REGISTER) -> list[StatementSize]:
    """The statements of a nest, as code."""
    derived = DerivedAxes.of(nest.relations)
    return [part for stmt in _outermost_parts(nest) for part in _parts(stmt, derived, _Context(register))]


def growth(nest: Nest, before: Nest, register: int = REGISTER) -> float:
    """The instructions that a nest has more than `before`, found in the statements that are not the same in both."""
    now, then = DerivedAxes.of(nest.relations), DerivedAxes.of(before.relations)
    other = {loop for loop in now.splits.keys() | then.splits.keys() if now.splits.get(loop) is not then.splits.get(loop)}

    def same(new: Stmt, old: Stmt) -> bool:
        return new is old and (not other or mentions(new).names.isdisjoint(other))

    come, gone = _outermost_parts(nest), _outermost_parts(before)
    for _ in range(2):  # what they begin with, then what they end with
        first = next((place for place, pair in enumerate(zip(come, gone, strict=False)) if not same(*pair)), min(len(come), len(gone)))
        come, gone = come[first:][::-1], gone[first:][::-1]
    around = _Context(register)
    return sum(part.total for stmt in come for part in _parts(stmt, now, around)) - sum(
        part.total for stmt in gone for part in _parts(stmt, then, around)
    )


def _outermost_parts(nest: Nest) -> tuple[Stmt, ...]:
    """What a nest does, one after the other."""
    body = nest.body
    while isinstance(body, Alloc):
        body = body.body
    return body.body if isinstance(body, Block) else (body,)


def _parts(stmt: Stmt, derived: DerivedAxes, around: _Context) -> Iterator[StatementSize]:
    match stmt:
        case Store():
            size, choices = _stored(Identity((stmt,)), around.once)
            yield StatementSize(stmt.stage, size, around.copies, choices, around.loop)
        case Prefetch():
            yield StatementSize(stmt.buffer.name, 2, around.copies, loop=around.loop)
        case Block(body):
            for part in body:
                yield from _parts(part, derived, around)
        case If(cond, then, orelse):
            if not axes_of(cond) <= around.written_out or reads_data(cond):  # else it is known where it is emitted
                size, choices = _found(Identity((cond,)), around.once)
                yield StatementSize("", 1 + size, around.copies, choices, around.loop)
            yield from _parts(then, derived, around)
            if orelse is not None:
                yield from _parts(orelse, derived, around)
        case Alloc(_, body):
            yield from _parts(body, derived, around)
        case For() if around.copies or around.lanes.number:
            yield from _looped(stmt, derived, around)
        case For():
            yield from _outermost(Identity((stmt,)), derived.over(mentions(stmt).names), around.register)


def _looped(stmt: For, derived: DerivedAxes, around: _Context) -> Iterator[StatementSize]:
    extent = literal_extent(stmt)
    if stmt.kind == "vector" and not around.lanes.number:
        around = around._replace(lanes=Lanes(stmt.loop, extent or 1, derived.over((stmt.loop,))))
    elif stmt.kind == "tensor":  # one instruction, or loops
        yield StatementSize("", 10, around.copies, loop=around.loop)
    elif stmt.kind == "unroll":
        around = around._replace(copies=(*around.copies, (stmt.loop, extent or 1)), told=around.told | {stmt.loop})
    else:
        literal = isinstance(stmt.lo, Const) and isinstance(stmt.hi, Const)
        size, choices = (0.0, 0) if literal else _found(Identity((stmt.lo, stmt.hi)), around.once)
        yield StatementSize("", 6 + size, around.copies, choices, around.loop)
        around = around if extent == 1 else around._replace(loop=stmt.loop)  # of one iteration LLVM makes code in a row
    split = derived.splits.get(stmt.loop)
    if split is not None and _has_rest(split):
        around = around._replace(copies=(*around.copies, (split.inner, _TILES)))
    yield from _parts(stmt.body, derived, around)


@lru_cache(maxsize=KEPT)
def _outermost(key: Identity, relations: tuple[Relation, ...], register: int) -> tuple[StatementSize, ...]:
    """The parts of a loop that nothing around copies: kept, since a directive leaves most loops as they are."""
    (stmt,) = key.parts
    assert isinstance(stmt, For)
    return tuple(_looped(stmt, DerivedAxes.of(relations), _Context(register)))


@lru_cache(maxsize=KEPT)
def _stored(key: Identity, around: _Context) -> tuple[float, int]:
    """Instructions of one copy of a store, and how deep choices stand in it: kept, since a directive leaves most stores as they are."""
    (store,) = key.parts
    assert isinstance(store, Store)
    results = () if store.reducer is None else store.reducer.results
    size, choices, registers = _measured((*store.values, *store.index, *results), around, tuple(buffer.dtype for buffer in store.buffers))
    return size + len(store.buffers) * (1 + bool(results)) * _accessed(store.index, store.buffers[0].shape, around, registers), choices


@lru_cache(maxsize=KEPT)
def _found(key: Identity, around: _Context) -> tuple[float, int]:
    """The same of bounds or a condition."""
    size, choices, _ = _measured(cast("tuple[Expr, ...]", key.parts), around)
    return size, choices


def _has_rest(split: SplitRelation) -> bool:
    """Is a split emitted twice, for whole tiles and for what is left?"""
    extent = linear(Binary("sub", split.hi, split.lo))
    return split.tail == "peel" and bool(extent.terms or extent.constant % split.factor)


def _accessed(index: tuple[Expr, ...], shape: tuple[Expr, ...], around: _Context, registers: int, near: int = 1) -> float:
    """Instructions of a load or store: lanes side by side move at once, those that are `near` are picked out of them, others move alone."""
    if not around.lanes.moves(index):
        return 2
    apart, alone = around.lanes.apart(index, shape), 3 * around.lanes.number
    if apart is None and near > 1 and around.lanes.near(index):  # one load of all, and a shuffle
        return 2 * registers
    return min(alone, (3 * apart - 1) * registers) if apart is not None and 0 < apart <= near else alone


class _NodeFacts(NamedTuple):
    """What is known of a node: its type, and whether it reads memory."""

    dtype: DType
    reads: bool


def _measured(roots: tuple[Expr, ...], around: _Context, dtypes: tuple[DType, ...] = ()) -> tuple[float, int, int]:
    """Instructions of expressions, how deep choices between reads stand in them, and the registers that a value takes."""
    roots, facts, bits = _known(Identity(roots))
    widest = max(bits, *(dtype.bits for dtype in dtypes), 0) or 8
    registers = max(1, -(-around.lanes.number * widest // around.register))
    sizes: dict[int, tuple[float, int]] = {}
    scopes: dict[int, _Scope] = {}
    waiting: list[tuple[int, tuple[Expr, ...]]] = [(0, roots)]
    while waiting:
        key, scope = waiting[-1]
        if key not in scopes:
            scopes[key] = _scope(scope, facts, around, registers)
        found = scopes[key]
        missing = [side for pair in (*found.choices, *found.told) for side in pair if id(side) not in sizes]
        if missing:
            waiting.extend((id(side), (side,)) for side in missing)
            continue
        waiting.pop()
        both = [(sizes[id(yes)], sizes[id(no)]) for yes, no in found.choices]
        either = [max(sizes[id(yes)], sizes[id(no)]) for yes, no in found.told]
        size = found.own + sum(yes[0] + no[0] for yes, no in both) + sum(size for size, _ in either)
        sizes[key] = size, max((0, *(1 + max(yes[1], no[1]) for yes, no in both), *(depth for _, depth in either)))
    return *sizes[0], registers


@lru_cache(maxsize=KEPT)
def _known(key: Identity) -> tuple[tuple[Expr, ...], dict[int, _NodeFacts], int]:
    """Expressions in which equal nodes are one, what is known of every node by its identity, and the bits of the widest that is read.

    Kept, since a directive changes what stands around most statements and not what they compute.
    """
    table: dict[tuple[object, ...], Expr] = {}
    roots = tuple(shared(root, table) for root in cast("tuple[Expr, ...]", key.parts))
    facts: dict[int, _NodeFacts] = {}
    widest = 0
    for node, below in operands_first(roots, facts):
        like = {Binary: 0, Unary: 0, Select: 1}.get(type(node))
        dtype = dtype_of(node) if like is None else facts[id(below[like])].dtype
        reads = isinstance(node, Load)
        widest = max(widest, dtype.bits) if reads else widest
        facts[id(node)] = _NodeFacts(dtype, reads or any(facts[id(part)].reads for part in below))
    return roots, facts, widest


class _Scope(NamedTuple):
    """Instructions of the nodes that are needed whatever is chosen, and both sides of the choices among them.

    Those are `choices` between reads, and what is `told` by the loops that make copies: a copy has one side of it.
    """

    own: float
    choices: list[tuple[Expr, Expr]]
    told: list[tuple[Expr, Expr]]


def _scope(roots: tuple[Expr, ...], facts: Mapping[int, _NodeFacts], around: _Context, registers: int) -> _Scope:
    total, choices, told = 0.0, list[tuple[Expr, Expr]](), list[tuple[Expr, Expr]]()
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Select) and around.told and axes_of(node.cond) <= around.told and not facts[id(node.cond)].reads:
            told.append((node.yes, node.no))
            continue
        total += _weight(node, facts, around, registers)
        if isinstance(node, Select) and (facts[id(node.yes)].reads or facts[id(node.no)].reads):
            choices.append((node.yes, node.no))
            stack.append(node.cond)
        else:
            stack.extend(children(node))
    return _Scope(total, choices, told)


def _weight(node: Expr, facts: Mapping[int, _NodeFacts], around: _Context, registers: int) -> float:
    """Instructions of one node on operands that are there."""
    match node:
        case Load(Buffer() as buffer, index):
            return _accessed(index, buffer.shape, around, registers, NEAR)
        case Call(_, args, _):
            dtype = facts[id(args[0])].dtype
            return registers * (function_size(node, dtype) + _HALF * (dtype in _HALVES))
        case Binary(op, left, _):
            dtype = facts[id(left)].dtype
            if op in ("floordiv", "mod") and dtype.bits == _WIDE and facts[id(node)].reads and around.lanes.number:
                return _DIVIDED_ALONE * around.lanes.number
            if dtype == INT64:  # mostly an index, which is multiplied out and added to an address
                return 0.5 if op in ("add", "sub", "mul") else 4.0
            if op in ("floordiv", "mod"):
                return registers * _INTEGER_DIVISION
            return registers * (1.0 + 3 * (op in ("fmin", "fmax")) + _HALF * (dtype in _HALVES))
        case Compare(_, left, _):
            return registers * (1.0 + _HALF * (facts[id(left)].dtype in _HALVES))
        case Cast(value, dtype):
            return registers * (2.0 + _HALF * (dtype in _HALVES or facts[id(value)].dtype in _HALVES))
        case Select(_, yes, no):
            return registers + 5.0 * (facts[id(yes)].reads or facts[id(no)].reads)
        case Unary():
            return registers
        case _:
            return 0.0
