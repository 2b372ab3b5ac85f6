"""`transform_layout`: store an intermediate in another order, or in blocks.

    h: float32[20, 37]                              h: float32[3, 37, 8]
    for c in range(20):                             for c in range(20):
        for y in range(37):                 ->          for y in range(37):
            h[c, y] = f(c, y)                               h[c // 8, y, c % 8] = f(c, y)

The map from old indices to new ones is held as the text of the function, `lambda c, y: (c // 8, y, c % 8)`: it is read with Python's
parser and never run. The new extents are what the map reaches.

Tensors that one statement stores, as those of a recurrence of several, have one index: the layout is that of all of them.

Legal where the map takes different elements to different places, and none below zero.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import FALSE
from tensorlang.algebra.simplify import simplify
from tensorlang.definition.expr import Expr as Value
from tensorlang.errors import DefinitionError
from tensorlang.ir import Axis, Binary, Buffer, Compare, Const, Dim, Expr, Nest, Unary
from tensorlang.ir.mentions import allocations
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import substitute, walk
from tensorlang.schedules.directive import Directive, Refusal, TensorName
from tensorlang.schedules.legality.memory_limits import within_memory
from tensorlang.schedules.rewriting.intermediates import intermediate, restored, storages, stored_with

MAX_TEXT: Final = 1000
MAX_RANK: Final = 16
MAX_LITERAL: Final = 1 << 40
_OPERATORS: Final[dict[type[ast.AST], str]] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}


@dataclass(frozen=True, slots=True)
class TransformLayout(Directive):
    """Store element `index` of the intermediate `tensor` at `fn(*index)`."""

    tensor: TensorName
    fn: Annotated[str, layout_text]

    def apply(self, nest: Nest) -> Nest:
        """The nest with the new layout."""
        buffer = intermediate(nest, self.tensor)
        together = self._together(nest, buffer)
        axes, places = parsed(self.fn)
        if len(axes) != len(buffer.shape):
            raise self._refusal("TL-S005", f"the map takes {len(axes)} indices, and {self.tensor!r} has {len(buffer.shape)}")
        dims = {node.name for place in places for node in walk(place) if isinstance(node, Dim)} - set(nest.dims)
        if dims:
            raise self._refusal("TL-S005", f"{min(dims)!r} is neither an index of the map nor a dim of the kernel")

        def arranged(buffer: Buffer) -> Buffer:
            shape = []
            for place in places:
                bounds = _range(place, dict(zip(axes, buffer.shape, strict=True)))
                if bounds is None or not isinstance(bounds[0], Const) or bounds[0].value < 0:
                    raise self._refusal("TL-S303", f"the new index {text(place)} has no simple range from zero on")
                shape.append(simplify(Binary("add", bounds[1], ir.const(1))))
            return replace(buffer, shape=tuple(shape))

        def index(old: tuple[Expr, ...]) -> tuple[Expr, ...]:
            values = dict(zip(axes, old, strict=True))
            return tuple(simplify(substitute(place, values)) for place in places)

        result = within_memory(restored(nest, together, arranged, index), self.tensor)
        for shape in dict.fromkeys(old.shape for name in together for _, _, old in storages(nest, name)):
            self._require_injective(axes, places, dict(zip(axes, shape, strict=True)))
        return result

    def _refusal(self, code: str, reason: str, counterexample: dict[str, object] | None = None) -> Refusal:
        return Refusal(code, reason, stage=self.tensor, counterexample=counterexample)

    def _together(self, nest: Nest, buffer: Buffer) -> tuple[str, ...]:
        """The tensor and those that are stored with it, which get the layout, too."""
        together = stored_with(nest, self.tensor)
        known = {other.name: other for other in allocations(nest.body)}
        for name in together:
            if name not in known or known[name].shape != buffer.shape:
                why = "whose storage belongs to the caller" if name not in known else "of another shape"
                raise self._refusal("TL-S301", f"{self.tensor!r} is stored together with {name!r}, {why}, at one index for all")
        return together

    def _require_injective(self, axes: Sequence[str], places: Sequence[Expr], extents: dict[str, Expr]) -> None:
        other: dict[str, Expr] = {axis: Axis(f"{axis}'") for axis in axes}
        facts = [
            fact
            for axis in axes
            for copy in (Axis(axis), other[axis])
            for fact in (Compare("ge", copy, ir.const(0)), Compare("lt", copy, extents[axis]))
        ]
        bounded: dict[str, Expr] = {  # the oracle is exact where it sees that nothing wraps
            axis: Binary("mod", Axis(axis), extent) for axis, extent in extents.items() if isinstance(extent, Const) and extent.value > 0
        }
        again = {axis: substitute(value, other) for axis, value in bounded.items()}
        facts += [Compare("eq", substitute(place, bounded), substitute(place, {**other, **again})) for place in places]
        apart: Expr = FALSE
        for axis in axes:
            apart = simplify(Binary("or", apart, Compare("ne", Axis(axis), other[axis])))
        point = None if apart == FALSE else find(*facts, apart)
        if point is not None:
            first, second = ([point[axis] for axis in copies] for copies in (map(Axis, axes), other.values()))
            names = [f"{self.tensor}[{', '.join(map(str, element))}]" for element in (first, second)]
            raise self._refusal(
                "TL-S305",
                f"{names[0]} and {names[1]} would share one place",
                {"first": {"element": names[0]}, "second": {"element": names[1]}, "element": names[0]},
            )


def layout_text(fn: object) -> str:
    """The text of a map given as a function of indices or as text. Raises `Refusal`."""
    if isinstance(fn, str):
        return _text(*parsed(fn))
    if not callable(fn):
        raise Refusal("TL-S005", f"a layout is a function from old indices to new ones, not {fn!r:.40}")
    try:
        axes = [parameter.name for parameter in inspect.signature(fn).parameters.values()]
        found = fn(*(Value(Axis(axis)) for axis in axes))
        places = [_node(part) for part in (found if isinstance(found, (tuple, list)) else (found,))]
    except (DefinitionError, TypeError, ValueError) as error:
        raise Refusal("TL-S005", f"the layout function cannot be followed: {error}") from None
    return _text(*parsed(_text(tuple(axes), tuple(places))))


def _node(part: object) -> Expr:
    if isinstance(part, Value):
        return part.node
    if isinstance(part, int) and not isinstance(part, bool):
        return ir.const(part)
    raise TypeError(f"{part!r:.40} is no index")


def _text(axes: tuple[str, ...], places: tuple[Expr, ...]) -> str:
    inside = ", ".join(text(place) for place in places)
    return f"lambda {', '.join(axes)}: ({inside}{',' if len(places) == 1 else ''})"


def parsed(fn: object) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    """The indices and the new indices of the text of a map. Raises `Refusal` for anything else."""
    if not isinstance(fn, str) or len(fn) > MAX_TEXT:
        raise Refusal("TL-S005", f"a layout is text of at most {MAX_TEXT} characters, not {fn!r:.40}")
    try:
        node = ast.parse(fn.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Refusal("TL-S005", f"{fn!r:.60} cannot be read as a layout") from None
    if not isinstance(node, ast.Lambda) or node.args.defaults or node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
        raise Refusal("TL-S005", f"{fn!r:.60} is no layout; write 'lambda c, y: (c // 8, y, c % 8)'")
    axes = tuple(argument.arg for argument in node.args.args)
    parts = node.body.elts if isinstance(node.body, (ast.Tuple, ast.List)) else [node.body]
    if not 1 <= len(parts) <= MAX_RANK:
        raise Refusal("TL-S005", f"a layout has 1 to {MAX_RANK} indices, not {len(parts)}")
    return axes, tuple(simplify(_read(part, axes)) for part in parts)


def _read(node: ast.expr, axes: tuple[str, ...]) -> Expr:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and abs(value) <= MAX_LITERAL:
            return ir.const(value)
        case ast.Name(id=name):
            return Axis(name) if name in axes else Dim(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Unary("neg", _read(operand, axes))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return Binary(_OPERATORS[type(op)], _read(left, axes), _read(right, axes))
        case _:
            raise Refusal("TL-S005", f"{ast.unparse(node)!r:.60} has no place in a layout: indices, integers and + - * // % have")


def _range(place: Expr, extents: dict[str, Expr]) -> tuple[Expr, Expr] | None:
    """The least and the greatest value of an index, where all elements exist; None where they are not simple."""
    found: tuple[Expr, Expr] | None = None
    match place:
        case Const() | Dim():
            found = (place, place)
        case Axis(name):
            found = (ir.const(0), Binary("sub", extents[name], ir.const(1)))
        case Binary("add" | "sub" as op, left, right):
            a, b = _range(left, extents), _range(right, extents)
            if a is not None and b is not None:
                low, high = (b[0], b[1]) if op == "add" else (b[1], b[0])
                found = (Binary(op, a[0], low), Binary(op, a[1], high))
        case Unary("neg", value):
            found = _range(Binary("sub", ir.const(0), value), extents)
        case Binary("mul", Const(by), value) | Binary("mul", value, Const(by)):
            a = _range(value, extents)
            if a is not None:
                ends = tuple(Binary("mul", ir.const(int(by)), end) for end in a)
                found = (ends[0], ends[1]) if by >= 0 else (ends[1], ends[0])
        case Binary("floordiv", value, Const(by)) if by > 0:
            a = _range(value, extents)
            if a is not None:
                found = (Binary("floordiv", a[0], ir.const(int(by))), Binary("floordiv", a[1], ir.const(int(by))))
        case Binary("mod", _, Const(by)) if by > 0:
            found = (ir.const(0), ir.const(int(by) - 1))
        case _:
            pass
    return None if found is None else (simplify(found[0]), simplify(found[1]))
