"""What the entry in machine code reads: the words that describe a kernel and its arguments, and IR that loads them.

A table is a sequence of 64-bit words:

    function, slow, failed, passed, inputs, outputs, dims, the function that takes a workspace or 0, the spec of one, the bytes that a call
    on one thread needs of it, those for each further thread, the address of the number of threads,
    the address of the spec of each input and output, the name of each input passed
    spec = the bound array or 0, its place among the inputs that are passed, dtype object, required flags, type in DLPack,
           flags that DLPack may not have, the address of strides or 0, the place of the input that it may lie over or -1,
           itemsize, ndim, (scale, offset, slot, least, most) for each axis

where strides are in elements, of an argument that does not lie in C order; and an axis has the extent
`scale * dims[slot] + offset`, or `offset` where its slot is negative; a dim is from `least` to `most`.
"""

from __future__ import annotations

from typing import Final

HEADER: Final = object.__basicsize__
"""Size of the head of every Python object; its type is the last word of it."""

FIELDS: Final = {"data": 0, "ndim": 8, "shape": 16, "strides": 24, "dtype": 40, "flags": 48}
"""Where NumPy's C interface puts the fields of an array, in bytes after the head."""

WORDS: Final = (
    "function", "slow", "failed", "passed", "inputs", "outputs", "dims", "within", "workspace", "single", "share", "counter", "specs",
)  # fmt: skip
AXIS: Final = ("scale", "offset", "slot", "least", "most")
SPEC: Final = ("bound", "place", "dtype", "flags", "exchanged", "forbidden", "strides", "over", "itemsize", "ndim", "axes")


def word(name: str, kind: str, table: str, at: int | str) -> str:
    """IR that loads word `at` of a table."""
    return f"  %{name}.at = getelementptr i64, ptr {table}, i64 {at}\n  %{name} = load {kind}, ptr %{name}.at"


def table_word(name: str, kind: str) -> str:
    """IR that loads a word of the table of a kernel."""
    return word(name, kind, "%table", WORDS.index(name))


def spec_word(name: str, kind: str) -> str:
    """IR that loads a word of the spec of an argument."""
    return word(name, kind, "%spec", SPEC.index(name))


def axis_words() -> str:
    """IR that loads the description of axis `%axis` of a spec."""
    parts = [f"  %{name}.word = add i64 %axis.start, {SPEC.index('axes') + at}" for at, name in enumerate(AXIS)]
    words = [word(name, "i64", "%spec", f"%{name}.word") for name in AXIS]
    return "\n".join([f"  %axis.start = mul i64 %axis, {len(AXIS)}", *parts, *words])


def field(name: str, kind: str, start: str, at: int) -> str:
    """IR that loads a field, `at` bytes from a start."""
    return f"  %{name}.at = getelementptr i8, ptr {start}, i64 {at}\n  %{name} = load {kind}, ptr %{name}.at"


def array_field(name: str, kind: str) -> str:
    """IR that loads a field of the array `%object`."""
    return field(f"array.{name}", kind, "%object", HEADER + FIELDS[name])
