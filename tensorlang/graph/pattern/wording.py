"""Patterns and what they meet, in words: for `explain`, and for errors."""

from __future__ import annotations

from typing import Any

from tensorlang.graph.ir import Graph, Value
from tensorlang.graph.pattern.patterns import Absent, And, Applied, Attr, Links, Not, Opt, Or, Pattern, Tensor


def described(pattern: Pattern) -> str:
    """What a pattern asks for at its place, in a few words."""
    match pattern:
        case Absent():
            return "no operand"
        case Tensor():
            facts = [
                ("of shape", pattern.shape and f"({', '.join(map(_extent, pattern.shape))})"),
                ("of type", pattern.dtype and (pattern.dtype if isinstance(pattern.dtype, str) else " or ".join(pattern.dtype))),
                ("with users:", pattern.users),
                ("that is", _held(pattern.constant)),
            ]
            return " ".join(["a tensor", *(f"{what} {value}" for what, value in facts if value is not None)])
        case Applied(operators=operators):
            return " or ".join(operators) or "any operator"
        case And(patterns=parts):
            return " and ".join(map(described, parts))
        case Or(patterns=parts):
            return " or ".join(map(described, parts))
        case Not(pattern=inner):
            return f"not {described(inner)}"
        case Opt(pattern=inner):
            return f"{described(inner)}, if there is one"
        case Links(step=step, onto=onto):
            return f"{described(onto)} below {described(step)}"
        case _:
            return "anything"


def _held(constant: bool | float | None) -> str | None:
    if constant is None:
        return None
    return f"all {constant}" if not isinstance(constant, bool) else "constant" if constant else "not constant"


def _extent(entry: Any) -> str:
    return "..." if entry is ... else "any" if entry is None else str(entry)


def wording(wanted: Any) -> str:
    """A constraint on an attribute."""
    match wanted:
        case Attr(name=name, where=where):
            return f"{name}" if where is None else f"{name}, for which {getattr(where, '__name__', 'a condition')} holds"
        case set() | frozenset():
            return f"one of {', '.join(sorted(map(repr, wanted)))}"
        case _ if callable(wanted):
            return f"what {getattr(wanted, '__name__', 'a condition')} takes"
        case _:
            return repr(wanted)


def met(graph: Graph, value: Value | None) -> str:
    """What stands at a place: who makes it, its name and type."""
    if value is None:
        return "an operand that is left out"
    node = graph.producer(value)
    kind = node.operator if node is not None else "the input" if graph.constant(value) is None else "the constant"
    return f"{kind} {value}"
