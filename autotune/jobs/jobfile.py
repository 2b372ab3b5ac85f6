"""A batch of tuning tasks, as a TOML file says it.

    log = "logs/"                       # one file for each task; the checkpoint: running the job again measures what is missing
    budget = "30m"                      # for all tasks together, spread by expected gain; without it `trials` is the bound
    trials = 64                         # for each task at most, those in the log included
    threads = 1

    [[task]]
    operator = "matmul"                 # a name that `autotune ops` lists
    shapes = [{ M = 512, N = 512, K = 512 }, "M=1024,N=1024,K=1024"]
    weight = 3                          # its gain counts three times

    [[task]]
    operator = "my_ops.py:my_operator"  # a function that returns tensors, or a dict of them: the kernels of a model, a task each
    shape = { n = 4096 }
    trials = 200
    target = "x86-64-v3"                # a CPU whose instructions this machine has; without it this machine's own
    constants = ["weight"]              # operands that stay fixed: packed before anything is timed

A key of a task stands before the same key of the file, and that before the default. Paths are relative to the file. Whatever cannot be
meant is refused before anything is measured, by one line that names the key: a job that runs for days must not find a slip of the pen
in its last task.
"""

from __future__ import annotations

import math
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields as fields_of
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.operators import parse_shape
from tensorlang.autotune.search.factory import Strategy
from tensorlang.autotune.settings import Cache, seconds
from tensorlang.errors import LogError, TuningError, did_you_mean
from tensorlang.system import files

Objective: TypeAlias = Literal["speedup", "latency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One program to tune: an operator at one shape (its defaults for what `shape` does not say), and how.

    `weight` is how much its gain counts, `None` stands for the default of `tune`, `place` says where in the file it is.
    """

    operator: str
    shape: Mapping[str, int]
    place: str
    weight: float = 1.0
    trials: int = 64
    dtype: str | None = None
    threads: int | None = None
    cache: str | None = None
    strategy: str | None = None
    seed: int | None = None
    timeout: float | None = None
    target: str | None = None
    constants: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The operator and its extents, as in `matmul M=512,N=512,K=512`."""
        name = self.operator.rpartition(":")[2]
        fixed = f"constants={','.join(self.constants)}" if self.constants else ""
        shape = ",".join(f"{extent}={value}" for extent, value in self.shape.items())
        return " ".join(filter(None, (name, shape, self.dtype, self.target, fixed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Many tasks and the time they share; `path` is the file, `log` the folder of logs.

    `objective` says what is to gain: `speedup`, the weighted mean of relative gains, or `latency`, the weighted sum of times.
    """

    path: Path
    specs: tuple[TaskSpec, ...]
    log: str = "logs/"
    budget: float | None = None
    objective: Objective = "speedup"
    workers: int | None = None
    dask: str | None = None


class _Length(float):
    """Seconds, written as a number or as "30m"."""


class _Shape(dict[str, int]):
    """Extents by name, written as a table or as "M=512,N=512"."""


_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
_Positive: TypeAlias = Annotated[int, Meta(ge=1)] | Annotated[float, Meta(ge=1e-3, le=sys.float_info.max)]
_OPERATOR: Final = "a name that `autotune ops` lists, or FILE.py:FUNCTION"
_SHAPE: Final = '{ M = 512, N = 512 } or "M=512,N=512"'


class _How(Struct):
    """Keys of the file and of a task. The description of a type is what its error says to write."""

    trials: Annotated[_Count, Meta(description="a whole number from 1")]
    dtype: Annotated[_Text, Meta(description='a type, as "float32"')]
    threads: Annotated[_Count, Meta(description="a whole number from 1")]
    cache: Annotated[Cache, Meta(description='"warm" or "cold"')]
    strategy: Annotated[Strategy, Meta(description='"bayesian", "uninformed", "random", "evolutionary" or "grid"')]
    seed: Annotated[int, Meta(ge=0, description="a whole number from 0")]
    timeout: Annotated[_Positive, Meta(description="seconds, more than 0")]
    target: Annotated[_Text, Meta(description='a CPU, as "x86-64-v3"')]
    constants: Annotated[list[_Text], Meta(description='a list of operands that stay fixed, as ["w"]')]


class _OfTask(Struct):
    """Keys of a task alone."""

    operator: Annotated[_Text, Meta(description=_OPERATOR)]
    shape: Annotated[_Shape, Meta(description=_SHAPE)]
    shapes: Annotated[list[_Shape], Meta(min_length=1, description=f"a list of shapes, each {_SHAPE}")]
    weight: Annotated[_Positive, Meta(description="a number of at least 0.001")]


class _OfFile(Struct):
    """Keys of the file alone."""

    log: Annotated[_Text, Meta(description='a folder, as "logs/"')]
    budget: Annotated[_Length, Meta(description='a length of time, as "90s", "30m" or "1h30m"')]
    objective: Annotated[Objective, Meta(description='"speedup" or "latency"')]
    workers: Annotated[_Count, Meta(description="a whole number from 1")]
    dask: Annotated[_Text, Meta(description='the address of a scheduler, as "tcp://host:8786"')]


def read(path: str | os.PathLike[str]) -> Job:
    """The job in a file.

    Raises `TuningError` that names the file, the key and what to write instead; `LogError` if the file cannot be read.
    """
    file = Path(path)
    try:
        values = tomllib.loads(files.contents(file).decode())
    except FileNotFoundError:
        raise TuningError(f"there is no job file {file}") from None
    except OSError as error:
        raise LogError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also digits beyond Python's limit
        raise TuningError(f"{file} is not TOML: {error}") from None
    tasks = values.pop("task", None)
    if not isinstance(tasks, list) or not tasks or not all(isinstance(task, dict) for task in tasks):
        hint = did_you_mean("task", values) if tasks is None else ""
        raise TuningError(f'{file} has no tasks{hint}; write [[task]] and below it operator = "matmul"')
    given = _checked(file, "", values, _OfFile, _How)
    own = {field.name for field in fields_of(Job)}
    common = {name: value for name, value in given.items() if name not in own}
    specs = tuple(spec for place, task in enumerate(tasks, 1) for spec in _specs(file, f"task {place}", task, common))
    log = os.path.join(file.parent, given.pop("log", "logs"), "")  # noqa: PTH118 - a `Path` would lose the separator of a folder
    return Job(path=file, specs=specs, log=log, **{name: value for name, value in given.items() if name in own})


def _specs(file: Path, where: str, values: JsonObject, common: JsonObject) -> Iterator[TaskSpec]:
    given = _checked(file, f"{where}: ", values, _OfTask, _How)
    if "operator" not in given:
        raise TuningError(f"{file}: {where} has no operator; write {_OPERATOR}")
    if "shape" in given and "shapes" in given:
        raise TuningError(f"{file}: {where} has both shape and shapes; keep one of them")
    operator = given.pop("operator")
    if ":" in operator or operator.endswith(".py"):
        operator = str(file.parent / operator)
    shape, shapes = given.pop("shape", {}), given.pop("shapes", None)
    for place, one in enumerate([shape] if shapes is None else shapes, 1):
        yield TaskSpec(operator=operator, shape=one, place=where if shapes is None else f"{where}, shape {place}", **common | given)


def _checked(file: Path, where: str, values: JsonObject, *keys: type[Struct]) -> JsonObject:
    """The values, each as the type of its key has it."""
    found, known = {}, {key.name: key.type for some in keys for key in msgspec.structs.fields(some)}
    for name, value in values.items():
        kind = known.get(name)
        if kind is None:
            hint = did_you_mean(name, known) or "; known: " + ", ".join(known)
            raise TuningError(f"{file}: {where}there is no key {name!r}{hint}")
        try:
            read = msgspec.convert(value, kind, dec_hook=_length_or_shape)
            found[name] = float(read) if isinstance(read, _Length) else read
        except (msgspec.ValidationError, TuningError) as error:
            because = f" ({error})" if isinstance(error, TuningError) else did_you_mean(str(value), _names(kind))
            raise TuningError(f"{file}: {where}{name} = {value!r:.60}: write {_expected(kind)}{because}") from None
    return found


def _length_or_shape(kind: type, value: Any) -> Any:
    """A length of time or a shape, of the ways in which they may be written."""
    if kind is _Shape:
        if not isinstance(value, str | dict):
            raise TuningError(f"{value!r} is no shape")
        return _Shape(parse_shape(value) if isinstance(value, str) else msgspec.convert(value, dict[str, Annotated[int, Meta(ge=0)]]))
    length = None if isinstance(value, bool) else seconds(value)
    if length is None or not 0 < length < math.inf:
        raise ValueError
    return _Length(length)


def _expected(kind: Any) -> str:
    """What to write for a type."""
    return next(str(meta.description) for meta in reversed(kind.__metadata__) if meta.description)


def _names(kind: Any) -> tuple[str, ...]:
    """What a type can be, where it is one of several names."""
    (inner, *_) = get_args(kind)
    return get_args(inner) if get_origin(inner) is Literal else ()
