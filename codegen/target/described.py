"""Descriptions of machines as files: JSON that says which CPU it is for, what of it was measured, and the machine.

A file comes from outside, so nothing in it is believed before it is checked: types by msgspec, names of fields by those that there are,
numbers by what a processor can be, so that no cost model divides by zero. What is wrong is a `BuildError` that names file and field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from tensorlang.errors import BuildError, InternalError, did_you_mean
from tensorlang.schedules.model.machine import Machine
from tensorlang.system import files

MOST: Final = 1 << 16
"""Bytes of a file: a description has two thousand."""
LEVELS: Final = 4
_LONGEST: Final = 1000

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "hertz": (1e8, 1e11),
    "vector_bits": (64, 1 << 14),
    "line": (16, 4096),
    "outstanding": (0.5, 1e4),
    "overlap": (1, 64),
    "registers": (1, 1024),
    "fork": (0, 1),
    "streams": (1, 1024),
    "both": (1, 64), "back": (1, 64),
    "kept": (0, 10),
    "together": (1, 1024),
    "issue": (0.1, 1e3), "arithmetic": (1e-3, 1e3), "loads": (1e-3, 1e3), "stores": (1e-3, 1e3), "shuffles": (1e-3, 1e3),
    "divisions": (1e-4, 1e3), "roots": (1e-4, 1e3), "gathers": (1e-3, 1e4), "narrow": (1, 64), "units": (0, 64),
    "window": (1, 1e5),
    "latency": (0.1, 1e6), "division": (0.1, 1e4), "root": (0.1, 1e4), "shuffle": (0.1, 1e3),
    "bandwidth": (1e-3, 1e5), "streaming": (1e-3, 1e5),
    "entries": (1, 1 << 24),
    "walk": (0, 1e6),
}  # fmt: skip
"""What a field may hold; those that caches and pages both have are below."""
_OF: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "caches": {"size": (1 << 10, 1 << 40), "ways": (1, 1 << 36)},
    "pages": {"size": (1 << 9, 1 << 40), "ways": (0, 1 << 24)},
}
_POWERS: Final = ("vector_bits", "line", "pages.size")

_TOLD: Final = 1e18
"""Larger numbers may be too long to print."""

_Text = Annotated[str, Meta(min_length=1, max_length=_LONGEST)]


class Described(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file: the CPU by its architecture and LLVM name, as the system calls it, when and what was measured, and the machine."""

    schema: Literal[1] = 1
    arch: _Text
    cpu: _Text
    processor: str = ""
    time_unix: Annotated[float, Meta(ge=0)] = 0.0
    measured: tuple[str, ...] = ()
    machine: Machine


def read(path: str | PathLike[str]) -> Described:
    """The description in a file. Raises `BuildError` that says what is wrong with it, and what to do."""
    try:
        with files.opened(path) as file:
            data = file.read(MOST + 1)
    except OSError as error:
        raise BuildError(f"no description of a machine can be read from {str(path)!r}: {error.strerror}; {_ADVICE}") from None
    try:
        return decode(data)
    except ValueError as error:
        raise BuildError(f"{str(path)!r} holds no description of a machine: {error}; {_ADVICE}") from None


_ADVICE: Final = "`autotune calibrate --out FILE` writes one"


def write(described: Described, path: str | PathLike[str]) -> None:
    """Write a description to a file, whole or not at all. Raises `BuildError` where that fails."""
    data = encode(described)
    try:
        with files.replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise BuildError(f"the description cannot be written to {str(path)!r}: {error.strerror}") from None


def encode(described: Described) -> bytes:
    """The bytes of a file."""
    for fault in faults(described.machine):
        raise InternalError(f"a description that cannot be: {fault}")
    return msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n"


def decode(data: bytes) -> Described:
    """The description in the bytes of a file. Raises `ValueError` that names the field."""
    if len(data) > MOST:
        raise ValueError(f"it has more than {MOST:,} bytes")
    try:
        plain = msgspec.json.decode(data)
        found = msgspec.convert(plain, Described)
    except msgspec.ValidationError as wrong:
        reason, _, place = str(wrong).partition(" - at `$")
        raise ValueError(f"{place.strip('`').lstrip('.') or 'the file'}: {reason[:1].lower()}{reason[1:]}") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as wrong:
        raise ValueError(f"it is not JSON: {wrong}") from None
    for fault in (*_unknown(plain["machine"], found.machine, "machine"), *faults(found.machine)):
        raise ValueError(fault)
    return found


def _unknown(plain: Any, value: Any, where: str) -> Iterator[str]:
    """The names in a JSON object that are no fields: a misspelled one would silently have its default."""
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
        for name, inner in plain.items():
            if name not in names:
                yield f"{where}: there is no field {name!r:.60}{did_you_mean(name, names)}"
            else:
                yield from _unknown(inner, getattr(value, name), f"{where}.{name}")
    elif isinstance(value, tuple):
        for place, (one, other) in enumerate(zip(plain, value, strict=True)):
            yield from _unknown(one, other, f"{where}[{place}]")


def faults(machine: Machine) -> Iterator[str]:
    """What a machine cannot be, field by field."""
    if not 1 <= len(machine.caches) <= LEVELS:
        yield f"machine.caches: from 1 to {LEVELS} levels, not {len(machine.caches)}"
    for path, value in leaves(machine):
        of, name = path.partition("[")[0].partition(".")[0], path.rpartition(".")[2]
        if isinstance(value, str):
            if not 0 < len(value) <= _LONGEST:
                yield f"machine.{path}: a text of at most {_LONGEST} characters"
            continue
        least, most = _OF.get(of, {}).get(name) or RANGES[name]
        if not least <= value <= most:  # so NaN is none
            yield f"machine.{path}: from {least:g} to {most:g}, not {value if abs(value) < _TOLD else 'a number beyond all bounds'}"
        elif path in _POWERS and int(value) & (int(value) - 1):
            yield f"machine.{path}: a power of two, not {value}"
    sizes = [cache.size for cache in machine.caches]
    if sizes != sorted(sizes):
        yield f"machine.caches: each level at least as large as the one before, not {sizes}"
    for place, cache in enumerate(machine.caches):
        if cache.size < cache.ways * machine.line:
            yield f"machine.caches[{place}].ways: no more than there are lines"
    if machine.pages.ways > machine.pages.entries:
        yield "machine.pages.ways: no more than there are entries"


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, float | str]]:
    """The numbers and texts of a description, each with the way to it, as `caches[0].size`."""
    if is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), f"{where}.{field.name}" if where else field.name)
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from leaves(part, f"{where}[{place}]")
    else:
        yield where, value
