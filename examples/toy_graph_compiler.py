"""A graph compiler on the public names of `tensorlang.kernels`: fused, compiled once for each key, packed, planned, and run beside NumPy.

A node that `kernels.access` calls pointwise goes into the kernel of what it reads, where nobody else reads that and `kernels.estimate` says
that it pays. Kernels with one key share code, whatever their weights. Intermediate results lie in one piece of memory, planned beforehand.

    python examples/toy_graph_compiler.py
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import kernels

LINE = 64
WEIGHT = {"matmul": "B", "conv2d": "w"}
EXPRESSIONS: Mapping[str, Callable[..., Any]] = {  # by elements; a vector is read along the channels, axis 1
    "bias": lambda value, b: value + b, "add": lambda value, other: value + other, "relu": lambda value: tl.maximum(value, 0.0),
}  # fmt: skip
OWN = {"mean": lambda x: tl.einsum("nchw->nc", tl.compute(x.shape, lambda *i: x[i] / math.prod(x.shape[2:])))}  # not in the library


@dataclass(frozen=True)
class Node:
    """An operator by name, what it reads by name, and its attributes; its result bears its name."""

    name: str
    operator: str
    reads: tuple[str, ...]
    attributes: Mapping[str, Any]


class Graph:
    """Nodes, each after what it reads, the last of which is the result; the shapes of all values; the weights."""

    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self.inputs, self.shapes, self.nodes = tuple(inputs), dict[str, Any](inputs), list[Node]()
        self.weights: dict[str, Any] = {}

    def node(self, name: str, operator: str, *reads: str, **attributes: Any) -> str:
        """A node at the end; whether there is a kernel of it is asked now."""
        asked = self.asked(node := Node(name, operator, reads, attributes))
        if isinstance(asked, kernels.Spec) and not (verdict := kernels.supports(asked)):
            raise SystemExit(f"{name}: {verdict.reason}")
        self.nodes.append(node)
        self.shapes[name] = asked.define().shape if isinstance(asked, kernels.Spec) else asked.shape
        return name

    def asked(self, node: Node) -> Any:
        """What `kernels` is asked for where a node is alone: an operator of the library, or a definition."""
        if node.operator not in EXPRESSIONS and node.operator not in OWN:
            return kernels.Spec(node.operator, [self.shapes[name] for name in node.reads], attributes=node.attributes)
        operands = [tl.placeholder(self.shapes[name], name=name) for name in node.reads]
        if node.operator in OWN:
            return OWN[node.operator](*operands)
        return tl.compute(operands[0].shape, lambda *axes: EXPRESSIONS[node.operator](*(at(operand, axes) for operand in operands)))


def at(tensor: Any, axes: tuple[Any, ...]) -> Any:
    """The element of an operand that belongs to a place."""
    return tensor[axes] if len(tensor.shape) == len(axes) else tensor[axes[1]]


class Group:
    """Nodes that are one kernel: the first, and pointwise ones through which its result goes."""

    def __init__(self, graph: Graph, *nodes: Node) -> None:
        self.graph, self.nodes, self.result = graph, nodes, nodes[-1].name
        inside = [node.name for node in nodes]
        beside = list(dict.fromkeys(name for node in nodes[1:] for name in node.reads if name not in inside))
        others = {name: tl.placeholder(graph.shapes[name]) for name in beside}
        self.reads = [*nodes[0].reads, *beside]
        fixed = (WEIGHT[nodes[0].operator],) if nodes[0].operator in WEIGHT and nodes[0].reads[1] in graph.weights else ()

        def after(value: Any, *axes: Any) -> Any:
            for node in nodes[1:]:
                value = EXPRESSIONS[node.operator](*(at(others[name], axes) if name in others else value for name in node.reads))
            return value

        self.asked = graph.asked(nodes[0])
        self.options: dict[str, Any] = {"epilogue": after if nodes[1:] else None, "constants": fixed}
        self.seconds = kernels.estimate(self.asked, "native", **self.options).seconds


def fuse(graph: Graph) -> list[Group]:
    """The nodes as groups, in an order in which they can run: that of their last nodes."""
    users = {name: sum(name in node.reads for node in graph.nodes) for name in graph.shapes}
    groups: dict[str, Group] = {}  # by result
    for node in graph.nodes:
        made, access = Group(graph, node), kernels.access(graph.asked(node))
        for read in access.stages[-1].reads if access.kind == "pointwise" else ():
            if made.nodes == (node,) and read.relation == "same" and read.tensor in groups and users[read.tensor] == 1:
                longer = Group(graph, *groups[read.tensor].nodes, node)
                if longer.seconds <= groups[read.tensor].seconds + made.seconds:
                    made = longer
                    del groups[read.tensor]
        groups[node.name] = made
    return list(groups.values())


def plan(graph: Graph, groups: Sequence[Group]) -> tuple[dict[str, int], int]:
    """Where each result lies, and the bytes of all: the largest first, each at the lowest place that is free as long as it is read."""
    steps = {group.result: step for step, group in enumerate(groups)}
    last = {name: max([step for step, group in enumerate(groups) if name in group.reads], default=len(groups)) for name in steps}
    sizes = {name: -(-4 * math.prod(graph.shapes[name]) // LINE) * LINE for name in steps}
    places: dict[str, int] = {}
    for name in sorted(steps, key=lambda name: -sizes[name]):
        place = 0
        for other in sorted(places, key=places.__getitem__):
            if steps[other] <= last[name] and steps[name] <= last[other] and place + sizes[name] > places[other]:
                place = max(place, places[other] + sizes[other])
        places[name] = place
    return places, max(places[name] + sizes[name] for name in steps)


class Compiled:
    """A graph as bound calls on memory that is there once; what a run gives is valid until the next one."""

    def __init__(self, graph: Graph) -> None:
        self.groups = fuse(graph)
        places, self.bytes = plan(graph, self.groups)
        memory = np.zeros(self.bytes, np.uint8)
        self.values = graph.weights | {name: np.zeros(graph.shapes[name], np.float32) for name in graph.inputs}
        for name, place in places.items():
            self.values[name] = memory[place:].view(np.float32)[: math.prod(graph.shapes[name])].reshape(graph.shapes[name])
        self.keys = [kernels.key(group.asked, "native", threads=1, **group.options) for group in self.groups]
        distinct = {key: (group.asked, group.options) for key, group in zip(self.keys, self.groups, strict=True)}
        built = dict(zip(distinct, kernels.compile_many(distinct.values(), workers=2, threads=1), strict=True))
        self.calls: list[Callable[[], Any]] = []
        for key, group in zip(self.keys, self.groups, strict=True):
            packed = {name: self.values[group.reads[1]] for name in group.options["constants"]}  # noqa: C420 - others may have one operand
            arguments = [self.values[name] for place, name in enumerate(group.reads) if not (packed and place == 1)]
            kernel = built[key].prepack(**packed) if packed else built[key]
            self.calls.append(kernel.bind(*arguments, out=self.values[group.result]))

    def __call__(self, **inputs: Any) -> Any:  # noqa: D102 - the class says it
        for name, array in inputs.items():
            self.values[name][...] = array
        return [call() for call in self.calls][-1]


def windows(x: Any, w: Any) -> Any:
    """A convolution with padding 1 in NumPy."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.einsum("nchwrs,ocrs->nohw", np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3)), w, optimize=True)


NUMPY: Mapping[str, Callable[..., Any]] = {
    "matmul": np.matmul, "conv2d": windows, "add": np.add, "relu": lambda x: np.maximum(x, 0),
    "bias": lambda x, b: x + b.reshape(-1, *[1] * (x.ndim - 2)),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), "mean": lambda x: x.mean((2, 3)),
}  # fmt: skip


def network() -> Graph:
    """Two residual blocks and two layers above them, with random weights."""
    rng, graph = np.random.default_rng(0), Graph(image=(4, 16, 28, 28))

    def weight(name: str, *shape: int) -> str:
        graph.shapes[name], graph.weights[name] = shape, rng.standard_normal(shape, np.float32) / math.sqrt(math.prod(shape[1:]))
        return name

    value = before = "image"
    for n in range(4):
        before = before if n % 2 else value
        value = graph.node(f"conv{n}", "conv2d", value, weight(f"w{n}", 16, 16, 3, 3), padding=1)
        value = graph.node(f"bias{n}", "bias", value, weight(f"b{n}", 16))
        value = graph.node(f"sum{n}", "add", value, before) if n % 2 else value
        value = graph.node(f"relu{n}", "relu", value)
    scores = graph.node("scores", "matmul", graph.node("mean", "mean", value), weight("last", 16, 10))
    graph.node("classes", "softmax", graph.node("shifted", "bias", scores, weight("offsets", 10)))
    return graph


def main() -> Compiled:
    """Compile the network, run it beside NumPy, compare, and print what was done."""
    graph, image = network(), np.random.default_rng(1).random((4, 16, 28, 28), np.float32)
    compiled, values, best = Compiled(graph), graph.weights | {"image": image}, [math.inf, math.inf]
    for _ in range(5):
        start = time.perf_counter()
        for node in graph.nodes:
            values[node.name] = NUMPY[node.operator](*(values[name] for name in node.reads))
        middle = time.perf_counter()
        np.testing.assert_allclose(compiled(image=image), values["classes"], rtol=1e-4, atol=1e-6)
        best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]  # of one thread
    for key, group in zip(compiled.keys, compiled.groups, strict=True):
        print(f"{key[:8]}  {group.seconds * 1e6:6.1f} us  {' + '.join(node.operator for node in group.nodes)}")
    apart = sum(values[node.name].nbytes for node in graph.nodes)
    print(f"{len(graph.nodes)} nodes, {len(compiled.groups)} kernels, {len(set(compiled.keys))} keys")
    print(f"{compiled.bytes} bytes of results, not {apart}; NumPy {best[0] * 1e3:.2f} ms, kernels {best[1] * 1e3:.2f} ms")
    return compiled


if __name__ == "__main__":
    main()
