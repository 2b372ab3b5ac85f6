"""`python -m tensorlang.graph`: a model from a file, run, tuned, or searched for a pattern.

Exit codes: 0 it ran, or the pattern matches; 1 the model or its inputs are refused, or nothing matches; 2 wrong usage (one line on
stderr); 130 stopped. A model is an `.onnx` file, or a program that `torch.export.save` wrote, whose name ends in `.pt2`.
"""

from __future__ import annotations

import inspect
import runpy
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
import typer

import tensorlang as tl
from tensorlang import graph
from tensorlang.errors import TensorlangError, did_you_mean
from tensorlang.graph import Graph, Value, passes, pattern as pm
from tensorlang.graph.ir import dims_in

Arrays: TypeAlias = "list[np.ndarray[Any, Any]]"

_FOLDING: Final = (passes.fold_constants, passes.common_subexpressions, passes.fold_batch_norm)
"""What is done to a model before it is compiled, or tuned."""
CALLS: Final = 20
"""Calls that are timed."""
_HELP: Final = {"help_option_names": ["-h", "--help"]}
_PARSER_ERROR: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What the command-line parser raises; typer has moved its home between versions."""
app = typer.Typer(
    add_completion=False, context_settings=_HELP, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False
)


class Usage(Exception):  # noqa: N818 - not a fault
    """The command was not used as it is meant."""


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file, or a .pt2 file of torch.export.save.")]
SizesOption = Annotated[list[str] | None, typer.Option("--dim", metavar="NAME=N", help="The size of a dim.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of each kernel.")]


@app.callback()
def _command() -> None:
    """Models as graphs: run one, tune its kernels, or ask where a pattern matches and why not."""


@app.command()
def run(
    model: ModelArgument,
    inputs: Annotated[list[Path] | None, typer.Option("--input", metavar="X.npy", help="An input, in order; without any, drawn.")] = None,
    sizes: SizesOption = None,
    threads: ThreadsOption = None,
    database: Annotated[Path | None, typer.Option("--database", metavar="LOG", help="What `tune` has written.")] = None,
    timed: Annotated[bool, typer.Option("--time", help=f"The median of {CALLS} calls too.")] = False,
    save: Annotated[Path | None, typer.Option("--save", metavar="OUT.npz", help="Where the outputs are written, by name.")] = None,
) -> None:
    """Compile a model, call it, and say what it gives."""
    began = time.perf_counter()
    g = passes.apply(_loaded(model), *_FOLDING)
    arrays = _given(g, inputs, _sizes(sizes or [])) if inputs else _drawn(g, _sizes(sizes or []))
    compiled = g.compile(threads=threads, database=database)
    _say(f"{g.name}: {len(g.nodes)} nodes, {len(compiled.kernels)} kernels, compiled in {time.perf_counter() - began:.1f} s")
    results = compiled(*arrays)
    for value, array in zip(g.outputs, results, strict=True):
        _say(f"{value.name}: {value.dtype}{list(array.shape)}{_range(array)}")
    if timed:
        wall, processor = _times(lambda: compiled(*arrays))
        _say(f"time of a call: {wall:.3f} ms, {processor:.3f} ms of processor (medians of {CALLS})")
    if save is not None:
        named = {value.name: array for value, array in zip(g.outputs, results, strict=True)}
        try:
            with save.open("wb") as file:
                np.savez(file, **named)  # type: ignore[arg-type]  # names of outputs are arrays' here
        except OSError as error:
            raise Usage(f"{save} cannot be written: {error.strerror}") from None


@app.command()
def tune(
    model: ModelArgument,
    log: Annotated[Path, typer.Option("--log", metavar="LOG", help="The log, for `run --database`; one that is there goes on.")],
    trials: Annotated[int, typer.Option("--trials", min=1, help="Schedules of each kernel.")] = 64,
    minutes: Annotated[float | None, typer.Option("--minutes", help="The time for all of them.")] = None,
    sizes: SizesOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Tune the kernels of a model, those first that take most of its time."""
    g = passes.apply(_loaded(model), *_FOLDING)
    dims = _chosen(g, _sizes(sizes or []))
    found = g.tune(log, trials, threads=threads, minutes=minutes, dims=dims, progress=lambda kernel: _say(str(kernel)))
    _say(f"{g.name}: {len(found)} kernels tuned, {sum(kernel.share for kernel in found):.0%} of the time predicted; {log}")


@app.command()
def explain(
    model: ModelArgument,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN.py[:NAME]", help="A file with a function of the pattern module.")],
    most: Annotated[int, typer.Option("--most", min=1, help="Near misses that are shown.")] = 5,
) -> None:
    """Say where a pattern matches, or which part of it does not, what was expected there and what was found."""
    asked = _pattern(pattern)
    g = _loaded(model)
    matches = list(pm.match_all(g, asked))
    for match in matches:
        _say(f"match: {', '.join(node.label for node in match.nodes)}")
    if not matches:
        found = pm.explain(g, asked)
        lines = str(found).splitlines()
        _say("\n".join(lines[: most + 1]))
        raise typer.Exit(1)
    _say(f"{g.name}: {len(matches)} {'match' if len(matches) == 1 else 'matches'}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    try:
        code = app(list(arguments) if arguments is not None else None, standalone_mode=False, prog_name="python -m tensorlang.graph") or 0
    except (typer.Exit, SystemExit) as end:
        code = getattr(end, "exit_code", getattr(end, "code", 0)) or 0
    except Usage as error:
        code = _complain(str(error), 2)
    except TensorlangError as error:
        code = _complain(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = _complain("stopped", 130)
    except _PARSER_ERROR as error:
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        code = _complain(text.rstrip("."), 2)
    sys.exit(code)


def _loaded(path: Path) -> Graph:
    """The graph of a file. Raises `Usage` for one that cannot be read, `GraphError` for a model without translation."""
    if not path.is_file():
        raise Usage(f"there is no file {path}")
    module, load = {".onnx": ("onnx", "load"), ".pt2": ("torch.export", "load")}.get(path.suffix, ("", ""))
    if not module:
        raise Usage(f"a model is a file that ends in .onnx or .pt2, not {path.name}")
    extra = module.partition(".")[0]
    try:
        library = import_module(module)
    except ImportError:
        raise Usage(f"to read {path.name}, {extra} is needed; python -m pip install 'tensorlang[{extra}]' brings it") from None
    try:
        read = getattr(library, load)(str(path))
    except Exception as error:  # whatever a reader of foreign files raises
        raise Usage(f"{path} cannot be read as a model of {extra}: {type(error).__name__}: {error!s:.200}") from error
    return graph.from_onnx(read) if module == "onnx" else graph.from_torch(read)


def _sizes(words: Sequence[str]) -> dict[str, int]:
    made = {}
    for word in words:
        name, _, number = word.partition("=")
        if not name or not number.isdigit():
            raise Usage(f"--dim takes NAME=NUMBER, not {word!r:.60}")
        made[name] = int(number)
    return made


def _given(g: Graph, files: Sequence[Path], sizes: Mapping[str, int]) -> Arrays:
    """Arrays from files. Raises `Usage`."""
    if sizes:
        raise Usage("--dim is for inputs that are drawn, and --input was given")
    arrays = []
    for value, path in zip(g.inputs, files, strict=False):
        try:
            arrays.append(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise Usage(f"--input {path} for {value} cannot be read as an array: {error!s:.200}") from None
    if len(files) != len(g.inputs):
        raise Usage(f"{g.name} takes {len(g.inputs)} inputs ({', '.join(map(str, g.inputs))}), and --input was given {len(files)} times")
    return arrays


def _drawn(g: Graph, sizes: Mapping[str, int]) -> Arrays:
    """Normal numbers for floating point, 0 and 1 for all else; a dim is as small as it may be, and at least 1. Raises `Usage`."""
    chosen, rng = _chosen(g, sizes), np.random.default_rng(0)
    return [_one(value, chosen, rng) for value in g.inputs]


def _chosen(g: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    """The size of every dim: what was asked for, else the least, and at least 1. Raises `Usage`."""
    bounds = dims_in(value.shape for value in g.inputs)
    for name, size in sizes.items():
        if name not in bounds:
            raise Usage(f"the inputs of {g.name} have no dim {name!r}{did_you_mean(name, bounds)}")
        if not bounds[name][0] <= size <= bounds[name][1]:
            raise Usage(f"the dim {name} is from {bounds[name][0]} to {bounds[name][1]}, and not {size}")
    return {name: sizes.get(name, max(1, least)) for name, (least, _) in bounds.items()}


def _one(value: Value, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = tuple(
        extent.at(**{name: sizes[name] for name in extent.dims}) if isinstance(extent, tl.Dim) else extent for extent in value.shape
    )
    drawn = rng.standard_normal(shape) if value.dtype.is_floating else rng.integers(0, 2, shape)
    return np.asarray(drawn).astype(value.dtype.numpy)


def _range(array: np.ndarray[Any, Any]) -> str:
    if not array.size:
        return ""
    numbers = array.astype(np.float64)
    return f", {numbers.min():.6g} to {numbers.max():.6g}, mean {numbers.mean():.6g}"


def _times(call: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of a call by the clock, and of processor in all threads: medians."""
    samples = []
    for _ in range(CALLS):
        wall, processor = time.perf_counter(), time.process_time()
        call()
        samples.append((time.perf_counter() - wall, time.process_time() - processor))
    wall, processor = (statistics.median(column) for column in zip(*samples, strict=True))
    return 1e3 * wall, 1e3 * processor


def _pattern(asked: str) -> Callable[..., Any]:
    """The function of a file. Raises `Usage`."""
    file, _, name = asked.partition(":")
    path = Path(file)
    if not path.is_file():
        raise Usage(f"there is no file {path}")
    try:
        made = runpy.run_path(str(path))
    except Exception as error:  # the user's own file
        raise Usage(f"{path} cannot be run: {type(error).__name__}: {error!s:.200}") from error
    own = {
        label: value
        for label, value in made.items()
        if inspect.isfunction(value) and value.__code__.co_filename == str(path) and not label.startswith("_")
    }
    if name:
        if name not in own:
            raise Usage(f"{path} has no function {name!r}{did_you_mean(name, own)}")
        return own[name]
    if len(own) != 1:
        raise Usage(f"{path} has {len(own)} functions; name one, as {path}:NAME" + (f" ({', '.join(own)})" if own else ""))
    (only,) = own.values()
    return only


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _complain(text: str, code: int) -> int:
    sys.stderr.write(f"tensorlang.graph: {' '.join(text.split())}\n")
    return code


if __name__ == "__main__":
    main()
