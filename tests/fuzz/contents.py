"""What files hold, how they are mutated with their checksums right, and who reads them.

A subject makes its mutations from a random generator alone, so a mutation is named by the subject, a seed and a number. Reading may raise
`TensorlangError`; anything else is a failure. Machine code is not mutated: what it does cannot be proven, and nothing claims so.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.autotune import operators
from tensorlang.autotune.jobs import jobfile
from tensorlang.codegen.cache import archive
from tensorlang.codegen.calling import sample_operands
from tensorlang.ir.integers import value_of
from tensorlang.schedules.spaces.space import Space
from tensorlang.schedules.strategies import choose
from tensorlang.serialization import canonical, rebuild

from .logs import mutated_log, read_log
from .machines import mutated_machine, read_machine
from .mutate import copied, restructured, shaken, written
from .toml import dumped

OPS: Final = (1, 1, 1, 2, 3)
"""How many mutations are made of one file."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of file: its mutation of a number of steps, and its readers, which get the bytes and a folder of their own."""

    mutated: Callable[[random.Random, list[random.Random]], bytes]
    read: Callable[[random.Random, bytes, Path], None]


# Kernels ---------------------------------------------------------------------------------------------------------------------


@cache
def kernels() -> tuple[bytes, ...]:
    """Saved kernels: of constant shape, of run-time shape, with a fixed operand, with two results."""
    n = tl.dim("n")
    a, b, k = tl.placeholder((12, 20), name="A"), tl.placeholder((20, 9), name="B"), tl.reduce_axis((0, 20), "k")
    product = tl.compute((12, 9), lambda i, j: tl.sum(a[i, k] * b[k, j], k), name="C")
    x, w = tl.placeholder((n, 2 * n + 1), name="x"), tl.buffer(np.arange(6, dtype="i4"), name="w")
    turned = tl.compute((n,), lambda i: tl.exp(x[i, i + 1]), name="y")
    v = tl.placeholder((6,), "int32", name="v")
    fixed = tl.compute((6,), lambda i: v[i] + w[i], name="z")
    one, two = tl.compute((6,), lambda i: v[i] * 2, name="one"), tl.compute((6,), lambda i: v[i] - 3, name="two")
    return tuple(archive.encode(tl.build(outputs).program) for outputs in (product, turned, fixed, (one, two)))


def mutated_kernel(rng: random.Random, steps: list[random.Random]) -> bytes:
    """A kernel whose header or fixed operands changed, its digest right."""
    data = rng.choice(kernels())
    body = data[40:]
    size = int.from_bytes(body[:8], "little")
    head, behind = body[8 : 8 + size], body[8 + size :]
    code = json.loads(head)["object"]
    kind = rng.randrange(10)
    if kind < 7:
        value = json.loads(head)
        for step in steps:
            value = restructured(step, value)
        head = written(value)
        size = len(head)
    for step in steps if kind >= 7 else ():
        if kind == 7:
            head = shaken(step, head)
            size = len(head)
        elif kind == 8:
            behind = behind[:code] + shaken(step, behind[code:])
        else:
            size = step.choice([0, 1, size - 1, size + 1, size + code, len(body), 2**31, 2**63, 2**64 - 1])
    body = size.to_bytes(8, "little") + head + behind
    return archive.MAGIC + hashlib.sha256(body).digest() + body


def read_kernel(rng: random.Random, data: bytes, folder: Path) -> None:
    """Load it, look at it, call it, save it again."""
    path = folder / "k.tlk"
    path.write_bytes(data)
    kernel = tl.load(path)
    _ = (repr(kernel), kernel.signature, kernel.workspace_bytes, kernel.inspect("nest"), kernel.provenance)
    signature = kernel.program.signature
    dims = dict.fromkeys(signature.dims, rng.choice([0, 1, 5]))
    kernel.cost(**dims)
    if rng.random() < 0.01:  # a process of its own looks at the source first
        kernel.inspect("llvm")
    given = [argument for argument in signature.inputs if argument.name not in kernel.program.bound]
    shapes = [tuple(value_of(extent, dims) for extent in argument.shape) for argument in given]
    made = [sample_operands.values(np.random.default_rng(0), shape, of.dtype) for shape, of in zip(shapes, given, strict=True)]
    first, again = kernel(*made, **dims), kernel(*made, **dims)
    for one, other in zip(np.atleast_1d(first), np.atleast_1d(again), strict=True):
        np.testing.assert_array_equal(one, other)
    kernel.save(path)


# Schedules and definitions ---------------------------------------------------------------------------------------------------


@cache
def schedules() -> tuple[tuple[Any, str], ...]:
    """Definitions with schedules, as text."""
    a, b, k = tl.placeholder((24, 32), name="A"), tl.placeholder((32, 40), name="B"), tl.reduce_axis((0, 32), "k")
    product = tl.compute((24, 40), lambda i, j: tl.sum(a[i, k] * b[k, j], k), name="C")
    s = tl.Schedule(product)
    s.split("i", 6)
    s.split("j", 8)
    s.reorder("i_o", "j_o", "k", "i_i", "j_i")
    s.pack("B", at="j_o")
    s.vectorize("j_i")
    s.unroll("i_i")
    x = tl.placeholder((34, 34), name="x")
    rows = tl.compute((34, 32), lambda i, j: x[i, j] + x[i, j + 1] + x[i, j + 2], name="rows")
    blur = tl.compute((32, 32), lambda i, j: rows[i, j] + rows[i + 1, j] + rows[i + 2, j], name="blur")
    t = tl.Schedule(blur)
    t.split("blur.i", 8, tail="shift")
    t.compute_at("rows", "blur.i_o")
    t.vectorize("blur.j")
    t.parallel("blur.i_o")
    found = [(product, s.to_json()), (blur, t.to_json())]
    for outputs in (tl.ops.softmax(tl.placeholder((16, 40), name="x")), tl.ops.conv2d(*_convolution())):
        strategy = choose(outputs, tl.target(), 2)
        found.append((outputs, strategy.schedule(strategy.default).to_json()))
    return tuple(found)


def _convolution() -> tuple[tl.Tensor, tl.Tensor]:
    return tl.placeholder((1, 4, 9, 9), name="x"), tl.placeholder((8, 4, 3, 3), name="w")


def mutated_schedule(rng: random.Random, steps: list[random.Random]) -> bytes:
    """The number of a definition, and a schedule for it."""
    number = rng.randrange(len(schedules()))
    return f"{number} ".encode() + _mutated_text(rng, schedules()[number][1].encode(), steps)


def read_schedule(rng: random.Random, data: bytes, folder: Path) -> None:
    """Replay it; what is accepted prints, and replays from its own text."""
    number, _, text = data.partition(b" ")
    outputs = schedules()[int(number)][0]
    schedule = tl.Schedule.from_json(outputs, text.decode(errors="surrogateescape"))
    assert tl.Schedule.from_json(outputs, schedule.to_json()).directives == schedule.directives
    _ = (str(schedule), repr(schedule))


@cache
def definitions() -> tuple[bytes, ...]:
    """Definitions as records have them."""
    given = [outputs for outputs, _ in schedules()]
    t, u = tl.placeholder((7,), name="t"), tl.placeholder((9,), "int64", name="u")
    given.append(tl.scatter(t, (tl.reduce_axis((0, 9), "r"),), lambda r: (u[r] % 7,), lambda r: tl.cast(u[r], "float32")))
    given.append(tl.scan(lambda time, state: tl.compute((7,), lambda i: state[i] * 2.0 + tl.cast(time, "float32")), t, 5))
    return tuple(json.dumps(canonical.describe(outputs)).encode() for outputs in given)


def mutated_definition(rng: random.Random, steps: list[random.Random]) -> bytes:
    """A definition."""
    return _mutated_text(rng, rng.choice(definitions()), steps)


def read_definition(rng: random.Random, data: bytes, folder: Path) -> None:
    """Rebuild it; what is accepted has names of its own, and a plain nest."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return  # whoever reads the file has refused it
    outputs = rebuild.rebuild(value)
    canonical.fingerprint(outputs)
    str(tl.Schedule(outputs))


def _mutated_text(rng: random.Random, text: bytes, steps: list[random.Random]) -> bytes:
    if rng.random() < 0.15:
        for step in steps:
            text = shaken(step, text)
        return text
    value = json.loads(text)
    for step in steps:
        value = restructured(step, value)
    return written(value)


# Spaces ----------------------------------------------------------------------------------------------------------------------


@cache
def spaces() -> tuple[bytes, ...]:
    """Spaces as records have them: of strategies, and one with every kind of knob."""
    from tensorlang.schedules.spaces.space import Choice, Factors, Flag, Footprint, Log2, Order, Sizes, TileSize

    own = (
        Choice("way", {"none": (), "B": (TileSize("tile", 96), Flag("turned")), "both": (Sizes("few", [1, 3, 5]),)}),
        Choice("depth", [1, 2.5, -3]),
        Factors("parts", 24, 3),
        Log2("lanes", 1, 16),
        Order("order", ("i", "j", "k"), [("i", "k")]),
    )
    found = [Space(own, footprints=(Footprint("tile", ("lanes", "tile"), 64, 1 << 15),))]
    found += [choose(outputs, tl.target(), 2).space for outputs, _ in schedules()]
    return tuple(json.dumps(space.to_json()).encode() for space in found)


def mutated_space(rng: random.Random, steps: list[random.Random]) -> bytes:
    """A space."""
    return _mutated_text(rng, rng.choice(spaces()), steps)


def read_space(rng: random.Random, data: bytes, folder: Path) -> None:
    """Ask it whatever a search asks of a space."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    space = Space.from_json(value)
    _ = (str(space), space.fingerprint, space.columns, space.count)
    drawn = np.random.default_rng(rng.randrange(100))
    points = space.sample(drawn, 4)
    for point in points:
        assert space.contains(point)
        assert np.isfinite(space.encode(point)).all()
        assert all(map(space.contains, space.neighbours(point)[:20]))
        space.project(point)
        space.complete({})
        space.mix(drawn, point, points[0])
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == Space(space.knobs, footprints=space.footprints)


# Jobs ------------------------------------------------------------------------------------------------------------------------

JOBS: Final[tuple[dict[str, Any], ...]] = (
    {
        "log": "logs/", "budget": "30m", "trials": 64, "threads": 1, "objective": "latency", "workers": 2, "seed": 3, "timeout": 2.5,
        "task": [
            {"operator": "matmul", "shapes": [{"M": 8, "N": 8, "K": 8}, "M=4,N=4,K=4"], "weight": 3},
            {"operator": "softmax", "shape": {"M": 16, "N": 16}, "trials": 20, "dtype": "float32", "cache": "cold", "strategy": "random"},
        ],
    },
    {"task": [{"operator": "conv2d", "shape": "N=1,C=4,H=8,W=8,O=4,R=3,S=3,stride=1,padding=1"}]},
)  # fmt: skip


def mutated_job(rng: random.Random, steps: list[random.Random]) -> bytes:
    """A job file."""
    value: Any = copied(rng.choice(JOBS))
    if rng.random() < 0.2:
        data = dumped(value)
        for step in steps:
            data = shaken(step, data)
        return data
    for step in steps:
        value = restructured(step, value)
    return dumped(value)


def read_job(rng: random.Random, data: bytes, folder: Path) -> None:
    """Read it, and define what it names, but for files of programs."""
    path = folder / "jobs.toml"
    path.write_bytes(data)
    for entry in jobfile.read(path).specs:
        _ = entry.title
        if ":" not in entry.operator and not entry.operator.endswith(".py"):
            operators.program(entry.operator, entry.shape, entry.dtype)


SUBJECTS: Final = {
    "kernel": Subject(mutated_kernel, read_kernel),
    "schedule": Subject(mutated_schedule, read_schedule),
    "definition": Subject(mutated_definition, read_definition),
    "space": Subject(mutated_space, read_space),
    "log": Subject(mutated_log, read_log),
    "job": Subject(mutated_job, read_job),
    "machine": Subject(mutated_machine, read_machine),
}


def mutation(subject: str, seed: int, number: int, mask: int | None = None) -> bytes:
    """The bytes of a mutation; with `mask` only of the steps whose bits are set."""
    rng = random.Random(f"{subject} {seed} {number}")
    steps = [random.Random(f"{subject} {seed} {number} {step}") for step in range(rng.choice(OPS))]
    return SUBJECTS[subject].mutated(rng, [step for place, step in enumerate(steps) if mask is None or mask >> place & 1])


def judged(subject: str, seed: int, number: int, mask: int | None = None) -> tuple[str, str] | None:
    """What went wrong with a mutation: its kind, and what was said; None where it was read or refused as it should be."""
    try:
        data = mutation(subject, seed, number, mask)
    except (ValueError, RecursionError, IndexError, KeyError, TypeError, UnicodeError, OverflowError, AttributeError):
        return None  # the mutations do not go together
    with tempfile.TemporaryDirectory(prefix="tl-fuzz-") as folder, contextlib.redirect_stdout(io.StringIO()):
        try:
            SUBJECTS[subject].read(random.Random(f"{number} {seed}"), data, Path(folder))
        except tl.TensorlangError:
            return None
        except BaseException as error:  # noqa: BLE001 - the verdict
            return _told(error)
    return None


def _told(error: BaseException) -> tuple[str, str]:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if "site-packages" not in file.parts and "lib" not in file.parts:
            frames.append(f"{file.name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return (
        f"{type(error).__name__} at {frames[-1] if frames else '?'}",
        f"{type(error).__name__}: {str(error)[:200]} at {'; '.join(frames[-4:])}",
    )
