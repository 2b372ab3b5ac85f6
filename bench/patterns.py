"""Patterns against importing: 50 patterns on a graph of 800 nodes, and what it costs to be told why they do not match.

    python -m bench.patterns

Times are the thread's own, medians of interleaved runs, so that figures of one run compare. Importing is reading the graph's text, and,
where torch is there, `graph.from_torch` of an exported model of as many nodes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from tensorlang import graph
from tensorlang.graph import Builder, Graph, Value, pattern as pm
from tensorlang.graph.pattern import Pattern

LAYERS = 28
ROUNDS = 7
WIDTH, HEADS, ROWS = 16, 2, 8
ACTIVATIONS = ("relu", "gelu", "tanh", "sigmoid", "silu", "hardswish", "exp", "neg")


def transformer(layers: int = LAYERS) -> Graph:
    """A transformer of small extents: 28 nodes a layer, as an exporter writes it."""
    rng = np.random.default_rng(0)
    b = Builder("transformer")
    x = b.input((1, ROWS, WIDTH), name="x")

    def linear(value: Value, width: int) -> Value:
        return b("linear", value, rng.standard_normal((width, int(str(value.shape[-1]))), np.float32), np.zeros(width, np.float32))

    def heads(value: Value) -> Value:
        return b("permute", b("reshape", value, shape=(1, ROWS, HEADS, WIDTH // HEADS)), dims=(0, 2, 1, 3))

    def norm(value: Value) -> Value:
        return b("layer_norm", value, np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32), normalized_shape=(WIDTH,))

    for _ in range(layers):
        query, key, value = (heads(linear(x, WIDTH)) for _ in range(3))
        scores = b("mul", b("matmul", query, b("permute", key, dims=(0, 1, 3, 2))), 0.35)
        mixed = b("permute", b("matmul", b("softmax", scores, dim=-1), value), dims=(0, 2, 1, 3))
        x = norm(b("add", linear(b("reshape", mixed, shape=(1, ROWS, WIDTH)), WIDTH), x))
        inner = linear(x, 2 * WIDTH)
        curve = b("tanh", b("mul", b("add", inner, b("mul", b("pow", inner, 3.0), 0.044715)), 0.7978845))
        x = norm(b("add", linear(b("mul", b("mul", inner, 0.5), b("add", curve, 1.0)), WIDTH), x))
    return b.finish(x)


def patterns() -> list[Pattern]:
    """Fifty patterns as passes and people write them; about half of them match somewhere, the others nearly, or nowhere."""
    bias = pm.Tensor() | pm.Absent()
    linear = pm.Op("linear", args=(pm.Wildcard(), pm.Tensor(constant=True), bias))
    scores = pm.Op("matmul", args=(pm.Wildcard(), pm.Op("permute")))
    made: list[Pattern] = [
        pm.Op("softmax", args=(pm.Op("mul", args=(scores, pm.Tensor(constant=True))),)),
        pm.Op("matmul", args=(pm.Op("softmax", args=(pm.Chain("add", "mul", onto=pm.Op("matmul")),)), pm.Wildcard())),
        pm.Op("layer_norm", args=(pm.Op("add", args=(linear, pm.Wildcard())).shared(), ...)),
        pm.Op("permute", args=(pm.Op("reshape", args=(linear,)),)),
        pm.Op("reshape", args=(pm.Op("permute", args=(pm.Op("matmul"),)),)),
        pm.Op("mul", args=(pm.Op("mul", args=(pm.Wildcard().bind("x"), pm.Tensor(constant=0.5))), pm.Wildcard())),
        pm.Op("tanh", args=(pm.Op("mul", args=(pm.Op("add"), pm.Tensor(constant=True))),)),
        pm.Op("add", args=(pm.Opt(pm.Op("mul")), pm.Tensor(constant=1.0))),
        pm.Op("linear", args=(pm.Op("layer_norm").shared(), ...)) & pm.Tensor(shape=(1, "rows", ...)),
        pm.Op("layer_norm", args=(~pm.Op("add"), ...)),
    ]
    made += [pm.Op(name, args=(pm.Opt(pm.Op("add", args=(linear, pm.Tensor(constant=True)))),)) for name in ACTIVATIONS]
    made += [pm.Op("mul", args=(pm.Op(name).bind("gate"), pm.Wildcard())) for name in ACTIVATIONS]
    made += [pm.Op("add", args=(pm.Op(name, args=(pm.Wildcard().bind("x"), ...)), pm.Wildcard().bind("x"))) for name in ACTIVATIONS]
    made += [pm.Op("linear", args=(pm.Op(name), ...)) for name in ACTIVATIONS]
    made += [pm.Op("softmax", args=(pm.Op("add", args=(scores, pm.Op(name))),)) for name in ACTIVATIONS]
    return made


def figures() -> dict[str, float]:
    """Seconds, medians: the patterns, being told why, and importing."""
    g, several = transformer(), patterns()
    assert len(several) == 50
    assert len(g.nodes) >= 780
    text, constants = g.to_let(), {constant.value.name: constant.array for constant in g.constants}
    ways: dict[str, Callable[[], Any]] = {
        "match": lambda: [len(list(pm.match_all(g, one))) for one in several],
        "explain": lambda: [len(pm.explain(g, one)) for one in several],
        "import": lambda: graph.from_let(text, constants),
    }
    if find_spec("torch"):
        program = _exported()
        ways["from_torch"] = lambda: graph.from_torch(program)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            start = time.thread_time()
            run()
            taken[name].append(time.thread_time() - start)
    return {name: statistics.median(several) for name, several in taken.items()}


def _exported() -> Any:
    import torch  # noqa: PLC0415 - only where it is there

    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).eval()
    return torch.export.export(model, (torch.rand(1, ROWS, WIDTH),)).run_decompositions()


def main() -> int:
    """Print the figures and their ratios; 1 where one is above its goal."""
    found = figures()
    for name, seconds in found.items():
        print(f"{name:12} {seconds * 1e3:8.2f} ms")
    ratios = {"match / import": (found["match"] / found["import"], 0.2), "explain / match": (found["explain"] / found["match"], 10.0)}
    if "from_torch" in found:
        ratios["match / from_torch"] = (found["match"] / found["from_torch"], 0.2)
    for name, (ratio, goal) in ratios.items():
        print(f"{name:20} {ratio:6.2f}  (goal {goal})")
    return int(any(ratio > goal for ratio, goal in ratios.values()))


if __name__ == "__main__":
    sys.exit(main())
