"""`compile`: a graph as kernels of the library, called one after the other.

    graph ──▶ groups of nodes ──▶ definitions ──▶ kernels: shared by key, weights packed ──▶ steps ──▶ calls

Where all extents are numbers, kernels are made for operands as they lie, transposed or sliced, so that nothing is copied. With dims, and
for strides that no kernel can be made for, an operand that does not lie in order is copied when the kernel is called. A compiled graph
keeps nothing of a call, so it may be called from any number of threads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph.execution.calling import bound
from tensorlang.graph.execution.grouping import Group, parts
from tensorlang.graph.execution.places import Place, places
from tensorlang.graph.execution.steps import KernelStep, Step, ViewStep
from tensorlang.graph.ir import Array, Graph
from tensorlang.graph.strided import in_order

WORKERS: Final = 2
"""Kernels that are made at a time: one is scheduled while LLVM compiles another."""
SIZES: Final = 64
"""Sizes of dims whose places are kept."""


class CompiledGraph:
    """A graph as a function: `compiled(*inputs)` gives a tuple of new arrays. `steps` are what a call does, `kernels` what it calls."""

    def __init__(self, graph: Graph, steps: Sequence[Step]) -> None:
        self.graph = graph
        self.steps = tuple(steps)
        self._constants = {constant.value.name: in_order(constant.array) for constant in graph.constants}
        self._places: OrderedDict[tuple[int, ...], Mapping[str, Place]] = OrderedDict()

    @property
    def kernels(self) -> tuple[kernels.ServedKernel, ...]:
        """The kernels in the order in which they are called."""
        return tuple(step.kernel for step in self.steps if isinstance(step, KernelStep))

    def __call__(self, *inputs: object) -> tuple[Array, ...]:
        """The outputs for these inputs. Raises `CallError` for inputs that do not fit, by the names of the graph."""
        arrays, sizes = bound(self.graph, inputs)
        lying = self._lying(sizes)
        values = dict(self._constants)
        values |= {value.name: in_order(array) for value, array in zip(self.graph.inputs, arrays, strict=True)}
        fixed = {id(array) for array in values.values()}
        for step in self.steps:
            step.run(values, lying, sizes)
        made: list[Array] = []
        for value in self.graph.outputs:
            array = values[value.name]
            shared = lying[value.name].memory != value.name or id(array) in fixed
            made.append(array.copy() if shared else array)
            fixed.add(id(array))
        return tuple(made)

    def _lying(self, sizes: Mapping[str, int]) -> Mapping[str, Place]:
        key = tuple(sizes.values())
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = places(self.graph, sizes)
            while len(self._places) > SIZES:
                self._places.popitem(last=False)
        return found

    def __repr__(self) -> str:
        return f"<CompiledGraph {self.graph.name}: {len(self.kernels)} kernels of {len(self.graph.nodes)} nodes>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


def compiled(graph: Graph, target: str, database: Any, threads: int | None) -> CompiledGraph:
    """A graph as kernels. Raises `GraphError` for a graph that is not well formed, `BuildError` where there is no kernel of a node."""
    graph.verify()
    options = {"target": target, "database": database, "threads": threads}
    lying = {} if graph.dims else places(graph, {})
    order = parts(graph, target)
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="tensorlang graph") as pool:
        steps = list(pool.map(lambda part: _step(part, lying, options) if isinstance(part, Group) else ViewStep(part), order))
    return CompiledGraph(graph, steps)


def _step(group: Group, lying: Mapping[str, Place], options: Mapping[str, Any]) -> KernelStep:
    """The kernel of a group, for operands as they lie, its weights packed."""
    operands, results = group.define()
    weights = group.weights()
    names = [value.name for value in weights]
    strides = {
        value.name: lying[value.name].lying.strides
        for value in group.inputs
        if value.name in lying and value.name not in names and not lying[value.name].lying.is_contiguous
    }
    kernel = _kernel(results, operands, strides, {"constants": tuple(names), **options})
    if weights:
        kernel = kernel.prepack(**{value.name: in_order(array) for value in weights if (array := group.graph.constant(value)) is not None})
    shown = {repr(extent) for value in group.inputs for extent in value.shape}
    needed = {name for tensor in (*operands, *results) for extent in tensor.shape if isinstance(extent, tl.Dim) for name in extent.dims}
    passed = tuple(value for value in group.inputs if value.name not in names)
    return KernelStep(group, kernel, passed, tuple(sorted(needed - shown)))


def _kernel(results: tuple[tl.Tensor, ...], operands: tuple[tl.Tensor, ...], strides: dict[str, Any], options: dict[str, Any]) -> Any:
    """The kernel for operands with these strides, or, where no array has them, one that copies such operands."""
    if strides:
        try:
            return kernels.compile(results, inputs=operands, strides=strides, **options)
        except tl.DefinitionError:
            pass
    return kernels.compile(results, inputs=operands, **options)
