"""Who runs a model, on one thread: each reads the files of a model, then makes of them a function without arguments that gives arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Final, TypeAlias

from bench.models import files

Call: TypeAlias = Callable[[], Sequence[Any]]
Compile: TypeAlias = Callable[[], Call]
"""What is left to do when files are read."""


LOG: Final = "tuned.jsonl"
"""The log beside a model."""


def tensorlang(folder: Path, log: Path | None = None) -> Compile:
    """Ours, untuned: the graph after folding, images in the order of axes that is estimated faster, by default schedules."""
    from tensorlang.graph import passes  # noqa: PLC0415 - the others are measured without us

    g, inputs = files.graph_of(folder), files.read(folder / "inputs.npz")

    def compiled() -> Call:
        run = passes.apply(g, *files.PASSES).compile(threads=1, passes=(), database=log)
        return lambda: run(*inputs)

    return compiled


def tensorlang_tuned(folder: Path) -> Compile:
    """Ours, with what `tune` has found for the kernels of the model."""
    return tensorlang(folder, folder / LOG)


def tune(folder: Path, minutes: float, trials: int = 48) -> None:
    """Tune a model for `tensorlang tuned`, each kernel with at most so many schedules; a log that is there goes on."""
    from tensorlang.graph import passes  # noqa: PLC0415 - as above

    g = passes.apply(files.graph_of(folder), *files.PASSES)
    g.tune(folder / LOG, trials, threads=1, minutes=minutes, passes=(), progress=lambda kernel: print(f"  {kernel}", flush=True))


def torch_eager(folder: Path) -> Compile:
    """Torch as it is."""
    return _torch(folder, lambda net: net)


def torch_compile(folder: Path) -> Compile:
    """Torch's own compiler, which compiles at the first call."""
    import torch  # noqa: PLC0415 - as above

    return _torch(folder, torch.compile)


def _torch(folder: Path, wrap: Callable[[Any], Any]) -> Compile:
    import torch  # noqa: PLC0415 - as above

    torch.set_num_threads(1)
    name, _, size = folder.name.rpartition("-")
    net, inputs = files.module(name, size)

    def compiled() -> Call:
        run = wrap(net)

        def call() -> Sequence[Any]:
            with torch.no_grad():
                made = run(*inputs)
            return [one.numpy() for one in (made if isinstance(made, tuple) else (made,))]

        return call

    return compiled


def onnxruntime(folder: Path) -> Compile:
    """A session of the ONNX model, which it reads itself."""
    import onnxruntime as library  # noqa: PLC0415 - as above

    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3

    def compiled() -> Call:
        session = library.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
        feeds = dict(zip((one.name for one in session.get_inputs()), files.read(folder / "inputs.npz"), strict=True))

        def call() -> Sequence[Any]:
            made: Sequence[Any] = session.run(None, feeds)
            return made

        return call

    return compiled


def openvino(folder: Path) -> Compile:
    """A request of the ONNX model, which it reads itself, compiled for float32."""
    import openvino as library  # noqa: PLC0415 - as above

    settings = {
        "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }  # fmt: skip

    def compiled() -> Call:
        model = library.Core().compile_model(str(folder / "model.onnx"), "CPU", settings)
        request, inputs = model.create_infer_request(), files.read(folder / "inputs.npz")
        return lambda: list(request.infer(inputs).values())

    return compiled


ENGINES: Final[Mapping[str, Callable[[Path], Compile]]] = {
    "tensorlang": tensorlang,
    "tensorlang tuned": tensorlang_tuned,
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
