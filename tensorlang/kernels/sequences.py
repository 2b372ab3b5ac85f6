"""`sequence`: many kernels as one function, over one arena, with no Python between them.

    steps on places ──▶ checked: in range, apart ──▶ words of a table ──▶ one native call, which reads it

The driver that reads tables is compiled once for all of them (`codegen.calling.sequence_ir`), so that a sequence is there as soon as it is
written down. A call of plain arrays goes through the same entry in machine code as that of a kernel: arrays are checked, results made,
the interpreter lock released. The arena is taken from the workspaces of the process for the time of a call, so that any number of calls
may run at once, and `tl.release_workspaces` gives back what is kept between them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence as SequenceOf
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from tensorlang import ir
from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.calling import handed, results_ir, sequence_ir, vectorcall
from tensorlang.codegen.calling.arguments import THREADS, prepare
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.codegen.calling.sequence_table import ABSOLUTE, ARENA, PASSED, NativeCall, Word, driver, table
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime import arrays, threads as counters
from tensorlang.errors import BuildError, CallError
from tensorlang.ir.dtype import INT64, DType
from tensorlang.kernels import sequence_arguments
from tensorlang.kernels.constants import Constants
from tensorlang.kernels.steps import Copy, Parts, Port, Slot, Step, Together
from tensorlang.kernels.touched import ByteSpan, Filled, Memories, nbytes, spans

_TABLE: Final = "table"
_CONSTANTS: Final = "constants"
_COUNT: Final = ctypes.c_int64


class Sequence:
    """Kernels and copies as one function: `sequence(*inputs, out=None)` gives the result, a tuple of them where there are several.

    Inputs are checked as those of a kernel are. Any number of calls may run at once. Raises `CallError` for inputs that do not fit, and as
    the kernel in it does that fails; where there is no memory for the arena. `arena_bytes` is what a call takes besides its results.
    """

    __slots__ = ("__weakref__", "_caller", "_fast", "arena_bytes", "parts", "signature")

    def __new__(cls, *_: Any) -> Self:
        """An instance with room for its own call in machine code, where this interpreter allows that."""
        kind: type = cls
        made: Self = object.__new__(vectorcall.fast_class(kind))
        return made

    def __init__(self, signature: Signature, caller: _Driven, parts: Parts) -> None:
        """A sequence as `sequence` makes it."""
        self.signature = signature
        self.arena_bytes = parts.arena
        self.parts = parts
        self._caller = caller
        self._fast: tuple[object, ...] | None = None

    def __call__(self, /, *inputs: Any, **keywords: Any) -> Any:
        """Run all steps. The first call makes the machine code entry, later ones do not come here."""
        if self._fast is None:
            with binding.lock:  # as for a kernel: the first installation compiles
                if self._fast is None:
                    self._fast = vectorcall.install(self, self._caller)
        return self._caller(*inputs, **keywords)

    def export(self, directory: str | os.PathLike[str], formats: SequenceOf[str] = ("a", "h", "weights", "tlbc", "c")) -> dict[str, Path]:
        """Write the sequence as files for programs without Python, `directory/name.format`, all or none; the paths by format.

        "a" is a static library with one entry, which allocates nothing, "h" its header, "so" a shared library; "weights" is what stays, to
        be mapped; "tlbc" is the program as bytecode, "c" a machine for it in C99. Raises `BuildError` for a folder that cannot be written,
        an unknown format, names that C reserves, a missing linker, and kernels whose intermediates nothing bounds.
        """
        from tensorlang.kernels.bundles.export import export  # noqa: PLC0415 - few are exported

        return export(self, directory, formats)

    def bytecode(self) -> bytes:
        """The program as bytecode, see `kernels.Machine`. Raises `BuildError`."""
        from tensorlang.kernels.bundles import bytecode, image  # noqa: PLC0415 - as above

        return bytecode.encode(image.image(self))

    def save_weights(self, path: str | os.PathLike[str]) -> Path:
        """Write what stays to a file alone: that of `export`, with the weights of now. Raises `BuildError`."""
        from tensorlang.kernels.bundles import image, weights_file  # noqa: PLC0415 - as above

        return weights_file.write(image.image(self), path)

    def __repr__(self) -> str:
        return f"<Sequence {self.signature}: {self._caller.steps} steps over {self.arena_bytes:,} bytes>"


class _Driven:
    """What `vectorcall.install` needs to know of a function, and the careful call: the driver, with a table as its first operand.

    The last operand is nothing that a step reads: all memory from the first to the last constant. The machine code leaves a call whose
    `out=` touches that to the careful one, which looks at each constant.
    """

    within = 0
    workspace = handed.Room(0, 0)

    def __init__(self, signature: Signature, words: npt.NDArray[np.int64], written: _Written, widest: int) -> None:
        self.constants = Constants(written.constants)
        around = self.constants.around
        own, held = _unused(signature, _TABLE), _unused(signature, _CONSTANTS)
        first, last = Argument(own, (ir.const(len(words)),), INT64), Argument(held, (ir.const(around.size),), DType("uint8"))
        self.signature = Signature(signature.name, (first, *signature.inputs, last), signature.outputs)
        self.bound: dict[str, npt.NDArray[Any]] = {own: words, held: around}
        self.counter = counters.counter_address()
        self.steps = len(written.fails)
        self._told = signature
        values = len(self.signature.inputs) - 1 + len(signature.outputs)
        self._library = driver(widest)
        self.by_array = values >= results_ir.MAX_VALUES
        self.address = self._library.address(sequence_ir.MANY if self.by_array else sequence_ir.entry_symbol(values))
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, _COUNT)(self._library.address("run"))
        self._words, self._keep = words, written.keep
        self.fail = _failure(signature.name, words, tuple(written.fails))

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        told, inputs = self._told, len(self._told.inputs)
        if THREADS in keywords and all(argument.name != THREADS for argument in told.inputs):
            raise CallError(f"{told}: there is no argument 'threads'; threads are said where it is made: kernels.sequence(..., threads=2)")
        invocation = prepare(told, {}, args, keywords)  # the other two operands are nobody's to name
        if keywords.get("out") is not None:
            for argument, array in zip(told.outputs, invocation.arrays[inputs:], strict=True):
                if self.constants.meet(array):
                    raise CallError(
                        f"{told.name}: output {argument.name!r} overlaps a constant of the sequence in memory; pass another array"
                    )
        values = [*invocation.words[:inputs], arrays.address(self.bound[self.signature.inputs[-1].name]), *invocation.words[inputs:]]
        if self._run(arrays.address(self._words), (_COUNT * len(values))(*values), len(values)):
            self.fail()
        return invocation.result


def _unused(signature: Signature, name: str) -> str:
    """A name for an operand that is no name of an input."""
    while any(argument.name == name for argument in signature.inputs):
        name += "_"
    return name


def _failure(name: str, words: npt.NDArray[np.int64], fails: tuple[Callable[[], Any], ...]) -> Callable[[], Any]:
    def fail() -> Any:
        number = int(words[sequence_ir.FAILED])
        if number < 0:
            size = int(words[sequence_ir.ARENA])
            raise CallError(f"{name}: the arena of {size} bytes could not be allocated; the contents of the output are undefined")
        return fails[number]()

    return fail


def sequence(
    name: str,
    inputs: SequenceOf[Port],
    outputs: SequenceOf[Port],
    steps: SequenceOf[Step | Together],
    arena: int = 0,
    threads: int | None = None,
) -> Sequence:
    """One function of these inputs and results that does the steps, in order, over an arena of so many bytes.

    Lanes of a `Together` run side by side on `threads` threads (None: those of the process at each call). Everything is checked here, once:
    raises `BuildError` for a step that leaves its memory, writes where it or a lane beside it reads, reads what no step has written, or
    does not fit its kernel, and for a result that no step writes; `CallError` for a kernel that is not for this machine.
    """
    if not isinstance(name, str):
        raise BuildError(f"the name of a sequence is a string, not {name!r:.60}")
    inputs, outputs = sequence_arguments.ports("inputs", inputs), sequence_arguments.ports("outputs", outputs)
    steps, arena = sequence_arguments.steps(name, steps), sequence_arguments.arena(arena)
    count = counters.checked(threads, f"{name}: threads") if threads is not None else None
    memories, made = Memories(inputs, outputs, arena), _Written(len(inputs))
    stages: list[list[list[NativeCall]]] = []
    kept: list[tuple[tuple[Step, ...], ...]] = []
    for step in steps:
        lanes = step.lanes if isinstance(step, Together) else ((step,),)
        touched = [[made.checked(name, one, memories) for one in lane] for lane in lanes]
        _apart(name, [[span for found in lane for span in found] for lane in touched])
        written = [[made.native(one, found) for one, found in zip(*pair, strict=True)] for pair in zip(lanes, touched, strict=True)]
        kept.append(tuple(tuple(lane) for lane in lanes))
        if len(written) == 1 and stages and len(stages[-1]) == 1:
            stages[-1][0] += written[0]
        else:
            stages.append(written)
    for number, port in enumerate(memories.outputs):
        if nbytes(port) and number not in made.outputs:
            raise BuildError(f"{name}: no step writes the output {port.name!r}")
    widest = max((len(call.words) for lanes in stages for lane in lanes for call in lane), default=0)
    words = table(stages, arena, counters.counter_address(count))
    ins, outs = (tuple(Argument(port.name, tuple(map(ir.const, port.shape)), port.dtype) for port in side) for side in (inputs, outputs))
    signature = Signature(name, ins, outs)
    parts = Parts(name, memories.inputs, memories.outputs, tuple(kept), arena)
    return Sequence(signature, _Driven(signature, words, made, widest), parts)


def _apart(name: str, lanes: SequenceOf[SequenceOf[ByteSpan]]) -> None:
    """Raise `BuildError` where a lane writes what another one touches."""
    for place, lane in enumerate(lanes):
        for other in lanes[:place]:
            for one in lane:
                for two in other:
                    if (one.written or two.written) and one.meets(two):
                        raise BuildError(f"{name}: {one.what} overlaps {two.what} of a lane beside it")


class _Written:
    """Steps as calls of the driver, with what has to stay alive for them."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.fails: list[Callable[[], Any]] = []
        self.keep: list[object] = []
        self.constants: list[npt.NDArray[Any]] = []
        self.outputs: set[int] = set()
        self.filled = Filled()

    def checked(self, name: str, step: Step, memories: Memories) -> list[ByteSpan]:
        """What a step touches. Raises `BuildError`."""
        told = "copy" if isinstance(step, Copy) else step.kernel.name
        where = f"{name}: step {len(self.fails)}, {told}"
        found = spans(step, where)
        memories.check(found, where)
        self.filled.check(found, where)
        self.outputs |= {span.slot.number for span in found if span.written and span.slot.memory == "output"}
        return found

    def native(self, step: Step, touched: SequenceOf[ByteSpan]) -> NativeCall:
        """The call of the driver for a step that was checked."""
        number = len(self.fails)
        if isinstance(step, Copy):
            form = copy_form(step)
            self.keep.append(form)
            self.constants.append(step.source.array)
            self.fails.append(lambda: None)
            address = Word(ABSOLUTE, arrays.address(form))
            return NativeCall(driver().address("copy"), (self._word(step.source), self._word(step.target), address), number)
        caller: Caller = step.kernel._linked  # noqa: SLF001 - a call of it that stands in a table
        self.fails.append(caller.fail)
        places = [span.slot for span in touched]
        words = [self._word(slot) for slot in places[: len(caller.signature.inputs) + len(caller.signature.outputs)]]
        words += [Word(ABSOLUTE, step.dims[dim]) for dim in caller.signature.dims]
        self.keep.append(caller)
        self.constants += [slot.array for slot in places]
        if step.workspace is None or not caller.within:
            return NativeCall(caller.address, tuple(words), number)
        words += [self._word(step.workspace), Word(ABSOLUTE, step.kernel.threads)]
        return NativeCall(caller.within, tuple(words), number)

    def _word(self, slot: Slot) -> Word:
        match slot.memory:
            case "input":
                return Word(PASSED + slot.number, slot.offset)
            case "output":
                # behind the inputs stands what is around the constants
                return Word(PASSED + self.inputs + 1 + slot.number, slot.offset)
            case "arena":
                return Word(ARENA, slot.offset)
            case _:
                return Word(ABSOLUTE, arrays.address(slot.array) + slot.offset)


def copy_form(step: Copy) -> npt.NDArray[np.int64]:
    """The words that `copy` reads: axes of one element left out, axes that follow each other in both memories joined."""
    axes: list[list[int]] = []
    for extent, source, target in zip(step.shape, step.source_strides, step.target_strides, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1] == extent * source and axes[-1][2] == extent * target:
            axes[-1] = [axes[-1][0] * extent, source, target]
        else:
            axes.append([extent, source, target])
    axes = axes or [[1, 1, 1]]
    words = [number for extent, source, target in axes for number in (extent, source * step.itemsize, target * step.itemsize)]
    return np.array([step.itemsize, len(axes), *words], np.int64)
