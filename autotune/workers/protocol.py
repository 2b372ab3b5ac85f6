"""What the tuner and its workers say to one another: a handful of frozen types, checked field by field when they arrive.

    to a worker      Take       the task, once and before all else
                     Build      compile a candidate and give the kernel back
                     Measure    verify and time a candidate
                     Paired     verify several and time them in turns
    from a worker    Hello      it is there
                     Compiling  Running     what it is at, so that the parent can tell which deadline is the right one
                     Outcome    what came of a request

On the way they are JSON, so that a message can be read by anyone; kernels and arrays are bytes that travel beside it (`Blob`), neither
copied into it nor ever unpickled. The same types go to the hosts of a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from tensorlang.autotune.log.status import Failure, Status
from tensorlang.autotune.measurement.arrays import Sample, Spec
from tensorlang.autotune.measurement.host import MachineFields, Software
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import DType, dtype
from tensorlang.schedules.spaces.feasible import Config

Point: TypeAlias = tuple[int, ...]
MOST_TABLE: Final = 1024
"""Bytes of an operand that may be a table of which a strategy looks at what it holds: 128 integers, as many as it takes."""
Message = TypeVar("Message")


class Blob:
    """Bytes beside the text of a message."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blob) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Blob({len(self.data)} bytes)"


class WorkerTask(Struct, frozen=True, kw_only=True):
    """What a worker is told of a task.

    `expected` are the results that candidates are held to, whole or at the points `at`, but for the elements that hang on rounding
    (`unsteady`: for each result an `Unsteady` as bytes; None: none does); `bound` are the operands that `tl.buffer` bound,
    by their place among the arguments. `builder` is `module:function` of what compiles candidates (see `builder`), `cores` are those to
    measure on (None: not chosen yet; none: any), `default` is the configuration whose whole results others are compared with. `measures`
    and `compiles` tell what the worker is for, `constants` are the places of arguments that are packed before anything is timed.
    """

    builder: str
    policy: Policy
    threads: int
    inputs: tuple[Spec, ...]
    results: tuple[Spec, ...]
    expected: tuple[Blob, ...]
    at: tuple[tuple[Point, ...] | None, ...]
    reduction: int
    sample: Sample = "signed"
    seed: int = 0
    unsteady: tuple[Blob | None, ...] = ()
    bound: dict[int, Blob] = {}
    dims: dict[str, int] = {}
    definition: dict[str, Any] = {}
    fingerprint: str = ""
    target: str = "native"
    default: Config | None = None
    cores: tuple[int, ...] | None = None
    measures: bool = True
    compiles: bool = True
    constants: tuple[int, ...] = ()

    def for_builder(self) -> WorkerTask:
        """The same for a process that only compiles: it needs no data but that of tables, which schedules are made for."""
        tables = {place: blob for place, blob in self.bound.items() if len(blob.data) <= MOST_TABLE}
        return msgspec.structs.replace(self, expected=(), unsteady=(), bound=tables, measures=False)

    def for_measurer(self) -> WorkerTask:
        """The same for a process that is sent kernels: it imports the compiler only if it has to build the default all the same."""
        return msgspec.structs.replace(self, compiles=False)


class Candidate(Struct, frozen=True, omit_defaults=True):
    """A point of the space, or a schedule as JSON, which comes first.

    `incumbent` is the best time known, in seconds, beside which a clear loser is given up; `trusted` says that this is the default, with
    which others are compared. `usual` are the seconds of the sentinel where the machine is at its best, as far as that is known.
    """

    config: Config | None = None
    schedule: str | None = None
    incumbent: float | None = None
    trusted: bool = False
    usual: float | None = None


class Take(Struct, frozen=True, tag="take"):
    """Work on this task from now on."""

    task: WorkerTask


class Build(Struct, frozen=True, tag="build"):
    """Compile a candidate; `Facts.kernel` of the outcome has it."""

    candidate: Candidate


class Measure(Struct, frozen=True, tag="measure"):
    """Verify and time a candidate: this kernel, else what the worker builds of it."""

    candidate: Candidate
    kernel: Blob | None = None


class Paired(Struct, frozen=True, tag="paired"):
    """Verify candidates and time them in turns, for about so many seconds; either all bring their kernel or none does."""

    candidates: tuple[Candidate, ...]
    kernels: tuple[Blob, ...] = ()
    seconds: float | None = None

    def __post_init__(self) -> None:
        if len(self.kernels) not in (0, len(self.candidates)):
            raise ValueError("either all candidates bring a kernel or none does")


Request: TypeAlias = Take | Build | Measure | Paired


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a candidate, as far as it has come: seconds to compile, to run and of each sample; operations and bytes of a call.

    `number` is how many calls a sample is the mean of, `sentinel` the seconds of the fixed work beside it, `runs` the number of samples
    from each process, one after the other, `quality` how far the samples can be trusted.
    """

    schedule: str | None = None
    compile_s: float | None = None
    run_s: float | None = None
    flops: float | None = None
    bytes: float | None = None
    samples: tuple[float, ...] = ()
    number: int | None = None
    censored: bool = False
    sentinel: float | None = None
    runs: tuple[int, ...] = ()
    quality: Quality | None = None
    kernel: Blob | None = None

    @property
    def time(self) -> float | None:
        """The least sample."""
        return min(self.samples, default=None)

    def then(self, later: Facts) -> Facts:
        """These, and what became known later, which counts where both say something."""
        said = {name: value for name in self.__struct_fields__ if (value := getattr(later, name)) != getattr(NOTHING, name)}
        return msgspec.structs.replace(self, **said)

    def without_kernel(self) -> Facts:
        """These without the bytes."""
        return msgspec.structs.replace(self, kernel=None)


NOTHING: Final = Facts()


class Hello(Struct, frozen=True, tag="hello"):
    """The worker is there and may be given a task."""

    pid: int


class Compiling(Struct, frozen=True, tag="compiling"):
    """It compiles or loads the candidate at this place of the request."""

    place: int = 0


class Running(Struct, frozen=True, tag="running"):
    """It calls what it compiled, of which this is known."""

    facts: Facts = NOTHING


class Where(Struct, frozen=True):
    """What another host says of itself."""

    machine: MachineFields
    software: Software
    load: float | None


@dataclass(frozen=True, slots=True)
class Spans:
    """When a candidate was built and measured, first and last second of `time.monotonic` on one host; None where it was not."""

    build: tuple[float, float] | None = None
    run: tuple[float, float] | None = None


UNMEASURED: Final = Spans()


class Outcome(Struct, frozen=True, tag="outcome"):
    """What came of a request: a status of the log's ("error": an exception, which means what the phase makes of it), and what is known.

    `place` is that of the candidate that failed, `rows` are the facts of the finalists, `where` is None on this host.
    """

    status: Status | Literal["error"]
    facts: Facts = NOTHING
    error: Failure | None = None
    place: int = 0
    rows: tuple[Facts, ...] = ()
    spans: Spans = UNMEASURED
    where: Where | None = None

    @property
    def why(self) -> str:
        """The status, and the reason if there is one."""
        return self.status if self.error is None else f"{self.status}: {self.error.message}"


Answer: TypeAlias = Hello | Compiling | Running | Outcome


class Function(Struct, frozen=True, tag="function"):
    """To a limited process: the function, `module:name`, that the request behind this is for."""

    name: str


class Returned(Struct, frozen=True, tag="returned"):
    """From a limited process: the answer is behind this, or why there is none: whether the function refused, or memory ran out."""

    error: str | None = None
    refused: bool = False
    memory: bool = False


def encode(message: object) -> tuple[bytes, list[bytes]]:
    """A message as text, and the bytes beside it."""
    beside: list[bytes] = []

    def plain(value: object) -> Any:
        if isinstance(value, Blob):
            beside.append(value.data)
            return len(beside) - 1
        for kind in (str, float, int):  # of NumPy, or a name of a type
            if isinstance(value, kind):
                return kind(value)
        raise NotImplementedError(f"{type(value).__name__} in a message")

    try:
        return msgspec.json.encode(message, enc_hook=plain), beside
    except UnicodeEncodeError:  # half a character, as undecodable file names have: as a record has it
        beside.clear()
        return json.dumps(msgspec.to_builtins(message, enc_hook=plain), ensure_ascii=False).encode(errors="replace"), beside


def decode(kind: type[Message], text: bytes | str, beside: Sequence[bytes] = ()) -> Message:
    """The message of one type. Raises `ValueError` that names the field for anything else."""
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=_reader(beside))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


def read_request(text: bytes | str, beside: Sequence[bytes] = ()) -> Request:
    """What a worker hears. Raises as `decode` does."""
    request: Request = decode(Request, text, beside)  # type: ignore[arg-type] # a union is no type to mypy
    return request


def read_answer(text: bytes | str, beside: Sequence[bytes] = ()) -> Answer:
    """What the tuner hears. Raises as `decode` does."""
    answer: Answer = decode(Answer, text, beside)  # type: ignore[arg-type]
    return answer


def _reader(beside: Sequence[bytes]) -> Callable[[type, Any], Any]:
    def read(kind: type, value: Any) -> Any:
        if kind is Blob and type(value) is int and 0 <= value < len(beside):
            return Blob(beside[value])
        if kind is DType:
            try:
                return dtype(value)
            except DefinitionError:
                pass
        raise ValueError(f"{value!r:.40} is no {kind.__name__}")

    return read
