"""Patterns that can never match are refused, with what they should have been.

A wrong word in a pattern must not look like a graph without matches.
"""

from __future__ import annotations

import tensorlang as tl
from tensorlang.errors import did_you_mean
from tensorlang.graph.operators import find
from tensorlang.graph.pattern.patterns import Absent, And, Applied, Links, Not, Opt, Or, Pattern, Tensor, Wildcard


def check(pattern: Pattern) -> None:
    """Raises `GraphError` for a pattern that no graph can match."""
    match pattern:
        case Applied():
            _check_operators(pattern)
            for arg in pattern.args:
                if isinstance(arg, Pattern):
                    check(arg)
        case And(patterns=parts):
            kinds = {type(part) for part in parts}
            if Absent in kinds and kinds & {Tensor, Applied, Links}:
                raise tl.GraphError("a pattern asks for a value and for none at one place (Absent() & ...): it can never match")
            for part in parts:
                check(part)
        case Or(patterns=parts):
            for part in parts:
                check(part)
        case Not(pattern=inner) | Opt(pattern=inner):
            check(inner)
            if isinstance(pattern, Not) and isinstance(inner, Wildcard):
                raise tl.GraphError("~Wildcard() can never match: a wildcard is anything")
        case Links(step=step, onto=onto, least=least, most=most):
            if not 0 <= least <= most:
                raise tl.GraphError(f"a chain of at least {least} and at most {most} nodes can never match")
            if step.operators:
                check(step)
            check(onto)
        case _:
            pass


def _check_operators(pattern: Applied) -> None:
    if not pattern.operators:
        raise tl.GraphError("a pattern of a node names an operator, or several")
    if pattern.args.count(...) > 1:
        raise tl.GraphError(f"the arguments of {' or '.join(pattern.operators)} have more than one '...'; one stands for any number")
    entries = [find(name) for name in pattern.operators]
    count = len(pattern.args) - pattern.args.count(...)
    if all(count > len(entry.operands) and not any(operand.several for operand in entry.operands) for entry in entries):
        names = "; ".join(f"{entry.name} takes {', '.join(operand.name for operand in entry.operands)}" for entry in entries)
        raise tl.GraphError(f"a pattern with {count} arguments can never match: {names}")
    for label, _ in pattern.attributes:
        if not any(label in entry.attributes for entry in entries):
            known = [name for entry in entries for name in entry.attributes]
            hint = did_you_mean(label, known) or f"; there are {', '.join(known) or 'none'}"
            raise tl.GraphError(f"{' or '.join(pattern.operators)} has no attribute {label!r}, so the pattern can never match{hint}")
