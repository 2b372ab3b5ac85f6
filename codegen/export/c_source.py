"""A kernel as one file of C99: its lowered nest, and the entries that the header declares.

It needs no C library but what `extern` declares in it: the functions of mathematics, and `malloc` and `free` for the default of the
allocation hook. The same tests stand before the nest as in machine code (`interface`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Final

import numpy as np

from tensorlang.algebra.bounds import Bounds
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.signature import c_name, c_type
from tensorlang.codegen.export import header, metadata
from tensorlang.codegen.export.c_expression import PREFIX, Scope, Text, literal
from tensorlang.codegen.export.c_helpers import Helpers
from tensorlang.codegen.export.c_statement import Writer
from tensorlang.codegen.export.interface import Interface, dlpack_type, holds_elements
from tensorlang.codegen.lowering.lower import lower
from tensorlang.errors import BuildError
from tensorlang.ir import Const, Expr
from tensorlang.ir.dtype import dtype

_NAME: Final = re.compile(r"t\d+_")
_MADE: Final = re.compile(r" *const \w+ (t\d+_) = ")
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
    for buffer in (*nest.inputs, *nest.outputs):
        place = f"tensorlang_{c_name(buffer.name)}" if buffer.name in interface.bound else writer.name(buffer.name)
        writer.places[buffer.name] = (place, True)
    writer.nest(nest)
    lines = _used(writer.lines)
    fails = "end" in writer.used
    body = ["  int32_t status = 0;", *lines, "end:", "  return status;"] if fails else [*lines, "  return 0;"]
    words = {argument.name: writer.places[argument.name][0] for argument in interface.arguments}
    parameters = [*header.pointers(interface, words, "restrict "), *(f"int64_t {writer.names[':' + dim]}" for dim in interface.dims)]
    kernel = [f"static int32_t tensorlang_{interface.name}({', '.join(parameters) or 'void'}) {{", *body, "}"]
    entries = _entries(program, interface, helpers)
    first = f"/* {interface.name}: C99 of a kernel of tensorlang. With -ffp-contract=off results do not depend on the compiler. */"
    externals, functions = helpers.needed_by("\n".join([*kernel, entries]))
    parts = [first, declarations.rstrip(), *externals, *_hooks(fails), *functions, *_bound(interface), *kernel, entries, ""]
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
        found.append(f"static const {c_type(kind)} tensorlang_{c_name(name)}[] = {{{values}}};")
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


def _entries(program: Program, interface: Interface, helpers: Helpers) -> str:
    """The functions of the header."""
    name = interface.name
    words = interface.words
    names = {":" + dim: words[dim] for dim in interface.dims}

    def said(expr: Expr) -> Text:
        return Scope(helpers, names, {}, Bounds(), {}, [0, 0]).value(expr)

    fail = f'static int32_t tensorlang_fail(int32_t error, const char *argument) {{\n  tensorlang_error("{name}", error, argument);\n  return error;\n}}'
    dims = [
        f'  if (!({said(cond).text})) return tensorlang_fail(TENSORLANG_BAD_DIM, "{blamed}");'
        for blamed, cond in interface.dim_conditions()
    ]
    pointers = []
    for argument in interface.arguments:
        word, elements = words[argument.name], holds_elements(argument)
        null = f"{word} == 0" if isinstance(elements, Const) else f"({word} == 0 && {said(elements).at(PREFIX)})"
        tests = [null] if not isinstance(elements, Const) or elements.value else []
        tests += [f"(uintptr_t){word} % {argument.dtype.bytes} != 0"] if argument.dtype.bytes > 1 else []
        if tests:
            pointers.append(f'  if ({" || ".join(tests)}) return tensorlang_fail(TENSORLANG_BAD_POINTER, "{argument.name}");')
    passed = ", ".join([*(words[argument.name] for argument in interface.arguments), *names.values()])
    run = [
        f"  int32_t tensorlang_status = tensorlang_{name}({passed});",
        '  return tensorlang_status == 0 ? 0 : tensorlang_fail(tensorlang_status, "");',
    ]
    plain = [f"{header.plain(interface)} {{", *dims, *pointers, *run, "}"]
    told = json.dumps(json.dumps(metadata.short(program, interface), separators=(",", ":")))
    last = [f"{header.metadata(interface)} {{", f"  return {told};", "}"]
    return "\n".join([fail, *plain, *_dltensor(interface, dims, said), *last])


_IS_TENSOR: Final = """\
static int tensorlang_is_tensor(const DLTensor *x, int rank, int code, int bits) {
  return x != 0 && x->device.device_type == 1 && x->ndim == rank && x->dtype.code == code && x->dtype.bits == bits
    && x->dtype.lanes == 1 && (rank == 0 || x->shape != 0);
}"""
_IS_SHAPE: Final = """\
static int tensorlang_is_shape(const DLTensor *x, const int64_t *extents) {
  int64_t step = 1;
  int empty = 0;
  for (int i = 0; i < x->ndim; i++) {
    if (x->shape[i] != extents[i]) return 0;
    if (extents[i] == 0) empty = 1;
  }
  if (x->strides == 0 || empty) return 1;
  for (int i = x->ndim - 1; i >= 0; step *= extents[i--])
    if (x->strides[i] != step && extents[i] != 1) return 0;
  return 1;
}"""


def _dltensor(interface: Interface, dims: list[str], said: object) -> list[str]:
    """The entry for tensors of DLPack, with its tests."""
    assert callable(said)
    arguments, words = interface.arguments, interface.words
    lines = [f"{header.dltensor(interface)} {{"]
    for argument in arguments:
        code, bits = dlpack_type(argument.dtype)
        test = f"!tensorlang_is_tensor({words[argument.name]}, {len(argument.shape)}, {code}, {bits})"
        lines.append(f'  if ({test}) return tensorlang_fail(TENSORLANG_BAD_TENSOR, "{argument.name}");')
    for dim, (place, axis) in interface.fixed.items():
        lines.append(f"  int64_t {words[dim]} = {words[arguments[place].name]}->shape[{axis}];")
    lines += dims
    for argument in arguments:
        extents = ", ".join(said(extent).text for extent in argument.shape) or "0"
        test = f"!tensorlang_is_shape({words[argument.name]}, (const int64_t[]){{{extents}}})"
        lines.append(f'  if ({test}) return tensorlang_fail(TENSORLANG_BAD_SHAPE, "{argument.name}");')
    data = [f"(void *)((char *){words[argument.name]}->data + {words[argument.name]}->byte_offset)" for argument in arguments]
    lines += [f"  return {interface.name}({', '.join([*data, *(words[dim] for dim in interface.dims)])});", "}"]
    return [_IS_TENSOR, _IS_SHAPE, *lines]
