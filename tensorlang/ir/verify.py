"""The invariants of the loop nest, checked: what every directive and pass may rely on and has to keep.

`verify` walks a nest once and raises `InternalError` at the first statement that breaks the grammar's rules as the docstring of `ir`
states them. It is cheap (a fraction of a millisecond for a matrix product), so that it can run after each directive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, assert_never, get_args

from tensorlang.errors import InternalError
from tensorlang.ir import (
    BINARY,
    COMPARE,
    UNARY,
    Alloc,
    Axis,
    Binary,
    Block,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Dim,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Memory,
    Nest,
    Param,
    Prefetch,
    Reduce,
    Reducer,
    Relation,
    Select,
    SplitRelation,
    Stmt,
    Store,
    Tail,
    Unary,
    WindowRelation,
)
from tensorlang.ir.dtype import BOOL, INT64, DType
from tensorlang.ir.functions import FUNCTIONS
from tensorlang.ir.printer import equation, text
from tensorlang.ir.relations import bounds, is_ready, relation_names, sides
from tensorlang.ir.traverse import axes_of

KINDS: Final = get_args(LoopKind)
TAILS: Final = get_args(Tail)
MEMORIES: Final = get_args(Memory)
_BITS: Final = ("and", "or", "xor")
_INTEGERS: Final = (*_BITS, "floordiv", "mod", "shl", "shr")


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known at a statement: dims, axes (loops and what follows from them), storage, relations that do not follow yet."""

    dims: frozenset[str]
    buffers: dict[str, Buffer]
    writable: frozenset[str]
    pending: tuple[Relation, ...]
    axes: frozenset[str] = frozenset()
    vector: str | None = None


def verify(nest: Nest) -> None:
    """Raise `InternalError` where the nest breaks an invariant of `ir`."""
    arguments = (*nest.inputs, *nest.outputs)
    buffers = {buffer.name: buffer for buffer in arguments}
    if len(buffers) != len(arguments):
        raise InternalError(f"{nest.name}: two arguments share a name: {', '.join(buffer.name for buffer in arguments)}")
    if len(set(nest.dims)) != len(nest.dims):
        raise InternalError(f"{nest.name}: a dim is declared twice: {', '.join(nest.dims)}")
    for relation in nest.relations:
        _relation(relation)
    scope = _Scope(frozenset(nest.dims), buffers, frozenset(buffer.name for buffer in nest.outputs), nest.relations)
    for buffer in arguments:
        _declaration(buffer, scope)
    _statement(nest.body, scope)


def _relation(relation: Relation) -> None:
    axes = relation_names(relation)
    if len(set(axes)) < len(axes):
        raise InternalError(f"a relation between axes of one name: {equation(relation, str)}")
    if isinstance(relation, SplitRelation) and relation.factor < 1:
        raise InternalError(f"a split by {relation.factor}: {equation(relation, str)}")
    if isinstance(relation, (SplitRelation, WindowRelation)) and relation.tail not in TAILS:
        raise InternalError(f"a tail that is not one of {', '.join(TAILS)}: {equation(relation, str)}")


def _entered(loop: str, scope: _Scope) -> _Scope:
    """The scope inside a loop, with every axis that now follows."""
    axes, pending, progress = scope.axes | {loop}, scope.pending, True
    while progress:
        progress, waiting = False, []
        for relation in pending:
            if is_ready(relation, axes):
                axes, progress = axes.union(sides(relation)[1]), True
                inside = replace(scope, axes=axes)
                for bound in bounds(relation):
                    _index(bound, inside, "a relation")
            else:
                waiting.append(relation)
        pending = tuple(waiting)
    return replace(scope, axes=axes, pending=pending)


def _statement(stmt: Stmt, scope: _Scope) -> None:
    match stmt:
        case For(loop, lo, hi, body, kind, _):
            if loop in scope.axes:
                raise InternalError(f"the loop {loop} runs inside an axis of its own name")
            if kind not in KINDS:
                raise InternalError(f"the loop {loop} is {kind!r}, which is none of {', '.join(KINDS)}")
            if stmt.instruction is not None and kind != "tensor":
                raise InternalError(f"the {kind} loop {loop} names the instruction {stmt.instruction}")
            if kind == "vector" and scope.vector is not None:
                raise InternalError(f"the vector loop {loop} runs inside the vector loop {scope.vector}")
            for bound in (lo, hi):
                _index(bound, scope, f"a bound of {loop}")
            inside = _entered(loop, scope)
            _statement(body, replace(inside, vector=loop) if kind == "vector" else inside)
        case Store():
            _store(stmt, scope)
        case Block(body):
            for part in body:
                _statement(part, scope)
        case If(cond, then, orelse):
            if _type(cond, scope) != BOOL:
                raise InternalError(f"the condition {text(cond)} is not bool")
            _statement(then, scope)
            if orelse is not None:
                _statement(orelse, scope)
        case Alloc(buffers, body):
            known = dict(scope.buffers)
            for buffer in buffers:
                if buffer.name in known:
                    raise InternalError(f"the buffer {buffer.name} is declared twice")
                known[buffer.name] = buffer
                _declaration(buffer, scope)
            _statement(body, replace(scope, buffers=known, writable=scope.writable | {buffer.name for buffer in buffers}))
        case Prefetch(buffer, index):
            _declared(buffer, len(index), scope, f"a prefetch of {buffer.name}")
            for position in index:
                _index(position, scope, f"a prefetch of {buffer.name}")
        case _:
            assert_never(stmt)


def _declaration(buffer: Buffer, scope: _Scope) -> None:
    if buffer.memory not in MEMORIES:
        raise InternalError(f"the buffer {buffer.name} lives in {buffer.memory!r}, which is none of {', '.join(MEMORIES)}")
    if buffer.align < 0 or buffer.align & (buffer.align - 1):
        raise InternalError(f"the buffer {buffer.name} is aligned to {buffer.align} bytes, which is no power of two")
    for extent in (*buffer.shape, *buffer.allocated):
        _index(extent, scope, f"an extent of {buffer.name}")
    if buffer.allocated and (len(buffer.allocated) != len(buffer.shape) or buffer.memory != "argument"):
        raise InternalError(f"the buffer {buffer.name} is part of a larger array: {buffer}")


def _store(store: Store, scope: _Scope) -> None:
    what = f"{store.stage}: the store to {', '.join(buffer.name for buffer in store.buffers)}"
    for relation in scope.pending:
        if scope.axes.issuperset(sides(relation)[0]) and not isinstance(
            relation, WindowRelation
        ):  # a skewed loop may stand outside the loop that places it
            unknown = sorted(frozenset().union(*(axes_of(bound) for bound in bounds(relation))) - scope.axes)
            raise InternalError(f"{what} stands under {equation(relation, str)}, which needs {', '.join(unknown)}")
    if not store.buffers or len(store.buffers) != len(store.values):
        raise InternalError(f"{what}: {len(store.buffers)} buffers and {len(store.values)} values")
    for buffer, value in zip(store.buffers, store.values, strict=True):
        _declared(buffer, len(store.index), scope, what)
        if buffer.name not in scope.writable:
            raise InternalError(f"{what}: {buffer.name} is an input")
        if _type(value, scope) != buffer.dtype:
            raise InternalError(f"{what}: {text(value)} is {_type(value, scope)}, the buffer {buffer.dtype}")
    for part in store.index:
        _index(part, scope, what)
    if store.reducer is not None:
        _reducer(store.reducer, tuple(buffer.dtype for buffer in store.buffers), what)


def _declared(buffer: Buffer, rank: int, scope: _Scope, what: str) -> None:
    known = scope.buffers.get(buffer.name)
    if known is None:
        raise InternalError(f"{what}: the buffer {buffer.name} is not declared here")
    if known is not buffer and known != buffer:
        raise InternalError(f"{what}: the buffer {buffer.name} differs from its declaration: {buffer} and {known}")
    if rank != len(buffer.shape):
        raise InternalError(f"{what}: {rank} indices for the {len(buffer.shape)} axes of {buffer.name}")


def _reducer(reducer: Reducer, dtypes: tuple[DType, ...], what: str) -> None:
    if tuple(identity.dtype for identity in reducer.identities) != dtypes or len(reducer.results) != len(dtypes):
        raise InternalError(f"{what}: the reducer {reducer.name} does not combine {', '.join(dtypes)}")
    params = {f"{side}{n}": dtype for side in "ab" for n, dtype in enumerate(dtypes)}
    for result, dtype in zip(reducer.results, dtypes, strict=True):
        if _type(result, None, params) != dtype:
            raise InternalError(f"{what}: {reducer.name} gives {text(result)}, which is not {dtype}")


def _index(expr: Expr, scope: _Scope, what: str) -> None:
    if _type(expr, scope) != INT64:
        raise InternalError(f"{what}: {text(expr)} is {_type(expr, scope)}, not int64")


def _type(expr: Expr, scope: _Scope | None, params: dict[str, DType] | None = None) -> DType:
    """The type of an expression all of whose parts are well typed and in scope; in a reducer there are only parameters."""
    match expr:
        case Const(_, dtype):
            return dtype
        case Axis(name):
            if scope is None or name not in scope.axes:
                known = ", ".join(sorted(scope.axes)) if scope is not None else ""
                raise InternalError(f"the axis {name} is not in scope; there are {known or 'none'}")
            return INT64
        case Dim(name):
            if scope is None or name not in scope.dims:
                raise InternalError(f"the dim {name} is not declared")
            return INT64
        case Param(name, dtype):
            if params is None or params.get(name) != dtype:
                raise InternalError(f"the operand {name}: {dtype} of a reducer stands where there is none")
            return dtype
        case Load(buffer, index):
            if scope is None or not isinstance(buffer, Buffer):
                raise InternalError(f"{text(expr)} does not read a buffer of the nest")
            _declared(buffer, len(index), scope, text(expr))
            for part in index:
                _index(part, scope, text(expr))
            return buffer.dtype
        case Cast(value, dtype):
            _type(value, scope, params)
            return dtype
        case Unary(op, value):
            of = _type(value, scope, params)
            if op not in UNARY or (of == BOOL and op != "not") or (of.is_floating and op == "not"):
                raise InternalError(f"{op} of {of}: {text(expr)}")
            return of
        case Binary(op, left, right):
            of = _same(expr, left, right, scope, params)
            fits = op in _BITS if of == BOOL else op not in _INTEGERS if of.is_floating else op != "div"
            if op not in BINARY or not fits:
                raise InternalError(f"{op} of {of}: {text(expr)}")
            return of
        case Compare(op, left, right):
            _same(expr, left, right, scope, params)
            if op not in COMPARE:
                raise InternalError(f"{op!r} is not a comparison")
            return BOOL
        case Select(cond, yes, no):
            if _type(cond, scope, params) != BOOL:
                raise InternalError(f"the condition {text(cond)} is not bool")
            return _same(expr, yes, no, scope, params)
        case Call(function, args, dtype):
            row = FUNCTIONS.get(function)
            types = {_type(arg, scope, params) for arg in args}
            if row is None or len(args) != row.arity or len(types) != 1:
                raise InternalError(f"a call that the table of functions does not have: {text(expr)}")
            if dtype != (BOOL if row.gives == "bool" else next(iter(types))):
                raise InternalError(f"{text(expr)} gives {dtype}")
            return dtype
        case Reduce():
            raise InternalError(f"a reduction stands in a nest: {text(expr)}")
        case _:
            assert_never(expr)


def _same(expr: Expr, left: Expr, right: Expr, scope: _Scope | None, params: dict[str, DType] | None) -> DType:
    a, b = _type(left, scope, params), _type(right, scope, params)
    if a != b:
        raise InternalError(f"operands of different types, {a} and {b}: {text(expr)}")
    return a
