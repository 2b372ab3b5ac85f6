"""What can be computed before any call: `fold_constants`.

Small constants are computed by the reference evaluator, which is there at once. What touches large ones goes through the kernels that a
call would have used: groups of nodes, so that a chain of pointwise nodes on a large constant takes that, its result, and nothing between;
each value is given back after its last reader, or written over, and permutations are done at the end. A view is looked at. Large results go
to a file in the folder of kernels, if there is one, as weights lie that were read: whoever packs them needs each once.

A result that is more than twice as large as all its operands (a table of zeros, a mask) stays a node: written down it would cost memory.
Constants have the origins of the nodes that they come from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph.arguments import of_graph
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.definition import at_sizes, of_node
from tensorlang.graph.execution.grouping import Group, parts
from tensorlang.graph.ir import Array, Graph, Node, Origin, Value
from tensorlang.graph.operators import find
from tensorlang.graph.passes.cleaning import dead_code
from tensorlang.graph.passes.layout import sink_permutes
from tensorlang.graph.strided import Strided, in_order
from tensorlang.system import cache_folder, mapped

SMALL: Final = 1 << 16
"""Bytes up to which a result is folded though it is larger than its operands."""
GROWTH: Final = 2
"""How many times the bytes of its operands a larger result may have: weights in another form, not tables that a rule tells."""
EVALUATED: Final = 1 << 24
"""Bytes of the largest result up to which all are evaluated: above that kernels are worth their compilation."""

FILED: Final = 1 << 22
"""Bytes of all results from which large ones go to a file."""

ALIGNED: Final = 4096
"""Bytes that an array of a kernel may be longer than its elements, so that they lie at a round address."""


@of_graph
def fold_constants(graph: Graph) -> Graph:
    """The graph in which nodes that read constants alone are constants."""
    return fold_nodes(graph, lambda _: True)


def fold_nodes(graph: Graph, wanted: Callable[[Node], bool]) -> Graph:
    """The graph in which those nodes that read constants alone, and are wanted, are constants."""
    inside = _foldable(graph, wanted)
    if not inside:
        return dead_code(graph)
    arrays = _computed(graph, inside)
    folded = {node.results[0].name for node in inside}
    made = Rewriter(graph)
    for node in graph.nodes:
        if node.results[0].name not in folded:
            made.copy(node)
            continue
        for value in node.results:
            if value.name in arrays:
                made.become(value, made.constant(arrays.pop(value.name), value.name, _origins(graph, value, folded)))
    return dead_code(made.finish())


def _foldable(graph: Graph, wanted: Callable[[Node], bool]) -> list[Node]:
    known = {constant.value.name for constant in graph.constants}
    found: list[Node] = []
    for node in graph.nodes:
        if wanted(node) and all(value.name in known for value in node.read) and _fits(node, _bytes(node.read)):
            found.append(node)
            known.update(value.name for value in node.results)
    return found


def worth(node: Node, operands: Sequence[Array]) -> bool:
    """Are the results of a node for arrays known now, and not much larger than these?"""
    return _fits(node, sum(array.nbytes for array in operands))


def _fits(node: Node, read: int) -> bool:
    return all(value.type.static for value in node.results) and _bytes(node.results) <= max(SMALL, GROWTH * read)


def _bytes(values: Iterable[Value]) -> int:
    return sum(math.prod(int(str(extent)) for extent in value.shape) * value.dtype.bytes for value in values)


def _origins(graph: Graph, value: Value, folded: set[str]) -> tuple[Origin, ...]:
    """Where a folded value comes from: the origins of the nodes that were folded into it."""
    found: dict[Origin, None] = {}
    pending, seen = [value], {value.name}
    while pending:
        node = graph.producer(pending.pop())
        if node is not None and node.results[0].name in folded:
            found |= dict.fromkeys(node.origins)
            new = [one for one in node.read if one.name not in seen]
            seen.update(one.name for one in new)
            pending += new
    return tuple(found)


def _computed(graph: Graph, inside: list[Node]) -> dict[str, Array]:
    """The arrays of those values that somebody outside reads."""
    names = {value.name for node in inside for value in node.results}
    outside = [node for node in graph.nodes if node.results[0].name not in names]
    read = dict.fromkeys(value for value in (*(one for node in outside for one in node.read), *graph.outputs) if value.name in names)
    needed = {value.name for node in inside for value in node.read} - names
    part = Graph((), tuple(one for one in graph.constants if one.value.name in needed), tuple(inside), tuple(read), graph.name)
    if max(_bytes(node.results) for node in inside) <= EVALUATED:
        return _run(part, list(part.nodes))
    part = sink_permutes(part)
    found = _run(part, list(parts(part)))
    return {value.name: found[made.name] for value, made in zip(read, part.outputs, strict=True)}


def _run(part: Graph, order: list[Node] | list[Group | Node]) -> dict[str, Array]:
    """The outputs of a graph of constants, each other value given back after who reads it last."""
    left = Counter(value.name for one in order for value in dict.fromkeys(_reads(one)))
    left.update(value.name for value in part.outputs)
    values = {constant.value.name: constant.array for constant in part.constants}
    given = list(values.values())
    results = {value.name for value in part.outputs}
    room = _room(part)
    for one in order:
        last = [value.name for value in dict.fromkeys(_reads(one)) if left[value.name] == 1]
        if isinstance(one, Group):
            alone = [name for name in last if not any(np.may_share_memory(values[name], array) for array in _others(name, values, given))]
            made, seen = _kernel(one, [values[value.name] for value in one.inputs], alone), None
        else:
            operands = [None if value is None else values[value.name] for value in one.inputs]
            seen = _looked_at(one, operands)
            made = evaluated(one, operands) if seen is None else (seen,)
            del operands
        left.subtract(value.name for value in dict.fromkeys(_reads(one)))
        for name in last:
            mapped.give_back(values.pop(name))
        for value, array in zip(one.results, made, strict=True):
            values[value.name] = array if room is None or seen is not None or value.name not in results else _filed(room, array)
        del made, seen, array
    found = {value.name: _whole(values[value.name]) for value in part.outputs}
    for array in found.values():
        mapped.give_back(array)
    if room is not None:
        mapped.give_back_freed()
    return found


def _room(part: Graph) -> mapped.Room | None:
    """Where large results go; None where there are too few of them, or no room."""
    folder, size = cache_folder.chosen(), sum(mapped.in_pages(_bytes((value,))) for value in part.outputs)
    if folder is None or size < FILED:
        return None
    try:
        return mapped.Room(folder, size)
    except OSError:
        return None


def _filed(room: mapped.Room, array: Array) -> Array:
    """A result that nothing is a view of, in the file of large ones if it is one."""
    if array.nbytes <= SMALL or not array.flags.c_contiguous:
        return array
    try:
        return room.moved(array)
    except OSError:
        return array


def _others(name: str, values: Mapping[str, Array], given: list[Array]) -> list[Array]:
    """The arrays that must not change when that of a name does: other values, and constants, which may be read elsewhere."""
    return [*(array for other, array in values.items() if other != name), *given]


def _looked_at(node: Node, operands: Sequence[Array | None]) -> Array | None:
    """The result of a view where its operand lies; None where it is none, or elements have to be moved."""
    view, first = find(node.operator).view, operands[0] if operands else None
    if view is None or first is None:
        return None
    seen = view(Strided.contiguous(first.shape), **at_sizes(node.attributes, {}))
    return None if seen is None or not first.flags.c_contiguous else seen.of(first)


def _whole(array: Array) -> Array:
    """An array that keeps no other memory than that of its elements: of something larger, and of what is small, a copy in order.

    A transposed weight stays as it lies: whoever packs it reads each element once in any case.
    """
    base = array.base if isinstance(array.base, np.ndarray) else array
    return array if base.nbytes <= array.nbytes + ALIGNED and array.nbytes > SMALL else in_order(array)


def _reads(one: Node | Group) -> tuple[Value, ...]:
    return tuple(value for value in one.inputs if value is not None)


def _kernel(group: Group, operands: list[Array], free: list[str]) -> tuple[Array, ...]:
    """The results of a group; the first is written over an operand that nobody reads again, where that is proven to be right."""
    placeholders, results = group.define()
    names = {value.name: place for place, value in enumerate(group.inputs)}
    result = group.results[0]
    below = next((name for name in free if name in names and group.inputs[names[name]].type == result.type), None)
    if below is not None and len(results) == 1 and operands[names[below]].flags.c_contiguous:
        try:
            kernel = kernels.compile(results, inputs=placeholders, over={kernels.access(results).stages[-1].name: below})
        except tl.TensorlangError:
            pass
        else:
            return (kernel(*operands, out=operands[names[below]]),)
    found = kernels.compile(results, inputs=placeholders)(*operands)
    return found if isinstance(found, tuple) else (found,)


def evaluated(node: Node, operands: list[Array | None]) -> tuple[Array, ...]:
    """The results of a node for arrays."""
    operands = [None if array is None else in_order(array) for array in operands]
    seen = _looked_at(node, operands)
    if seen is not None:
        return (in_order(seen),)
    definition = of_node(node)
    feeds = {
        operand: array for operand, array in zip(definition.operands, operands, strict=True) if operand is not None and array is not None
    }
    return tuple(np.asarray(array) for array in tl.evaluate(definition.results, feeds))
