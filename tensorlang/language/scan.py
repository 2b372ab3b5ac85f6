"""`scan`: an ordered recurrence whose step has stages of its own (LSTM, GRU, Floyd-Warshall, time loops over several fields).

The step is written once, over a time axis and states that stand for what the step before made. The definitions made there that depend on
either belong to the scan; the others stay outside and are computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Never, NoReturn

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.definition.expr import Expr
from tensorlang.definition.extent import Extent, extent_node, optional_name
from tensorlang.definition.tensor import (
    ENCLOSING,
    Definition,
    Keep,
    Placeholder,
    Scan,
    State,
    Tensor,
    fresh_axis,
    operands,
    reached,
    serial,
)
from tensorlang.errors import DefinitionError
from tensorlang.language.definitions import parameters

_ENDS: Final = ("until", "while", "while_", "stop", "cond", "condition")
"""What other libraries call the condition by which a loop ends."""


def scan(
    step: Callable[..., Any],
    init: Tensor | tuple[Tensor, ...],
    length: Extent,
    keep: Keep | tuple[Keep, ...] = "all",
    name: str | None = None,
    **other: Never,
) -> Any:
    """The states of `length` steps from `init`, of which each is `step(t, state)`: a tensor, or a tuple where `init` is a tuple.

    `step` builds the next state with `compute` (or any other definition) from `state`, which has the shape and type of `init`.
    `keep="all"` stacks the new states, not `init`, along a new first axis; `keep="last"` gives the last state, `init` after no step;
    a tuple says it for each state.
    Raises `DefinitionError` where a state changes its shape or type.
    """
    label = optional_name(name, "a tensor")
    what = f"scan {label}" if label else "a scan"
    for word in other:
        _refuse(word, what)
    several = isinstance(init, (tuple, list))
    first = tuple(init) if isinstance(init, (tuple, list)) else (init,)
    if not first or not all(isinstance(tensor, Tensor) for tensor in first):
        raise DefinitionError(f"init of {what} must be a tensor or a tuple of tensors, not {init!r:.60}")
    kept = _kept(keep, len(first) if several else None, what)
    bound = simplify(extent_node(length, f"the length of {what}"))
    if isinstance(bound, ir.Const) and bound.value < 0:
        raise DefinitionError(f"the length of {what} is {bound.value}; it must be at least 0")
    axis = ir.ReduceAxis(fresh_axis(parameters(step, 2, what)[0]), ir.const(0), bound)
    states = tuple(State(tensor.extents, tensor.dtype, serial()) for tensor in first)
    given = tuple(Tensor(state) for state in states)
    token = ENCLOSING.set((*ENCLOSING.get(), axis))
    try:
        result = step(Expr(ir.Axis(axis.name)), given if several else given[0])
    finally:
        ENCLOSING.reset(token)
    following = tuple(result) if several and isinstance(result, (tuple, list)) else (result,)
    _check_states(what, first, following)
    made = make(label, axis, first, states, following, kept)
    tensors = tuple(Tensor(made, component) for component in range(len(first)))
    return tensors if several else tensors[0]


def _refuse(word: str, what: str) -> NoReturn:
    """Raise `DefinitionError` for an argument that `scan` does not have, as one that would say when to end."""
    from tensorlang.definition.elsewhere import STEPS  # noqa: PLC0415 - only to refuse

    if word in _ENDS:
        raise DefinitionError(f"{what} has a fixed number of steps, so that it has no {word}=; {STEPS}")
    raise DefinitionError(f"{what} has no {word}=; it takes step, init, length, keep and name")


def _kept(keep: object, several: int | None, what: str) -> tuple[Keep, ...]:
    """What is kept of each state: one word for all, or a tuple for so many. Raises `DefinitionError` for anything else."""
    words = tuple(keep) if several is not None and isinstance(keep, (tuple, list)) else (keep,) * (several or 1)
    found: tuple[Keep, ...] = tuple("all" if word == "all" else "last" for word in words)
    if found != words or len(words) != (several or 1):
        each = "" if several is None else f", or a tuple of {several} of them"
        raise DefinitionError(f'keep= of {what} must be "all" or "last"{each}, not {keep!r:.60}')
    return found


def make(
    label: str | None,
    axis: ir.ReduceAxis,
    init: tuple[Tensor, ...],
    states: tuple[State, ...],
    following: tuple[Tensor, ...],
    keep: tuple[Keep, ...],
) -> Scan:
    """The scan of a step that has been written: what depends on the states or the time belongs to it."""
    body = [definition for definition in reached(following) if _depends(definition, axis, states, {})]
    body = [definition for definition in body if not isinstance(definition, State)]
    within = {
        outer.name: outer
        for definition in body
        if not isinstance(definition, (Placeholder, State))
        for outer in definition.within
        if outer != axis
    }
    return Scan(label, axis, init, states, following, tuple(body), keep, serial(), tuple(within.values()))


def _depends(definition: Definition, axis: ir.ReduceAxis, states: tuple[State, ...], known: dict[int, bool]) -> bool:
    found = known.get(id(definition))
    if found is None:
        own = isinstance(definition, State) and any(definition is state for state in states)
        timed = not isinstance(definition, (Placeholder, State)) and axis in definition.within
        found = own or timed or any(_depends(tensor.definition, axis, states, known) for tensor in operands(definition))
        known[id(definition)] = found
    return found


def _check_states(what: str, init: tuple[Tensor, ...], following: tuple[Any, ...]) -> None:
    if len(following) != len(init) or not all(isinstance(tensor, Tensor) for tensor in following):
        raise DefinitionError(f"the step of {what} must return {len(init)} tensors, as init has, not {following!r:.80}")
    for old, new in zip(init, following, strict=True):
        if old.shape != new.shape or old.dtype != new.dtype:
            raise DefinitionError(f"the step of {what} makes {new!r} of the state {old!r}; a state keeps its shape and type")
