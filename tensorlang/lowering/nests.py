"""Definitions to loops, one by one.

Each stage becomes one nest of loops over its axes. A body that is one reduction gives two: `C.init` stores the identity, `C` combines.
Any other reduction is an implicit stage `C.1`, `C.2`, ... in a scalar at the innermost loop of `C`. A `where=`, the conditions of the
selects around a reduction, and what keeps an axis in a range that depends on data (`ranges`) become an `If` around its update, so that
nothing more is read than the definition reads.

A recurrence is the same nest, which reads the buffer that it writes; its reductions are implicit stages, complete before the element. A
scatter copies its `init` (`H.start`) and then stores, or combines, at computed indices. A scan is a loop over time around its step:

    S.t = 0 .. length:
        the stages of the step; the next state is stored to S[t], or with keep="last" to S.ring[(t + 1) % 2]
        what reads the state reads select(t == 0, init, S[t - 1]), or S.ring[t % 2]

A ring starts as a copy of `init` (`S.start`), and `S` is a copy of it in the end, where it is a result or something reads it. It has one
place where the next state may take that of the last one (`replaced`, `changed`). A next state that no stage of the step can store where it
belongs (it is stored elsewhere too, or comes from outside) is copied there by the stage `S`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tensorlang import ir
from tensorlang.algebra.ranges import conditions, hull
from tensorlang.algebra.simplify import simplify
from tensorlang.definition.tensor import Definition, Itself, Placeholder, Scan, Scatter, Stage, State, Tensor
from tensorlang.ir import (
    Axis,
    Binary,
    Buffer,
    Compare,
    Expr,
    For,
    Load,
    Reduce,
    ReduceAxis,
    Select,
    Stmt,
    Store,
    Unary,
    allocate,
    block,
)
from tensorlang.ir.names import unique
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import children, map_children
from tensorlang.lowering.around import Range, loops, under
from tensorlang.lowering.changed import changed
from tensorlang.lowering.inside import has_reduction, is_asked_in_vain, is_free, is_there, stays, surely
from tensorlang.lowering.replaced import direct, replaced
from tensorlang.lowering.settled import plain, settled


@dataclass(frozen=True, slots=True)
class TensorStorage:
    """Where a tensor is stored: `buffer[*prefix, *index]`."""

    buffer: Buffer
    prefix: tuple[Expr, ...] = ()

    def load(self, index: tuple[Expr, ...]) -> Expr:
        """An element."""
        return Load(self.buffer, (*self.prefix, *index))


@dataclass(frozen=True, slots=True)
class _CarriedState:
    """What a state of a scan is: the element of `before`; where there is an `init`, that in the step `first`."""

    before: TensorStorage
    init: Tensor | None
    first: Expr


@dataclass(slots=True)
class ProgramLowering:
    """A program on its way to loops: the names and places of its tensors, the loops of its scans, and the storage that it needs.

    A last state that nothing reads has no place.
    """

    names: dict[Definition, str]
    places: dict[tuple[int, int], TensorStorage]
    scratch: list[Buffer] = field(default_factory=list)
    axes: dict[str, Expr] = field(default_factory=dict)
    spans: dict[str, tuple[Expr, Expr]] = field(default_factory=dict)
    states: dict[int, _CarriedState] = field(default_factory=dict)

    def definition(self, definition: Definition) -> tuple[Stmt, ...]:
        """The statements of a definition, in order."""
        match definition:
            case Placeholder() | State():
                return ()
            case Stage(values=values):
                self._storage(definition, len(values))
                return (_DefinitionLowering(self, self.names[definition]).stage(definition),)
            case Scatter():
                self._storage(definition, 1)
                return (_DefinitionLowering(self, self.names[definition]).scatter(definition),)
            case Scan(init=init):
                self._storage(definition, len(init))
                return self._scan(definition)

    def _storage(self, definition: Definition, count: int) -> None:
        for component in range(count):
            place = self.places.get((id(definition), component))
            if place is not None and place.buffer.memory != "argument" and not place.prefix:
                self.scratch.append(place.buffer)

    def storage(self, tensor: Tensor) -> TensorStorage | None:
        """Where all of a tensor is stored; None where it is somewhere else in the first step of a scan."""
        past = self.states.get(id(tensor.definition))
        if past is None:
            return self.places.get((id(tensor.definition), tensor.component))
        return past.before if past.init is None else None

    def element(self, tensor: Tensor, index: tuple[Expr, ...]) -> Expr:
        """An element of a tensor, as the nest reads it."""
        past = self.states.get(id(tensor.definition))
        if past is None:
            return self.places[id(tensor.definition), tensor.component].load(index)
        before = past.before.load(index)
        return before if past.init is None else Select(past.first, self.element(past.init, index), before)

    def _scan(self, scan: Scan) -> tuple[Stmt, ...]:
        name = self.names[scan]
        loop = f"{name}.{short(scan.axis.name) or 't'}"
        time = self.axes[scan.axis.name] = Axis(loop)
        self.spans[scan.axis.name] = scan.axis.lo, scan.axis.hi
        first: list[Stmt] = []
        copies: list[Stmt] = []
        last: list[Stmt] = []
        rings: list[TensorStorage] = []
        own = direct(scan)
        chains, body = changed(scan)
        single = own & (replaced(scan) | chains.keys())
        for component, (state, init) in enumerate(zip(scan.states, scan.init, strict=True)):
            out = self.places.get((id(scan), component))
            label = name if len(scan.states) == 1 else f"{name}_{component}"
            if scan.keep[component] == "all":
                assert out is not None
                target = TensorStorage(out.buffer, (time,))
                before = TensorStorage(out.buffer, (simplify(Binary("sub", time, ir.const(1))),))
                self.states[id(state)] = _CarriedState(before, init, Compare("eq", time, ir.const(0)))
            else:
                places = 1 if component in single else 2
                ring = Buffer(f"{label}.ring", (ir.const(places), *state.shape), state.dtype)
                self.scratch.append(ring)
                target = TensorStorage(ring, (_slot(Binary("add", time, ir.const(1)), places),))
                self.states[id(state)] = _CarriedState(TensorStorage(ring, (_slot(time, places),)), None, time)
                first.append(self._copy(f"{label}.start", TensorStorage(ring, (ir.const(0),)), init))
                if out is not None:
                    last.append(self._copy(label, out, init, short(loop), TensorStorage(ring, (_slot(scan.axis.hi, places),))))
            rings.append(target)
        for component, (target, new) in enumerate(zip(rings, scan.following, strict=True)):
            if component in own:
                self.places[id(new.definition), new.component] = target
        for component in chains.keys() & single:
            self.places |= {(id(link), 0): rings[component] for link in chains[component]}
        steps = [part for definition in body for part in self.definition(definition)]
        for component, (target, new) in enumerate(zip(rings, scan.following, strict=True)):
            if component not in own:
                label = name if len(scan.states) == 1 else f"{name}_{component}"
                copies.append(self._copy(f"{label}.next" if scan.keep[component] == "last" else label, target, new, short(loop)))
        del self.axes[scan.axis.name], self.spans[scan.axis.name]  # what follows is in no step, and there may be none
        return (*first, For(loop, ir.const(0), scan.axis.hi, block(*steps, *copies)), *last)

    def _copy(self, stage: str, target: TensorStorage, source: Tensor, taken: str = "", stored: TensorStorage | None = None) -> Stmt:
        """A copy of a tensor, or of what was `stored` elsewhere in its shape; no loop of it has the name that is `taken`."""
        ranges = _over(stage, source, taken)
        index = tuple(Axis(loop) for loop, _, _ in ranges)
        value = self.element(source, index) if stored is None else stored.load(index)
        return loops(ranges, Store(stage, (target.buffer,), (*target.prefix, *index), (value,)))


def _slot(time: Expr, places: int) -> Expr:
    return ir.const(0) if places == 1 else simplify(Binary("mod", time, ir.const(places)))


def _over(stage: str, tensor: Tensor, taken: str = "") -> list[Range]:
    """Loops of a stage over the elements of a tensor, named as in its own definition, but for the name that is taken."""
    own = tensor.definition.axes if isinstance(tensor.definition, Stage) else ()
    labels = [short(axis) for axis in own] or [f"i{axis}" for axis in range(tensor.ndim)]
    used = {taken}
    return [(f"{stage}.{unique(label, used)}", ir.const(0), extent) for label, extent in zip(labels, tensor.extents, strict=True)]


def _is_reduction(stage: Stage) -> bool:
    """Are the values of a stage the components of one reduction, in order?"""
    first = stage.values[0]
    if not isinstance(first, Reduce) or len(stage.values) != len(first.reducer.identities):
        return False
    return all(value == replace(first, component=component) for component, value in enumerate(stage.values))


@dataclass(slots=True)
class _DefinitionLowering:
    """One definition on its way to loops: its names so far, and the implicit stages found in its body."""

    program: ProgramLowering
    name: str
    axes: dict[str, Expr] = field(default_factory=dict)
    spans: dict[str, tuple[Expr, Expr]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    itself: tuple[TensorStorage, ...] = ()
    implicit: int = 0

    def stage(self, stage: Stage) -> Stmt:
        """The loops of a stage."""
        self._enter()
        places = [self.program.places[id(stage), component] for component in range(len(stage.values))]
        self.itself = tuple(places)
        ranges = [
            self._range(self.name, ReduceAxis(axis, ir.const(0), extent), self.taken)
            for axis, extent in zip(stage.axes, stage.shape, strict=True)
        ]
        index = (*places[0].prefix, *(Axis(loop) for loop, _, _ in ranges))
        targets = tuple(place.buffer for place in places)
        value = stage.values[0]
        if not stage.itself and isinstance(value, Reduce) and (len(stage.values) == 1 or _is_reduction(stage)):
            return self._reduction(stage, value, ranges, targets, places[0].prefix)
        prelude = _Prelude(self, ())
        lowered = tuple(settled(prelude.lower(value), (), self.facts) for value in stage.values)
        return loops(ranges, prelude.before(Store(self.name, targets, index, lowered)))

    def scatter(self, scatter: Scatter) -> Stmt:
        """A copy of the initial tensor, and the loops that change it."""
        self._enter()
        place = self.program.places[id(scatter), 0]
        if place == self.program.storage(scatter.init):
            first: Stmt = block()
        else:
            first = self.program._copy(f"{self.name}.start", place, scatter.init)  # noqa: SLF001 - its own part
        ranges = [self._range(self.name, axis, self.taken) for axis in scatter.axes]
        held = self._held(scatter.axes)
        prelude = _Prelude(self, held)
        where = () if scatter.where is None else (prelude.lower(scatter.where),)
        guarded = _Prelude(self, (*held, *where))
        index = (*place.prefix, *(guarded.lower(part) for part in scatter.index))
        value = settled(guarded.lower(scatter.value), guarded.conditions, self.facts)
        store = Store(self.name, (place.buffer,), index, (value,), scatter.reducer)
        body = guarded.before(store)
        return block(first, loops(ranges, under(held, prelude.before(under(where, body)))))

    def _enter(self) -> None:
        """Know the axes of the scans around."""
        self.axes, self.spans = dict(self.program.axes), dict(self.program.spans)

    def _range(self, stage: str, axis: ReduceAxis, taken: set[str]) -> Range:
        """The loop over the hull of an axis, which is known from now on."""
        loop = self._loop(stage, axis.name, taken)
        self.axes[axis.name], self.spans[axis.name] = Axis(loop), hull(axis, self.spans)
        return loop, *self.spans[axis.name]

    def _reduction(self, stage: Stage, reduce: Reduce, ranges: list[Range], targets: tuple[Buffer, ...], prefix: tuple[Expr, ...]) -> Stmt:
        states = targets
        if len(targets) < len(reduce.reducer.identities):
            states = tuple(
                targets[0] if component == reduce.component else Buffer(f"{self.name}.{component}", stage.shape, identity.dtype)
                for component, identity in enumerate(reduce.reducer.identities)
            )
            self.program.scratch += [state for state in states if state is not targets[0]]
            self.implicit = max(component for component, state in enumerate(states) if state is not targets[0])  # whose names are taken
        init = f"{self.name}.init"
        starts = [(f"{init}.{short(loop)}", lo, hi) for loop, lo, hi in ranges]
        first = Store(init, states, (*prefix, *(Axis(loop) for loop, _, _ in starts)), reduce.reducer.identities)
        index, prelude = (*prefix, *(Axis(loop) for loop, _, _ in ranges)), _Prelude(self, ())
        update = self.update(reduce, self.name, states, index, prelude, self.taken)
        return block(loops(starts, first), loops(ranges, prelude.before(update)))

    def update(
        self, reduce: Reduce, stage: str, states: tuple[Buffer, ...], index: tuple[Expr, ...], around: _Prelude, taken: set[str]
    ) -> Stmt:
        """The loops over the reduction axes around the combining store; what runs `around` it holds of the whole reduction."""
        ranges, conditions = [self._range(stage, axis, taken) for axis in reduce.axes], around.conditions
        held = (*conditions, *self._held(reduce.axes))
        outer = (around, reduce.axes)
        prelude = _Prelude(self, held, outer)
        where = () if reduce.where is None else (prelude.lower(reduce.where),)
        asked = None if reduce.where is None else (prelude, reduce.where)
        guarded = _Prelude(self, (*held, *where), outer, asked)
        values = tuple(settled(guarded.lower(value), (*conditions, *guarded.conditions), self.facts) for value in reduce.values)
        body = guarded.before(Store(stage, states, index, values, reduce.reducer))
        return loops(ranges, under(held, prelude.before(under(where, body))))

    @property
    def facts(self) -> tuple[Expr, ...]:
        """The ranges of the axes that are known."""
        known = [(self.axes[name], lo, hi) for name, (lo, hi) in self.spans.items() if name in self.axes]
        return tuple(fact for axis, lo, hi in known for fact in (Compare("le", lo, axis), Compare("lt", axis, hi)))

    def _held(self, axes: tuple[ReduceAxis, ...]) -> tuple[Expr, ...]:
        """The conditions that keep axes in their ranges."""
        return tuple(plain(_Prelude(self, ()).lower(cond), self.facts) for axis in axes for cond in conditions(axis))

    def _loop(self, stage: str, axis: str, taken: set[str]) -> str:
        label = short(axis) or f"r{sum(name.startswith('r') and name[1:].isdigit() for name in taken)}"
        return f"{stage}.{unique(label, taken)}"

    def element(self, load: Load, index: tuple[Expr, ...]) -> Expr:
        """A load of a tensor as a load of its buffer."""
        if isinstance(load.buffer, Itself):
            return self.itself[load.buffer.component].load(index)
        assert isinstance(load.buffer, Tensor)
        return self.program.element(load.buffer, index)


@dataclass(slots=True)
class _Prelude:
    """What must run before one store: the implicit stages of the reductions inside its expressions.

    `outer`: what runs before the reduction that the store combines, over these axes. `asked`: what runs before its `where=`, and that.
    """

    owner: _DefinitionLowering
    conditions: tuple[Expr, ...]
    outer: tuple[_Prelude, tuple[ReduceAxis, ...]] | None = None
    asked: tuple[_Prelude, Expr] | None = None
    parts: list[Stmt] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)
    seen: dict[tuple[Expr, tuple[Expr, ...]], tuple[Buffer, ...]] = field(default_factory=dict)
    done: dict[tuple[int, tuple[Expr, ...]], Expr] = field(default_factory=dict)

    def lower(self, expr: Expr) -> Expr:
        """The expression over buffers and named axes; its reductions become loads of scalars. A part that several share stays one."""
        key = id(expr), self.conditions
        if key in self.done:
            return self.done[key]
        found = expr
        match expr:  # here, since a call more for each level would be too many for the deepest expressions
            case Axis(name):
                found = self.owner.axes[name]
            case Load(_, index):
                found = self.owner.element(expr, tuple(self.lower(part) for part in index))
            case Select(cond, yes, no) if has_reduction(expr):
                test = self.lower(cond)
                sides, facts, axes = (surely(yes), surely(no)), self.owner.facts, self.owner.axes
                for reduce in sides[0] | sides[1]:
                    always = reduce in sides[0] and reduce in sides[1]
                    if always or is_asked_in_vain(reduce, cond, facts, axes):  # it is read, or may be, whatever is chosen
                        self.implicit(reduce)
                outer = self.conditions
                self.conditions = (*outer, test)
                chosen = self.lower(yes)
                self.conditions = (*outer, simplify(Unary("not", test)))
                instead = self.lower(no)
                self.conditions = outer
                found = Select(test, chosen, instead)
            case Reduce():
                found = self.implicit(expr)
            case _ if children(expr):
                found = map_children(expr, self.lower)
            case _:
                pass
        self.done[key] = found
        return found

    def implicit(self, reduce: Reduce) -> Expr:
        """A load of what a reduction is, whose stage is among the parts from now on, or of those that run before."""
        together = replace(reduce, component=0)
        for known in range(len(self.conditions) + 1):
            if (together, self.conditions[:known]) in self.seen:
                return Load(self.seen[together, self.conditions[:known]][reduce.component], ())
        if self.outer is not None and stays(reduce, self.outer[1]):
            before = self.outer[0]
            if self.conditions == before.conditions or is_there(reduce, self.owner.facts, self.owner.axes):
                return before.implicit(reduce)  # it is the same for all that is combined
        owner = self.owner
        if self.asked is not None and len(self.conditions) == len(self.asked[0].conditions) + 1:  # on no side of a choice
            before, where = self.asked
            if is_free(reduce, where, owner.facts, owner.axes):
                return before.implicit(reduce)
        owner.implicit += 1
        stage = f"{owner.name}.{owner.implicit}"
        several = len(reduce.reducer.identities) > 1
        states = tuple(
            Buffer(f"{stage}.{component}" if several else stage, (), identity.dtype, "register")
            for component, identity in enumerate(reduce.reducer.identities)
        )
        self.scratch += states
        self.parts.append(Store(f"{stage}.init", states, (), reduce.reducer.identities))
        self.parts.append(owner.update(reduce, stage, states, (), self, set()))
        self.seen[together, self.conditions] = states
        return Load(states[reduce.component], ())

    def before(self, body: Stmt) -> Stmt:
        """`body` after the implicit stages, inside their storage."""
        result = block(*self.parts, body)
        return allocate(self.scratch, result)
