"""A scheduled nest, executed on instances: what each instance of the program found in memory, when, and where iterations race.

Beside its value, each element of a buffer holds the instances that made it: the one that stored it, or the set of those that were
combined into it. A statement with a mark is an instance of the program; one without hands on what it reads. Time is counted in executed
statements. Elements also remember the iterations of the parallel and vector loops in which they were touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from tensorlang.ir import Buffer, Expr, For, FuseRelation, If, Load, Nest, Reducer, Select, SplitRelation, Stmt, Store, WindowRelation
from tensorlang.ir.traverse import axes_of, loads_of, statements
from tensorlang.semantics import arithmetic, nest_interpreter, scalars

from .components import forgiving
from .dependences import Needs, Plain
from .flow import Instance
from .marks import Statement, label_of
from .turns import in_turn, told, turn_of

Content: TypeAlias = frozenset[Instance]
Path: TypeAlias = tuple[tuple[int, int], ...]
"""The parallel and vector loops around an access, by number, each with its iteration."""

NOTHING: Final[Content] = frozenset()
UNWRITTEN: Final[Content] = frozenset([("what was never written", ())])
CONSTANT: Final[Content] = frozenset([("a constant", ())])
"""What an initialisation leaves, or a copy that fills in."""
VALUE: Final = "value"
CHOICE: Final = "choice"
"""What a select asks: the value depends on it, and is another element's all the same."""
ASIDE: Final = "aside"
"""What an index or a condition around a statement asks."""


@dataclass(frozen=True, slots=True)
class Executed:
    """One execution of a statement: the instances that it is (with those inlined into it), what it read for its value, and when."""

    instances: frozenset[Instance]
    value: Content
    all: Content
    time: int


@dataclass(slots=True)
class Ran:
    """What a run showed."""

    executed: list[Executed] = field(default_factory=list)
    outputs: dict[Instance, Content] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Machine(nest_interpreter._Machine):
    """The nest interpreter, with the instances that made each element beside its value."""

    ran: Ran = field(default_factory=Ran)
    plain: Plain = field(default_factory=Plain)
    needs: Needs = field(default_factory=dict)
    """What instances depend on: of several that one statement is, the one that the others are inlined into makes the element."""
    statements: dict[int, Statement] = field(default_factory=dict)
    """Those of the plain nest, where it is the one that is run."""
    contents: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    path: list[tuple[int, int, str]] = field(default_factory=list)
    touched: dict[tuple[int, tuple[int, ...]], tuple[Path, str, set[Path]]] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    reading: list[tuple[str, Content]] = field(default_factory=list)
    """What was read for the statement that is running, and what for."""
    purpose: str = VALUE
    marks: set[Instance] = field(default_factory=set)
    time: int = 0
    frames: int = 0
    kinds: dict[int, str] = field(default_factory=dict)
    written: dict[str, set[str]] = field(default_factory=dict)
    """What is stored inside a parallel or vector loop."""
    turning: set[int] = field(default_factory=set)
    """The plain stores that lanes make in turn, by identity."""
    here: tuple[str, tuple[int, ...]] | None = None

    def action(self, stmt: Stmt, known: frozenset[str]) -> Callable[[], None]:
        """What runs a statement: parallel loops note their iterations, conditions that read hand on what they read."""
        match stmt:
            case For(kind="parallel" | "vector" as kind, loop=loop):
                self.turning |= set(in_turn(stmt.body)) if kind == "vector" else set()
                self.written[loop] = {buffer.name for part in statements(stmt) if isinstance(part, Store) for buffer in part.buffers}
                return self.watched(nest_interpreter._Machine.action(self, stmt, known), loop, kind)
            case If(cond, then, orelse):
                test, yes = self.value(cond), self.action(then, known)
                no = (lambda: None) if orelse is None else self.action(orelse, known)

                def conditioned() -> None:
                    before = len(self.reading)
                    chosen = yes if self.asked(test, ASIDE) else no
                    chosen()
                    del self.reading[before:]

                return conditioned
            case Store():
                act = nest_interpreter._Machine.action(self, stmt, known)
                statement = self.statements.get(id(stmt))
                if statement is None:
                    return act
                loops = [loop.loop for loop in statement.loops]

                def noted() -> None:
                    self.here = statement.label, tuple(self.axes[loop] for loop in loops)
                    self.plain.executed.setdefault(statement.label, []).append(self.here[1])
                    act()
                    self.here = None

                return noted
            case _:
                return nest_interpreter._Machine.action(self, stmt, known)

    def watched(self, act: Callable[[], None], loop: str, kind: str) -> Callable[[], None]:
        """A loop whose iterations are not ordered."""

        def run() -> None:
            self.frames += 1
            self.kinds[self.frames] = kind
            number = self.frames
            self.path.append((number, 0, loop))
            act()
            self.path.pop()

        return run

    def now(self) -> Path:
        """The iterations of the moment."""
        return tuple((number, self.axes[loop]) for number, _, loop in self.path)

    def touch(self, name: str, at: tuple[int, ...], *, writes: bool, reducer: str = "", chosen: frozenset[str] = frozenset()) -> None:
        """Note an access, and a race with an earlier one.

        Lanes keep partial results of an element into which all of them combine. Where a lane says which element that is (its loop is one of
        `chosen`), it stores its own, and no other lane may have the same one, unless data tell which it is: then lanes take turns.
        """
        if not self.path and not self.touched:
            return
        key, path = (id(self.contents[name]), at), self.now()
        written, how, readers = self.touched.get(key, ((), "", set[Path]()))
        for other in (written, *(readers if writes else ())):
            frame = apart(path, other)
            if frame is None:
                continue
            loop = next(loop for number, _, loop in self.path if number == frame)
            if not (reducer and reducer == how and other is written and self.kinds[frame] == "vector"):
                self.fault(f"iterations that are not ordered both touch {name}{list(at)}")
            elif loop in chosen:
                self.fault(f"lanes combine into {name}{list(at)}, which each of them chooses")
        self.touched[key] = (path, reducer, set()) if writes else (written, how, {*readers, path})

    def _alloc(self, buffer: Buffer, body: Callable[[], None]) -> Callable[[], None]:
        return nest_interpreter._Machine._alloc(self, buffer, lambda: self.inside(buffer.name, body))

    def inside(self, name: str, body: Callable[[], None]) -> None:
        """Run a body with fresh storage."""
        hidden = self.contents.get(name)
        array = np.empty(self.buffers[name].shape, object)
        array.fill(UNWRITTEN)
        self.contents[name] = array
        self.kept.append(array)  # so that no other one takes its identity
        body()
        if hidden is None:
            del self.contents[name]
        else:
            self.contents[name] = hidden

    def _load(self, load: Load, name: str, index: list[Callable[[], Any]]) -> Callable[[], Any]:
        label = label_of(name)
        if label is not None:
            zero = scalars.scalar(np.zeros((), load.buffer.dtype.numpy)[()], load.buffer.dtype)

            def mark() -> Any:
                self.marks.add((label, tuple([part() for part in index])))
                return zero

            return mark
        of = load.buffer.dtype

        def read() -> Any:
            at = self.asked(lambda: tuple([part() for part in index]), ASIDE)
            nest_interpreter._checked(self.buffers, name, at, f"a read of {name}")
            self.reading.append((self.purpose, self.contents[name][at]))
            self.touch(name, at, writes=False)
            if self.here is not None:
                self.plain.reads.setdefault((self.here[0], load, self.purpose == ASIDE), []).append((self.here[1], at))
            return scalars.scalar(self.buffers[name][at], of)

        return read

    def value(self, expr: Expr) -> Callable[[], Any]:
        """What gives the value of an expression; what a condition reads is no part of what it chooses."""
        if not isinstance(expr, Select):
            return nest_interpreter._Machine.value(self, expr)
        test, yes, no = self.value(expr.cond), self.value(expr.yes), self.value(expr.no)

        def choose() -> Any:
            chosen = yes if self.asked(test, CHOICE if self.purpose == VALUE else self.purpose) else no
            return chosen()

        return choose

    def asked(self, what: Callable[[], Any], purpose: str) -> Any:
        """A value that is asked for this purpose."""
        before, self.purpose = self.purpose, purpose
        result = what()
        self.purpose = before
        return result

    def _store(self, store: Store) -> Callable[[], None]:
        index, values = [self.value(part) for part in store.index], [self.value(value) for value in store.values]
        names, reducer = [buffer.name for buffer in store.buffers], store.reducer
        results = [] if reducer is None else [self.value(result) for result in reducer.results]
        dtypes = [buffer.dtype for buffer in store.buffers]
        chosen, together = frozenset[str]() if told(store) else self.choosing(store.index), turn_of(store, self.turning)

        def run() -> None:
            before, self.marks = len(self.reading), set()
            at = self.asked(lambda: tuple([part() for part in index]), ASIDE)
            shared, aside = frozenset(self.marks), self.reading[before:]
            new, made = self.evaluated(values, shared, aside, CONSTANT if reducer is None else NOTHING)
            del self.reading[before:]
            if self.here is not None:
                self.plain.writes.setdefault(self.here[0], []).append((self.here[1], at))
            for place, (name, of) in enumerate(zip(names, dtypes, strict=True)):
                nest_interpreter._checked(self.buffers, name, at, f"{store.stage} writes {name}")
                self.touch(name, at, writes=True, reducer=together, chosen=chosen)
                if reducer is not None:
                    self.params[f"a{place}"], self.params[f"b{place}"] = scalars.scalar(self.buffers[name][at], of), new[place]
                    self.contents[name][at] = self.joined(name, at, made[place], reducer)
                else:
                    self.contents[name][at] = made[place]
            for name, stored in zip(names, [result() for result in results] or new, strict=True):
                self.buffers[name][at] = stored

        return run

    def evaluated(
        self, values: list[Callable[[], Any]], shared: Content, aside: list[tuple[str, Content]], otherwise: Content
    ) -> tuple[list[Any], list[Content]]:
        """What is stored, and the instances that make each part of it.

        A statement is one instance, or several that were joined, each of which makes values of its own: those that carry its mark.
        """
        new, parts = list[Any](), list[tuple[Content, list[tuple[str, Content]]]]()
        for evaluate in values:
            self.marks, start = set(), len(self.reading)
            new.append(evaluate())
            parts.append((shared | self.marks, self.reading[start:]))
        makers = [self.maker(marks) for marks, _ in parts]
        self.time += 1
        made = list[Content]()
        for place, maker in enumerate(makers):
            mine = [part for part, other in zip(parts, makers, strict=True) if other == maker] if maker else [parts[place]]
            marks = NOTHING.union(*(found for found, _ in mine))
            read = [*aside, *(entry for _, entries in mine for entry in entries)]
            handed, value, found = (
                NOTHING.union(*[content for purpose, content in read if purpose in purposes])
                for purposes in ((VALUE,), (VALUE, CHOICE), (VALUE, CHOICE, ASIDE))
            )
            if marks and not (maker and maker in makers[:place]):
                self.ran.executed.append(Executed(marks, value, found, self.time))
            made.append(maker or handed or otherwise)
        return new, made

    def choosing(self, index: tuple[Expr, ...]) -> frozenset[str]:
        """The loops that an index depends on: by its axes, or by what is stored inside them."""
        found = frozenset[str]().union(*map(axes_of, index))
        for _ in self.relations:  # as long as a chain of them may be
            for relation in self.relations:
                match relation:
                    case SplitRelation(parent, outer, inner, _, lo, hi) if parent in found:
                        found |= {outer, inner} | axes_of(lo) | axes_of(hi)
                    case FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent) if {outer, inner} & found:
                        found |= {fused} | axes_of(outer_lo) | axes_of(inner_lo) | axes_of(extent)
                    case WindowRelation(parent, inner, base, hi) if parent in found:
                        found |= {inner} | axes_of(base) | axes_of(hi)
                    case _:
                        pass
        read = {getattr(load.buffer, "name", "") for part in index for load in loads_of(part)}
        return found | {loop for loop, written in self.written.items() if written & read}

    def joined(self, name: str, at: tuple[int, ...], new: Content, reducer: Reducer) -> Content:
        """What an element holds once something is combined into it."""
        old: Content = self.contents[name][at]
        twice = new & old - CONSTANT
        if twice and not forgiving(reducer):
            self.fault(f"{shown(min(twice))} is combined twice into {name}{list(at)}")
        return new | old

    def maker(self, instances: Content) -> Content:
        """Of the instances that a statement is, the one that is for none of the others."""
        if len(instances) < 2:
            return instances
        return instances - NOTHING.union(*(self.needs[instance].all for instance in instances if instance in self.needs))

    def fault(self, text: str) -> None:
        """Note a fault."""
        if len(self.ran.faults) < 3:
            self.ran.faults.append(text)


def apart(one: Path, other: Path) -> int | None:
    """The loop of which two accesses are in different iterations; None where they are ordered."""
    for (number, here), (same, there) in zip(one, other, strict=False):
        if number != same:
            return None
        if here != there:
            return number
    return None


def shown(instance: Instance) -> str:
    """An instance as text."""
    return f"{instance[0]}[{', '.join(map(str, instance[1]))}]" if instance[1] else instance[0]


def run(
    nest: Nest,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    dims: Mapping[str, int],
    *,
    needs: Needs | None = None,
    statements: tuple[Statement, ...] = (),
) -> tuple[Ran, Plain]:
    """Execute a nest. `statements` are those of the plain nest, where that is the one. Raises `InternalError` outside of a buffer."""
    own = {id(statement.store): statement for statement in statements}
    machine = Machine(nest.relations, dict(dims), needs=needs or {}, statements=own)
    for buffer in (*nest.inputs, *nest.outputs):
        if label_of(buffer.name) is not None:
            continue
        machine.buffers[buffer.name] = arrays[buffer.name].copy()
        machine.contents[buffer.name] = given = np.empty(arrays[buffer.name].shape, object)
        for at in np.ndindex(given.shape):
            given[at] = frozenset([(buffer.name, at)]) if buffer in nest.inputs else UNWRITTEN
    with arithmetic.quiet():
        machine.action(nest.body, frozenset())()
    for buffer in nest.outputs:
        left = machine.contents[buffer.name]
        machine.ran.outputs |= {(f"the output {buffer.name}", at): frozenset(left[at]) for at in np.ndindex(left.shape)}
    return machine.ran, machine.plain
