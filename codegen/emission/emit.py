"""A lowered loop nest to LLVM IR: one function, and one more for each parallel loop.

    define i32 @name(ptr in0, ..., ptr out0, ..., i64 dim0, ...)      0: done, 1: out of memory

A lowered nest has no relations: every axis is a loop in scope. The shape of the code follows the nest: a serial loop is a loop of basic
blocks, an unrolled one is repeated text, a vector loop is straight code on vectors, a parallel one a call (see `loops`, `parallel`).
Values inside a vector loop stay scalar until they differ between lanes (`expression`); how an address moves with the lane decides the
memory instruction (`affine`, `memory`). Conditions that differ between lanes become masks (`statement`). Names of loops and buffers
carry over to the LLVM values. The same nest gives the same text in every process.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission.debug_lines import FunctionLines, NestLines
from tensorlang.codegen.emission.frame import Frame, begin, define, finish, readable
from tensorlang.codegen.emission.statement import statement
from tensorlang.codegen.emission.types import I32, I64, POINTER, Builder, literal
from tensorlang.codegen.target import Target
from tensorlang.errors import InternalError


def emit(nest: ir.Nest, target: Target, *, name: str, lines: NestLines | None = None) -> str:
    """The text of a module in LLVM IR that defines the function `name`. Raises `InternalError` for a nest that is not lowered.

    With `lines` every instruction says which line of the nest it comes from; the code is the same.
    """
    if nest.relations:
        raise InternalError(f"the nest {nest.name} has derived axes; lower it before code is emitted")
    module = llvm.Module(name=name, context=llvm.Context())
    module.triple = target.triple
    buffers = (*nest.inputs, *nest.outputs)
    function = define(module, target, name, I32, [POINTER] * len(buffers) + [I64] * len(nest.dims))
    frame = begin(function, target, _fail)
    frame.lines = None if lines is None else FunctionLines.of(function, lines)
    written_over = {buffer.over for buffer in nest.outputs}
    for buffer, argument in zip(buffers, function.args, strict=False):
        argument.name = readable(buffer.name)
        alone = not buffer.over and buffer.name not in written_over
        if alone:
            argument.add_attribute("noalias")
        argument.attributes.align = buffer.dtype.bytes
        if buffer in nest.inputs:
            set.add(argument.attributes, "readonly")  # unknown to llvmlite's own `add`
        frame.place(buffer, argument, alone=alone)
    for dim, argument in zip(nest.dims, function.args[len(buffers) :], strict=True):
        argument.name = readable(dim)
        frame.scalars[":" + dim] = argument
    statement(frame, nest.body)
    frame.builder.ret(literal(I32, 0))
    finish(frame)
    return str(module)


def _fail(_frame: Frame, builder: Builder) -> None:
    """Return from a kernel that found no memory."""
    builder.ret(literal(I32, 1))
