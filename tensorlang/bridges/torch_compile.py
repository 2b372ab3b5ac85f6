"""`torch.compile(model, backend="tensorlang")`: graphs that torch traces, compiled as ours.

Torch gives functional graphs of its core operators, forward and backward ones apart, with parameters among the inputs: they are passed at
each call, so a model that is trained on is the model that runs. Sizes that vary are dims, so one graph serves them. A graph with a node
that has no translation runs in torch; `fallbacks()` says why.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.packages import required
from tensorlang.bridges.torch_graphs import Reader
from tensorlang.graph import Value
from tensorlang.graph.passes import dead_code

_log: Final = logging.getLogger("tensorlang")
_fallbacks: Final[deque[str]] = deque(maxlen=1000)


def fallbacks() -> tuple[str, ...]:
    """Why graphs of this process run in torch, one reason for each, the last thousand."""
    return tuple(_fallbacks)


def backend(module: Any, examples: Sequence[Any], *, options: Any = None) -> Any:
    """The backend that torch finds by its entry point. Raises `BuildError` for options, of which there are none."""
    required("torch", "torch")
    if options:
        raise tl.BuildError(f"the backend 'tensorlang' has no options, and {options!r:.60} was given")
    common = import_module("torch._dynamo.backends.common")
    return common.aot_autograd(fw_compiler=_compiled)(module, examples)


def _compiled(module: Any, examples: Sequence[Any]) -> Any:
    """A graph of core operators as a function that takes and gives lists; in torch where ours cannot."""
    boxed = import_module("functorch.compile").make_boxed_func
    torch = required("torch", "torch")
    try:
        for example in examples:
            if isinstance(example, torch.Tensor) and example.device.type != "cpu":
                raise tl.GraphError(f"a tensor lies on {example.device}, and kernels run on the CPU")
        return boxed(_function(module, torch))
    except tl.TensorlangError as error:
        _fallbacks.append(str(error))
        _log.warning("a graph of torch.compile runs in torch: %s", error)
        return boxed(module.forward)


def _function(module: Any, torch: Any) -> Callable[..., list[Any]]:
    """The function of a graph. Raises `TensorlangError` for what has no translation."""
    nodes = list(module.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    reader = Reader(torch, "compiled", _bounds(inputs, torch))
    places = [place for place, node in enumerate(inputs) if isinstance(node.meta.get("val"), torch.Tensor)]
    for place in places:
        reader.input(inputs[place], inputs[place].name)
    for node in nodes:
        if node.op == "placeholder" and node.name not in reader.became:
            reader.became[node.name] = reader.extent(node.meta["val"])
        elif node.op == "call_function":
            reader.became[node.name] = reader.call(node)
        elif node.op == "get_attr":
            raise tl.GraphError(f"{node.name}: a tensor that the graph holds has no translation")
    (results,) = next(node.args for node in nodes if node.op == "output")
    given = {node.name: place for place, node in enumerate(inputs)}
    made = [entry for entry in results if entry is not None and entry.name not in given]
    for entry in made:
        if not isinstance(reader.became[entry.name], Value):
            raise tl.GraphError(f"{entry.name}: a result that is no tensor has no translation")
    graph = dead_code(reader.builder.finish(*(reader.became[entry.name] for entry in made)))
    compiled = graph.compile()

    def run(*arguments: Any) -> list[Any]:
        arrays = iter(compiled(*(_array(arguments[place], torch) for place in places)))
        return [
            None if entry is None else arguments[given[entry.name]] if entry.name in given else _tensor(next(arrays), torch)
            for entry in results
        ]

    return run


def _bounds(inputs: Sequence[Any], torch: Any) -> Callable[[Any], Any]:
    """The ranges of sizes, as torch's environment of shapes has them."""
    found = [node.meta["val"] for node in inputs if "val" in node.meta]
    sizes = [size for one in found for size in ((one,) if isinstance(one, torch.SymInt) else getattr(one, "shape", ()))]
    environment: Any = next((size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)), None)
    return lambda symbol: environment.var_to_range[symbol]


def _array(tensor: Any, torch: Any) -> Any:
    """The elements of a tensor, without a copy."""
    found = tensor.detach()
    if found.dtype == torch.bfloat16:
        return found.view(torch.int16).numpy().view(tl.dtype("bfloat16").numpy)
    return found.resolve_conj().resolve_neg().numpy()


def _tensor(array: Any, torch: Any) -> Any:
    """A new array as a tensor, without a copy."""
    if array.dtype == tl.dtype("bfloat16").numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
