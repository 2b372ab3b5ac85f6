"""`compile`: a graph as kernels of the library, all of which are one native call.

    graph ──▶ groups of nodes ──▶ definitions ──▶ kernels: shared by key, weights packed ──▶ assembly, for each size of dims ──▶ calls

Where all extents are numbers, kernels are made for operands as they lie, transposed or sliced, so that nothing is copied. With dims, and
for strides that no kernel can be made for, an operand that does not lie in order is copied before its kernel is called. A compiled graph
keeps nothing of a call: the arena is taken for its time alone, so it may be called from any number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Final

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph.execution import background
from tensorlang.graph.execution.assembly import Assembly, assembled
from tensorlang.graph.execution.calling import bind_inputs
from tensorlang.graph.execution.grouping import Group, groups
from tensorlang.graph.execution.lanes import in_turn, side_by_side
from tensorlang.graph.execution.ordering import ordered
from tensorlang.graph.execution.plan import Plan
from tensorlang.graph.execution.steps import KernelStep, Step
from tensorlang.graph.execution.weights import held, with_weights
from tensorlang.graph.ir import Array, Graph
from tensorlang.graph.places import Place, places
from tensorlang.system import forks

WORKERS: Final = 2
"""Kernels that are made at a time: one is scheduled while LLVM compiles another."""
SIZES: Final = 64
"""Sizes of dims for which the plan is kept."""


class CompiledGraph:
    """A graph as a function: `compiled(*inputs)` gives a tuple of new arrays, which nobody shares.

    `steps` are what a call does, `kernels` what it calls, `plan` is where values lie meanwhile. Any number of calls may run at once.
    """

    def __init__(self, graph: Graph, kernel_steps: Sequence[KernelStep], threads: int | None) -> None:
        self.graph = graph
        self._kernel_steps = tuple(kernel_steps)
        self._threads = threads
        self._several = len(graph.outputs) != 1
        self._watched = threads is None and any(step.kernel.workspace_bytes for step in kernel_steps)
        self._lock = forks.short_lock()  # around what a call reads: weights, and what is made for sizes
        self.renew()
        forks.anew(self)
        self._forget()
        if not graph.dims:
            self.assembly()

    def renew(self) -> None:
        """Nobody makes an assembly or packs weights: in a forked child, who did is not there any more."""
        self._making = threading.Lock()
        self._loading = threading.Lock()

    def _forget(self) -> None:
        self._made: dict[tuple[int, ...], Assembly] = {}
        self._fast: dict[tuple[tuple[int, ...], ...], kernels.Sequence] = {}
        self._only: kernels.Sequence | None = None
        self._planned_for = tl.get_threads() if self._threads is None else self._threads

    @property
    def kernels(self) -> tuple[kernels.ServedKernel, ...]:
        """The kernels in an order in which they are called."""
        return tuple(step.kernel for step in self._kernel_steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Kernels, and copies where elements have to be moved; with dims, which copies there are depends on their sizes: kernels alone."""
        return self._kernel_steps if self.graph.dims else tuple(work.step for work in self.assembly().work)

    @property
    def plan(self) -> Plan:
        """Where values lie in the arena of a call. Raises `CallError` where that depends on dims: `assembly(n=3).plan`."""
        return self.assembly().plan

    def __call__(self, *inputs: Any) -> tuple[Array, ...]:
        """The outputs for these inputs. Raises `CallError` for inputs that do not fit, by the names of the graph."""
        if self._watched and tl.get_threads() != self._planned_for:
            with self._lock:
                self._forget()
        run = self._only
        try:
            if run is None:
                run = self._fast[tuple([given.shape for given in inputs])]
            made = run(*inputs)
        except (tl.CallError, KeyError, AttributeError, TypeError):
            return self._carefully(inputs)
        return made if self._several else (made,)

    def _carefully(self, inputs: tuple[object, ...]) -> tuple[Array, ...]:
        """The same for inputs of which not all are as they should be, or whose sizes are new."""
        arrays, sizes = bind_inputs(self.graph, inputs)
        found = self.assembly(**sizes)
        if self.graph.dims:
            with self._lock:
                if found in self._made.values():  # not one with weights of before
                    self._fast[tuple(array.shape for array in arrays)] = found.sequence
                while len(self._fast) > SIZES:
                    del self._fast[next(iter(self._fast))]
        made = found.sequence(*arrays)
        return made if self._several else (made,)

    def load_weights(self, weights: Mapping[str, object]) -> None:
        """Other values for constants, by their names in the graph: nothing is built, what is packed is packed anew.

        Calls that run go on with the values of before; other compiled graphs keep theirs. Raises `CallError` for a name of no constant,
        an array of another shape or type, and a number, which stands in the code of kernels; nothing is changed then.
        """
        with self._loading:  # who loads others meanwhile begins with these
            graph = with_weights(self.graph, weights)
            steps = []
            for step in self._kernel_steps:
                changed = {value.name: held(graph, value) for value in step.group.weights() if value.name in weights}
                kernel: Any = step.kernel.repack(**changed) if changed else step.kernel
                steps.append(replace(step, kernel=kernel))
            with self._lock:
                self.graph, self._kernel_steps = graph, tuple(steps)
                self._forget()

    def run_async(self, *inputs: Any) -> Future[tuple[Array, ...]]:
        """The outputs as a future: the call runs in another thread, beside others, while this one goes on.

        As many run at once as the process or the graph has threads. Inputs must not be written to until theirs is done. What a call would
        raise, `result()` raises.
        """
        return background.submit(max(self._threads or 1, tl.get_threads()), self, *inputs)

    def export(
        self, directory: str | PathLike[str], formats: Sequence[str] = ("a", "h", "weights", "tlbc", "c"), **dims: int
    ) -> dict[str, Path]:
        """Write the graph, for these sizes of its dims, as files for programs without Python, all or none; the paths by format.

        "a" is a static library with one entry, which allocates nothing, "h" its header, "so" a shared library; "weights" are the constants,
        to be mapped; "tlbc" is bytecode, "c" a machine for it in C99. Raises `BuildError` for a folder that cannot be written, an unknown
        format, names that C reserves, and a missing linker, `CallError` for dims that are none.
        """
        return self.assembly(**dims).sequence.export(directory, formats)

    def bytecode(self, /, **dims: int) -> bytes:
        """What a call does, for these sizes of dims, as bytes for `kernels.Machine`. Raises as `export` does."""
        return self.assembly(**dims).sequence.bytecode()

    def save_weights(self, path: str | PathLike[str], **dims: int) -> Path:
        """Write the constants of now as `export` does, for what it wrote before. Raises as `export` does."""
        return self.assembly(**dims).sequence.save_weights(path)

    def assembly(self, /, **dims: int) -> Assembly:
        """What is done for these sizes of dims, made once for each. Raises `CallError` where a dim is missing, unknown or out of range."""
        names = [repr(dim) for dim in self.graph.dims]
        if set(names) != set(dims):
            raise tl.CallError(f"{self.graph.name}: expected the dims {names} by keyword, got {sorted(dims)}")
        for dim in self.graph.dims:
            least, most = dim.dims[repr(dim)]
            if not isinstance(dims[repr(dim)], Integral):
                raise tl.CallError(f"{self.graph.name}: the dim {dim!r} is a whole number, and not {dims[repr(dim)]!r:.60}")
            if not least <= dims[repr(dim)] <= most:
                raise tl.CallError(f"{self.graph.name}: the dim {dim!r} is from {least} to {most}, and not {dims[repr(dim)]}")
        key = tuple(dims[name] for name in names)
        found = self._made.get(key)
        return self._assembled(key, dims) if found is None else found

    def _assembled(self, key: tuple[int, ...], dims: Mapping[str, int]) -> Assembly:
        """What is done for sizes of dims, made by one thread at a time, of weights of one time."""
        with self._making:
            with self._lock:
                graph, steps, count, made = self.graph, self._kernel_steps, self._planned_for, self._made
            found = made.get(key)
            if found is not None:
                return found
            order = ordered(graph, steps, places(graph, dims), dims)
            found = assembled(order, in_turn(order.work) if count == 1 else side_by_side(order.work, count, dims), self._threads)
            with self._lock:
                made[key] = found  # where it was forgotten meanwhile, nobody looks there any more
                while len(made) > SIZES:
                    del made[next(iter(made))]
                if not dims and made is self._made:
                    self._only = found.sequence
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
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="tensorlang graph") as pool:
        steps = list(pool.map(lambda group: _step(group, lying, options), groups(graph, target)))
    return CompiledGraph(graph, steps, threads)


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
    kernel = _kernel(results, operands, strides, {"constants": {value.name: held(group.graph, value) for value in weights}, **options})
    return KernelStep(group, kernel, tuple(value for value in group.inputs if value.name not in names))


def _kernel(results: tuple[tl.Tensor, ...], operands: tuple[tl.Tensor, ...], strides: dict[str, Any], options: dict[str, Any]) -> Any:
    """The kernel for operands with these strides, or, where no array has them, one that copies such operands."""
    if strides:
        try:
            return kernels.compile(results, inputs=operands, strides=strides, **options)
        except tl.DefinitionError:
            pass
    return kernels.compile(results, inputs=operands, **options)
