"""Names of the tensors of a program: `t0, t1, ...` for unnamed ones, `_1, _2, ...` for a second one of a name.

They follow from the program alone, not from a process-wide counter.
"""

from __future__ import annotations

import itertools

from tensorlang.definition.tensor import Definition, Placeholder, State, components, with_steps


def tensor_names(program: tuple[Definition, ...], unread: tuple[Placeholder, ...] = ()) -> dict[Definition, str]:
    """The names of all definitions but states; arguments that are not read come last, so that they change no other name."""
    taken: set[str] = set()
    names: dict[Definition, str] = {}
    unnamed = 0
    for definition in (*with_steps(program), *unread):
        if isinstance(definition, State):
            continue
        label = definition.name
        if label is None:
            label, unnamed = f"t{unnamed}", unnamed + 1
        names[definition] = _with_components(label, components(definition), taken)
    return names


def of_component(name: str, definition: Definition, component: int) -> str:
    """The name of one tensor of a definition of that name."""
    return f"{name}_{component}" if components(definition) > 1 else name


def _with_components(label: str, count: int, taken: set[str]) -> str:
    """A name that is free together with the names of its components."""
    for number in itertools.count():
        name = f"{label}_{number}" if number else label
        wanted = {name, *(f"{name}_{component}" for component in range(count if count > 1 else 0))}
        if not wanted & taken:
            taken |= wanted
            return name
    raise AssertionError
