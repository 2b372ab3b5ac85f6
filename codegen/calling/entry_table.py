"""What the entry in machine code reads: the words that describe a kernel and its arguments, and IR that loads them.

A table is a sequence of 64-bit words:

    function, slow, failed, passed, inputs, outputs, dims, the function that takes a workspace or 0, the spec of one, the bytes that a call
    on one thread needs of it, those for each further thread, the address of the number of threads,
    the address of the spec of each input and output, the name of each input passed
    spec = the bound array or 0, its place among the inputs that are passed, dtype object, required flags, type in DLPack,
           flags that DLPack may not have, the address of strides or 0, the place of the input that it may lie over or -1,
           itemsize, the type of a NumPy scalar that it may be or 0, ndim,
           (offset, scale, slot, scale of another, its slot, divisor, least, most) for each axis

where strides are in elements, of an argument that does not lie in C order; and an axis has the extent
`(offset + scale * dims[slot] + ...) // divisor`, without a term where its slot is negative. An axis with one dim and the divisor 1 tells
it, from `least` to `most`.
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
_OF_DIMS: Final = ("offset", "scale", "slot", "scale.2", "slot.2", "divisor")
AXIS: Final = (*_OF_DIMS, "least", "most")
TERMS: Final = 2
"""Dims in the extent of an axis, at most."""
SPEC: Final = ("bound", "place", "dtype", "flags", "exchanged", "forbidden", "strides", "over", "itemsize", "scalar", "ndim", "axes")


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


def axis_extent(name: str) -> str:
    """IR that computes an extent from the words of its axis, and from the dims, which are bound."""
    numbers = ", ".join(f"i64 %{part}" for part in _OF_DIMS)
    return f"  %{name} = call i64 @extent({numbers}, ptr %dims)"


def extents() -> str:
    """`extent`: what `axis_extent` calls. One without a second term, or a divisor, is ready after as many tests."""
    return f"""
define internal i64 @extent({", ".join(f"i64 %{part}" for part in _OF_DIMS)}, ptr %dims) alwaysinline {{
start:
  %none = icmp slt i64 %slot, 0
  br i1 %none, label %constant, label %first
constant:
  ret i64 %offset
first:
{word("dim", "i64", "%dims", "%slot")}
  %part = mul i64 %dim, %scale
  %sum = add i64 %part, %offset
  %alone = icmp slt i64 %slot.2, 0
  br i1 %alone, label %summed, label %second
second:
{word("dim.2", "i64", "%dims", "%slot.2")}
  %part.2 = mul i64 %dim.2, %scale.2
  %sum.2 = add i64 %sum, %part.2
  br label %summed
summed:
  %dividend = phi i64 [ %sum, %first ], [ %sum.2, %second ]
  %whole = icmp eq i64 %divisor, 1
  br i1 %whole, label %done, label %divided
done:
  ret i64 %dividend
divided:
  %towards.0 = sdiv i64 %dividend, %divisor
  %rest = srem i64 %dividend, %divisor
  %below = ashr i64 %rest, 63
  %quotient = add i64 %towards.0, %below
  ret i64 %quotient
}}"""


def field(name: str, kind: str, start: str, at: int) -> str:
    """IR that loads a field, `at` bytes from a start."""
    return f"  %{name}.at = getelementptr i8, ptr {start}, i64 {at}\n  %{name} = load {kind}, ptr %{name}.at"


def array_field(name: str, kind: str) -> str:
    """IR that loads a field of the array `%object`."""
    return field(f"array.{name}", kind, "%object", HEADER + FIELDS[name])
