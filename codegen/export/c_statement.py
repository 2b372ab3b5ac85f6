"""Statements of a lowered nest as C99: loops with the names of the nest, one line for an assignment.

Vector and unrolled loops are plain inner loops with a comment: a C compiler has its own way with them. A parallel loop is one of OpenMP's
where that is switched on and it takes no memory. Small storage of known size is an array, any other comes from `tensorlang_allocate`; where
there is none, control goes to the end of what encloses it, gives back what is held, and the function returns the error.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, assert_never

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.interval import Interval
from tensorlang.codegen.cache.identifiers import why_reserved
from tensorlang.codegen.cache.signature import c_type
from tensorlang.codegen.emission.storage import fits_stack
from tensorlang.codegen.export.c_expression import HALVES, PREFIX, SUM, CScope, Text
from tensorlang.codegen.export.c_helpers import Helpers
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Const, Dim, Expr, For, If, Nest, Param, Prefetch, Reducer, Stmt, Store
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import loads_of, statements, substatements, walk, written_in
from tensorlang.schedules.rewriting.edit import literal_extent

_COMMENTS: Final = {"vector": "vector", "unroll": "unroll", "parallel": "parallel", "tensor": "tensor"}
_HELPER: Final = re.compile(r"bits|real|bytes_of|t\d+_|.*_(?:[iuf]|bf)\d+|.*_bool")
"""What functions and constants of a source are called."""
_LONG: Final = 24
"""Characters of a bound beyond which it is computed before the loop."""
_SIZE: Final = "bytes_of"
_SIZE_TEXT: Final = """static int64_t bytes_of(int64_t bytes, int64_t extent) {
  if (extent <= 0) return 0;
  return bytes > INT64_MAX / extent ? INT64_MAX : bytes * extent;
}"""


@dataclass(slots=True)
class Writer:
    """Writes the body of one function: its lines, the names that are taken, and what is known where it stands."""

    helpers: Helpers
    taken: set[str] = field(default_factory=lambda: {"status", "end"})
    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    places: dict[str, tuple[str, bool]] = field(default_factory=dict)
    ranges: dict[Expr, Interval] = field(default_factory=dict)
    fixed: dict[str, Expr] = field(default_factory=dict)
    serial: list[int] = field(default_factory=lambda: [0, 0])
    depth: int = 1
    stack: int = 0
    labels: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    parallel: bool = False

    def nest(self, nest: Nest) -> None:
        """The body of a nest whose arguments are named."""
        self.ranges.update({Dim(name): bounds for name, bounds in nest.bounds.items()})
        self.statement(nest.body, bare=True)

    def name(self, wanted: str) -> str:
        """A name like the one of the nest that no other thing has."""
        word = re.sub(r"\W|_+", "_", short(wanted), flags=re.ASCII).strip("_") or "x"
        word = f"x{word}" if word[0].isdigit() or word.lower().startswith("tensorlang") else word
        found, number = word, 1
        while found in self.taken or why_reserved(found) is not None or _HELPER.fullmatch(found):
            number += 1
            found = f"{word}_{number}"
        self.taken.add(found)
        return found

    def scope(self) -> CScope:
        """A scope for one statement here."""
        return CScope(self.helpers, self.names, self.places, Bounds(self.ranges), self.fixed, self.serial)

    def line(self, text: str) -> None:
        """One line of the function."""
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Lines in braces."""
        self.line(opening)
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def prepared(self, scope: CScope) -> Iterator[None]:
        """A statement after the constants that its expressions need, in braces where there are some."""
        if not scope.lines:
            yield
            return
        with self.block("{"):
            for text in scope.lines:
                self.line(text)
            yield

    def statement(self, stmt: Stmt, *, bare: bool = False) -> None:
        """Any statement; `bare`: it stands alone in braces."""
        match stmt:
            case Store():
                self._store(stmt)
            case Block(body):
                for part in body:
                    self.statement(part)
            case If(cond, then, orelse):
                scope = self.scope()
                test = scope.value(cond)
                with self.prepared(scope):
                    with self.block(f"if ({test.text}) {{"):
                        self.statement(then, bare=True)
                    if orelse is not None:
                        self.lines[-1] += " else {"
                        self.depth += 1
                        self.statement(orelse, bare=True)
                        self.depth -= 1
                        self.line("}")
            case Alloc(buffers, body):
                self._allocated(list(buffers), body, bare=bare)
            case For():
                self._loop(stmt)
            case Prefetch():
                pass  # a hint without effect
            case _:
                assert_never(stmt)

    def _loop(self, loop: For) -> None:
        if not any(isinstance(part, Store) for part in statements(loop.body)):
            return
        scope = self.scope()
        known = scope.known
        outside = dict(self.fixed), dict(self.ranges)
        if literal_extent(loop) == 1 and isinstance(loop.lo, (Const, Axis)):
            self.fixed[loop.loop] = self.fixed.get(loop.lo.name, loop.lo) if isinstance(loop.lo, Axis) else loop.lo
            self.statement(loop.body)
            self.fixed = outside[0]
            return
        lo, hi = scope.value(loop.lo), scope.value(loop.hi)
        if len(hi.text) > _LONG or any(loads_of(loop.hi)):
            hi = Text(scope.constant("int64_t", hi.text), SUM)
        least, most = known.values(loop.lo)[0], known.values(loop.hi)[1] - 1
        with self.prepared(scope):
            name = self.name(loop.loop)
            self.names[loop.loop] = name
            self.ranges[Axis(loop.loop)] = (least, max(least, most))
            outer = self.parallel
            if loop.kind == "parallel" and not outer:
                self.parallel = True
                if not any(isinstance(part, Alloc) and self._takes_memory(part) for part in statements(loop.body)):
                    self.lines += ["#ifdef _OPENMP", "#pragma omp parallel for", "#endif"]
            comment = f"  /* {_COMMENTS[loop.kind]} */" if loop.kind in _COMMENTS else ""
            with self.block(f"for (int64_t {name} = {lo.text}; {name} < {hi.at(SUM)}; {name}++) {{{comment}"):
                self.statement(loop.body, bare=True)
            self.parallel = outer
            self.taken.discard(name)
        self.fixed, self.ranges = outside

    def _takes_memory(self, stmt: Alloc) -> bool:
        return any(self._array_size(buffer, 0) is None for buffer in stmt.buffers)

    @staticmethod
    def _array_size(buffer: Buffer, taken: int) -> int | None:
        """The elements of storage that is an array of the function; None for what is allocated."""
        if not all(isinstance(extent, Const) for extent in buffer.shape):
            return None
        size = math.prod(max(0, int(extent.value)) for extent in buffer.shape if isinstance(extent, Const))
        return size if buffer.memory in ("register", "stack") or fits_stack(buffer, size, taken) else None

    def _allocated(self, buffers: list[Buffer], body: Stmt, *, bare: bool = False) -> None:
        """Storage, one buffer after the other, while the body runs; `bare`: what is around has braces, and nothing else in them."""
        if not buffers:
            self.statement(body)
            return
        buffer, *others = buffers
        name, kind = self.name(buffer.name), c_type(buffer.dtype)
        outside = self.places.get(buffer.name)
        size = self._array_size(buffer, self.stack)
        with contextlib.nullcontext() if bare else self.block("{"):
            if size is not None:
                extents = [int(extent.value) for extent in buffer.shape if isinstance(extent, Const)]
                flat = not extents or size == 0
                held = "[1]" if flat else "".join(f"[{extent}]" for extent in extents)
                self.line(f"{kind} {name}{held}{' = {0}' if _may_stay_empty(body, buffer) else ''};")
                self.places[buffer.name] = (name, flat)
                self.stack += size * buffer.dtype.bytes
                self._allocated(others, body, bare=True)
                self.stack -= size * buffer.dtype.bytes
            else:
                self._from_hook(buffer, name, kind, others, body)
        self.taken.discard(name)
        if outside is None:
            del self.places[buffer.name]
        else:
            self.places[buffer.name] = outside

    def _from_hook(self, buffer: Buffer, name: str, kind: str, others: list[Buffer], body: Stmt) -> None:
        scope = self.scope()
        known = [int(extent.value) for extent in buffer.shape if isinstance(extent, Const)]
        text = str(buffer.dtype.bytes * math.prod(max(extent, 0) for extent in known))
        for extent in (extent for extent in buffer.shape if not isinstance(extent, Const)):
            self.helpers.functions.setdefault(_SIZE, _SIZE_TEXT)
            text = f"{_SIZE}({text}, {scope.value(extent).text})"
        for line in scope.lines:
            self.line(line)
        self.line(f"{kind} *{name} = tensorlang_allocate({text}, {max(LINE_BYTES, buffer.align)});")
        around = self.labels[-1] if self.labels else "end"
        self.used.add(around)
        with self.block(f"if ({name} == 0) {{"):
            self.line("status = TENSORLANG_NO_MEMORY;")
            self.line(f"goto {around};")
        self.places[buffer.name] = (name, True)
        label = self.name(f"release_{name}")
        self.labels.append(label)
        self._allocated(others, body, bare=True)
        self.labels.pop()
        if label in self.used:
            self.lines.append("  " * (self.depth - 1) + f"{label}:")
        self.line(f"tensorlang_release({name});")
        if label in self.used:
            self.line(f"if (status != 0) goto {around};")

    def _store(self, store: Store) -> None:
        scope = self.scope()
        targets = [scope.element(buffer, store.index) for buffer in store.buffers]
        values = self._values(scope, store, targets)
        if len(values) > 1:
            kinds = [c_type(buffer.dtype) for buffer in store.buffers]
            values = [Text(scope.constant(kind, value.text), PREFIX) for kind, value in zip(kinds, values, strict=True)]
        with self.prepared(scope):
            for target, value in zip(targets, values, strict=True):
                shown = f"{target} + "
                if value.text.startswith(shown) and store.reducer is not None and value.level == SUM:
                    self.line(f"{target} += {value.text[len(shown) :]};")
                else:
                    self.line(f"{target} = {value.text};")

    def _values(self, scope: CScope, store: Store, targets: Sequence[str]) -> list[Text]:
        """What a store writes: its values, or their combination with what is there."""
        reducer = store.reducer
        if reducer is None:
            return [scope.value(value) for value in store.values]
        dtype = store.buffers[0].dtype
        if dtype in HALVES and reducer.name == "sum" and isinstance(store.values[0], Binary) and store.values[0].op == "mul":
            factor = store.values[0]
            sides = [scope.widened(scope.value(side), dtype).at(PREFIX) for side in (factor.left, factor.right)]
            old = scope.widened(Text(targets[0], PREFIX), dtype)  # rounded once, as in machine code
            return [scope.rounded(Text(f"{old.text} + {' * '.join(sides)}", SUM), dtype)]
        params = {}
        for n, (value, target, buffer) in enumerate(zip(store.values, targets, store.buffers, strict=True)):
            new = scope.value(value)
            if _times(reducer, f"b{n}") > 1 and len(new.text) > 12:
                new = Text(scope.constant(c_type(buffer.dtype), new.text), PREFIX)
            params[f"a{n}"], params[f"b{n}"] = Text(target, PREFIX), new
        scope.params = params
        return [scope.value(result) for result in reducer.results]


def _times(reducer: Reducer, name: str) -> int:
    """How often the results of a reducer speak of a parameter."""
    return sum(isinstance(part, Param) and part.name == name for result in reducer.results for part in walk(result))


def _may_stay_empty(stmt: Stmt, buffer: Buffer) -> bool:
    """Could a C compiler think that nothing is stored to a buffer: is every store under a condition, or in a loop of unknown length?"""
    match stmt:
        case If(_, then, orelse):
            return any(buffer.name in written_in(part) for part in (then, orelse) if part is not None)
        case For() if not literal_extent(stmt):
            return buffer.name in written_in(stmt)
        case _:
            return any(_may_stay_empty(part, buffer) for part in substatements(stmt))
