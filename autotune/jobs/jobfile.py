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

A key of a task stands before the same key of the file, and that before the default. Paths are relative to the file. Whatever cannot be
meant is refused before anything is measured, by one line that names the key: a job that runs for days must not find a slip of the pen
in its last task.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Final

from tensorlang import files
from tensorlang.errors import LogError, TuningError, did_you_mean

CACHES: Final = ("warm", "cold")
OBJECTIVES: Final = ("speedup", "latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
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

    @property
    def title(self) -> str:
        """The operator and its extents, as in `matmul M=512,N=512,K=512`."""
        name = self.operator.rpartition(":")[2]
        return " ".join(filter(None, (name, ",".join(f"{extent}={value}" for extent, value in self.shape.items()), self.dtype)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Many tasks and the time they share; `path` is the file, `log` the folder of logs.

    `objective` says what is to gain: `speedup`, the weighted mean of relative gains, or `latency`, the weighted sum of times.
    """

    path: Path
    entries: tuple[Entry, ...]
    log: str = "logs/"
    budget: float | None = None
    objective: str = "speedup"
    workers: int | None = None
    dask: str | None = None


@dataclass(frozen=True, slots=True)
class _Key:
    """What a key takes, in words, and its reader, which raises `ValueError` for anything else."""

    expects: str
    read: Callable[[Any], Any]


def _number(least: float, *, whole: bool = True) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not least <= value < math.inf:
            raise ValueError
        return value

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _one_of(names: tuple[str, ...]) -> _Key:
    def read(value: Any) -> Any:
        if value not in names:
            raise ValueError(did_you_mean(str(value), names))
        return value

    return _Key(" or ".join(f'"{name}"' for name in names), read)


def _strategy(value: Any) -> Any:
    from tensorlang.autotune.search.factory import STRATEGIES  # noqa: PLC0415 - the surrogates' home is not needed to read a file

    return _one_of(STRATEGIES).read(value)


def _length(value: Any) -> float:
    from tensorlang.autotune.settings import seconds  # noqa: PLC0415 - as above

    length = None if isinstance(value, bool) else seconds(value)
    if length is None or not 0 < length < math.inf:
        raise ValueError
    return float(length)


def _shape(value: Any) -> dict[str, int]:
    from tensorlang.autotune.operators import parse_shape  # noqa: PLC0415 - as above

    if isinstance(value, str):
        return parse_shape(value)
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no shape")  # noqa: TRY004 - a value of the file, not of the program
    return {name: _number(0)(extent) for name, extent in value.items()}


def _shapes(value: Any) -> list[dict[str, int]]:
    if not isinstance(value, list) or not value:
        raise ValueError
    return [_shape(shape) for shape in value]


_SHAPE: Final = '{ M = 512, N = 512 } or "M=512,N=512"'
_HOW: Final = {
    "trials": _Key("a whole number from 1", _number(1)),
    "dtype": _Key('a type, as "float32"', _text),
    "threads": _Key("a whole number from 1", _number(1)),
    "cache": _one_of(CACHES),
    "strategy": _Key('"bayesian", "random", "evolutionary" or "grid"', _strategy),
    "seed": _Key("a whole number from 0", _number(0)),
    "timeout": _Key("seconds, more than 0", _number(1e-3, whole=False)),
}
_TASK: Final = {
    "operator": _Key("a name that `autotune ops` lists, or FILE.py:FUNCTION", _text),
    "shape": _Key(_SHAPE, _shape),
    "shapes": _Key(f"a list of shapes, each {_SHAPE}", _shapes),
    "weight": _Key("a number of at least 0.001", _number(1e-3, whole=False)),
    **_HOW,
}
_FILE: Final = {
    "log": _Key('a folder, as "logs/"', _text),
    "budget": _Key('a length of time, as "90s", "30m" or "1h30m"', _length),
    "objective": _one_of(OBJECTIVES),
    "workers": _Key("a whole number from 1", _number(1)),
    "dask": _Key('the address of a scheduler, as "tcp://host:8786"', _text),
    **_HOW,
}  # fmt: skip


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
    given = _checked(file, "", values, _FILE)
    own = {field.name for field in fields_of(Job)}
    common = {name: value for name, value in given.items() if name not in own}
    entries = tuple(entry for place, task in enumerate(tasks, 1) for entry in _entries(file, f"task {place}", task, common))
    log = os.path.join(file.parent, given.pop("log", "logs"), "")  # noqa: PTH118 - a `Path` would lose the separator of a folder
    return Job(path=file, entries=entries, log=log, **{name: value for name, value in given.items() if name in own})


def _entries(file: Path, where: str, values: dict[str, Any], common: dict[str, Any]) -> Iterator[Entry]:
    given = _checked(file, f"{where}: ", values, _TASK)
    if "operator" not in given:
        raise TuningError(f"{file}: {where} has no operator; write {_TASK['operator'].expects}")
    if "shape" in given and "shapes" in given:
        raise TuningError(f"{file}: {where} has both shape and shapes; keep one of them")
    operator = given.pop("operator")
    if ":" in operator or operator.endswith(".py"):
        operator = str(file.parent / operator)
    shape, shapes = given.pop("shape", {}), given.pop("shapes", None)
    for place, one in enumerate([shape] if shapes is None else shapes, 1):
        yield Entry(operator=operator, shape=one, place=where if shapes is None else f"{where}, shape {place}", **common | given)


def _checked(file: Path, where: str, values: dict[str, Any], keys: Mapping[str, _Key]) -> dict[str, Any]:
    """The values as their keys read them."""
    found = {}
    for name, value in values.items():
        key = keys.get(name)
        if key is None:
            hint = did_you_mean(name, keys) or "; known: " + ", ".join(keys)
            raise TuningError(f"{file}: {where}there is no key {name!r}{hint}")
        try:
            found[name] = key.read(value)
        except (ValueError, TuningError) as error:
            raise TuningError(f"{file}: {where}{name} = {value!r:.60}: write {key.expects}{_because(error)}") from None
    return found


def _because(error: Exception) -> str:
    return str(error) if str(error).startswith(";") else f" ({error})" if str(error) else ""
