"""The entries of an exported kernel as C99: they check a call as those in machine code do (`entries`), and pass it to the nest.

What the source adds to the names of a user begins with `tensorlang_`, which no argument may.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from tensorlang.algebra.bounds import Bounds
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.export import header, metadata
from tensorlang.codegen.export.c_expression import PREFIX, CScope, Text
from tensorlang.codegen.export.c_helpers import Helpers
from tensorlang.codegen.export.interface import Interface, dlpack_type, holds_elements
from tensorlang.ir import Const, Expr


def entries(program: Program, interface: Interface, helpers: Helpers) -> str:
    """The functions of the header."""
    name = interface.name
    words = interface.words
    names = {":" + dim: words[dim] for dim in interface.dims}

    def said(expr: Expr) -> Text:
        return CScope(helpers, names, {}, Bounds(), {}, [0, 0]).value(expr)

    report = f'  tensorlang_error("{name}", error, argument);'
    fail = ["static int32_t tensorlang_fail(int32_t error, const char *argument) {", report, "  return error;", "}"]
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
        f"  int32_t tensorlang_status = tensorlang_kernel_{name}({passed});",
        '  return tensorlang_status == 0 ? 0 : tensorlang_fail(tensorlang_status, "");',
    ]
    plain = [f"{header.plain(interface)} {{", *dims, *pointers, *run, "}"]
    told = json.dumps(json.dumps(metadata.short(program, interface), separators=(",", ":")))
    last = [f"{header.metadata(interface)} {{", f"  return {told};", "}"]
    return "\n".join([*fail, *plain, *_dltensor(interface, dims, said), *last])


_IS_TENSOR: Final = """\
static int tensorlang_is_tensor(const DLTensor *x, int rank, int code, int bits) {
  return x != 0 && x->device.device_type == 1 && x->ndim == rank && x->dtype.code == code && x->dtype.bits == bits
    && x->dtype.lanes == 1 && (rank == 0 || x->shape != 0);
}"""
_IS_SHAPE: Final = """\
static int tensorlang_is_shape(const DLTensor *x, const int64_t *extents, const int64_t *steps) {
  int64_t step = 1;
  int empty = 0;
  for (int i = 0; i < x->ndim; i++) {
    if (x->shape[i] != extents[i]) return 0;
    if (extents[i] == 0) empty = 1;
  }
  if (empty) return 1;
  for (int i = x->ndim - 1; i >= 0; step *= extents[i--])
    if (extents[i] != 1 && (x->strides == 0 ? step : x->strides[i]) != (steps == 0 ? step : steps[i])) return 0;
  return 1;
}"""


def _dltensor(interface: Interface, dims: list[str], said: Callable[[Expr], Text]) -> list[str]:
    """The entry for tensors of DLPack, with its tests."""
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
        steps = f"(const int64_t[]){{{', '.join(map(str, argument.strides))}}}" if argument.strides else "0"
        test = f"!tensorlang_is_shape({words[argument.name]}, (const int64_t[]){{{extents}}}, {steps})"
        lines.append(f'  if ({test}) return tensorlang_fail(TENSORLANG_BAD_SHAPE, "{argument.name}");')
    data = [f"(void *)((char *){words[argument.name]}->data + {words[argument.name]}->byte_offset)" for argument in arguments]
    lines += [f"  return {interface.name}({', '.join([*data, *(words[dim] for dim in interface.dims)])});", "}"]
    return [_IS_TENSOR, _IS_SHAPE, *lines]
