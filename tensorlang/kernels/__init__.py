"""The kernel library: what a graph-level compiler calls.

    supports(spec)    can you, and if not why
    estimate(...)     what would it cost: seconds, operations, bytes of each level of memory; nothing is compiled
    access(tensors)   what may be fused: the operands, and whether a stage is pointwise, injective, a reduction or opaque
    key(...)          what it is called, in every process
    compile(...)      the kernel, with an epilogue and prologues inside, at a level; compile_many for a whole graph
    sequence(...)     many kernels as one function over one arena: no Python between them

An operator is asked for as a `Spec` (a row of the table of `tl.ops`, with shapes, types, attributes and layout) or as tensors. What is
built is shared by all who ask for the same, whatever they call it: a kernel answers with its caller's names, in its caller's order, over
code that is there once. Everything may be called from any number of threads, and in a forked child.

It uses what the layers below offer to anybody: definitions, schedules, code generation and the tuner's database.
"""

from tensorlang.kernels.accesses import Access, Read, StageAccess, access
from tensorlang.kernels.bundles.machine import Machine
from tensorlang.kernels.compilation import compile, compile_many
from tensorlang.kernels.estimates import Estimate, estimate
from tensorlang.kernels.keys import key
from tensorlang.kernels.sequences import Sequence, sequence
from tensorlang.kernels.served import Level, ServedKernel
from tensorlang.kernels.steps import Call, Copy, Port, Slot, Together
from tensorlang.kernels.support import Support, supports
from tensorlang.ops.spec import Spec

__all__ = [
    "Access",
    "Call",
    "Copy",
    "Estimate",
    "Level",
    "Machine",
    "Port",
    "Read",
    "Sequence",
    "ServedKernel",
    "Slot",
    "Spec",
    "StageAccess",
    "Support",
    "Together",
    "access",
    "compile",
    "compile_many",
    "estimate",
    "key",
    "sequence",
    "supports",
]
