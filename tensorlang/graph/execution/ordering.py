"""Kernels and the copies between them, in order: what each reads, where that lies, and into which memory it writes.

A memory is named by the value that it was made for. Views have none of their own, unless their elements have to be moved: then they are
copied where the first step reads them. So is an operand that does not lie as its kernel takes it. What can be moved beforehand, as it
comes from constants, is moved once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tensorlang as tl
from tensorlang.graph.definition import shape_at
from tensorlang.graph.execution.steps import CopyStep, KernelStep, Step
from tensorlang.graph.ir import Array, Graph, Value
from tensorlang.graph.operators import find
from tensorlang.graph.places import Place
from tensorlang.graph.strided import Strided, in_order


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A step, where what it reads lies, and the memories that it writes."""

    step: Step
    reads: tuple[Place, ...]
    writes: tuple[str, ...]


@dataclass(slots=True)
class Ordered:
    """Work in an order in which it can be done, and the memories of it.

    `constants` are arrays by the names of their memories, `sizes` the bytes of memories that are written. `outputs` is the memory in which
    each output of the graph is, in row-major order from its beginning, and which no other output has.
    """

    graph: Graph
    lying: Mapping[str, Place]
    dims: Mapping[str, int]
    constants: dict[str, Array]
    work: list[Work] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def add_kernel(self, step: KernelStep) -> None:
        """A kernel, after the copies that it needs."""
        signature, fixed = step.kernel.program.signature, step.kernel.program.bound
        wanted = [argument.strides for argument in signature.passed if argument.name not in fixed]
        reads = tuple(self._operand(value, strides) for value, strides in zip(step.operands, wanted, strict=True))
        for value in step.results:
            self.sizes[value.name] = math.prod(shape_at(value, self.dims)) * value.dtype.bytes
        self.work.append(Work(step, reads, tuple(value.name for value in step.results)))

    def add_output(self, value: Value) -> None:
        """An output of the graph: the memory of a step, if it has that for itself, else a copy."""
        place = self._seen(value)
        size = math.prod(place.lying.shape) * value.dtype.bytes
        whole = place.lying.offset == 0 and place.lying.is_contiguous and self.sizes.get(place.memory) == size
        if whole and place.memory not in self.outputs:
            self.outputs.append(place.memory)
        else:
            self.outputs.append(self._copied(f"output {len(self.outputs)}", place, value.dtype).memory)

    def _operand(self, value: Value, strides: tuple[int, ...]) -> Place:
        """Where a kernel finds an operand that it takes with these strides; without any in row-major order."""
        place = self._seen(value)
        lying = place.lying
        wanted = strides or Strided.contiguous(lying.shape).strides
        if 0 in lying.shape or all(size == 1 or own == step for size, own, step in zip(lying.shape, lying.strides, wanted, strict=True)):
            return place
        return self._copied(f"{value.name} in order", place, value.dtype)

    def _seen(self, value: Value) -> Place:
        """Where a value lies, after the copy that its memory is, if it is one."""
        place = self.lying[value.name]
        node = self.graph.producer(self.graph.values[place.memory])
        if node is None or place.memory in self.sizes or place.memory in self.constants:
            return place
        if find(node.operator).view is None:
            raise tl.GraphError(f"{node.label}: no kernel gives {place.memory}, which {value.name} lies in")
        source = self._seen(node.read[0])
        copied = self._copied(place.memory, source, value.dtype)
        return Place(copied.memory, place.lying)

    def _copied(self, name: str, source: Place, dtype: tl.DType) -> Place:
        """The elements of a place in row-major order, in a memory of this name."""
        made = Place(name, Strided.contiguous(source.lying.shape))
        if name in self.sizes or name in self.constants:
            return made
        if source.memory in self.constants and not name.startswith("output "):
            self.constants[name] = in_order(source.lying.of(self.constants[source.memory]))
            return made
        self.sizes[name] = math.prod(source.lying.shape) * dtype.bytes
        self.work.append(Work(CopyStep(name, source, dtype.bytes), (source,), (name,)))
        return made


def ordered(graph: Graph, steps: Sequence[KernelStep], lying: Mapping[str, Place], dims: Mapping[str, int]) -> Ordered:
    """All that one call does, for these sizes of dims, where values lie so."""
    read = {lying[value.name].memory for step in steps for value in step.operands} | {lying[value.name].memory for value in graph.outputs}
    constants = {constant.value.name: in_order(constant.array) for constant in graph.constants if constant.value.name in read}
    made = Ordered(graph, lying, dims, constants)
    for step in steps:
        made.add_kernel(step)
    for value in graph.outputs:
        made.add_output(value)
    return made
