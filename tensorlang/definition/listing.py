"""Definitions as they would be written down: `C[i, j] = sum(A[i, k] * B[k, j] for k in range(32))`.

One definition after another, operands before users, under the names that a schedule gives them; the steps of a scan stand in its loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tensorlang import ir
from tensorlang.definition.naming import of_component, tensor_names
from tensorlang.definition.tensor import Definition, Itself, Placeholder, Scan, Scatter, Stage, State, Tensor, reached, with_steps
from tensorlang.ir.dtype import DType
from tensorlang.ir.printer import UPDATE, short, text
from tensorlang.ir.traverse import map_children
from tensorlang.system import markup

MOST: Final = 60
"""Definitions listed; a longer program shows its last ones."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A tensor under the name that it has in the listing."""

    name: str
    dtype: DType


def formula(tensor: Tensor) -> str:
    """The definition of one tensor."""
    program = reached((tensor,))
    return "\n".join(_lines(tensor.definition, _names(program)))


def operands(tensor: Tensor) -> list[str]:
    """The definitions that a tensor rests on, each as text, in the order in which they were made."""
    program = reached((tensor,))
    names = _names(program)
    return ["\n".join(_lines(definition, names)) for definition in program if definition is not tensor.definition]


def html(tensor: Tensor) -> str:
    """A tensor as a notebook shows it: its type, its formula and, folded, what it rests on."""
    if isinstance(tensor.definition, Placeholder):
        array = tensor.definition.array
        role = "an argument of the kernel" if array is None else "bound to an array"
        return markup.display(markup.title(repr(tensor)), markup.paragraph(role, "soft"))
    below = operands(tensor)
    cut = [f"... {len(below) - MOST} more before"] if len(below) > MOST else []
    count = f"rests on {len(below)} other definition{'s' * (len(below) != 1)}"
    rest = markup.folded(count, markup.code("\n".join(cut + below[-MOST:]))) if below else ""
    return markup.display(markup.title(repr(tensor)), markup.code(formula(tensor)), rest)


def _names(program: tuple[Definition, ...]) -> dict[int, str]:
    """By identity; states are numbered where a scan has several."""
    everything = with_steps(program)
    names = {id(definition): name for definition, name in tensor_names(program).items()}
    for scan in everything:
        if isinstance(scan, Scan):
            names |= {id(state): f"state{place if len(scan.states) > 1 else ''}" for place, state in enumerate(scan.states)}
    return {id(definition): "state" for definition in everything if isinstance(definition, State)} | names


def _lines(definition: Definition, names: Mapping[int, str]) -> Iterator[str]:
    name = names[id(definition)]
    unnamed: dict[str, str] = {}

    def axis(full: str) -> str:
        return short(full) or unnamed.setdefault(full, f"r{len(unnamed)}")

    def spell(expr: ir.Expr) -> str:
        return text(_renamed(expr, definition, names), axis)

    def loop(entry: ir.ReduceAxis) -> str:
        start = "" if entry.lo == ir.const(0) else f"{spell(entry.lo)}, "
        return f"for {axis(entry.name)} in range({start}{spell(entry.hi)}):"

    match definition:
        case Placeholder(shape=shape, dtype=dtype, array=array):
            bound = "" if array is None else "   (bound to an array)"
            yield f"{name}: {dtype}[{', '.join(map(text, shape))}]{bound}"
        case Stage(axes=axes, values=values):
            at = ", ".join(map(axis, axes))
            targets = (f"{of_component(name, definition, place)}[{at}]" for place in range(len(values)))
            yield f"{', '.join(targets)} = {', '.join(map(spell, values))}"
        case Scatter(init=init, axes=axes, index=index, value=value, where=where, reducer=reducer):
            yield f"{name} = {_tensor(init, names)}"
            pad = ""
            for entry in axes:
                yield f"{pad}{loop(entry)}"
                pad += "    "
            if where is not None:
                yield f"{pad}if {spell(where)}:"
                pad += "    "
            target = f"{name}[{', '.join(map(spell, index))}]"
            if reducer is None or reducer.name in UPDATE:
                yield f"{pad}{target} {'=' if reducer is None else UPDATE[reducer.name]} {spell(value)}"
            else:
                yield f"{pad}{target} = {reducer.name}({target}, {spell(value)})"
        case Scan(axis=steps, init=init, states=states, following=following, body=body, keep=keep):
            kept = [names[id(state)] for state in states]
            yield f"{', '.join(kept)} = {', '.join(_tensor(tensor, names) for tensor in init)}"
            yield loop(steps)
            for part in body:
                yield from (f"    {line}" for line in _lines(part, names))
            yield f"    {', '.join(kept)} = {', '.join(_tensor(tensor, names) for tensor in following)}"
            made = ", ".join(of_component(name, definition, place) for place in range(len(init)))
            after = [f"after {'every' if each == 'all' else 'the last'} step" for each in keep]
            yield f"{made} = {', '.join(kept)}   ({', '.join(after if len(set(after)) > 1 else after[:1])})"
        case State():
            yield f"{name}   (of a step of a scan)"


def _tensor(tensor: Tensor, names: Mapping[int, str]) -> str:
    return of_component(names[id(tensor.definition)], tensor.definition, tensor.component)


def _renamed(expr: ir.Expr, around: Definition, names: Mapping[int, str]) -> ir.Expr:
    """An expression that reads tensors by the names of the listing; a recurrence reads itself by its own."""

    def visit(node: ir.Expr) -> ir.Expr:
        node = map_children(node, visit)
        match node:
            case ir.Load(buffer=Tensor() as read):
                return replace(node, buffer=_Named(_tensor(read, names), read.dtype))
            case ir.Load(buffer=Itself(dtype=dtype, component=component)):
                return replace(node, buffer=_Named(of_component(names[id(around)], around, component), dtype))
            case _:
                return node

    return visit(expr)
