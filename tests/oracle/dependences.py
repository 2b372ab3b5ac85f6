"""The dependences of an unscheduled nest at concrete sizes, as exact isl relations.

Domains, accesses and the order of the nest are written down as they stand: bounds, conditions, indices; isl lists them. Each read sees the
values of the latest writes before it: a combining store is a source that others join (`may`), any other store one that hides what
was there (`must`), a constant hides without being a source (`kill`). Where data decides an index or a condition, what the plain nest does
on the data at hand is written down point by point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Cast, Compare, Const, Dim, Expr, Load, Nest, Select, Unary
from tensorlang.ir.traverse import children, loads_of, reads_data

from .flow import Instance, TooMuch, flow
from .marks import Statement, is_constant, statements_of


@dataclass(frozen=True, slots=True)
class Need:
    """What an instance depends on: for its value, and, these included, for where it is read and written, and whether at all.

    A directive may have a copy ask for the latter in place of the statement, or not at all, so that they are not required.
    """

    value: frozenset[Instance] = frozenset()
    all: frozenset[Instance] = frozenset()
    combines: bool = False
    """Whether it is combined into an element, which others are combined into too."""


Needs: TypeAlias = dict[Instance, Need]
"""Every instance of the program, and every element of an output."""
Pairs: TypeAlias = list[tuple[tuple[int, ...], tuple[int, ...]]]
"""An access point by point: the values of the loops, and the element."""

MAX_POINTS: Final = 400
RELATION: Final = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


class Unknown(Exception):  # noqa: N818
    """Data decides this."""


@dataclass(slots=True)
class Plain:
    """What a run of the plain nest did, for what data decides: executed instances, reads, and elements written.

    Reads are told apart by whether they only say where something is, or whether: the same load may do both, at other times.
    """

    executed: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    reads: dict[tuple[str, Load, bool], Pairs] = field(default_factory=dict)
    writes: dict[str, Pairs] = field(default_factory=dict)


@dataclass(slots=True)
class Relations:
    """The relations of a nest, as isl spells them."""

    dims: Mapping[str, int]
    plain: Plain
    reads: list[str] = field(default_factory=list)
    must: list[str] = field(default_factory=list)
    may: list[str] = field(default_factory=list)
    kill: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)

    def buffer(self, name: str) -> str:
        """A buffer as isl calls it."""
        if name not in self.buffers:
            self.buffers.append(name)
        return f"b{self.buffers.index(name)}"

    # Expressions

    def integer(self, expr: Expr, names: Mapping[str, str]) -> str:
        """An affine expression. Raises `Unknown` where it is none."""
        match expr:
            case Const(value) if not isinstance(value, float):
                return f"({int(value)})"
            case Dim(name):
                return f"({self.dims[name]})"
            case Axis(name):
                return names[name]
            case Binary("add" | "sub" as op, left, right):
                return f"({self.integer(left, names)} {'+' if op == 'add' else '-'} {self.integer(right, names)})"
            case Binary("mul", left, right):
                a, b = self.number(left), self.number(right)
                if a is None and b is None:
                    raise Unknown
                return f"({a} * {self.integer(right, names)})" if a is not None else f"({b} * {self.integer(left, names)})"
            case Binary("floordiv" | "mod" as op, left, right):
                by = self.number(right)
                if by is None or by <= 0:
                    raise Unknown
                inner = self.integer(left, names)
                return f"floor({inner}/{by})" if op == "floordiv" else f"({inner} mod {by})"
            case Binary("min" | "max" as op, left, right):
                return f"{op}({self.integer(left, names)}, {self.integer(right, names)})"
            case Unary("neg", value):
                return f"(-{self.integer(value, names)})"
            case Cast(value, to) if to == "int64" and not reads_data(value):
                return self.integer(value, names)
            case _:
                raise Unknown

    def number(self, expr: Expr) -> int | None:
        """The value of an expression without axes; None where it has some."""
        match expr:
            case Const(value) if not isinstance(value, float):
                return int(value)
            case Dim(name):
                return self.dims[name]
            case Binary("add" | "sub" | "mul" as op, left, right):
                a, b = self.number(left), self.number(right)
                if a is None or b is None:
                    return None
                return a + b if op == "add" else a - b if op == "sub" else a * b
            case Binary("floordiv", left, right):
                a, b = self.number(left), self.number(right)
                return None if a is None or not b else a // b
            case _:
                return None

    def condition(self, expr: Expr, names: Mapping[str, str], *, holds: bool = True) -> str:
        """A condition on axes. Raises `Unknown` where data decides it."""
        match expr:
            case Const(bool(value)):
                return "1 = 1" if value == holds else "1 = 0"
            case Unary("not", value):
                return self.condition(value, names, holds=not holds)
            case Binary("and" | "or" as op, left, right):
                joint = "and" if (op == "and") == holds else "or"
                return f"(({self.condition(left, names, holds=holds)}) {joint} ({self.condition(right, names, holds=holds)}))"
            case Compare(op, left, right):
                spelled, a, b = op if holds else OPPOSITE[op], self.integer(left, names), self.integer(right, names)
                return f"({a} < {b} or {a} > {b})" if spelled == "ne" else f"{a} {RELATION[spelled]} {b}"
            case _:
                raise Unknown

    # Statements

    def add(self, statement: Statement, depth: int) -> None:
        """The domain, the accesses and the place in time of a statement."""
        names = {loop.loop: f"v{place}" for place, loop in enumerate(statement.loops)}
        here = f"s{len(self.labels)}[{', '.join(names.values())}]"
        tag = here.split("[", maxsplit=1)[0]
        self.labels.append(statement.label)
        try:
            parts = [
                f"{self.integer(loop.lo, names)} <= {names[loop.loop]} < {self.integer(loop.hi, names)}" for loop in statement.loops
            ] + [self.condition(cond, names, holds=holds) for cond, holds in statement.conditions]
            domain = " and ".join(parts) or "1 = 1"
        except Unknown:
            domain = _points(names, self.plain.executed.get(statement.label, []))
        times = [str(part) if isinstance(part, int) else names[part] for part in statement.time]
        self.order.append(f"{here} -> [{', '.join([*times, *['0'] * (depth - len(times))])}] : {domain}")
        store = statement.store
        kind = self.may if store.reducer is not None else self.kill if all(map(is_constant, store.values)) else self.must
        for buffer in store.buffers:
            element = self.buffer(buffer.name)
            try:
                kind.append(self.access(here, element, store.index, names, domain))
            except Unknown:
                kind += listed(tag, element, self.plain.writes.get(statement.label, []))
        self.order.append(self.order[-1].replace(tag, f"x{tag[1:]}", 1))
        void = frozenset[Load]().union(*map(without_effect, store.values))
        for load, conditions, aside in reads_of(statement):
            who, name = (here, tag) if not aside and load not in void else (f"x{here[1:]}", f"x{tag[1:]}")
            element = self.buffer(str(getattr(load.buffer, "name", "?")))
            try:
                tests = [self.condition(cond, names, holds=holds) for cond, holds in conditions]
                self.reads.append(self.access(who, element, load.index, names, " and ".join([domain, *tests])))
            except Unknown:
                self.reads += listed(name, element, self.plain.reads.get((statement.label, load, aside), []))

    def access(self, here: str, element: str, index: tuple[Expr, ...], names: Mapping[str, str], domain: str) -> str:
        """The elements that instances touch."""
        places = [f"e{place}" for place in range(len(index))]
        ties = [f"{place} = {self.integer(part, names)}" for place, part in zip(places, index, strict=True)]
        return f"{here} -> {element}[{', '.join(places)}] : {' and '.join([domain, *ties])}"


def _points(names: Mapping[str, str], found: list[tuple[int, ...]]) -> str:
    """A domain point by point."""
    if len(found) > MAX_POINTS:
        raise TooMuch
    if not found:
        return "1 = 0"
    points = [" and ".join([f"{name} = {value}" for name, value in zip(names.values(), at, strict=True)] or ["1 = 1"]) for at in found]
    return "(" + " or ".join(f"({point})" for point in points) + ")"


def listed(tag: str, element: str, found: Pairs) -> list[str]:
    """An access point by point."""
    if len(found) > MAX_POINTS:
        raise TooMuch
    return [f"{tag}[{', '.join(map(str, at))}] -> {element}[{', '.join(map(str, index))}]" for at, index in dict.fromkeys(found)]


Read: TypeAlias = tuple[Load, tuple[tuple[Expr, bool], ...], bool]
"""A load, the conditions of the selects around it, and whether it only says where something is, or whether."""


def reads_of(statement: Statement) -> Iterator[Read]:
    """What a statement reads, and what the conditions around it do. A statement that only hands on reads what it hands on."""
    if not statement.computes:
        yield from ((value, (), False) for value in statement.store.values if isinstance(value, Load))
        return
    for expr in (*(cond for cond, _ in statement.conditions), *statement.store.index):
        yield from _reads(expr, (), aside=True)
    for expr in statement.store.values:
        yield from _reads(expr, (), aside=False)


def _reads(expr: Expr, conditions: tuple[tuple[Expr, bool], ...], *, aside: bool) -> Iterator[Read]:
    match expr:
        case Select(cond, yes, no):
            yield from _reads(cond, conditions, aside=aside)
            yield from _reads(yes, (*conditions, (cond, True)), aside=aside)
            yield from _reads(no, (*conditions, (cond, False)), aside=aside)
        case Load(_, index):
            for part in index:
                yield from _reads(part, conditions, aside=True)
            yield expr, conditions, aside
        case _:
            for part in children(expr):
                yield from _reads(part, conditions, aside=aside)


def without_effect(value: Expr) -> frozenset[Load]:
    """The loads that a value does not depend on, since they cancel: `x - x` is 0. A directive may leave them out, as it may `x % 1`.

    Where the simplified value spells some load of a buffer in another way, all loads of that buffer count as read.
    """
    found = {load: simplify(load) for load in loads_of(value)}
    kept = {simplify(load) for load in loads_of(simplify(value))}
    anew = {load.buffer for load in kept - set(found.values()) if isinstance(load, Load)}
    return frozenset(load for load, simple in found.items() if simple not in kept and load.buffer not in anew)


def decided(nest: Nest) -> bool:
    """May data decide an access of a nest? Then what it does is listed."""
    relations = Relations(dict.fromkeys(nest.dims, 1), Plain())
    for statement in statements_of(nest):
        names = {loop.loop: "v" for loop in statement.loops}
        reads = list(reads_of(statement))
        try:
            for expr in (*statement.store.index, *(index for load, _, _ in reads for index in load.index)):
                relations.integer(expr, names)
            for cond, _ in (*statement.conditions, *(test for _, tests, _ in reads for test in tests)):
                relations.condition(cond, names)
            for loop in statement.loops:
                relations.integer(loop.lo, names)
                relations.integer(loop.hi, names)
        except Unknown:
            return True
    return False


def needs(nest: Nest, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]], plain: Plain) -> Needs:
    """What each instance, and each element of an output, depends on. `shapes` are those of operands and outputs.

    Copies are left out: what they hand on comes from where they have it. Raises `TooMuch` where data decides more than can be listed.
    """
    statements = statements_of(nest)
    depth = max((len(statement.time) for statement in statements), default=1)
    relations = Relations(dims, plain)
    pad = ", 0" * (depth - 1)
    for statement in statements:
        relations.add(statement, depth)
    for prefix, buffers in (("i", nest.inputs), ("o", nest.outputs)):
        for place, buffer in enumerate(buffers):
            names = [f"v{axis}" for axis in range(len(shapes[buffer.name]))]
            here = f"{prefix}{place}[{', '.join(names)}]"
            inside = " and ".join(f"0 <= {name} < {size}" for name, size in zip(names, shapes[buffer.name], strict=True)) or "1 = 1"
            (relations.must if prefix == "i" else relations.reads).append(
                f"{here} -> {relations.buffer(buffer.name)}[{', '.join(names)}] : {inside}"
            )
            relations.order.append(f"{here} -> [{-1 if prefix == 'i' else 1_000_000}{pad}] : {inside}")
    domain, found = flow((relations.order, relations.reads, relations.must, relations.may, relations.kill))
    known = {f"s{place}": label for place, label in enumerate(relations.labels)}
    known |= {f"i{place}": buffer.name for place, buffer in enumerate(nest.inputs)}
    known |= {f"o{place}": f"the output {buffer.name}" for place, buffer in enumerate(nest.outputs)}
    made = {f"s{place}": statement for place, statement in enumerate(statements)}

    def called(name: str, at: tuple[int, ...]) -> Instance:
        return known[name], made[name].instance(at) if name in made else at

    direct: dict[Instance, set[Instance]] = {called(name, at): set() for name, at in domain if name[0] == "s"}
    aside: dict[Instance, set[Instance]] = {}
    for (sink, at), (source, index) in found:
        kept = aside if sink[0] == "x" else direct
        kept.setdefault(called(sink.replace("x", "s"), at), set()).add(called(source, index))
    return _contracted(direct, aside, statements)


def _contracted(direct: dict[Instance, set[Instance]], aside: dict[Instance, set[Instance]], statements: tuple[Statement, ...]) -> Needs:
    """The relation with copies replaced by what they copy."""
    handed = {statement.label for statement in statements if not statement.computes}
    combining = {statement.label for statement in statements if statement.store.reducer is not None}
    known: dict[Instance, frozenset[Instance]] = {}

    def origins(instance: Instance) -> frozenset[Instance]:
        if instance[0] not in handed:
            return frozenset([instance])
        if instance not in known:
            known[instance] = together(direct.get(instance, set()))
        return known[instance]

    def together(sources: set[Instance]) -> frozenset[Instance]:
        return frozenset[Instance]().union(*map(origins, sources))

    needed: Needs = {}
    for sink, sources in direct.items():
        if sink[0] not in handed:
            value = together(sources)
            needed[sink] = Need(value, value | together(aside.get(sink, set())), sink[0] in combining)
    return needed
