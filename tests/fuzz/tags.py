"""What a nest computes, symbolically: every element of every output as a term, and every race on the way.

A nest is run one statement at a time on tags instead of numbers. The tag of a value is the term that made it, over elements of the
operands: two nests with equal tags read, in every single operation, values made in the same way, whatever buffers, copies and orders
lie between. A reduction's tag is the multiset of what was combined, or the set where the reducer does not mind a value twice, so
re-association is free and nothing else is; a term combined twice, lost, or combined before it was complete shows. This is the brute-force
dependence check: it knows nothing of polyhedra.

Parallel and vector loops also note which iteration touches which shared element; two that touch one, of which one writes, race (but
combining lanes of one reducer, and lanes that make one plain store in turn where data tell its element).

Terms are integers into one table; the concrete value that a condition or an index needs is computed from its term. Integer sums and
products with literals are kept as linear forms, modulo the width of their type, and operands that may change places are sorted: what a
simplifier does to an expression does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from tensorlang.errors import InternalError
from tensorlang.ir import Binary, Buffer, Call, Cast, Compare, Const, Expr, For, Load, Nest, Select, Stmt, Store, Unary
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import dtype_of, reads_data
from tensorlang.semantics import arithmetic, nest_interpreter, scalars
from tests.oracle.components import apart, forgiving
from tests.oracle.turns import in_turn, turn_of

POISON: Final = 0
MASK: Final = (1 << 96) - 1
OPERATIONS: Final = ("unary", "binary", "compare", "cast", "call")
IDEMPOTENT: Final = ("min", "max", "fmin", "fmax", "and", "or")
SYMMETRIC: Final = ("add", "mul", "min", "max", "fmin", "fmax", "and", "or", "xor")


class Terms:
    """The table of terms: an integer for each distinct one."""

    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.arrays = arrays
        self.table: dict[tuple[Any, ...], int] = {("poison",): POISON}
        self.rows: list[tuple[Any, ...]] = [("poison",)]
        self.values: dict[int, Any] = {}
        self.made: dict[int, tuple[Any, ...]] = {}
        self.sets: dict[int, frozenset[int]] = {}
        """By the number of a set of several values, the numbers of its values."""

    def tag(self, *row: Any) -> int:
        """The tag of a term."""
        found = self.table.get(row)
        if found is None:
            found = self.table[row] = len(self.rows)
            self.rows.append(row)
            if row[0] in OPERATIONS and all(self.rows[part][0] == "literal" for part in row if isinstance(part, int)):
                found = self.table[row] = self.literal(self.type_of(row), self.evaluated(found))
        return found

    def type_of(self, row: tuple[Any, ...]) -> str:
        """The type that an operation gives."""
        match row:
            case ("compare", *_):
                return "bool"
            case ("cast", _, to, _) | ("call", _, _, to, *_):
                return str(to)
            case _:
                return str(row[2])

    def literal(self, of: str, value: Any) -> int:
        """The tag of a value that no operand decides."""
        tag = self.tag("literal", of, repr(value))
        self.values[tag] = value
        return tag

    def binary(self, op: str, of: str, left: int, right: int) -> int:
        """The tag of an operation: a linear form where it is one, else a term."""
        kind = DType(of)
        if kind.is_integer and op in ("add", "sub", "mul"):
            (a, one), (b, other) = self.linear(left), self.linear(right)
            if op != "mul":
                sign = 1 if op == "add" else -1
                return self.linear_tag(kind, {atom: a.get(atom, 0) + sign * b.get(atom, 0) for atom in {**a, **b}}, one + sign * other)
            if not a or not b:
                factor, terms, rest = (one, b, other) if not a else (other, a, one)
                return self.linear_tag(kind, {atom: factor * value for atom, value in terms.items()}, factor * rest)
        if op in IDEMPOTENT and left == right:
            return left
        if op in ("floordiv", "mod") and kind.is_integer and self.linear(right) == ({}, 1):
            return left if op == "floordiv" else self.literal(of, 0)
        for side, other in ((left, right), (right, left)) if of == "bool" and op in ("and", "or") else ():
            if self.rows[side][0] == "literal":  # it decides alone, or says nothing
                return side if bool(self.values[side]) == (op == "or") else other
        if op in SYMMETRIC and left > right:
            left, right = right, left
        return self.tag("binary", op, of, left, right)

    def linear(self, tag: int) -> tuple[dict[int, int], int]:
        """A tag as factors of atoms, and a constant."""
        match self.rows[tag]:
            case ("literal", _, _):
                return {}, self.values[tag]
            case ("linear", _, terms, constant):
                return dict(terms), constant
            case _:
                return {tag: 1}, 0

    def linear_tag(self, of: DType, terms: dict[int, int], constant: int) -> int:
        """The tag of a linear form."""
        low = (1 << of.bits) - 1
        kept = tuple(sorted((atom, factor & low) for atom, factor in terms.items() if factor & low))
        rest = scalars.wrapper(of)(constant)
        if not kept:
            return self.literal(str(of), rest)
        return kept[0][0] if len(kept) == 1 and kept[0][1] == 1 and not rest else self.tag("linear", str(of), kept, rest)

    def combined(self, reducer: Any, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        """The states after combining `new` into `old`, each group of components that need each other by itself."""
        result = list(old)
        for places, part in apart(reducer):
            found = self.united(part, tuple(old[place] for place in places), tuple(new[place] for place in places))
            for place, tag in zip(places, found, strict=True):
                result[place] = tag
        return tuple(result)

    def united(self, reducer: Any, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        """The states of one group after combining: the sum of what both hold."""
        added = self.content(reducer, new)
        if not added:  # partial results into which nothing was combined
            return old
        total = self.content(reducer, old) + added & MASK
        if forgiving(reducer):
            every = frozenset().union(*(self.sets.get(part, {part}) for part in (self.content(reducer, old), added) if part))
            total = sum(every) & MASK
            self.sets[total] = every
        if not total:
            return tuple(self.literal(*literal(identity)) for identity in reducer.identities)
        result = tuple(self.tag("state", reducer.name, component, len(old), total) for component in range(len(old)))
        for tag in result:
            self.made.setdefault(tag, (reducer, old, new))
        return result

    def content(self, reducer: Any, tags: tuple[int, ...]) -> int:
        """A number for the multiset that a state holds: 0 for the identity, a hash for a single value."""
        rows = [self.rows[tag] for tag in tags]
        identity = reducer.identities
        if all(row[0] == "literal" and row[1:] == spelled(const) for row, const in zip(rows, identity, strict=True)):
            return 0
        first = rows[0]
        if (
            first[:2] == ("state", reducer.name)
            and all(row[:2] == first[:2] and row[2] == place and row[3:] == first[3:] for place, row in enumerate(rows))
            and first[3] == len(tags)
        ):
            return int(first[4])
        return number(tags)

    def value(self, tag: int) -> Any:
        """The concrete value of a term."""
        if tag not in self.values:
            self.values[tag] = self.evaluated(tag)
        return self.values[tag]

    def settled(self, tag: int) -> int:
        """The term with integers and truth values as what they are, as an index shows once it is written into an expression."""
        row = self.rows[tag]
        match row:
            case ("linear", of, *_) | ("element", _, _, of):
                pass
            case ("state", _, int(component), _, _):
                reducer, old, new = self.made[tag]
                return self.united(reducer, tuple(map(self.settled, old)), tuple(map(self.settled, new)))[component]
            case (operation, *_) if operation in OPERATIONS:
                of = self.type_of(row)
            case _:
                return tag
        if DType(of).is_integer or of == "bool":
            return self.literal(of, self.value(tag))
        if row[0] == "binary":
            return self.binary(row[1], of, self.settled(row[3]), self.settled(row[4]))
        return self.tag(*[self.settled(part) if isinstance(part, int) else part for part in row]) if row[0] in OPERATIONS else tag

    def evaluated(self, tag: int) -> Any:
        """The value of a term that is not known yet."""
        match self.rows[tag]:
            case ("element", name, index, of):
                return scalars.scalar(self.arrays[name][index], DType(of))
            case ("state", _, component, _, _):
                reducer, old, new = self.made[tag]
                return self.folded(reducer, old, new)[component]
            case ("linear", of, terms, constant):
                return scalars.wrapper(DType(of))(constant + sum(factor * self.value(atom) for atom, factor in terms))
            case ("cast", of, to, inner):
                return scalars.caster(DType(of), DType(to))(self.value(inner))
            case ("unary", op, of, inner):
                return scalars.unary(op, lambda: self.value(inner), DType(of))()
            case ("binary", op, of, left, right):
                return scalars.binary(op, lambda: self.value(left), lambda: self.value(right), DType(of))()
            case ("compare", op, left, right):
                return bool(getattr(__import__("operator"), op)(self.value(left), self.value(right)))
            case ("call", name, of, to, *args):
                found = arithmetic.call(name, tuple(self.value(arg) for arg in args), DType(of), DType(to))
                return scalars.scalar(np.asarray(found)[()], DType(to))
            case _:
                raise InternalError("a condition reads what was never written")

    def folded(self, reducer: Any, old: tuple[int, ...], new: tuple[int, ...]) -> list[Any]:
        """The components of a combination."""
        machine = nest_interpreter._Machine((), {})
        for place, (a, b) in enumerate(zip(old, new, strict=True)):
            machine.params[f"a{place}"], machine.params[f"b{place}"] = self.value(a), self.value(b)
        return [machine.value(result)() for result in reducer.results]


@cache
def number(tags: tuple[int, ...]) -> int:
    """96 bits for a value among others. Such numbers are added up: Python's hash of a tuple is too linear, sums of few were equal."""
    return int.from_bytes(blake2b(repr(tags).encode(), digest_size=12).digest())


def literal(const: Const) -> tuple[str, Any]:
    """The type and the value of a literal."""
    return str(const.dtype), scalars.scalar(np.asarray(const.value, const.dtype.numpy)[()], const.dtype)


def spelled(const: Const) -> tuple[str, str]:
    """The row of a literal, without its kind."""
    of, value = literal(const)
    return of, repr(value)


@dataclass(slots=True)
class Frame:
    """A parallel or vector loop that is running: who touched which shared element."""

    loop: str
    vector: bool
    private: set[int] = field(default_factory=set)
    writers: dict[tuple[int, tuple[int, ...]], tuple[int, str]] = field(default_factory=dict)
    readers: dict[tuple[int, tuple[int, ...]], set[int]] = field(default_factory=dict)


@dataclass(slots=True)
class Tagger(nest_interpreter._Machine):
    """The nest interpreter on tags."""

    terms: Terms = field(default_factory=lambda: Terms({}))
    frames: list[Frame] = field(default_factory=list)
    races: list[str] = field(default_factory=list)
    turning: set[int] = field(default_factory=set)

    def action(self, stmt: Stmt, known: frozenset[str]) -> Callable[[], None]:
        """What runs a statement; parallel and vector loops are watched."""
        if isinstance(stmt, For) and stmt.kind == "vector":
            self.turning |= set(in_turn(stmt.body))
        act = nest_interpreter._Machine.action(self, stmt, known)
        if not isinstance(stmt, For) or stmt.kind not in ("parallel", "vector"):
            return act
        loop, vector = stmt.loop, stmt.kind == "vector"

        def watched() -> None:
            self.frames.append(Frame(loop, vector))
            act()
            self.frames.pop()

        return watched

    def _alloc(self, buffer: Buffer, body: Callable[[], None]) -> Callable[[], None]:
        extents = [self.value(extent) for extent in buffer.shape]

        def allocate() -> None:
            array = np.full([max(0, extent()) for extent in extents], POISON, object)
            hidden = self.buffers.get(buffer.name)
            self.buffers[buffer.name] = array
            for frame in self.frames:
                frame.private.add(id(array))
            body()
            if hidden is None:
                del self.buffers[buffer.name]
            else:
                self.buffers[buffer.name] = hidden

        return allocate

    def touch(self, name: str, at: tuple[int, ...], *, writes: bool, reducer: str = "") -> None:
        """Note an access in every loop that shares the buffer."""
        key = id(self.buffers[name]), at
        for frame in self.frames:
            if key[0] in frame.private:
                continue
            here, written = self.axes[frame.loop], frame.writers.get(key)
            together = frame.vector and reducer and written is not None and written[1] == reducer
            if written is not None and written[0] != here and not together:
                self.race(frame, name, at, written[0], here)
            if writes:
                others = frame.readers.get(key, set()) - {here}
                if others:
                    self.race(frame, name, at, min(others), here)
                frame.writers[key] = here, reducer
            else:
                frame.readers.setdefault(key, set()).add(here)

    def race(self, frame: Frame, name: str, at: tuple[int, ...], one: int, other: int) -> None:
        """Note a race."""
        if len(self.races) < 4:
            self.races.append(f"{frame.loop} = {one} and {other} both touch {name}{list(at)}")

    def _load(self, load: Load, name: str, index: list[Callable[[], Any]]) -> Callable[[], Any]:  # noqa: ARG002 - as inherited
        inner = self.read(name, index)
        return lambda: self.terms.value(inner())

    def read(self, name: str, index: list[Callable[[], Any]]) -> Callable[[], int]:
        """The tag of an element."""

        def run() -> int:
            at = tuple([part() for part in index])
            nest_interpreter._checked(self.buffers, name, at, f"a read of {name}")
            self.touch(name, at, writes=False)
            return int(self.buffers[name][at])

        return run

    def _store(self, store: Store) -> Callable[[], None]:
        index, values = [self.value(part) for part in store.index], [self.tagged(value) for value in store.values]
        names, reducer = [buffer.name for buffer in store.buffers], store.reducer
        label = turn_of(store, self.turning)

        def run() -> None:
            at = tuple([part() for part in index])
            new = tuple([value() for value in values])
            for name in names:
                nest_interpreter._checked(self.buffers, name, at, f"{store.stage} writes {name}")
                self.touch(name, at, writes=True, reducer=label)
            if reducer is not None:
                new = self.terms.combined(reducer, tuple(int(self.buffers[name][at]) for name in names), new)
            for name, tag in zip(names, new, strict=True):
                self.buffers[name][at] = tag

        return run

    def tagged(self, expr: Expr) -> Callable[[], int]:
        """What gives the tag of an expression."""
        terms = self.terms
        if not reads_data(expr):
            plain, of = self.value(expr), str(dtype_of(expr))
            return lambda: terms.literal(of, plain())
        match expr:
            case Load(buffer, index):
                return self.read(getattr(buffer, "name", "?"), [self.value(part) for part in index])
            case Select(cond, yes, no):
                test, a, b = self.value(cond), self.tagged(yes), self.tagged(no)
                return lambda: a() if test() else b()
            case Cast(inner, to):
                value, of = self.tagged(inner), str(dtype_of(inner))
                return lambda: terms.tag("cast", of, str(to), value())
            case Unary(op, inner):
                value, of = self.tagged(inner), str(dtype_of(inner))
                if op == "neg" and DType(of).is_integer:
                    return lambda: terms.binary("sub", of, terms.literal(of, 0), value())
                return lambda: terms.tag("unary", op, of, value())
            case Binary(op, left, right):
                a, b, of = self.tagged(left), self.tagged(right), str(dtype_of(left))
                return lambda: terms.binary(op, of, a(), b())
            case Compare(op, left, right):
                a, b = self.tagged(left), self.tagged(right)
                return lambda: terms.tag("compare", op, a(), b())
            case Call(name, args, to):
                parts, of = [self.tagged(arg) for arg in args], str(dtype_of(args[0]))
                return lambda: terms.tag("call", name, of, str(to), *[part() for part in parts])
            case _:
                raise InternalError(f"no tag for {expr!r:.60}")


def trace(nest: Nest, terms: Terms, dims: Mapping[str, int]) -> tuple[dict[str, list[int]], list[str]]:
    """The tags of the outputs of a nest, and its races. Raises `InternalError` for an access out of bounds."""
    machine = Tagger(nest.relations, dict(dims), terms=terms)
    for buffer in nest.inputs:
        array = np.empty(terms.arrays[buffer.name].shape, object)
        for at in np.ndindex(array.shape):
            array[at] = terms.tag("element", buffer.name, at, str(buffer.dtype))
        machine.buffers[buffer.name] = array
    for buffer in nest.outputs:
        machine.buffers[buffer.name] = np.full([machine.value(extent)() for extent in buffer.shape], POISON, object)
    with arithmetic.quiet():
        machine.action(nest.body, frozenset())()
    return {buffer.name: [int(tag) for tag in machine.buffers[buffer.name].ravel()] for buffer in nest.outputs}, machine.races
