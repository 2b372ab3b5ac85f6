"""A model as files that each engine reads alone: the graph and its weights, an ONNX model, the inputs, what torch computes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensorlang import graph
from tensorlang.graph import Graph, passes

NAMES: Final = ("resnet50", "mobilenet_v3", "bert", "gpt2")
OPSET: Final = 17
PASSES: Final = (passes.standard, passes.channels_last, passes.winograd)
"""Before we compile: what does not depend on inputs is computed, images lie in the order of axes that is estimated faster."""


def module(name: str, size: str) -> tuple[Any, tuple[Any, ...]]:
    """A model of torch's with the inputs of a call; size is "full" or "small"."""
    from tests.models.zoo import MODELS  # noqa: PLC0415 - torch, which other processes of the bench do without

    made: tuple[Any, tuple[Any, ...]] = getattr(MODELS[name], size)()
    return made


def written(folder: Path, name: str, size: str) -> Path:
    """The folder of a model, with all of its files."""
    import torch  # noqa: PLC0415 - as above

    own = folder / f"{name}-{size}"
    if (own / "model.onnx").exists() and (own / "weights").exists():
        return own
    (own / "weights").mkdir(parents=True, exist_ok=True)
    net, inputs = module(name, size)
    np.savez(own / "inputs.npz", *[one.numpy() for one in inputs])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = net(*inputs)
        np.savez(own / "wanted.npz", *[one.numpy() for one in (wanted if isinstance(wanted, tuple) else (wanted,))])
        g = graph.from_torch(torch.export.export(net, inputs))
        (own / "graph.let").write_text(g.to_let())
        for constant in g.constants:
            np.save(own / "weights" / f"{constant.value.name}.npy", constant.array)
        torch.onnx.export(net, inputs, str(own / "model.onnx"), dynamo=False, opset_version=OPSET)
    return own


def read(file: Path) -> list[np.ndarray[Any, Any]]:
    """The arrays of a file, in order."""
    with np.load(file) as arrays:
        return [arrays[name] for name in arrays.files]


def graph_of(folder: Path) -> Graph:
    """The graph that was written, its weights mapped: what is not read is not in memory, and what was packed need not stay there."""
    weights = {file.stem: np.load(file, mmap_mode="r") for file in sorted((folder / "weights").iterdir())}
    return graph.from_let((folder / "graph.let").read_text(), weights)
