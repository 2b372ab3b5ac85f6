"""The virtual machine in Python: bytecode, weights and functions; a loop over instructions.

The machine in C (`tensorlang_vm.c`) does the same on the same bytes; both call the same kernels, so results have the same bits.
"""

from __future__ import annotations

import ctypes
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang import ir
from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.calling.arguments import prepare
from tensorlang.codegen.calling.sequence_table import driver
from tensorlang.codegen.runtime import arrays
from tensorlang.errors import BuildError, CallError
from tensorlang.ir.dtype import DType
from tensorlang.kernels.bundles import bytecode, elf, weights_file
from tensorlang.kernels.bundles.image import COPY, HEADER, Image, image
from tensorlang.kernels.sequences import Sequence

Dispatch = Callable[[int, Any], int]
"""Calls the function of a number with these words; 0, or an error."""
_WORD: Final = ctypes.c_int64


class Machine:
    """A program that runs instruction by instruction: `machine(*inputs)` gives the result, a tuple of them where there are several.

    Raises `BuildError` for bytes that are no whole program, `CallError` for inputs that do not fit, and where a function fails.
    """

    def __init__(self, code: bytes, dispatch: Dispatch, weights: npt.NDArray[np.uint8], keep: object = None) -> None:
        """A machine for bytecode, functions, and the bytes of its weights."""
        if not isinstance(code, (bytes, bytearray, memoryview)):
            raise BuildError(f"a machine is made of bytecode in bytes, not of {code!r:.60}; Machine.load reads files")
        if not isinstance(weights, np.ndarray) or weights.dtype != np.uint8 or weights.ndim != 1 or not weights.flags.c_contiguous:
            raise BuildError(f"the weights of a machine are an array of uint8 with one axis and no gaps, not {weights!r:.60}")
        self.program = bytecode.decode(bytes(code))
        if not callable(dispatch):
            raise BuildError(f"a machine calls its functions by dispatch(number, words), not by {dispatch!r:.60}")
        weights_file.check(bytes(weights[:HEADER]), weights.size, self.program.weights_bytes, self.program.layout, "the weights")
        self._dispatch, self._weights, self._keep = dispatch, weights, keep
        ins, outs = (
            tuple(Argument(port.name, tuple(map(ir.const, port.shape)), port.dtype) for port in side)
            for side in (self.program.inputs, self.program.outputs)
        )
        self.signature = Signature("program", ins, outs)

    @classmethod
    def of(cls, sequence: Sequence) -> Machine:
        """A machine for a sequence of this process, on its kernels."""
        if not isinstance(sequence, Sequence):
            raise BuildError(f"Machine.of takes a sequence, as kernels.sequence makes it, not {sequence!r:.60}")
        program = image(sequence)
        raw = arrays.empty_aligned((program.weights_bytes,), DType("uint8").numpy)
        raw[...] = np.frombuffer(_weights_of(program), np.uint8)
        return cls(bytecode.encode(program), _functions(program), raw, sequence)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], name: str) -> Machine:
        """A machine for the files of an exported sequence: its bytecode, its weights, which are mapped, and its shared library.

        The library is machine code: load only what you trust. Raises `BuildError` for files that are missing, cut off or damaged.
        """
        if not isinstance(folder, (str, os.PathLike)) or not isinstance(name, str):
            raise BuildError(f"Machine.load takes a folder and the name of a sequence, not {folder!r:.60} and {name!r:.60}")
        paths = {form: Path(folder) / f"{name}.{form}" for form in ("tlbc", "weights", "so")}
        try:
            code = paths["tlbc"].read_bytes()
        except OSError as error:
            raise BuildError(f"the bytecode {str(paths['tlbc'])!r:.200} cannot be read: {error.strerror}") from None
        except ValueError as error:  # no file has such a name
            raise BuildError(f"the bytecode {str(paths['tlbc'])!r:.200} cannot be read: {error}") from None
        program = bytecode.decode(code)
        held = weights_file.mapped(paths["weights"], program.weights_bytes, program.layout)
        try:
            elf.require_whole(paths["so"])
            library = ctypes.CDLL(str(paths["so"].resolve()))
            dispatch = library[f"{name}_dispatch"]
        except (OSError, AttributeError) as error:
            raise BuildError(f"the library {str(paths['so'])!r:.200} cannot be loaded: {error}") from None
        dispatch.restype, dispatch.argtypes = ctypes.c_int32, [ctypes.c_int32, ctypes.c_void_p]
        return cls(code, dispatch, held, library)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Read other weights of the same program, from a file, from the next call on. Raises `BuildError`; then nothing is changed."""
        self._weights = weights_file.mapped(path, self.program.weights_bytes, self.program.layout)

    def __call__(self, *inputs: Any) -> Any:
        """Run all instructions."""
        invocation = prepare(self.signature, {}, inputs, {})
        arena = arrays.empty_aligned((max(self.program.arena, 1),), DType("uint8").numpy)
        weights = self._weights
        bases = [0, arrays.address(arena), arrays.address(weights), *invocation.words]
        for place, instruction in enumerate(self.program.code):
            words = [bases[base] + offset for base, offset in instruction.words]
            if status := self._dispatch(instruction.function, (_WORD * len(words))(*words)):
                raise CallError(
                    f"program: instruction {place}, {self.program.functions[instruction.function][0]}, failed with error {status}"
                )
        return invocation.result


def _weights_of(program: Image) -> bytes:
    held = io.BytesIO()
    weights_file.write_to(program, held)
    return held.getvalue()


def _functions(program: Image) -> Dispatch:
    """The functions of kernels in this process."""
    made = []
    for function in program.functions:
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[_WORD] * function.words)
        made.append(kind(driver().address(COPY) if function.program is None else function.address))
    return lambda number, words: int(made[number](*words))
