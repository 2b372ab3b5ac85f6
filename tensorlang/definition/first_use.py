"""The order of a program that does not depend on when its parts were made: by first use, from the outputs.

Whoever writes the weight before the data, or one of two independent stages before the other, writes the same program. So operands count
in the order in which the outputs come to read them, and stages in the order in which they are needed, each after what it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tensorlang.definition.tensor import Definition, Placeholder, Scan, Tensor, operands, outside_scans


def by_first_use(outputs: tuple[Tensor, ...]) -> tuple[Definition, ...]:
    """Every definition that the outputs reach, steps of scans aside: placeholders, then the others, operands before users.

    Raises `DefinitionError` where one belongs to the step of a scan.
    """
    found = _reached(outputs, None)
    return outside_scans(tuple(sorted(found, key=lambda definition: not isinstance(definition, Placeholder))))


def of_step(scan: Scan) -> tuple[Definition, ...]:
    """The definitions of a scan's step, in the same order."""
    own = {id(part) for part in scan.body}
    needed = _reached(scan.following, own)
    kept = {id(part) for part in needed}
    return (*needed, *(part for part in scan.body if id(part) not in kept))


def _reached(outputs: tuple[Tensor, ...], inside: Collection[int] | None) -> list[Definition]:
    """Depth first and without recursion: a chain of stages may be longer than Python's stack. `inside` bounds what counts."""
    found: list[Definition] = []
    done: set[int] = set()
    stack: list[tuple[Definition, Iterator[Tensor]]] = []

    def enter(tensor: Tensor) -> None:
        definition = tensor.definition
        if id(definition) not in done and (inside is None or id(definition) in inside):
            done.add(id(definition))
            stack.append((definition, iter(_reads(definition))))

    for output in outputs:
        enter(output)
        while stack:
            definition, reads = stack[-1]
            operand = next(reads, None)
            if operand is None:
                found.append(definition)
                stack.pop()
            else:
                enter(operand)
    return found


def _reads(definition: Definition) -> Iterator[Tensor]:
    """What a definition reads, in order of first reading; of a scan, what its step reads in the order in which that is needed."""
    if not isinstance(definition, Scan):
        yield from operands(definition)
        return
    own = {id(part) for part in (*definition.states, *definition.body)}
    yield from definition.init
    read = [*(tensor for part in of_step(definition) for tensor in _reads(part)), *definition.following]
    yield from (tensor for tensor in read if id(tensor.definition) not in own)
