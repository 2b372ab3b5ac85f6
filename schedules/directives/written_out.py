"""`separate` without loops, of windows that are written out as sums of integers: see there, and `rewriting.weights` for the products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Buffer, Const, Expr, For, Load, Nest, Stmt, Store, allocate, block, const
from tensorlang.ir.dtype import DType
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import axes_of, dtype_of, map_children, read_in, reads_data, substitute
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.placement.local_copies import fresh_buffer
from tensorlang.schedules.rewriting.boxes import alone, at_least_none, axes, new_stage
from tensorlang.schedules.rewriting.copies import FreshNames
from tensorlang.schedules.rewriting.edit import edit_loops, edit_stores, extent_of, nested
from tensorlang.schedules.rewriting.parts import largest, with_each
from tensorlang.schedules.rewriting.weights import Offsets, Product, product_of, shifted, windows


def products(values: Sequence[Expr], loops: Sequence[str]) -> list[Expr]:
    """The largest sums of integers in values that have a window whose weights are a product, each once."""

    def is_product(expr: Expr) -> bool:
        return isinstance(expr, Binary) and expr.op in ("add", "sub") and _best(expr, loops) is not None

    return largest(values, is_product, lambda expr: isinstance(expr, Load))


def terms(values: Sequence[Expr]) -> int:
    """How many terms of data the largest sums of integers in values have."""

    def is_sum(expr: Expr) -> bool:
        return isinstance(expr, Binary) and expr.op in ("add", "sub") and not dtype_of(expr).is_floating and reads_data(expr)

    sums = largest(values, is_sum, lambda expr: isinstance(expr, Load))
    return sum(sum(map(reads_data, linear(expr).terms)) for expr in sums)


def fewest(values: Sequence[Expr], loops: Sequence[str]) -> float:
    """The least share of its terms that a window takes as a product; 1 where there is none."""
    found = (_best(expr, loops) for expr in products(values, loops))
    return min((product.steps / len(product.window.weights) for product in found if product is not None), default=1.0)


def _best(expr: Expr, loops: Sequence[str]) -> Product | None:
    """The product that saves most; None where there is none, or it is a sum of floats."""
    if dtype_of(expr).is_floating:
        return None
    found = [product for product in map(product_of, windows(expr, loops)[0]) if product is not None]
    return max(found, key=lambda product: len(product.window.weights) - product.steps, default=None)


def with_products(nest: Nest, stage: str) -> tuple[Nest, list[str]]:
    """The nest with a stage for each window whose weights are a product, and their names. Raises `Refusal` where there is none."""
    labels: list[str] = []
    store, own, known = alone(nest, stage)
    found = products([substitute(value, known) for value in store.values], [loop.loop for loop in own])
    reason = f"no sum of integers that {stage!r} writes out has weights that are a product; name loops of a reduction"
    return with_each(nest, found, lambda part, expr: _with(part, stage, expr, labels), Refusal("TL-S304", reason, stage=stage)), labels


def _with(nest: Nest, stage: str, expr: Expr, labels: list[str]) -> Nest:
    """The nest with the window of one sum along its first loop in a stage of its own."""
    store, own, known = alone(nest, stage)
    product = _best(expr, [loop.loop for loop in own])
    assert product is not None
    window = product.window
    if read_in(window.part) & {buffer.name for buffer in store.buffers}:
        raise Refusal("TL-S303", f"{stage!r} reads what it makes, so that the elements take turns", stage=stage)
    moved = [loop for loop in own if loop.loop in axes_of(window.part)]
    around = {loop.loop for loop in own}
    if any((axes_of(loop.lo) | axes_of(loop.hi)) & around for loop in moved):
        raise Refusal("TL-S204", f"the range of a loop of {stage!r} depends on others, and what is combined first has no box", stage=stage)
    label = new_stage(nest, f"{stage}_inner")
    rest = dict(zip(window.loops[1:], zip(*product.rest, strict=True), strict=True))
    least = {name: min(offsets) for name, offsets in rest.items()}
    shape = tuple(_extent(loop, rest.get(loop.loop, (0,))) for loop in moved)
    local, kind, names = Buffer(fresh_buffer(nest, label), shape, dtype_of(expr)), dtype_of(expr), FreshNames.of(nest)
    loops = [For(names.fresh(f"{label}.{short(loop.loop)}"), const(0), extent, store) for loop, extent in zip(moved, shape, strict=True)]
    places = {
        old.loop: simplify(expression(linear(old.lo).plus(Linear(least.get(old.loop, 0), {Axis(new.loop): 1}))))
        for old, new in zip(moved, loops, strict=True)
    }
    column = _sum({(offset,): weight for offset, weight in product.first.items()}, window.loops[:1], window.part, kind)
    first = nested(loops, Store(label, (local,), axes(loops), (substitute(column, places),)))
    place = tuple(expression(Linear(-least.get(loop.loop, 0), {Axis(loop.loop): 1}).plus(linear(loop.lo), -1)) for loop in moved)
    combined = _sum(product.rest, window.loops[1:], Load(local, place), kind)
    if product.left:
        combined = Binary("add", combined, _sum(product.left, window.loops, window.part, kind))
    every, other = windows(expr, [loop.loop for loop in own])
    for part in every:
        if part != window:
            combined = Binary("add", combined, _sum(part.weights, part.loops, part.part, kind))
    combined = _with_others(combined, other, kind)
    numbering = Numbering()
    wanted = numbering.number(expr)

    def read(part: Expr) -> Expr:
        if numbering.number(part) == wanted:
            return combined
        return part if isinstance(part, Load) else map_children(part, read)

    def reading(part: Store) -> Store:
        return replace(part, values=tuple(read(substitute(value, known)) for value in part.values)) if part.stage == stage else part

    def with_first(part: For) -> Stmt:
        return allocate((local,), block(first, edit_stores(part, reading)))

    labels.append(label)
    return replace(nest, body=edit_loops(nest.body, lambda part: part.loop == own[0].loop, with_first))


def _extent(loop: For, offsets: Sequence[int]) -> Expr:
    """Places along a loop and a window."""
    return at_least_none(simplify(expression(linear(extent_of(loop)).plus(Linear(max(offsets) - min(offsets))))))


def _sum(weights: Mapping[Offsets, int], loops: Sequence[str], part: Expr, kind: DType) -> Expr:
    """A window, its weights as literals of a type; what has the same weight is added up before it is multiplied."""
    alike: dict[int, list[Expr]] = {}
    for offsets, weight in sorted(weights.items()):
        alike.setdefault(weight, []).append(shifted(part, dict(zip(loops, offsets, strict=True))))
    terms = [_times(_added(parts), weight, kind) for weight, parts in alike.items()]
    return _added(terms)


def _added(terms: Sequence[Expr]) -> Expr:
    found = terms[0]
    for term in terms[1:]:
        found = Binary("add", found, term)
    return found


def _times(expr: Expr, weight: int, kind: DType) -> Expr:
    return expr if weight == 1 else Binary("mul", expr, _literal(weight, kind))


def _with_others(expr: Expr, other: Linear, kind: DType) -> Expr:
    for atom, weight in other.terms.items():
        expr = Binary("add", expr, _times(atom, weight, kind))
    return Binary("add", expr, _literal(other.constant, kind)) if other.constant else expr


def _literal(value: int, kind: DType) -> Const:
    """A literal of an integer type, which wraps."""
    value %= 1 << kind.bits
    return Const(value - (1 << kind.bits) if kind.kind == "signed" and value >> (kind.bits - 1) else value, kind)
