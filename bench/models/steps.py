"""The kernels of a model beside the same operators in torch: which ones lose the most time.

    python -m bench.models.steps FOLDER

Values are those that torch computes, so every kernel is called with operands as they lie in the model, on one thread, in turn with torch's
functions of the same names. A group of nodes is one kernel of ours and several calls of torch.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.models import files
from tensorlang.graph import CompiledGraph, Graph, Node, operator
from tensorlang.graph.execution.steps import KernelStep

ROUNDS = 7
LAST = "_channels_last"
F: Any = torch.nn.functional


@dataclass(frozen=True)
class Row:
    """A kernel: what it computes, of what, how often, microseconds of ours and of torch."""

    group: str
    shapes: str
    count: int
    ours: float
    theirs: float

    @property
    def lost(self) -> float:
        """Microseconds that torch takes less, in the whole model."""
        return self.count * (self.ours - self.theirs)


def function(node: Node) -> Callable[..., Any]:
    """Torch's function of a node, by the canonical name."""
    attributes: dict[str, Any] = dict(node.attributes)
    match node.operator:
        case "slice":
            dim = attributes["dim"]
            part = slice(attributes["start"], attributes["end"], attributes["step"])
            return lambda x: x[(slice(None),) * dim + (part,)]
        case "expand":
            return lambda x: x.expand(attributes["shape"])
        case "cat":
            return lambda *tensors: torch.cat(tensors, attributes["dim"])
        case "to":
            return lambda x: x.to(getattr(torch, attributes["dtype"]))
    if node.operator.endswith(LAST):
        layer = getattr(F, node.operator.removesuffix(LAST))
        return lambda image, *weights: _first(layer, image, weights, attributes)
    found = getattr(F, node.operator, None) or getattr(torch, node.operator)
    names = [one.name for one in operator(node.operator).operands]
    layer = hasattr(F, node.operator) and len(names) > 1
    return lambda *tensors: found(**dict(zip(names, tensors, strict=True)), **attributes) if layer else found(*tensors, **attributes)


def _first(layer: Callable[..., Any], image: Any, weights: tuple[Any, ...], attributes: Mapping[str, Any]) -> Any:
    """A layer of an image with channels last, seen as torch has it: with channels first, lying as they do."""
    turned = [one.permute(3, 2, 0, 1) if one is not None and one.ndim == image.ndim else one for one in weights]
    return layer(image.permute(0, 3, 1, 2), *turned, **attributes).permute(0, 2, 3, 1).contiguous()


def values(g: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """All values of a graph, by torch."""
    made = dict(inputs) | {constant.value.name: torch.from_numpy(constant.array) for constant in g.constants}
    for node in g.nodes:
        result = function(node)(*(None if value is None else made[value.name] for value in node.inputs))
        made |= zip((value.name for value in node.results), result if isinstance(result, tuple) else (result,), strict=True)
    return made


def rows(compiled: CompiledGraph, inputs: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each different kernel, by the text of its group and the types of its operands."""
    known = values(compiled.graph, inputs)
    same: dict[tuple[str, str], list[KernelStep]] = defaultdict(list)
    for step in compiled.steps:
        if isinstance(step, KernelStep):
            shapes = " ".join("x".join(map(str, value.shape)) for node in step.group.nodes for value in node.read if value.shape)
            same[str(step.group), shapes].append(step)
    for (group, shapes), steps in same.items():
        ours, theirs = _pair(steps[0], known)
        yield Row(group, shapes, len(steps), ours, theirs)


def _pair(step: KernelStep, known: Mapping[str, Any]) -> tuple[float, float]:
    arrays = [known[value.name].numpy() for value in step.operands]
    out = step.kernel(*arrays)
    call = step.kernel.bind(*arrays, out=out)
    parts = [
        (function(node), [None if one is None else one.name for one in node.inputs], node.results[0].name) for node in step.group.nodes
    ]

    def theirs() -> None:
        made: dict[str, Any] = {}
        for run, operands, result in parts:
            made[result] = run(*(None if name is None else made.get(name, known[name]) for name in operands))

    with torch.no_grad():
        once = _spent(call, 1), _spent(theirs, 1)
        times = max(1, round(0.003 / max(*once, 1e-6)))
        pairs = [(_spent(call, times), _spent(theirs, times)) for _ in range(ROUNDS)]
    ours, other = (1e6 * statistics.median(column) for column in zip(*pairs, strict=True))
    return ours, other


def _spent(call: Callable[[], object], times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - start) / times


def table(folder: Path) -> str:
    """The rows, those that lose the most first."""
    torch.set_num_threads(1)
    compiled = files.graph_of(folder).compile(threads=1, passes=files.PASSES)
    inputs = dict(
        zip((value.name for value in compiled.graph.inputs), map(torch.from_numpy, files.read(folder / "inputs.npz")), strict=True)
    )
    found = sorted(rows(compiled, inputs), key=lambda row: -row.lost)
    lines = ["| kernel | operands | times | ours, us | torch, us | ratio | lost, ms |", "| --- | --- | --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row.group} | {row.shapes} | {row.count} | {row.ours:.0f} | {row.theirs:.0f} | {row.ours / max(row.theirs, 1e-9):.2f} "
        f"| {row.lost / 1e3:.2f} |"
        for row in found
    ]
    ours, theirs = sum(row.count * row.ours for row in found) / 1e3, sum(row.count * row.theirs for row in found) / 1e3
    return "\n".join([*lines, "", f"{folder.name}: {ours:.1f} ms in kernels, torch {theirs:.1f} ms in the same operators"])


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
