"""`narrow`: compute a stage in as few bits as hold its values.

    g: int32[66]                                            g: int16[66]
    g[i] = int32(X[i]) * 77 >> 8                ->          g[i] = int16(uint16(X[i]) * 77 >> 8)
    E[i] = uint8(abs(g[i + 1] - g[i]))                      E[i] = uint8(abs(int32(g[i + 1]) - int32(g[i])))

(X: uint8.) An intermediate is stored in fewer bits as well; its readers widen it, until they are narrowed themselves. A vector has twice
as many lanes of half the bits, so that a definition may say `int32` and be computed like one that was written in 16 bits by hand.

Legal where every value on the way fits, as intervals of types, literals and other intermediates tell; sums of reductions stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import Buffer, Cast, Expr, For, Load, Nest, Store
from tensorlang.ir.dtype import DType
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import dtype_of, map_expressions, rewrite, statements
from tensorlang.schedules.directive import Directive, Refusal, StageName
from tensorlang.schedules.rewriting.edit import edit_stores, require_stage, stores, stores_of
from tensorlang.schedules.rewriting.intermediates import restored
from tensorlang.schedules.rewriting.narrowing import Ranges, narrowest


@dataclass(frozen=True, slots=True)
class Narrow(Directive):
    """Compute `stage`, and store it where it is an intermediate, in as few bits as hold its values."""

    stage: StageName

    def apply(self, nest: Nest) -> Nest:
        """The nest with smaller numbers."""
        require_stage(nest, self.stage)
        if any(isinstance(part, For) and part.kind == "tensor" for part in statements(nest.body)):
            raise Refusal("TL-S301", "an instruction takes numbers of its own types; narrow before tensorize", stage=self.stage)
        known = Ranges(nest)

        def narrowed(store: Store) -> Store:
            if store.stage != self.stage or store.reducer is not None:
                return store
            return replace(store, values=tuple(map(known.narrowing(*store.values).narrowed, store.values)))

        result = replace(nest, body=edit_stores(nest.body, narrowed))
        for buffer in {buffer.name: buffer for store in stores_of(nest.body, (self.stage,)) for buffer in store.buffers}.values():
            result = _stored(result, buffer, known)
        if result.body == nest.body:
            raise Refusal("TL-S301", f"nothing of {self.stage!r} is held by fewer bits{self._why(nest, known)}", stage=self.stage)
        return result

    def _why(self, nest: Nest, known: Ranges) -> str:
        own = list(stores_of(nest.body, (self.stage,)))
        if any(store.reducer is not None for store in own):
            return ": sums stay as they are"
        first = next((buffer for store in own for buffer in store.buffers if buffer.dtype.is_integer), None)
        return "" if first is None else ": {} has values from {} to {}".format(first.name, *known.of(first))


def _stored(nest: Nest, buffer: Buffer, known: Ranges) -> Nest:
    """The nest with an intermediate in a type of fewer bits that holds its values; itself where there is none."""
    writes = [store for store in stores(nest.body) if any(own.name == buffer.name for own in store.buffers)]
    held = any(own.name == buffer.name for own in allocations(nest.body)) and all(store.reducer is None for store in writes)
    kind = narrowest(known.of(buffer), buffer.dtype) if held and buffer.dtype.is_integer else buffer.dtype
    return nest if kind == buffer.dtype else _of_type(nest, buffer, kind)


def _of_type(nest: Nest, buffer: Buffer, kind: DType) -> Nest:
    def read(expr: Expr) -> Expr:
        own = isinstance(expr, Load) and isinstance(expr.buffer, Buffer) and expr.buffer.name == buffer.name
        return Cast(expr, buffer.dtype) if own else expr

    def written(store: Store) -> Store:
        values = (_as(value, kind) if own.name == buffer.name else value for own, value in zip(store.buffers, store.values, strict=True))
        return replace(store, values=tuple(values))

    body = edit_stores(map_expressions(nest.body, lambda expr: rewrite(expr, read)), written)
    return restored(replace(nest, body=body), (buffer.name,), lambda found: replace(found, dtype=kind))


def _as(value: Expr, kind: DType) -> Expr:
    """A value that a type holds, in it."""
    if isinstance(value, Cast) and dtype_of(value.value).is_integer and dtype_of(value.value).bits < value.dtype.bits:
        return _as(value.value, kind)
    return value if dtype_of(value) == kind else Cast(value, kind)
