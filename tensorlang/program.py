"""From definitions to the obvious loop nest.

Each stage becomes one nest of loops over its axes, in definition order. A body that is one reduction gives two: `C.init` stores the
identity, `C` combines. Any other reduction is an implicit stage `C.1`, `C.2`, ... in a scalar at the innermost loop of `C`. A
`where=`, and the conditions of the selects around a reduction, become an `If` around its update, so that nothing more is read than
the definition reads. Names are given here: `t0, t1, ...` to unnamed tensors, `r0, r1, ...` to unnamed reduction axes, `_1, _2, ...`
to a second tensor or axis of one name; nothing depends on a process-wide counter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorlang import ir
from tensorlang.dtype import dtype
from tensorlang.errors import DefinitionError
from tensorlang.ir import Alloc, Buffer, Expr, For, If, Load, Nest, Reduce, Select, Stmt, Store, Unary, block
from tensorlang.printer import short
from tensorlang.simplify import simplify
from tensorlang.tensor import Placeholder, Stage, Tensor, as_outputs, definitions
from tensorlang.traverse import children, dtype_of, expressions, map_children, statements, substitute, walk


def lower_definition(outputs: object, name: str | None = None, inputs: tuple[Tensor, ...] | None = None) -> Nest:
    """The unscheduled nest of a program.

    `outputs` are tensors, `name` names the kernel (default: the first output), `inputs` overrides the order of arguments (default:
    the placeholders in the order in which they were created). Raises `DefinitionError` where an output is a placeholder or stands
    twice, or `inputs` leaves a placeholder out.
    """
    results = as_outputs(outputs)
    program = definitions(results)
    names = _tensor_names(program, results)
    for position, tensor in enumerate(results):
        if isinstance(tensor.definition, Placeholder):
            raise DefinitionError(f"output {names[tensor.definition]!r} is a placeholder; define what to compute from it")
        if any(tensor is other for other in results[:position]):
            raise DefinitionError(f"output {names[tensor.definition]!r} is given twice")
    arguments = _arguments(program, inputs, names)
    buffers = _buffers(program, names, {(id(tensor.definition), tensor.component) for tensor in results})
    parts: list[Stmt] = []
    scratch: list[Buffer] = []
    for definition in program:
        if isinstance(definition, Stage):
            lowering = _Lowering(definition, names[definition], buffers)
            parts.append(lowering.nest())
            scratch += lowering.states
            scratch += [buffer for buffer in lowering.targets if buffer.memory != "argument"]
    body = block(*parts)
    for buffer in reversed(scratch):
        body = Alloc(buffer, body)
    ins = tuple(buffers[id(definition), 0] for definition in arguments)
    outs = tuple(buffers[id(tensor.definition), tensor.component] for tensor in results)
    return Nest(name or outs[0].name, ins, outs, _dims(ins, outs, body), body)


def _arguments(
    program: tuple[Placeholder | Stage, ...], inputs: tuple[Tensor, ...] | None, names: dict[Placeholder | Stage, str]
) -> list[Placeholder]:
    found = [definition for definition in program if isinstance(definition, Placeholder)]
    if inputs is None:
        return found
    given = [tensor.definition for tensor in inputs]
    for definition in given:
        if not isinstance(definition, Placeholder) or given.count(definition) > 1:
            raise DefinitionError("inputs= takes each placeholder once, and nothing else")
    for definition in found:
        if definition not in given:
            raise DefinitionError(f"inputs= leaves out {names[definition]!r}, which the outputs read")
    for definition in given:
        names.setdefault(definition, definition.name or f"t{len(names)}")
    return [definition for definition in given if isinstance(definition, Placeholder)]


def _unique(label: str, taken: set[str]) -> str:
    name, count = label, 0
    while name in taken:
        count += 1
        name = f"{label}_{count}"
    taken.add(name)
    return name


def _tensor_names(program: tuple[Placeholder | Stage, ...], outputs: tuple[Tensor, ...]) -> dict[Placeholder | Stage, str]:
    taken: set[str] = set()
    names: dict[Placeholder | Stage, str] = {}
    unnamed = 0
    for definition in program:
        label = definition.name
        if label is None:
            label, unnamed = f"t{unnamed}", unnamed + 1
        names[definition] = _unique(label, taken)
    return names


def _buffers(
    program: tuple[Placeholder | Stage, ...], names: dict[Placeholder | Stage, str], results: set[tuple[int, int]]
) -> dict[tuple[int, int], Buffer]:
    found: dict[tuple[int, int], Buffer] = {}
    for definition in program:
        name = names[definition]
        if isinstance(definition, Placeholder):
            found[id(definition), 0] = Buffer(name, definition.shape, definition.dtype, "argument")
            continue
        for component, value in enumerate(definition.values):
            label = name if len(definition.values) == 1 else f"{name}_{component}"
            memory: ir.Memory = "argument" if (id(definition), component) in results else "auto"
            found[id(definition), component] = Buffer(label, definition.shape, dtype(dtype_of(value)), memory)
    return found


def _dims(inputs: tuple[Buffer, ...], outputs: tuple[Buffer, ...], body: Stmt) -> tuple[str, ...]:
    roots = [extent for buffer in (*inputs, *outputs) for extent in buffer.shape]
    roots += [expr for part in statements(body) for expr in expressions(part)]
    return tuple(dict.fromkeys(node.name for root in roots for node in walk(root) if isinstance(node, ir.Dim)))


@dataclass(slots=True)
class _Lowering:
    """One stage on its way to loops: its names so far, and the implicit stages found in its body."""

    stage: Stage
    name: str
    buffers: dict[tuple[int, int], Buffer]
    axes: dict[str, Expr] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    states: list[Buffer] = field(default_factory=list)
    implicit: int = 0

    @property
    def targets(self) -> tuple[Buffer, ...]:
        """The buffers of the stage's results."""
        return tuple(self.buffers[id(self.stage), component] for component in range(len(self.stage.values)))

    def nest(self) -> Stmt:
        """The loops of the stage."""
        loops = [
            (axis, self._loop(self.name, axis, self.taken), extent) for axis, extent in zip(self.stage.axes, self.stage.shape, strict=True)
        ]
        for axis, loop, _ in loops:
            self.axes[axis] = ir.Axis(loop)
        ranges = [(loop, ir.const(0), extent) for _, loop, extent in loops]
        values = self.stage.values
        index = tuple(ir.Axis(loop) for loop, _, _ in ranges)
        if len(values) == 1 and isinstance(values[0], Reduce):
            return self._reduction(values[0], ranges, index)
        prelude = _Prelude(self, ())
        lowered = tuple(prelude.lower(value) for value in values)
        return _loops(ranges, prelude.around(Store(self.name, self.targets, index, lowered)))

    def _reduction(self, reduce: Reduce, ranges: list[tuple[str, Expr, Expr]], index: tuple[Expr, ...]) -> Stmt:
        target = self.targets[0]
        states = [
            target if component == reduce.component else Buffer(f"{self.name}.{component}", self.stage.shape, identity.dtype)
            for component, identity in enumerate(reduce.reducer.identities)
        ]
        self.states += [state for state in states if state is not target]
        init = f"{self.name}.init"
        starts = [(f"{init}.{short(loop)}", lo, hi) for loop, lo, hi in ranges]
        first = Store(init, tuple(states), tuple(ir.Axis(loop) for loop, _, _ in starts), reduce.reducer.identities)
        update = self.update(reduce, self.name, tuple(states), index, (), self.taken)
        return block(_loops(starts, first), _loops(ranges, update))

    def update(
        self, reduce: Reduce, stage: str, states: tuple[Buffer, ...], index: tuple[Expr, ...], conditions: tuple[Expr, ...], taken: set[str]
    ) -> Stmt:
        """The loops over the reduction axes around the combining store."""
        ranges: list[tuple[str, Expr, Expr]] = []
        for axis in reduce.axes:
            loop = self._loop(stage, axis.name, taken)
            ranges.append((loop, substitute(axis.lo, self.axes), substitute(axis.hi, self.axes)))
            self.axes[axis.name] = ir.Axis(loop)
        prelude = _Prelude(self, ())
        wheres = [*conditions, *(() if reduce.where is None else (prelude.lower(reduce.where),))]
        guarded = _Prelude(self, tuple(wheres))
        values = tuple(guarded.lower(value) for value in reduce.values)
        body = guarded.around(Store(stage, states, index, values, reduce.reducer))
        for cond in reversed(wheres):
            body = If(cond, body)
        return _loops(ranges, prelude.around(body))

    def _loop(self, stage: str, axis: str, taken: set[str]) -> str:
        label = short(axis) or f"r{sum(name.startswith('r') and name[1:].isdigit() for name in taken)}"
        return f"{stage}.{_unique(label, taken)}"

    def element(self, load: Load, index: tuple[Expr, ...]) -> Expr:
        """A load of a tensor as a load of its buffer."""
        tensor = load.buffer
        assert isinstance(tensor, Tensor)  # noqa: S101 - definitions load tensors only
        return Load(self.buffers[id(tensor.definition), tensor.component], index)


@dataclass(slots=True)
class _Prelude:
    """What must run before one store: the implicit stages of the reductions inside its expressions."""

    owner: _Lowering
    conditions: tuple[Expr, ...]
    parts: list[Stmt] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)
    seen: dict[Expr, Expr] = field(default_factory=dict)

    def lower(self, expr: Expr) -> Expr:
        """The expression over buffers and named axes; its reductions become loads of scalars."""
        match expr:
            case ir.Axis(name):
                return self.owner.axes[name]
            case Load(_, index):
                return self.owner.element(expr, tuple(self.lower(part) for part in index))
            case Select(cond, yes, no) if _has_reduction(expr):
                test = self.lower(cond)
                outer = self.conditions
                self.conditions = (*outer, test)
                chosen = self.lower(yes)
                self.conditions = (*outer, simplify(Unary("not", test)))
                other = self.lower(no)
                self.conditions = outer
                return Select(test, chosen, other)
            case Reduce():
                return self._implicit(expr)
            case _ if children(expr):
                return map_children(expr, self.lower)
            case _:
                return expr

    def _implicit(self, reduce: Reduce) -> Expr:
        if reduce in self.seen and not self.conditions:
            return self.seen[reduce]
        owner = self.owner
        owner.implicit += 1
        stage = f"{owner.name}.{owner.implicit}"
        several = len(reduce.reducer.identities) > 1
        states = tuple(
            Buffer(f"{stage}.{component}" if several else stage, (), identity.dtype, "register")
            for component, identity in enumerate(reduce.reducer.identities)
        )
        self.scratch += states
        self.parts.append(Store(f"{stage}.init", states, (), reduce.reducer.identities))
        self.parts.append(owner.update(reduce, stage, states, (), self.conditions, set()))
        result = Load(states[reduce.component], ())
        self.seen[reduce] = result
        return result

    def around(self, body: Stmt) -> Stmt:
        """`body` after the implicit stages, inside their storage."""
        result = block(*self.parts, body)
        for buffer in reversed(self.scratch):
            result = Alloc(buffer, result)
        return result


def _has_reduction(expr: Expr) -> bool:
    return any(isinstance(node, Reduce) for node in walk(expr))


def _loops(ranges: list[tuple[str, Expr, Expr]], body: Stmt) -> Stmt:
    for loop, lo, hi in reversed(ranges):
        body = For(loop, simplify(lo), simplify(hi), body)
    return body
