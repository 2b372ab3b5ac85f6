"""Matching at one value: every way in which a pattern is found there, by backtracking.

Ways are tried in the order of the pattern, so that a match is the same in every run. Whoever wants to know why there is none passes a list:
each refusal then says where it happened, and how far the way had come. Words for it are made only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import tensorlang as tl
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.operator import Operator
from tensorlang.graph.operators import find
from tensorlang.graph.pattern.constraints import arrangements, attribute_fits, tensor_fits
from tensorlang.graph.pattern.patterns import Absent, And, Applied, Links, Not, Opt, Or, Pattern, Tensor, Wildcard
from tensorlang.graph.pattern.state import Miss, State
from tensorlang.graph.pattern.wording import described, met, wording


class Search:
    """Patterns in one graph; with `misses`, refusals are kept there."""

    def __init__(self, graph: Graph, misses: list[Miss] | None = None) -> None:
        self.graph = graph
        self.misses = misses

    def plausible(self, pattern: Pattern, value: Value | None) -> bool:
        """May a pattern be found at a value, as far as operators and operands that are there can tell? Asked first, as it is soon said."""
        kind = type(pattern)
        if kind is Wildcard:
            return True
        if isinstance(pattern, Applied):
            node = None if value is None else self.graph.producer(value)
            return node is not None and (not pattern.operators or node.operator in pattern.operators) and self._operands(pattern, node)
        if isinstance(pattern, And):
            return all(self.plausible(part, value) for part in pattern.patterns)
        if isinstance(pattern, Or):
            return any(self.plausible(part, value) for part in pattern.patterns)
        return (value is None) is (kind is Absent) or kind not in (Absent, Tensor)

    def _operands(self, pattern: Applied, node: Node) -> bool:
        """The same of the operands before any `...`; those of a commutative operator may stand in both orders."""
        args, inputs = pattern.args, node.inputs
        if len(args) == 2 == len(inputs) and ... not in args and find(node.operator).commutative:
            first, second = args
            if self.plausible(first, inputs[1]) and self.plausible(second, inputs[0]):  # type: ignore[arg-type]  # neither is `...`
                return True
        for place, arg in enumerate(args):
            if not isinstance(arg, Pattern):
                return True
            if not self.plausible(arg, inputs[place] if place < len(inputs) else None):
                return False
        return True

    def ways(self, pattern: Pattern, value: Value | None, state: State, place: str) -> Iterator[State]:
        """Every state in which the pattern is found at a value, None being an operand that is left out."""
        for found in self._inner(pattern, value, state, place):
            bound = found.knowing(id(pattern), value)
            if bound is not None and pattern.label is not None and value is not None:
                bound = bound.knowing(pattern.label, value)
            if bound is not None:
                yield bound
            elif self.misses is not None:
                self._miss(found, place, f"the value that stands elsewhere as {pattern.label or described(pattern)}", value)

    def _inner(self, pattern: Pattern, value: Value | None, state: State, place: str) -> Iterator[State]:
        match pattern:
            case Wildcard():
                yield state
            case Absent():
                yield from self._if(state if value is None else None, pattern, value, state, place)
            case Tensor():
                fits = None if value is None else tensor_fits(self.graph, pattern, value, state)
                yield from self._if(fits, pattern, value, state, place)
            case Applied():
                yield from self._applied(pattern, value, state, place)
            case And(patterns=parts):
                yield from self._all([(part, value, place) for part in parts], state)
            case Or(patterns=parts):
                for part in parts:
                    yield from self.ways(part, value, state, place)
            case Not(pattern=inner):
                matched = next(Search(self.graph).ways(inner, value, state, place), None)
                yield from self._if(state if matched is None else None, pattern, value, state, place)
            case Opt(pattern=inner):
                yield from self.ways(inner, value, state, place)
                yield from self.ways(_without(inner), value, state, place)
            case Links():
                yield from self._links(pattern, value, state, place, 0)
            case _:
                raise tl.GraphError(f"{pattern!r:.60} is no pattern that can be looked for")

    def _if(self, found: State | None, pattern: Pattern, value: Value | None, state: State, place: str) -> Iterator[State]:
        if found is not None:
            yield found
        elif self.misses is not None:
            self._miss(state, place, described(pattern), value)

    def _all(self, parts: Sequence[tuple[Pattern, Value | None, str]], state: State) -> Iterator[State]:
        if not parts:
            yield state
            return
        pattern, value, place = parts[0]
        for found in self.ways(pattern, value, state, place):
            yield from self._all(parts[1:], found)

    def _applied(self, pattern: Applied, value: Value | None, state: State, place: str) -> Iterator[State]:
        node = None if value is None else self.graph.producer(value)
        if node is None or (pattern.operators and node.operator not in pattern.operators):
            yield from self._if(None, pattern, value, state, place)
            return
        operator = find(node.operator)
        for label, wanted in pattern.attributes:
            found = attribute_fits(operator, node, label, wanted, state)
            if found is None:
                if self.misses is not None:
                    got = f"{node.operator} with {label}={dict(node.attributes).get(label)!r}"
                    self.misses.append(Miss(len(state.inside) + 0.5, place, f"{label}={wording(wanted)}", got, node))
                return
            state = found
        state = state.holding(node, pattern.escapes)
        several = list(arrangements(pattern.args, node, operator))
        if not several and self.misses is not None:
            got = f"{node.operator} with {len(node.inputs)} operands"
            self.misses.append(Miss(len(state.inside) - 0.5, place, f"{len(pattern.args)} operands", got, node))
        for pairs in several:
            yield from self._all([(arg, one, self._place(operator, at)) for arg, one, at in pairs], state)

    def _links(self, pattern: Links, value: Value | None, state: State, place: str, length: int) -> Iterator[State]:
        if length >= pattern.least:
            yield from self.ways(pattern.onto, value, state, place)
        node = None if value is None else self.graph.producer(value)
        if length == pattern.most:
            return
        if node is None or (pattern.step.operators and node.operator not in pattern.step.operators):
            if length < pattern.least:
                yield from self._if(None, pattern.step, value, state, place)
            return
        inside = state.holding(node, pattern.step.escapes)
        for operand in dict.fromkeys(node.read):
            yield from self._links(pattern, operand, inside, node.operator, length + 1)

    def _place(self, operator: Operator, operand: int) -> str:
        """An operand by its name, for who keeps refusals."""
        if self.misses is None:
            return ""
        last = operator.operands[min(operand, len(operator.operands) - 1)]
        return f"{operator.name}.{last.name}[{operand}]" if last.several else f"{operator.name}.{last.name}"

    def _miss(self, state: State, place: str, expected: str, value: Value | None) -> None:
        node = None if value is None else self.graph.producer(value)
        if self.misses is not None:
            self.misses.append(Miss(len(state.inside), place, expected, met(self.graph, value), node))


def escaping(graph: Graph, state: State, roots: Sequence[Value]) -> tuple[Node, Node | None] | None:
    """A node inside whose result somebody outside reads, and who that is (None: it is an output); roots may be read by anybody."""
    names = {inside.node.results[0].name for inside in state.inside}
    free = {node.results[0].name for value in roots if (node := graph.producer(value)) is not None}
    for inside in state.inside:
        if inside.escapes or inside.node.results[0].name in free:
            continue
        for value in inside.node.results:
            if graph.is_output(value):
                return inside.node, None
            for user in graph.users(value):
                if user.results[0].name not in names:
                    return inside.node, user
    return None


def _without(pattern: Pattern) -> Pattern:
    """What stands where an optional pattern is left out."""
    if isinstance(pattern, Applied) and pattern.args and isinstance(pattern.args[0], Pattern):
        return pattern.args[0]
    return ABSENT


ABSENT: Final = Absent()
