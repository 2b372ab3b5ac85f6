"""Who runs a model: each makes a function without arguments from the files of a model, on one thread, and gives the outputs as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Final, TypeAlias

from bench.models import files

Call: TypeAlias = Callable[[], Sequence[Any]]


def tensorlang(folder: Path) -> Call:
    """Ours, untuned: the graph after folding, by default schedules."""
    from tensorlang.graph import passes  # noqa: PLC0415 - the others are measured without us

    g = passes.apply(files.graph_of(folder), passes.fold_constants, passes.common_subexpressions, passes.fold_batch_norm)
    compiled, inputs = g.compile(threads=1), files.read(folder / "inputs.npz")
    del g
    return lambda: compiled(*inputs)


def torch_eager(folder: Path) -> Call:
    """Torch as it is."""
    return _torch(folder, lambda net: net)


def torch_compile(folder: Path) -> Call:
    """Torch's own compiler."""
    import torch  # noqa: PLC0415 - as above

    return _torch(folder, torch.compile)


def _torch(folder: Path, wrap: Callable[[Any], Any]) -> Call:
    import torch  # noqa: PLC0415 - as above

    torch.set_num_threads(1)
    name, _, size = folder.name.rpartition("-")
    net, inputs = files.module(name, size)
    run = wrap(net)

    def call() -> Sequence[Any]:
        with torch.no_grad():
            made = run(*inputs)
        return [one.numpy() for one in (made if isinstance(made, tuple) else (made,))]

    return call


def onnxruntime(folder: Path) -> Call:
    """A session of the ONNX model."""
    import onnxruntime as library  # noqa: PLC0415 - as above

    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = library.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    feeds = dict(zip((one.name for one in session.get_inputs()), files.read(folder / "inputs.npz"), strict=True))

    def call() -> Sequence[Any]:
        made: Sequence[Any] = session.run(None, feeds)
        return made

    return call


def openvino(folder: Path) -> Call:
    """A request of the ONNX model, compiled for float32."""
    import openvino as library  # noqa: PLC0415 - as above

    settings = {
        "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }  # fmt: skip
    compiled = library.Core().compile_model(str(folder / "model.onnx"), "CPU", settings)
    request, inputs = compiled.create_infer_request(), files.read(folder / "inputs.npz")
    return lambda: list(request.infer(inputs).values())


ENGINES: Final[Mapping[str, Callable[[Path], Call]]] = {
    "tensorlang": tensorlang,
    "torch": torch_eager,
    "torch compile": torch_compile,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def missing(name: str) -> str | None:
    """Why an engine cannot take part, if it cannot."""
    if name == "torch compile" and not any(which(compiler) for compiler in ("g++", "c++", "clang++")):
        return "no C++ compiler is there"
    library = name.partition(" ")[0]
    return None if find_spec(library) else f"{library} is not installed"
