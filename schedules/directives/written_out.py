"""`separate` without loops, of windows that are written out as sums of integers: see there, and `rewriting.weights` for the products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    if read_in(product.window.part) & {buffer.name for buffer in store.buffers}:
        raise Refusal("TL-S303", f"{stage!r} reads what it makes, so that the elements take turns", stage=stage)
    columns = _Columns.of(product, own, stage)
    label = new_stage(nest, f"{stage}_inner")
    local = Buffer(fresh_buffer(nest, label), columns.shape, dtype_of(expr))
    first = columns.computed(store, label, local, FreshNames.of(nest))
    combined = _put_together(expr, product, [loop.loop for loop in own], columns.read(local))
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


@dataclass(frozen=True, slots=True)
class _Columns:
    """What is combined first of a product: for each of the loops of its stage that it moves with, the offsets that are read of it."""

    product: Product
    offsets: tuple[tuple[For, tuple[int, ...]], ...]

    @classmethod
    def of(cls, product: Product, own: Sequence[For], stage: str) -> _Columns:
        """Of a stage in loops. Raises `Refusal` where the range of one depends on others."""
        window, around = product.window, {loop.loop for loop in own}
        rest = dict(zip(window.loops[1:], zip(*product.rest, strict=True), strict=True))
        found = tuple((loop, rest.get(loop.loop, (0,))) for loop in own if loop.loop in axes_of(window.part))
        if any((axes_of(loop.lo) | axes_of(loop.hi)) & around for loop, _ in found):
            reason = f"the range of a loop of {stage!r} depends on others, and what is combined first has no box"
            raise Refusal("TL-S204", reason, stage=stage)
        return cls(product, found)

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Places along each loop and the window."""
        extents = (linear(extent_of(loop)).plus(Linear(max(offsets) - min(offsets))) for loop, offsets in self.offsets)
        return tuple(at_least_none(simplify(expression(extent))) for extent in extents)

    def computed(self, store: Store, label: str, local: Buffer, names: FreshNames) -> Stmt:
        """The loops that compute them."""
        window, sizes = self.product.window, zip(self.offsets, self.shape, strict=True)
        loops = [For(names.fresh(f"{label}.{short(loop.loop)}"), const(0), extent, store) for (loop, _), extent in sizes]
        places = {
            loop.loop: simplify(expression(linear(loop.lo).plus(Linear(min(offsets), {Axis(new.loop): 1}))))
            for (loop, offsets), new in zip(self.offsets, loops, strict=True)
        }
        column = _sum({(offset,): weight for offset, weight in self.product.first.items()}, window.loops[:1], window.part, local.dtype)
        return nested(loops, Store(label, (local,), axes(loops), (substitute(column, places),)))

    def read(self, local: Buffer) -> Expr:
        """The one where the loops are."""
        places = (Linear(-min(offsets), {Axis(loop.loop): 1}).plus(linear(loop.lo), -1) for loop, offsets in self.offsets)
        return Load(local, tuple(map(expression, places)))


def _put_together(expr: Expr, product: Product, loops: Sequence[str], column: Expr) -> Expr:
    """A sum over the columns of one of its windows, what of this is no product, its other windows, and what else is in it."""
    kind, (every, other) = dtype_of(expr), windows(expr, loops)
    parts = [_sum(product.rest, product.window.loops[1:], column, kind)]
    parts += [_sum(product.left, product.window.loops, product.window.part, kind)] if product.left else []
    parts += [_sum(window.weights, window.loops, window.part, kind) for window in every if window != product.window]
    parts += [_times(atom, weight, kind) for atom, weight in other.terms.items()]
    parts += [_literal(other.constant, kind)] if other.constant else []
    return _added(parts)


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


def _literal(value: int, kind: DType) -> Const:
    """A literal of an integer type, which wraps."""
    value %= 1 << kind.bits
    return Const(value - (1 << kind.bits) if kind.kind == "signed" and value >> (kind.bits - 1) else value, kind)
