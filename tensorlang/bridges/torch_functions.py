"""A graph of torch's core operators as a function of tensors: all of it as kernels, or the parts that have a translation.

    graph ──▶ nodes without translation, by trying ──▶ parts between them ──▶ a compiled graph each; the other nodes run in torch

Which parts there are is for torch's partitioner to say: none waits for itself. Sizes among arguments and results are extents.
"""

from __future__ import annotations

import logging
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.bridges.torch_frozen import Frozen
from tensorlang.bridges.torch_graphs import Reader, packet
from tensorlang.graph import Graph, Value
from tensorlang.graph.passes import dead_code

Function: TypeAlias = Callable[..., "list[Any]"]

_log: Final = logging.getLogger("tensorlang")
_fallbacks: Final[deque[str]] = deque(maxlen=1000)


def fallbacks() -> tuple[str, ...]:
    """What of this process runs in torch: a reason for each node without translation, or for a graph; the last thousand."""
    return tuple(_fallbacks)


def function(module: Any, examples: Sequence[Any], weights: frozenset[str], torch: Any) -> Function:
    """The function of a graph; `weights` are the inputs by name that are frozen. What cannot be compiled runs in torch."""
    try:
        for example in examples:
            if isinstance(example, torch.Tensor) and example.device.type != "cpu":
                raise tl.GraphError(f"a tensor lies on {example.device}, and kernels run on the CPU")
        failed = _untranslated(module, torch)
        if not failed:
            return _whole(module, weights, torch)
        for reason in failed.values():
            if reason:
                _note("a node", reason)
        return _in_parts(module, failed, weights, torch)
    except tl.TensorlangError as error:
        _note("a graph", str(error))
        forward: Function = module.forward
        return forward


def _note(what: str, reason: str) -> None:
    _fallbacks.append(reason)
    _log.warning("%s of torch.compile runs in torch: %s", what, reason)


def _untranslated(module: Any, torch: Any) -> dict[Any, str]:
    """The nodes without translation, each with its reason, empty for one that takes apart what such a node gives."""
    failed: dict[Any, str] = {}
    while True:
        known = len(failed)
        reader = _reader(module, torch)
        for node in module.graph.nodes:
            if node.op == "call_function":
                _try(reader, node, failed, torch)
        if len(failed) == known:
            return failed


def _try(reader: Reader, node: Any, failed: dict[Any, str], torch: Any) -> None:
    """Read a node; one that fails is a new input to the rest."""
    taken = node.target is operator.getitem
    try:
        if node in failed or (taken and node.args[0] in failed):
            failed.setdefault(node, "")
        else:
            reader.became[node.name] = reader.call(node)
            return
    except tl.TensorlangError as error:
        failed[node] = "" if taken else str(error)
        if taken:  # of several results one has no translation
            failed.setdefault(node.args[0], str(error))
    if packet(node.target) == "aten.as_strided":  # it speaks of memory, which torch alone lays out as it was traced
        for source in _sources(node):
            failed.setdefault(source, "")
    known = node.meta.get("val")
    if isinstance(known, torch.Tensor):
        try:
            reader.input(node, node.name)
        except tl.TensorlangError:  # a type that we do not have: who reads it fails too
            reader.became[node.name] = None
    else:
        reader.became[node.name] = known if isinstance(known, tuple | list) else None


def _sources(node: Any) -> set[Any]:
    """All calls from which a node is computed."""
    found, waiting = set[Any](), list(node.all_input_nodes)
    while waiting:
        source = waiting.pop()
        if source.op == "call_function" and source not in found:
            found.add(source)
            waiting += source.all_input_nodes
    return found


def _in_parts(module: Any, failed: Mapping[Any, str], weights: frozenset[str], torch: Any) -> Function:
    """The graph with its translated parts replaced."""
    infra = import_module("torch.fx.passes.infra.partitioner")

    class Support:
        """What torch's partitioner asks."""

        def is_node_supported(self, _: Any, node: Any) -> bool:
            """Has a node a translation?"""
            return node.op == "call_function" and node not in failed

    fused = infra.CapabilityBasedPartitioner(module, Support(), allows_single_node_partition=True).partition_and_fuse()
    for node in list(fused.graph.nodes):
        if node.op != "call_module":
            continue
        part = getattr(fused, node.target)
        run = function(part, (), weights, torch)
        (results,) = next(one.args for one in part.graph.nodes if one.op == "output")
        made = torch.nn.Module()
        made.forward = run if isinstance(results, tuple | list) or run == part.forward else _single(run)
        setattr(fused, node.target, made)
    fused.recompile()
    forward: Function = fused.forward
    return forward


def _single(run: Function) -> Callable[..., Any]:
    return lambda *arguments: run(*arguments)[0]


def _reader(module: Any, torch: Any) -> Reader:
    """A reader that knows the inputs, and what the graph holds."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    reader = Reader(torch, "compiled", _bounds(inputs, torch))
    for node in inputs:
        if isinstance(node.meta.get("val"), torch.Tensor):
            reader.input(node, node.name)
    for node in inputs:
        if node.name not in reader.became:
            known = node.meta.get("val")
            reader.became[node.name] = reader.extent(known) if isinstance(known, torch.SymInt | int) else None
    for node in module.graph.nodes:
        if node.op == "get_attr":
            held = operator.attrgetter(node.target)(module)
            if not isinstance(held, torch.Tensor):
                raise tl.GraphError(f"{node.name}: what the graph holds is a {type(held).__name__}, and no tensor")
            with import_module("torch._subclasses.fake_tensor").unset_fake_temporarily():  # it holds elements, whatever is traced
                reader.became[node.name] = reader.builder.constant(array(held, torch).copy(), node.name)
    return reader


def _whole(module: Any, weights: frozenset[str], torch: Any) -> Function:
    """A graph of which every node has a translation. Raises `TensorlangError`."""
    reader = _reader(module, torch)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node in module.graph.nodes:
        if node.op == "call_function":
            reader.became[node.name] = reader.call(node)
    (given,) = next(node.args for node in module.graph.nodes if node.op == "output")
    results = list(given) if isinstance(given, tuple | list) else [given]
    places = {node.name: place for place, node in enumerate(inputs)}
    made = [entry.name for entry in results if entry is not None and isinstance(reader.became[entry.name], Value)]
    computed = [name for name in made if name not in places]
    sizes = Sizes(inputs, reader, torch)
    if not computed:
        return lambda *arguments: [_other(entry, reader, places, arguments, sizes) for entry in results]
    graph = dead_code(reader.builder.finish(*(reader.became[name] for name in computed)))
    passed = [(place, node.name) for place, node in enumerate(inputs) if isinstance(node.meta.get("val"), torch.Tensor)]
    call = _caller(graph, passed, weights, torch)
    repeated = {entry.name: _repeated(entry.meta.get("val"), torch) for entry in results if entry is not None and entry.name in computed}

    def run(*arguments: Any) -> list[Any]:
        values = iter(call(arguments))
        return [
            tensor(_laid(next(values), repeated[entry.name]), torch)
            if entry is not None and entry.name in repeated
            else _other(entry, reader, places, arguments, sizes)
            for entry in results
        ]

    return run


def _repeated(known: Any, torch: Any) -> tuple[int, ...]:
    """The axes along which torch has a result repeat what lies in memory once; it makes a view of an input anew by how we lay it out."""
    strides = known.stride() if isinstance(known, torch.Tensor) else ()
    return tuple(axis for axis, step in enumerate(strides) if isinstance(step, int) and step == 0)


def _laid(made: Any, repeated: Sequence[int]) -> Any:
    strides = tuple(0 if axis in repeated else step for axis, step in enumerate(made.strides))
    return np.lib.stride_tricks.as_strided(made, strides=strides) if repeated else made


def _caller(graph: Graph, passed: Sequence[tuple[int, str]], weights: frozenset[str], torch: Any) -> Callable[[Sequence[Any]], Any]:
    """The compiled graph as a function of the arguments that torch passes."""
    fixed = [(place, value.name) for (place, name), value in zip(passed, graph.inputs, strict=True) if name in weights]
    free = [place for place, name in passed if name not in weights]
    if not fixed:
        compiled = graph.compile()
        return lambda arguments: compiled(*(array(arguments[place], torch) for place in free))
    frozen = Frozen(graph, [name for _, name in fixed], torch, array)
    held = [place for place, _ in fixed]
    return lambda arguments: frozen([arguments[place] for place in held])(*(array(arguments[place], torch) for place in free))


class Sizes:
    """What the dims of a graph are at a call: told by the arguments, tensors or numbers."""

    def __init__(self, inputs: Sequence[Any], reader: Reader, torch: Any) -> None:
        self._shown = dict(self._found(inputs, reader, torch))

    @staticmethod
    def _found(inputs: Sequence[Any], reader: Reader, torch: Any) -> Iterator[tuple[str, tuple[int, int | None]]]:
        for place, node in enumerate(inputs):
            known = node.meta.get("val")
            extents = reader.became[node.name].shape if isinstance(known, torch.Tensor) else (reader.became[node.name],)
            for axis, extent in enumerate(extents):
                if isinstance(extent, tl.Dim) and repr(extent) in extent.dims:
                    yield repr(extent), (place, axis if isinstance(known, torch.Tensor) else None)

    def at(self, extent: Any, arguments: Sequence[Any]) -> Any:
        """An extent at a call."""
        if not isinstance(extent, tl.Dim):
            return extent
        found = {name: self._shown[name] for name in extent.dims}
        return extent.at(
            **{name: int(arguments[place] if axis is None else arguments[place].shape[axis]) for name, (place, axis) in found.items()}
        )


def _other(entry: Any, reader: Reader, places: Mapping[str, int], arguments: Sequence[Any], sizes: Sizes) -> Any:
    """A result that no kernel makes: nothing, an argument, a tensor that the graph holds, a size."""
    if entry is None or not hasattr(entry, "name"):
        return entry
    return arguments[places[entry.name]] if entry.name in places else sizes.at(reader.became[entry.name], arguments)


def _bounds(inputs: Sequence[Any], torch: Any) -> Callable[[Any], Any]:
    """The ranges of sizes, as torch's environment of shapes has them."""
    found = [node.meta["val"] for node in inputs if "val" in node.meta]
    sizes = [size for one in found for size in ((one,) if isinstance(one, torch.SymInt) else getattr(one, "shape", ()))]
    environment: Any = next((size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)), None)
    return lambda symbol: environment.var_to_range[symbol]


def array(given: Any, torch: Any) -> Any:
    """The elements of a tensor, without a copy."""
    found = given.detach()
    if found.dtype == torch.bfloat16:
        return found.view(torch.int16).numpy().view(tl.dtype("bfloat16").numpy)
    return found.resolve_conj().resolve_neg().numpy()


def tensor(made: Any, torch: Any) -> Any:
    """A new array as a tensor, without a copy."""
    if made.dtype == tl.dtype("bfloat16").numpy:
        return torch.from_numpy(made.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(made)
