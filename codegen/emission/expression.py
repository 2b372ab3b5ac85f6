"""Expressions to values, scalar as long as they are the same in every lane.

`value` walks an expression bottom-up with a stack of its own, so that deep expressions do not meet Python's recursion limit, and emits
each node once per statement. Only the chosen side of a `Select` is read: where a side holds a load, scalar code branches around it and
vector code narrows the mask of its loads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, assert_never

from tensorlang import ir
from tensorlang.codegen.emission import memory, small_tables, transpose
from tensorlang.codegen.emission.access import access_of, any_lane, evaluate
from tensorlang.codegen.emission.affine import LANE, Polynomial, Strided, classify, number
from tensorlang.codegen.emission.arithmetic import binary, both, compare, divided, unary
from tensorlang.codegen.emission.convert import cast, round_to_half, widen
from tensorlang.codegen.emission.frame import Frame, Read
from tensorlang.codegen.emission.math import emit as emit_function, emit_whole_power
from tensorlang.codegen.emission.numbering import Key
from tensorlang.codegen.emission.quotients import along_lanes
from tensorlang.codegen.emission.turned_loads import turned
from tensorlang.codegen.emission.types import HALVES, I32, Value, constant, filled, known, lanes_of, literal, matched, splat
from tensorlang.codegen.emission.vector_access import VectorAccess
from tensorlang.errors import InternalError
from tensorlang.ir.dtype import BOOL, FLOAT32, INT32, INT64
from tensorlang.ir.traverse import axes_of, children, dtype_of, loads_of, nodes, reads_data, sides_of_and, whole_power
from tensorlang.schedules.rewriting.small_tables import REGISTER, small_table
from tensorlang.system.identity import Identity

_STEP: Final = 1 << 12
"""Coefficients in comparisons with lanes stay below: their sums fit 32 bits, and no index wraps."""
DEAR: Final = 48
"""Elements that are taken one by one, each in a cycle or so, of which a branch that is mispredicted takes a third, at 15 to 20 cycles."""


def value(frame: Frame, expr: ir.Expr) -> Value:
    """The value of an expression in the current lanes."""
    stack = [expr]
    while stack:
        node = stack[-1]
        pending = [part for part in _operands(frame, node) if id(part) not in frame.memo] if id(node) not in frame.memo else []
        if pending:
            stack.extend(reversed(pending))
            continue
        if id(node) not in frame.memo:
            frame.memo[id(node)] = _node(frame, node)
        stack.pop()
    return frame.memo[id(expr)]


def _operands(frame: Frame, node: ir.Expr) -> tuple[ir.Expr, ...]:
    """What is emitted before a node: its operands, but not those that it emits itself, under conditions or as an address."""
    match node:
        case ir.Load():
            return ()
        case ir.Select(cond) if id(cond) not in frame.memo or _chooses_apart(frame, node):
            return (cond,)
        case ir.Compare(_, left, _) if frame.lanes and dtype_of(left) == INT64:
            return ()
        case _:
            return children(node)


def _chooses_apart(frame: Frame, node: ir.Select) -> bool:
    """Is each side emitted by itself: under a mask where it reads what may not exist, or behind a branch?

    All lanes may take the same side: they do where the condition is one for all of them, and a side that is dear is worth asking.
    """
    read = max(_reads(frame, node.yes), _reads(frame, node.no))
    if read is not Read.SURE:
        return read is Read.UNSURE
    return not lanes_of(frame.memo[id(node.cond)]) or _is_dear(frame, node, node.yes) or _is_dear(frame, node, node.no)


def _is_dear(frame: Frame, node: ir.Select, side: ir.Expr) -> bool:
    """Does a side of a choice by data gather so many elements that a branch around it may be mispredicted?"""
    if not reads_data(node.cond):
        return False
    if id(side) not in frame.dear:
        frame.dear[id(side)] = takes_many(frame, (side,))
    return frame.dear[id(side)]


def takes_many(frame: Frame, exprs: Iterable[ir.Expr], scattered: int = 0) -> bool:
    """Do expressions take so many elements in a vector at places that data tell, beside some vectors that are `scattered`?

    What a condition has loaded is there: copies that choose alike, as forces along three axes, share what they compute of it, which they
    would not in branches.
    """
    found = set[ir.Load]()
    for node in nodes(*exprs):
        if (len(found) + scattered) * frame.lanes >= DEAR:
            return True
        if isinstance(node, ir.Load) and (key := _told_place(frame, node)) is not None and key not in frame.memo:
            found.add(node)
    return (len(found) + scattered) * frame.lanes >= DEAR


def _reads(frame: Frame, expr: ir.Expr) -> Read:
    """What an expression loads; found once per node."""
    stack = [expr]
    while stack:
        node = stack[-1]
        pending = [part for part in children(node) if id(part) not in frame.reads] if not isinstance(node, ir.Load) else []
        if pending and id(node) not in frame.reads:
            stack.extend(pending)
            continue
        parts = () if isinstance(node, ir.Load) else children(node)
        frame.reads[id(node)] = max((_own_read(node), *(frame.reads[id(part)] for part in parts)))
        stack.pop()
    return frame.reads[id(expr)]


def _own_read(node: ir.Expr) -> Read:
    """What a node itself loads; a register of ours is not memory."""
    if not isinstance(node, ir.Load) or (isinstance(node.buffer, ir.Buffer) and node.buffer.memory == "register" and not node.index):
        return Read.NOTHING
    return Read.SURE if node.exists else Read.UNSURE


def _node(frame: Frame, node: ir.Expr) -> Value:
    builder, target, memo = frame.builder, frame.target, frame.memo
    match node:
        case ir.Const(number, dtype):
            return constant(dtype, number)
        case ir.Axis() | ir.Dim():
            return evaluate(frame, frame.space.polynomial(node), value)
        case ir.Param(name):
            return frame.params[name]
        case ir.Load():
            return _load(frame, node)
        case ir.Cast(operand, dtype, fits):
            return cast(builder, target, memo[id(operand)], dtype_of(operand), dtype, fits=fits)
        case ir.Unary(op, operand):
            return unary(builder, op, dtype_of(operand), memo[id(operand)])
        case ir.Binary("and", left, _) if dtype_of(left) == BOOL and (gated := _gated(frame, node)) is not None:
            return gated
        case ir.Binary("div", left, ir.Const(by, dtype)) if dtype.is_floating:
            return divided(builder, target, dtype, memo[id(left)], by)
        case ir.Binary("floordiv" | "mod", ir.Cast(_, _, True), ir.Const()) if (found := along_lanes(frame, node, value)) is not None:
            return found
        case ir.Binary(op, left, right):
            return binary(builder, target, op, dtype_of(left), memo[id(left)], memo[id(right)])
        case ir.Compare(op, left, right):
            short = _against_lane(frame, node)
            return compare(builder, target, op, dtype_of(left), value(frame, left), value(frame, right)) if short is None else short
        case ir.Select():
            return _select(frame, node)
        case ir.Call():
            before = _as_before(frame, node)
            return _function(frame, node) if before is None else frame.numbering.once(before, partial(_function, frame, node))
        case ir.Reduce():
            raise InternalError("a reduction inside an expression reached code generation; it should be a stage of its own")
        case _:
            assert_never(node)


def _as_before(frame: Frame, node: ir.Call) -> Key | None:
    """What tells the value of a function in the copies of a statement, of which some have the same; None where each has its own.

    LLVM sees what is alike in straight code, but not through branches to rare paths.
    """
    moved = axes_of(node)
    if frame.copied <= moved:
        return None
    loads = list(loads_of(node))
    read = {load.buffer.name if isinstance(load.buffer, ir.Buffer) else "" for load in loads}
    if not read <= frame.operands or any(isinstance(part, ir.Param) for part in nodes(node)):
        return None
    mask = None if all(load.exists for load in loads) else frame.mask
    at = frozenset((axis, frozenset(frame.space.polynomial(ir.Axis(axis)).terms.items())) for axis in moved)
    return "function", Identity((node, mask)), at, frame.lanes


def _function(frame: Frame, node: ir.Call) -> Value:
    args = matched(frame.builder, *(frame.memo[id(arg)] for arg in node.args))
    dtype = dtype_of(node.args[0])
    wide = [widen(frame.builder, frame.target, dtype, arg) for arg in args]
    at = FLOAT32 if dtype in HALVES else dtype
    can, exponent = frame.target, whole_power(node)
    if exponent is not None:
        result = emit_whole_power(frame.builder, wide[0], exponent)
    else:
        result = emit_function(
            frame.builder, node.function, at, wide, has_fma=can.has_fma, has_round=can.has_round, has_scale=can.has_scale
        )
    return result if node.dtype == BOOL else round_to_half(frame.builder, frame.target, dtype, result)


def _load(frame: Frame, node: ir.Load) -> Value:
    if not isinstance(node.buffer, ir.Buffer):
        raise InternalError("a load from a tensor of a definition reached code generation")
    written = transpose.written_before(frame, node)
    if written is not None:
        return written
    if (found := turned(frame, node, value)) is not None:
        return found
    table = small_table(node.buffer, node.index, frame.target.isa)
    if table and (row := _row(frame, node.buffer, node)) is not None:
        return small_tables.looked_up(frame.builder, frame.target, row, table, frame.mask)
    key = _told_place(frame, node)
    if key is None:
        return _loaded(frame, node, table=table)
    if key not in frame.memo:  # a condition may have loaded it, for more lanes
        frame.memo[key] = _loaded(frame, node, table=table)
    return frame.memo[key]


def _told_place(frame: Frame, node: ir.Load) -> Key | None:
    """Where the elements are that a load takes at places that data tell, each lane its own; None of other loads."""
    if not frame.lanes or not isinstance(node.buffer, ir.Buffer) or frame.lane_axis not in axes_of(node):
        return None
    if not any(map(reads_data, node.index)):
        return None
    return node.buffer.name, frozenset(frame.space.offset(node.index, frame.places[node.buffer.name].shape).terms.items())


def _loaded(frame: Frame, node: ir.Load, *, table: int) -> Value:
    assert isinstance(node.buffer, ir.Buffer)
    access = access_of(frame, node.buffer, node.index, value, reads=True)
    builder, mask = frame.builder, None if node.exists else frame.mask
    if table and small_tables.begins_there(access):
        return small_tables.looked_up(builder, frame.target, access, table, frame.mask)
    if mask is None or not access.uniform or frame.wanted or access.owned:
        return memory.load(builder, frame.target, access, mask)
    return _where_any(frame, mask, lambda: memory.load(builder, frame.target, access, None), access.place.name)


def _where_any(frame: Frame, mask: Value, make: Callable[[], Value], name: str = "") -> Value:
    """What is made behind a branch for where a mask holds some lane, and elsewhere zero."""
    builder = frame.builder
    before = builder.block
    with builder.if_then(any_lane(builder, mask)), frame.scope():
        found, inside = make(), builder.block
    result = builder.phi(found.type, name=name)
    result.add_incoming(found, inside)
    result.add_incoming(filled(found.type, 0), before)
    return result


def _row(frame: Frame, buffer: ir.Buffer, node: ir.Load) -> VectorAccess | None:
    """The elements of a row that is a small table, and one for all lanes, which count from its begin; None where it may not exist."""
    *row, last = node.index
    if not row or frame.lane_axis not in axes_of(last) or frame.lanes > REGISTER or not (node.exists or frame.wanted):
        return None
    places = value(frame, last)
    begin = access_of(frame, buffer, (*row, ir.const(0)), value, reads=True)
    return VectorAccess(begin.place, begin.base, frame.lanes, 0, places) if lanes_of(places) and begin.held is None else None


def _select(frame: Frame, node: ir.Select) -> Value:
    builder, cond = frame.builder, frame.memo[id(node.cond)]
    number = known(cond)
    if isinstance(number, int):
        return value(frame, node.yes if number else node.no)
    if not _chooses_apart(frame, node):
        chosen = choose(frame, cond, frame.memo[id(node.yes)], frame.memo[id(node.no)])
        if not lanes_of(cond) and not lanes_of(chosen) and reads_data(node.cond):  # LLVM would make it a branch
            chosen.set_metadata("unpredictable", builder.module.add_metadata([]))
        return chosen
    if not lanes_of(cond):
        return _branches(frame, node, cond)
    zero = _is_zero(node.no) and isinstance(node.yes, ir.Load) and _is_zero_where_off(frame, node.yes)
    yes = _side(frame, node, node.yes, cond)
    if zero:
        return yes
    return choose(frame, cond, yes, _side(frame, node, node.no, unary(builder, "not", BOOL, cond)))


def _side(frame: Frame, node: ir.Select, side: ir.Expr, chosen: Value) -> Value:
    """A side of a choice in the lanes that take it; what is dear is skipped where none does."""
    mask = both(frame.builder, frame.mask, chosen)
    with frame.masked(mask):
        return _where_any(frame, mask, lambda: value(frame, side)) if _is_dear(frame, node, side) else value(frame, side)


def _is_zero(node: ir.Expr) -> bool:
    """Is it the zero that is all bits off?"""
    return isinstance(node, ir.Const) and node.value == 0 and math.copysign(1.0, node.value) > 0


def _is_zero_where_off(frame: Frame, load: ir.Load) -> bool:
    """Has a load zeros in lanes that are off: is each lane's element its own, and the storage none that is read whole?

    And is it made under the mask of these lanes: not known from the condition, nor from a tile that is turned, or was written?
    """
    assert isinstance(load.buffer, ir.Buffer)
    if load.exists or id(load) in frame.memo or frame.deferred or (frame.tile is not None and id(load) in frame.tile.sure):
        return False
    place = frame.places[load.buffer.name]
    _, moving = frame.space.offset(load.index, place.shape).parted()
    return isinstance(classify(moving), Strided) and not place.own


def choose(frame: Frame, cond: Value, yes: Value, no: Value) -> Value:
    """`yes` where `cond`, else `no`; both are computed."""
    yes, no = matched(frame.builder, yes, no)
    lanes = max(lanes_of(cond), lanes_of(yes))
    if lanes_of(cond):
        yes, no = splat(frame.builder, yes, lanes), splat(frame.builder, no, lanes)
    return frame.builder.select(cond, yes, no)


def _branches(frame: Frame, node: ir.Select, cond: Value) -> Value:
    """Only the chosen side runs."""
    builder = frame.builder
    sides = [(builder.append_basic_block(name), side) for name, side in (("yes", node.yes), ("no", node.no))]
    join = builder.append_basic_block("chosen")
    builder.cbranch(cond, sides[0][0], sides[1][0])
    ends = []
    for block, side in sides:
        builder.position_at_end(block)
        with frame.scope():
            ends.append((value(frame, side), builder.block))
    lanes = max(lanes_of(found) for found, _ in ends)
    incoming = []
    for found, block in ends:
        builder.position_at_end(block)
        incoming.append((splat(builder, found, lanes), block))
        builder.branch(join)
    builder.position_at_end(join)
    result = builder.phi(incoming[0][0].type)
    for found, block in incoming:
        result.add_incoming(found, block)
    return result


def _gated(frame: Frame, node: ir.Binary) -> Value | None:
    """Conditions of which some are the same in all lanes, and one tells lanes by a limit: the others say whether there is one at all.

    A mask of lanes and one of all or none would else be brought into one form by a dozen instructions where vectors have no masks. None
    where that is not what is asked.
    """
    parts = list(sides_of_and(node))
    uniform = [part for part in parts if not lanes_of(frame.memo[id(part)]) and known(frame.memo[id(part)]) is None]
    varying = [part for part in parts if lanes_of(frame.memo[id(part)])]
    limited = next((part for part in varying if isinstance(part, ir.Compare) and known(frame.memo[id(part)]) is None), None)
    if not uniform or not varying or len(uniform) + len(varying) < len(parts):
        return None
    builder, target = frame.builder, frame.target
    masks = [known(frame.memo[id(part)]) for part in varying]
    if limited is None and (target.has_masks or None in masks):
        return None
    gate = frame.memo[id(uniform[0])]
    for part in uniform[1:]:
        gate = binary(builder, target, "and", BOOL, gate, frame.memo[id(part)])
    if limited is None:
        return _all_or_none(frame, gate, [mask for mask in masks if isinstance(mask, tuple)])
    found = _against_lane(frame, limited, gate)
    for part in varying:
        if found is not None and part is not limited:
            found = binary(builder, target, "and", BOOL, found, frame.memo[id(part)])
    return found


def _all_or_none(frame: Frame, gate: Value, masks: list[tuple[int, ...]]) -> Value:
    """The lanes that are on in all of some masks where `gate` holds, by signs of 32 bits, as vectors without registers for masks tell."""
    builder = frame.builder
    on = splat(builder, literal(I32, tuple(-int(all(lanes)) for lanes in zip(*masks, strict=True))), frame.lanes)
    lanes = builder.and_(splat(builder, builder.sext(gate, I32), frame.lanes), on)
    return builder.icmp_signed("<", lanes, filled(lanes.type, 0))


def _against_lane(frame: Frame, node: ir.Compare, gate: Value | None = None) -> Value | None:
    """An order between index expressions that differ by some times the lane and something uniform, as `step lane < limit` in 32 bits.

    The limit is the difference of the sides, so this is for sums of loop variables and extents with small coefficients: those stay below
    2 ** 47 (beyond it no array fits an address space), and nothing wraps. Else None. It holds in no lane where `gate` does not hold.
    """
    if not frame.lanes or node.op not in ("lt", "le", "gt", "ge") or dtype_of(node.left) != INT64:
        return None
    difference = frame.space.polynomial(node.left) - frame.space.polynomial(node.right)
    if node.op in ("gt", "ge"):
        difference = difference * number(-1)
    if node.op in ("le", "ge"):
        difference = difference - number(1)  # now: difference < 0
    fixed, moving = difference.parted()
    step = moving.terms.get((LANE,), 0)
    if len(moving.terms) != 1 or not 0 < abs(step) < _STEP or not _small(fixed):
        return None
    builder, target = frame.builder, frame.target
    limit = evaluate(frame, fixed * number(-1) if step > 0 else fixed + number(1), value)  # step lane < limit, or -step lane >= limit
    limit = binary(builder, target, "min", INT64, limit, constant(INT64, frame.lanes * abs(step)))
    limit = binary(builder, target, "max", INT64, limit, constant(INT64, 0))
    if gate is not None:
        limit = builder.select(gate, limit, constant(INT64, 0 if step > 0 else frame.lanes * abs(step)))
    limit = cast(builder, target, limit, INT64, INT32)
    lanes = literal(I32, tuple(lane * abs(step) for lane in range(frame.lanes)))
    return compare(builder, target, "lt" if step > 0 else "ge", INT32, lanes, limit)


def _small(polynomial: Polynomial) -> bool:
    terms = polynomial.terms
    plain = all(len(monomial) <= 1 and not any(atom.name.startswith("?") for atom in monomial) for monomial in terms)
    return plain and len(terms) <= 8 and all(abs(c) < (_STEP if monomial else 1 << 40) for monomial, c in terms.items())
