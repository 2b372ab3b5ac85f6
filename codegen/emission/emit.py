"""A lowered loop nest to LLVM IR: one function, and one more for each parallel loop.

    define i32 @name(ptr in0, ..., ptr out0, ..., i64 dim0, ...)                                  0: done, 1: out of memory
    define i32 @name.within(ptr in0, ..., i64 dim0, ..., ptr workspace, i64 threads)              where there may be heap storage

A lowered nest has no relations: every axis is a loop in scope. The shape of the code follows the nest: a serial loop is a loop of basic
blocks, an unrolled one is repeated text, a vector loop is straight code on vectors, a parallel one a call (see `loops`, `parallel`).
Values inside a vector loop stay scalar until they differ between lanes (`expression`); how an address moves with the lane decides the
memory instruction (`affine`, `memory`). Conditions that differ between lanes become masks (`statement`). Names of loops and buffers
carry over to the LLVM values. The same nest gives the same text in every process.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission import workspace
from tensorlang.codegen.emission.debug_lines import FunctionLines, NestLines
from tensorlang.codegen.emission.frame import Frame, begin, define, finish, readable
from tensorlang.codegen.emission.statement import statement
from tensorlang.codegen.emission.storage import SPARE, STACK_LIMIT, STACK_TOTAL
from tensorlang.codegen.emission.types import I32, I64, POINTER, Builder, Value, literal
from tensorlang.codegen.runtime.workspaces import SUFFIX
from tensorlang.codegen.target import Target
from tensorlang.errors import InternalError
from tensorlang.ir.mentions import allocations


@dataclass(frozen=True, slots=True)
class Emitted:
    """The text of a module, and the bytes of a workspace (see `workspace`): on one thread, and what each further one adds."""

    text: str
    workspace: int = 0
    share: int = 0


def emit(nest: ir.Nest, target: Target, *, name: str, lines: NestLines | None = None) -> str:
    """The text of the module of a nest (see `emitted`)."""
    return emitted(nest, target, name=name, lines=lines).text


def emitted(nest: ir.Nest, target: Target, *, name: str, lines: NestLines | None = None) -> Emitted:
    """A module in LLVM IR that defines the function `name`, and what its workspace takes.

    With `lines` every instruction says which line of the nest it comes from; the code is the same. Raises `InternalError` for a nest that
    is not lowered.
    """
    if nest.relations:
        raise InternalError(f"the nest {nest.name} has derived axes; lower it before code is emitted")
    module = llvm.Module(name=name, context=llvm.Context())
    module.triple = target.triple
    buffers = (*nest.inputs, *nest.outputs)
    words = [POINTER] * len(buffers) + [I64] * len(nest.dims)
    known = workspace.limits(nest)
    on_heap = workspace.may_need(allocations(nest.body), known, STACK_LIMIT, STACK_TOTAL)
    function = define(module, target, name + SUFFIX if on_heap else name, I32, [*words, POINTER, I64] if on_heap else words)
    frame = begin(function, target, _fail)
    frame.lines = None if lines is None else FunctionLines.of(function, lines)
    frame.limits = known
    if on_heap:
        frame.part = workspace.Part(*function.args[-2:])
        function.attributes.add("noinline")  # or it would be there twice
        _without(define(module, target, name, I32, words), function)
    written_over = {buffer.over for buffer in nest.outputs}
    frame.operands = frozenset(buffer.name for buffer in nest.inputs) - written_over
    for buffer, argument in zip(buffers, function.args, strict=False):
        argument.name = readable(buffer.name)
        alone = not buffer.over and buffer.name not in written_over
        if alone:
            argument.add_attribute("noalias")
        argument.attributes.align = buffer.dtype.bytes
        if buffer in nest.inputs:
            set.add(argument.attributes, "readonly")  # unknown to llvmlite's own `add`
        frame.place(buffer, argument, alone=alone)
    for dim, argument in zip(nest.dims, function.args[len(buffers) :], strict=False):
        argument.name = readable(dim)
        frame.scalars[":" + dim] = argument
    statement(frame, nest.body)
    frame.builder.ret(literal(I32, 0))
    finish(frame)
    if frame.part is None or not frame.part.peak + frame.part.share:
        return Emitted(str(module))
    workspace.settle(module, frame.part)
    return Emitted(str(module), frame.part.peak + frame.part.share + SPARE, frame.part.share)


def _without(function: Value, within: Value) -> None:
    """The kernel without memory of its caller's."""
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    nothing = [llvm.Constant(POINTER, None), literal(I64, workspace.UNLIMITED)]
    builder.ret(builder.call(within, [*function.args, *nothing], tail=True))


def _fail(_frame: Frame, builder: Builder) -> None:
    """Return from a kernel that found no memory."""
    builder.ret(literal(I32, 1))
