"""The C header of an exported kernel: self-contained C99, and C++.

Comments say what types do not: shapes, alignment, workspace. What all headers of kernels share (errors, hooks, `DLTensor`) stands in each,
once for a program: a program may include several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.signature import Argument, c_type
from tensorlang.codegen.export.interface import ERRORS, Interface
from tensorlang.ir.printer import text

_SHARED: Final = """\
#ifndef TENSORLANG_ABI
#define TENSORLANG_ABI 1
/* What an entry returns besides 0: */
enum {{
{errors}
}};
/* What a kernel asks of the program. Each has a weak default; define one to have it used instead. Memory: malloc and free. Threads: one;
   body(data) may run on fewer threads than asked for, and has to run on one. Errors: nothing; argument is "" where none is to blame. */
void *tensorlang_allocate(int64_t bytes, int64_t alignment);
void tensorlang_release(void *memory);
int32_t tensorlang_threads(void);
void tensorlang_parallel(void (*body)(void *data), void *data, int32_t threads);
void tensorlang_error(const char *kernel, int32_t error, const char *argument);
#endif
#if !defined(TENSORLANG_DLTENSOR) && !defined(DLPACK_DLPACK_H_) /* include dlpack.h before this file, not after it */
#define TENSORLANG_DLTENSOR
typedef struct {{ int32_t device_type, device_id; }} DLDevice;
typedef struct {{ uint8_t code, bits; uint16_t lanes; }} DLDataType;
typedef struct {{
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
}} DLTensor;
#endif
"""


def header(program: Program, interface: Interface, targets: str) -> str:
    """The text of the header; `targets` says which processors the code is for."""
    guard = f"TENSORLANG_KERNEL_{interface.name}"
    errors = "\n".join(f"  {name} = {number}, /* {meaning} */" for name, (number, meaning) in ERRORS.items())
    return "\n".join(
        [
            f"/* {interface.name}: {_comment(str(replace(program.signature, order=())))}",
            f"   A kernel of tensorlang {_version()} for {targets}. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stdbool.h>",
            "#include <stdint.h>",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            _SHARED.format(errors=errors).rstrip(),
            "",
            "/* Row-major and contiguous but where strides are given (in elements), results apart from everything else but where told, at",
            f"   least aligned to an element.{_workspace(program)}",
            *(f"   {_told(interface, argument, kind)}" for arguments, kind in _sides(interface) for argument in arguments),
            *(f"   {dim}" for dim in _dims(interface)),
            "   Returns 0 or an error. */",
            f"{plain(interface)};",
            "/* The same of tensors; null strides are those of row-major order. Dims that no shape gives follow. */",
            f"{dltensor(interface)};",
            "/* JSON: name, inputs, outputs, dims, workspace_bytes, ... */",
            f"{metadata(interface)};",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def plain(interface: Interface) -> str:
    """The declaration of the plain entry, without a semicolon."""
    return f"int32_t {interface.name}({', '.join([*pointers(interface, interface.words), *_sizes(interface, interface.dims)]) or 'void'})"


def dltensor(interface: Interface) -> str:
    """The declaration of the entry for tensors of DLPack."""
    tensors = [f"const DLTensor *{interface.words[argument.name]}" for argument in interface.arguments]
    return f"int32_t {interface.name}_dltensor({', '.join([*tensors, *_sizes(interface, interface.others)]) or 'void'})"


def metadata(interface: Interface) -> str:
    """The declaration of the metadata entry."""
    return f"const char *{interface.name}_metadata(void)"


def pointers(interface: Interface, words: Mapping[str, str], qualifier: str = "") -> list[str]:
    """The pointers that a caller passes, as parameters of these names."""
    met = interface.met
    found = []
    for argument in interface.arguments:
        alone = "" if argument.name in met else qualifier
        read = "const " if argument in interface.inputs else ""
        found.append(f"{read}{c_type(argument.dtype)} *{alone}{words[argument.name]}")
    return found


def _sizes(interface: Interface, dims: tuple[str, ...]) -> list[str]:
    return [f"int64_t {interface.words[dim]}" for dim in dims]


def _sides(interface: Interface) -> tuple[tuple[tuple[Argument, ...], str], ...]:
    return (interface.inputs, "read"), (interface.outputs, "written")


def _told(interface: Interface, argument: Argument, kind: str) -> str:
    bits = f", as bits of {argument.dtype}" if argument.dtype in ("float16", "bfloat16") else ""
    shape = "".join(f"[{text(extent)}]" for extent in argument.shape) or " (one element)"
    lies = f", with strides {', '.join(map(str, argument.strides))}" if argument.strides else ""
    over = "" if argument.over is None else f", may lie where {interface.words[interface.all_inputs[argument.over].name]} lies"
    return _comment(f"{interface.words[argument.name]}{shape}{lies}: {kind}{bits}{over}, {argument.dtype.bytes}-byte aligned")


def _dims(interface: Interface) -> list[str]:
    bounds = {name: f"{least} <= {name} <= {most}" for name, least, most in interface.limits}
    return [f"{bounds.get(dim, f'0 <= {dim}')}" for dim in interface.dims]


def _workspace(program: Program) -> str:
    size = program.workspace_bytes
    return f" A call asks tensorlang_allocate\n   for {size} bytes in all, for each thread's part once." if size else ""


def _comment(words: str) -> str:
    """Words that do not end a comment."""
    return words.replace("*/", "* /").replace("/*", "/ *")


def _version() -> str:
    import tensorlang  # noqa: PLC0415 - the facade, for its version

    return tensorlang.__version__
