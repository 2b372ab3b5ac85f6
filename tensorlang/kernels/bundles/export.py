"""`sequence.export`: the files of a sequence for programs without Python, all or none.

name.a         the entries and the kernels          name.h      their header, C99 and C++
name.weights   what stays, to be mapped             name.tlbc   the program as bytecode
name.so        the same as name.a, linked           tensorlang_vm.c   a machine for bytecode, one file of C99
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from typing import Final

from tensorlang.codegen.cache import identifiers
from tensorlang.codegen.cache.signature import c_name, c_type
from tensorlang.codegen.export import libraries
from tensorlang.codegen.export.writing import written
from tensorlang.errors import BuildError, did_you_mean
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.kernels.bundles import bytecode, objects as made_objects, weights_file
from tensorlang.kernels.bundles.entry_ir import BAD_WEIGHTS
from tensorlang.kernels.bundles.image import Image, image
from tensorlang.kernels.sequences import Sequence
from tensorlang.kernels.steps import Port

FORMATS: Final = ("a", "h", "weights", "tlbc", "c", "so")
DEFAULT: Final = ("a", "h", "weights", "tlbc", "c")
MACHINE: Final = "tensorlang_vm.c"


def export(sequence: Sequence, directory: str | os.PathLike[str], formats: SequenceOf[str] = DEFAULT) -> dict[str, Path]:
    """Write the files; the paths by format.

    Raises `BuildError` for a folder that cannot be written, an unknown format, names that C reserves, a missing linker, and kernels whose
    intermediates nothing bounds.
    """
    wanted = _formats(formats)
    program = image(sequence)
    words = _words(program)
    contents: dict[str, bytes] = {}
    code = made_objects.objects(program) if {"a", "h", "so"} & set(wanted) else None
    for form in wanted:
        match form:
            case "a" if code is not None:
                contents[form] = libraries.archive_of([(one.name, one.code, one.symbols) for one in code.objects])
            case "so" if code is not None:
                first, *others = (one.code for one in code.objects)
                contents[form] = libraries.shared(program.name, first, code.target, others)
            case "h" if code is not None:
                contents[form] = header(program, words, str(code.target)).encode()
            case "weights":
                held = io.BytesIO()
                weights_file.write_to(program, held)
                contents[form] = held.getvalue()
            case "tlbc":
                contents[form] = bytecode.encode(program)
            case _:
                contents[form] = machine_source().encode()
    named = {form: (MACHINE if form == "c" else f"{program.name}.{form}", held) for form, held in contents.items()}
    return written(directory, named, program.name)


def machine_source() -> str:
    """The virtual machine in C."""
    return (Path(__file__).parent / MACHINE).read_text()


def _formats(formats: object) -> tuple[str, ...]:
    if isinstance(formats, str) or not isinstance(formats, SequenceOf) or not formats:
        raise BuildError(f"formats is a sequence of names as {DEFAULT}, not {formats!r:.60}")
    for form in formats:
        if form not in FORMATS:
            raise BuildError(f"{form!r:.60} is no format of an exported sequence{did_you_mean(str(form), FORMATS)}; there are {FORMATS}")
    return tuple(dict.fromkeys(formats))


def _words(program: Image) -> list[str]:
    """What the parameters are called in C. Raises `BuildError` for names that C reserves."""
    words: list[str] = []
    for port in (*program.inputs, *program.outputs):
        word = c_name(port.name)
        while word in (*words, program.name, "weights", "arena"):
            word += "_"
        words.append(word)
    identifiers.require(program.name, words)
    return words


def header(program: Image, words: SequenceOf[str], target: str) -> str:
    """The header."""
    import tensorlang  # noqa: PLC0415 - the facade, for its version

    name, upper = program.name, program.name.upper()
    ports = (*program.inputs, *program.outputs)
    told = [
        _told(port, word, "written" if place >= len(program.inputs) else "read")
        for place, (port, word) in enumerate(zip(ports, words, strict=True))
    ]
    passed = [f"const {c_type(port.dtype)} *{word}" for port, word in zip(program.inputs, words, strict=False)]
    passed += [f"{c_type(port.dtype)} *{word}" for port, word in zip(program.outputs, words[len(program.inputs) :], strict=True)]
    return "\n".join(
        [
            f"/* {name}: {len(program.code)} steps. Made by tensorlang {tensorlang.__version__} for {target}. */",
            f"#ifndef TENSORLANG_SEQUENCE_{name}",
            f"#define TENSORLANG_SEQUENCE_{name}",
            "#include <stdbool.h>",
            "#include <stdint.h>",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            f"#define {upper}_ARENA_BYTES {max(program.arena, 1)}",
            f"#define {upper}_WEIGHTS_BYTES {program.weights_bytes}",
            f"#define {upper}_ALIGNMENT {LINE_BYTES} /* of the arena and of the weights */",
            "/* Errors: a pointer is null or not aligned; the weights are not those of this function, or not whole. */",
            "#ifndef TENSORLANG_SEQUENCE_ERRORS",
            "#define TENSORLANG_SEQUENCE_ERRORS",
            f"enum {{ TENSORLANG_POINTER_REFUSED = 3, TENSORLANG_WEIGHTS_REFUSED = {BAD_WEIGHTS} }};",
            "#endif",
            f"/* 0 where these bytes, read or mapped, are the whole of {name}.weights. */",
            f"int32_t {name}_weights(const void *weights, int64_t bytes);",
            "/* Row-major and contiguous, results apart from everything else, at least aligned to an element. Nothing is allocated;",
            "   calls at one time need an arena each.",
            *told,
            "   Returns 0 or an error. */",
            f"int32_t {name}({', '.join(['const void *weights', 'void *arena', *passed])});",
            "/* One function of the bytecode, for virtual machines. */",
            f"int32_t {name}_dispatch(int32_t function, const int64_t *words);",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _told(port: Port, word: str, kind: str) -> str:
    bits = f", as bits of {port.dtype}" if port.dtype in ("float16", "bfloat16") else ""
    return f"   {word}{''.join(f'[{extent}]' for extent in port.shape)}: {kind}{bits}"
