"""A kernel as one file of C99: its lowered nest, and the entries that the header declares.

It needs no C library but what `extern` declares in it: the functions of mathematics, and `malloc` and `free` for the default of the
allocation hook. The same tests stand before the nest as in machine code (`interface`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.signature import c_name, c_type
from tensorlang.codegen.export import header
from tensorlang.codegen.export.c_entries import entries
from tensorlang.codegen.export.c_expression import literal
from tensorlang.codegen.export.c_helpers import Helpers
from tensorlang.codegen.export.c_statement import Writer
from tensorlang.codegen.export.interface import Interface
from tensorlang.codegen.lowering.lower import lower
from tensorlang.errors import BuildError
from tensorlang.ir.dtype import dtype

_NAME: Final = re.compile(r"\bt\d+_\b")  # `int32_t` holds t32_
_MADE: Final = re.compile(r" *const \w+ (t\d+_) = ")
_ARRAY: Final = re.compile(r"( +)\w+ (\w+)(?:\[\d+\])+(?: = \{0\})?;")
MOST_BOUND: Final = 1 << 16
"""Elements of fixed operands that a source spells."""


def source(program: Program, interface: Interface, declarations: str) -> str:
    """The text of a C file; `declarations` is the header, or the line that includes it. Raises `BuildError`."""
    if program.origin is None:
        raise BuildError(f"the kernel {interface.name!r} cannot be written as C: it was read from a file without its definition")
    nest = lower(program.origin.nest, program.target)
    helpers = Helpers()
    writer = Writer(helpers)
    for dim in nest.dims:
        writer.names[":" + dim] = writer.name(dim)
    called = dict(zip((buffer.name for buffer in (*nest.inputs, *nest.outputs)), (*interface.all_inputs, *interface.outputs), strict=True))
    for name, argument in called.items():
        place = f"tensorlang_data_{c_name(argument.name)}" if argument.name in interface.bound else writer.name(argument.name)
        writer.places[name] = (place, True)
    writer.nest(nest)
    lines = _marked(_used(writer.lines))
    fails = "end" in writer.used
    words = {argument.name: writer.places[name][0] for name, argument in called.items()}
    spoken = set(re.findall(r"\w+", "\n".join(lines)))
    unread = [word for word in (*words.values(), *(writer.names[":" + dim] for dim in interface.dims)) if word not in spoken]
    lines = [*(f"  (void){word};" for word in unread), *lines]
    body = ["  int32_t status = 0;", *lines, "end:", "  return status;"] if fails else [*lines, "  return 0;"]
    parameters = [*header.pointers(interface, words, "restrict "), *(f"int64_t {writer.names[':' + dim]}" for dim in interface.dims)]
    kernel = [f"static int32_t tensorlang_kernel_{interface.name}({', '.join(parameters) or 'void'}) {{", *body, "}"]
    checked = entries(program, interface, helpers)
    first = f"/* {interface.name}: C99 of a kernel of tensorlang. With -ffp-contract=off results do not depend on the compiler. */"
    externals, functions = helpers.needed_by("\n".join([*kernel, checked]))
    parts = [first, declarations.rstrip(), *externals, *_hooks(fails), *functions, *_bound(interface), *kernel, checked, ""]
    return "\n".join(parts)


def _used(lines: list[str]) -> list[str]:
    """Without the constants that nothing reads: an index may have been simplified after a part of it was named."""
    words = Counter(word for line in lines for word in _NAME.findall(line))
    kept = []
    for line in reversed(lines):
        made = _MADE.match(line)
        if made is not None and words[made[1]] == 1:
            words.subtract(_NAME.findall(line))
        else:
            kept.append(line)
    return kept[::-1]


def _marked(lines: list[str]) -> list[str]:
    """With a word for the compiler where an array is stored to and not read: what read it came to nothing."""
    found = []
    for place, line in enumerate(lines):
        found.append(line)
        declared = _ARRAY.fullmatch(line)
        if declared is not None and not any(_reads(later, declared[2]) for later in _inside(lines[place + 1 :], declared[1])):
            found.append(f"{declared[1]}(void){declared[2]};")
    return found


def _inside(lines: list[str], pad: str) -> Iterator[str]:
    """The first lines, as long as they stand at least as far to the right."""
    for line in lines:
        if line.startswith(" ") and not line.startswith(pad):
            return
        yield line


def _reads(line: str, name: str) -> bool:
    """Does a line speak of an array but to store to it?"""
    found = re.search(rf"\b{name}\b", line)
    if found is None:
        return False
    target, equals, value = line.strip().partition(" = ")
    return not (equals and target.startswith(f"{name}[")) or re.search(rf"\b{name}\b", value) is not None


def _bound(interface: Interface) -> list[str]:
    """Fixed operands as constants. Raises `BuildError` for too many elements."""
    if sum(array.size for array in interface.bound.values()) > MOST_BOUND:
        raise BuildError(
            f"the kernel {interface.name!r} cannot be written as C: its fixed operands have more than {MOST_BOUND:,} elements; "
            "export the kernel that takes them as arguments"
        )
    found = []
    for name, array in sorted(interface.bound.items()):
        kind = dtype(array.dtype)
        values = ", ".join(literal(value.item() if kind != "bfloat16" else float(value), kind).text for value in np.ravel(array)) or "0"
        found.append(f"static const {c_type(kind)} tensorlang_data_{c_name(name)}[] = {{{values}}};")
    return found


_WEAK: Final = "#ifdef __GNUC__\n__attribute__((weak))\n#endif"
_ALLOCATION: Final = f"""\
extern void *malloc(size_t);
extern void free(void *);
{_WEAK}
void *tensorlang_allocate(int64_t bytes, int64_t alignment) {{
  char *base = 0;
  void *memory;
  int64_t room = alignment + (int64_t)sizeof base;
  if (bytes >= 0 && (uint64_t)(bytes + room) <= SIZE_MAX / 2) base = malloc((size_t)(bytes + room));
  if (base == 0) return 0;
  memory = (void *)(((uintptr_t)base + (uintptr_t)room) & ~(uintptr_t)(alignment - 1));
  ((char **)memory)[-1] = base;
  return memory;
}}
{_WEAK}
void tensorlang_release(void *memory) {{
  free(((void **)memory)[-1]);
}}"""
_ERROR: Final = f"""\
{_WEAK}
void tensorlang_error(const char *kernel, int32_t error, const char *argument) {{
  (void)kernel, (void)error, (void)argument;
}}"""


def _hooks(allocates: bool) -> list[str]:
    return ["#include <stddef.h>", _ALLOCATION, _ERROR] if allocates else [_ERROR]
